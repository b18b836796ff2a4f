"""`forgectl captured`: list what capture saved or refused lately, with the reason and how to undo it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from forged.cli.call import Invocation, ask, show
from forged.cli.commands import with_daemon_options
from forged.cli.exits import Stop
from forged.cli.since import TimeParam, since_option
from forged.cli.status import BUILT_IN, captures_waiting, classifier_name
from forged.cli.tables import cut, folded, short_ids
from forged.cli.terminal import escape_line, local_time, tell
from forged_client.protocol import CapturedEntry, CapturedPage, ListCaptured, Status

_INDENT = "    "
_WHY = {
    "request": "you asked to remember it",
    "rule": "a rule matched what you typed",
    "linear": "chosen by the built-in linear model",
    "model": "proposed by the chat model",
    "refusal": "you asked not to remember it",
    "forget": "you asked to forget it",
    "forgotten": "you asked to forget it",
}
# Outcomes of requests to forget: answered with a command, or done.
_ASKED = {"forget": "asked", "forgotten": "forgotten"}
# How the reason of a request to the memory itself is written.
_PUT = {"refusal": "not saved, {}", "forget": "{}"}


@click.command("captured")
@click.option("--today", is_flag=True, help="Only since midnight.")
@since_option
@click.option(
    "--session", "session_id", default="", metavar="ID", help="Only sessions whose id begins with ID."
)
@click.option("--all-repos", is_flag=True, help="All repositories, not only this one.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Skip the first N.")
@with_daemon_options
def captured_command(call: Invocation, *, today: bool, since: str, **fields: Any) -> None:
    """Show what was saved of conversations and what was refused, latest first, and how to undo it.

    Refused statements are listed for 7 days, saved ones for 30.
    """
    if today and since:
        raise Stop("usage", "give --today or --since, not both")
    since = TimeParam().convert("today", None, None) if today else since
    request = ListCaptured(workspace=call.workspace, since=since, **fields)
    found = ask(call, request)
    show(call, found, _entry_lines(call, found.captured, with_root=request.all_repos))
    if call.as_json:
        return
    left = found.total - request.offset - len(found.captured)
    if left > 0:
        tell(f"and {left:,} more; --limit and --offset show them")
    elif not found.captured:
        tell(_empty_sentence(request, found))
        _tell_waiting(call)


def _empty_sentence(request: ListCaptured, found: CapturedPage) -> str:
    """Return why `captured` is empty: no statement was judged, none matches, or all are skipped."""
    if found.total:
        return f"there are only {found.total:,}; --offset skips all of them"
    matching = "nothing matches: no statement" if request.since or request.session_id else "no statement"
    where = "" if request.all_repos else " here; --all-repos looks everywhere"
    return f"{matching} was saved or refused{where}"


def _tell_waiting(call: Invocation) -> None:
    """Ask the daemon if capture has turns to judge still, and print a note on stderr if so."""
    report = ask(call, Status(workspace="")).capture
    if report.in_hand or captures_waiting(report):
        tell("the latest turns are not judged yet; `forgectl status` shows how many")


def _entry_lines(call: Invocation, captured: Sequence[CapturedEntry], *, with_root: bool) -> Iterator[str]:
    """Yield lines of `captured` for each statement: outcome, time, category, and its details below."""
    names = short_ids(each.memory_id for each in captured) if call.width else {}
    for each in captured:
        word = _outcome(each)
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
        for line in _detail_lines(call, each, names.get(each.memory_id, each.memory_id)):
            yield from folded(_INDENT + line, call.width, _INDENT * 2)


def _outcome(each: CapturedEntry) -> str:
    """Return a captured statement's outcome: saved, asked (to forget it), forgotten or refused."""
    if each.why in _ASKED:
        return _ASKED[each.why]
    if each.memory_id:
        return "saved"
    return "forgotten" if each.category and not each.text else "refused"


def _detail_lines(call: Invocation, each: CapturedEntry, name: str) -> Iterator[str]:
    """Yield a captured statement's text, why it was saved or refused, its source, and how to undo it."""
    if each.text:
        yield escape_line(each.text) if not call.width else cut(escape_line(each.text), 2 * call.width)
    elif each.memory_id and each.why != "forgotten":
        yield f"(forgotten, and restored: forgectl show {name})" if each.is_there else "(forgotten)"
    if each.reason:
        put = "{}" if _outcome(each) == "forgotten" else _PUT.get(each.why, "not saved: {}")
        yield put.format(escape_line(each.reason))
    if each.memory_id or not each.reason:
        why = _WHY.get(each.why, escape_line(each.why))
        yield "why: " + "; ".join(filter(None, (why, f"judged by {classifier_name(each.classifier)}")))
    elif each.classifier != BUILT_IN:
        yield f"judged by: {escape_line(each.classifier)}"
    yield f"from: {_source_text(each)}"
    if each.supersedes:
        yield f"replaces: {escape_line(each.supersedes)}"
    if each.memory_id:
        does = "forget it" if each.why == "forget" else "undo"
        gone = (
            "it is there again"
            if each.is_there
            else "no longer there: forgotten, moved, or on another branch"
        )
        is_possible = each.is_there is not (each.why == "forgotten")
        yield f"{does}: {_undo_command(call, each, name)}" if is_possible else gone


def _source_text(each: CapturedEntry) -> str:
    """Return agent, session and kind of event that a captured statement came from, as one text."""
    agent = escape_line(each.agent) or "unnamed agent"
    session = f"session {escape_line(each.session_id)}" if each.session_id else "no session"
    kind = "" if each.kind in {"", "turn"} else escape_line(each.kind).replace("_", " ")
    return ", ".join(filter(None, (agent, session, kind)))


def _undo_command(call: Invocation, each: CapturedEntry, name: str) -> str:
    """Return the command that forgets or restores a memory, with `--workspace` if it is elsewhere."""
    verb = "restore" if each.why == "forgotten" else "forget"
    is_here = each.scope == "user" or (call.workspace + os.sep).startswith(each.root + os.sep)
    place = "" if is_here else f" --workspace {shlex.quote(each.root)}"
    return escape_line(f"forgectl {verb} {name}{place}")
