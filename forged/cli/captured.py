"""`forgectl captured`: what capture has kept and refused lately, why, and how to take it back."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import asks
from forged.cli.exits import Stop
from forged.cli.since import TimeParam, since_option
from forged.cli.status import captures_waiting
from forged.cli.tables import cut, folded, short_ids
from forged.cli.terminal import escape_line, local_time, tell
from forged_client.protocol import CapturedEntry, CapturedPage, ListCaptured, Status

_INDENT = "    "
_WHY = {
    "request": "somebody asked for it",
    "rule": "a rule matched what was typed",
    "linear": "the local head takes it for something that lasts",
    "model": "the model proposed it",
    "refusal": "you asked for it not to be remembered",
    "forget": "you asked to forget it",
}
# How the reason is put, of what was asked of memory itself.
_PUT = {"refusal": "not kept, {}", "forget": "{}"}


@click.command("captured")
@click.option("--today", is_flag=True, help="Only since midnight.")
@since_option
@click.option("--session", "session_id", default="", metavar="ID", help="Only of sessions that begin so.")
@click.option("--all-repos", is_flag=True, help="Of every repository, not only of this workspace.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many of the newest.")
@asks
def captured_command(call: Invocation, *, today: bool, since: str, **fields: Any) -> None:
    """Show what was kept of conversations and what was refused, newest first, and how to take it back.

    Of what was refused the text is kept for 7 days, of what was kept the entry for 30.
    """
    if today and since:
        raise Stop("usage", "say --today or --since, not both")
    since = TimeParam().convert("today", None, None) if today else since
    request = ListCaptured(workspace=call.workspace, since=since, **fields)
    found = ask(call, request)
    show(call, found, _pages(call, found.captured, with_root=request.all_repos))
    if call.as_json:
        return
    left = found.total - request.offset - len(found.captured)
    if left > 0:
        tell(f"and {left:,} more; --limit and --offset show them")
    elif not found.captured:
        tell(_nothing(request, found))
        _tell_waiting(call)


def _nothing(request: ListCaptured, found: CapturedPage) -> str:
    if found.total:
        return f"no more than {found.total:,} in all: the offset leaves all out"
    told = "nothing that you ask for" if request.since or request.session_id else "nothing"
    where = "" if request.all_repos else " here; --all-repos looks everywhere"
    return f"{told} was kept or refused{where}"


def _tell_waiting(call: Invocation) -> None:
    """Where nothing is to be seen yet of what was just said, it may be because it is judged in a while."""
    report = ask(call, Status(workspace="")).capture
    if report.in_hand or captures_waiting(report):
        tell("what was said lately is still to be judged; `forgectl status` says how far that is")


def _pages(call: Invocation, captured: Sequence[CapturedEntry], *, with_root: bool) -> Iterator[str]:
    names = short_ids(each.memory_id for each in captured) if call.width else {}
    for each in captured:
        word = _word(each)
        about = f"{escape_line(each.scope)}/{escape_line(each.category)}" if each.category else ""
        facts = (
            word,
            local_time(each.at),
            about,
            escape_line(each.root) if with_root and each.scope != "user" else "",
        )
        head, *more = folded("  ".join(filter(None, facts)), call.width, _INDENT)
        yield call.paint("good" if each.memory_id else "warn", word) + head.removeprefix(word)
        yield from more
        for line in _body(call, each, names.get(each.memory_id, each.memory_id)):
            yield from folded(_INDENT + line, call.width, _INDENT * 2)


def _word(each: CapturedEntry) -> str:
    """Name what became of a statement: one that was kept and forgotten since has neither id nor text."""
    if each.memory_id:
        return "kept"
    if each.why == "forget":
        return "asked"
    return "forgotten" if each.category and not each.text else "refused"


def _body(call: Invocation, each: CapturedEntry, name: str) -> Iterator[str]:
    if each.text:
        yield escape_line(each.text) if not call.width else cut(escape_line(each.text), 2 * call.width)
    elif each.memory_id:
        yield f"(forgotten, and restored: forgectl show {name})" if each.is_there else "(forgotten)"
    if each.reason:
        put = "{}" if _word(each) == "forgotten" else _PUT.get(each.why, "not kept: {}")
        yield put.format(escape_line(each.reason))
    why, judge = _WHY.get(each.why, escape_line(each.why)), f"judged by {escape_line(each.classifier)}"
    yield f"why: {why}; {judge}" if why else judge
    yield f"from: {_whence(each)}"
    if each.supersedes:
        yield f"in place of: {escape_line(each.supersedes)}"
    if each.memory_id:
        does = "forget it" if each.why == "forget" else "take it back"
        yield f"{does}: {_command(call, each, name)}" if each.is_there else "it is gone by now"


def _whence(each: CapturedEntry) -> str:
    agent = escape_line(each.agent) or "an agent that gave no name"
    session = f"session {escape_line(each.session_id)}" if each.session_id else "no session"
    return f"{agent}, {session}, {escape_line(each.kind).replace('_', ' ')}"


def _command(call: Invocation, each: CapturedEntry, name: str) -> str:
    """What takes it back, also from where its repository is not the one at hand."""
    is_here = each.scope == "user" or (call.workspace + os.sep).startswith(each.root + os.sep)
    place = "" if is_here else f" --workspace {shlex.quote(each.root)}"
    return escape_line(f"forgectl forget {name}{place}")
