"""`forgectl review`: decide about withheld files and about proposals, before they are used.

On a terminal it asks by numbers, in a pipe it prints. All may be the text of others: each line is escaped and
follows a bar. The daemon refuses what changed since it was shown. Decisions go to it by ids, a few at a time.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import click
from msgspec.structs import replace

from forged.cli.call import Invocation, ask, check_done, open_client, show, stdin_text
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.memories import OptionalChoice, allow_secret_option
from forged.cli.terminal import Painter, ProgressBar, counted, escape, escape_line, listed, local_time, tell
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.protocol import Proposed, Review, Reviewed

_AT_ONCE = 16
_HASH_CHARS = 12
_FEW = 2
_AUDIENCES = {"user": "all your repositories", "repo": "this repository"}
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_NUMBERS = "numbers and ranges such as 1-4,7; `all`; Enter for none"
_SCOPED = "such as `user 1-4; repo 7`; Enter for as shown"


@click.command("review")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--accept", multiple=True, metavar="ID", help="Use this file (id or hash); repeatable.")
@click.option("--accept-all", "everything", is_flag=True, help="Use all files that are not used yet.")
@click.option("--keep", multiple=True, metavar="ID", help="Save this proposal as a memory; repeatable.")
@click.option("--drop", multiple=True, metavar="ID", help="Drop this proposal; repeatable.")
@click.option("--edit", metavar="ID", default="", help="Open this proposal in your editor, then save it.")
@click.option("--text", default="", help="With one --keep: save this text instead; `-` reads stdin.")
@click.option("--keep-all", is_flag=True, help="Save all proposals of this workspace, after a question.")
@click.option("--drop-all", is_flag=True, help="Drop all proposals of this workspace, after a question.")
@click.option(
    "--scope",
    type=OptionalChoice(list(_AUDIENCES)),
    default="",
    help="With --keep, --keep-all or --edit: save for all your repositories (user) or this one (repo).",
)
@yes_option
@allow_secret_option
@with_daemon_options
def review_command(
    call: Invocation,
    *,
    directory: str | None,
    accept: tuple[str, ...],
    everything: bool,
    keep: tuple[str, ...],
    drop: tuple[str, ...],
    edit: str,
    text: str,
    keep_all: bool,
    drop_all: bool,
    scope: str,
    yes: bool,
    allow_secret: bool,
) -> None:
    """Decide about files that are not used yet, and about proposals of capture and of past sessions.

    On a terminal it asks which to save, for which scope, and which to drop; in a pipe it prints them.
    """
    if (keep_all or drop_all) and (
        keep_all is drop_all or accept or everything or keep or drop or edit or text
    ):
        raise Stop("usage", "--keep-all and --drop-all decide about all proposals; give only one of them")
    if accept and everything:
        raise Stop("usage", "give --accept or --accept-all, not both")
    if edit and (keep or text):
        raise Stop("usage", "--edit saves one proposal; it does not go with --keep or --text")
    if scope and not (keep or keep_all or edit):
        raise Stop("usage", "--scope goes with --keep, --keep-all or --edit")
    asked = Review(
        workspace=os.path.join(call.workspace, directory or ""),
        accept=accept,
        everything=everything,
        keep=keep,
        drop=drop,
        text=stdin_text() if text == "-" else text,
        scope=scope,
        allow_secret=allow_secret,
    )
    if edit:
        asked = _with_edited_text(call, asked, edit)
    deciding = bool(keep_all or drop_all or accept or everything or asked.keep or drop)
    if keep_all or drop_all:
        found = _decide_all(call, asked, keep=keep_all, yes=yes)
    elif deciding or not _is_at_terminal(call):
        found = ask(call, asked, check_done)
    else:
        found, deciding = _ask_and_decide(call, asked)
    show(call, found, _receipt_lines(found) if deciding else _review_lines(found, call.paint))
    if not call.as_json:
        _tell_hints(found, deciding=deciding)


def _is_at_terminal(call: Invocation) -> bool:
    return call.interactive and call.shows_terminal and not call.as_json


# --- decisions -----------------------------------------------------------------------------------------


def _ask_and_decide(call: Invocation, asked: Review) -> tuple[Reviewed, bool]:
    """Ask about proposals, else unused files, send the answers; return reply and if it asked."""
    with open_client(call) as client:
        found = client.ask(asked)
        check_done(found)
        if found.waiting:
            return _ask_and_decide_proposals(call, client, asked, found.waiting), True
        if found.files:
            return _ask_and_accept_files(call, client, asked, found.files), True
    return found, False


def _ask_and_decide_proposals(
    call: Invocation, client: Client, asked: Review, waiting: Sequence[Proposed]
) -> Reviewed:
    _echo_to_stderr(numbered_proposals(waiting, call.paint))
    keep = _ask_numbers("Save which?", len(waiting))
    scopes = _ask_scopes(keep, len(waiting)) if keep else {}
    others = len(keep) < len(waiting)
    drop = _ask_numbers("Drop which of the others?", len(waiting)) if others else []
    return _send_decisions(
        call,
        client,
        asked,
        {waiting[number - 1].id: scopes.get(number, "") for number in keep},
        [waiting[number - 1].id for number in drop if number not in keep],
    )


def _ask_and_accept_files(
    call: Invocation, client: Client, asked: Review, files: Sequence[wire.WithheldFile]
) -> Reviewed:
    for number, each in enumerate(files, 1):
        _echo_to_stderr((call.paint("strong", f"{number:>4}"), *_file_lines(each, call.paint)))
    chosen = _ask_numbers("Use which of these files?", len(files))
    if not chosen:
        raise Stop("declined", "nothing was decided; these files are still not used")
    # By hash, so that a file that changed since it was shown is refused.
    done = client.ask(replace(asked, accept=tuple(files[number - 1].sha256 for number in chosen)))
    check_done(done)
    return done


def _decide_all(call: Invocation, asked: Review, *, keep: bool, yes: bool) -> Reviewed:
    """Save (`keep`) or drop all proposals of the workspace, after one question unless `yes`. Raises Stop."""
    if not yes:
        require_answer(call, f"review --{'keep' if keep else 'drop'}-all")
    with open_client(call) as client:
        found = client.ask(asked)
        check_done(found)
        if not found.waiting:
            raise Stop("not_found", "there are no proposals here")
        if not yes:
            question = f"{'Save' if keep else 'Drop'} {counted(len(found.waiting), 'proposal')}?"
            declined = "nothing was decided; the proposals are still here"
            confirm(numbered_proposals(found.waiting, call.paint), question, declined)
        ids = [each.id for each in found.waiting]
        kept = dict.fromkeys(ids, asked.scope) if keep else {}
        return _send_decisions(call, client, asked, kept, [] if keep else ids)


def _send_decisions(
    call: Invocation, client: Client, asked: Review, keep: Mapping[str, str], drop: Sequence[str]
) -> Reviewed:
    """Save proposals, each for its scope in `keep`, and drop others, in batches; return one reply."""
    steps = [
        replace(asked, keep=tuple(part), scope=scope)
        for scope in dict.fromkeys(keep.values())
        for part in _batches([each for each, wanted in keep.items() if wanted == scope])
    ]
    steps += [replace(asked, drop=tuple(part), scope="") for part in _batches(drop)]
    bar = ProgressBar(call.can_redraw(sys.stderr) and not call.as_json)
    kept, dropped = list[str](), list[str]()
    found = Reviewed()
    try:
        for request in steps or [replace(asked, scope="")]:
            bar.draw("deciding", len(kept) + len(dropped), len(keep) + len(drop))
            found = client.ask(request)
            check_done(found)
            kept += found.kept
            dropped += found.dropped
    finally:
        bar.wipe()
    return replace(found, kept=tuple(kept), dropped=tuple(dropped))


def _batches(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _with_edited_text(call: Invocation, asked: Review, wanted: str) -> Review:
    """Open a proposal in the editor; return the request that saves the new text. Raises Stop."""
    if not call.interactive:
        raise Stop(
            "usage", "--edit opens an editor and needs a terminal; otherwise use --keep ID --text TEXT"
        )
    with open_client(call) as client:
        found = client.ask(Review(workspace=asked.workspace))
    check_done(found)
    meant = [each for each in found.waiting if each.id.startswith((wanted, f"mem_{wanted}"))]
    if len(meant) != 1:
        what = "several proposals begin" if meant else "no proposal begins"
        raise Stop("not_found", f"{what} with {escape_line(wanted[:80])}; `forgectl review` shows them")
    text = click.edit(meant[0].content, extension=".md")
    if text is None or not text.strip():
        raise Stop("declined", "nothing was saved; the proposal is still there")
    return replace(asked, keep=(meant[0].id,), text=text)


# --- questions -----------------------------------------------------------------------------------------


def parse_numbers(text: str, count: int) -> list[int] | None:
    """Parse an answer such as `1-4,7`, `all` or `none` into numbers from 1 to `count`; None if invalid."""
    answer = text.strip().lower()
    if answer in ("", "none", "all"):
        return [*range(1, count + 1)] if answer == "all" else []
    found = set[int]()
    for part in re.split(r"[,\s]+", answer.strip(",")):
        if not (match := _RANGE.fullmatch(part)):
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= count:
            return None
        found.update(range(first, last + 1))
    return sorted(found)


def parse_scopes(text: str, count: int) -> dict[int, str] | None:
    """Parse an answer such as `user 1-4; repo 7` into scopes by proposal number; None if invalid."""
    found: dict[int, str] = {}
    for part in filter(str.strip, text.split(";")):
        scope, _, numbers = part.strip().lower().partition(" ")
        chosen = parse_numbers(numbers, count)
        if scope not in _AUDIENCES or not chosen:
            return None
        found |= dict.fromkeys(chosen, scope)
    return found


def _ask_numbers(question: str, count: int) -> list[int]:
    while True:
        answer = _prompt(f"{question} ({_NUMBERS})")
        if (found := parse_numbers(answer, count)) is not None:
            return found
        click.echo(f"there are 1 to {count}; type {_NUMBERS}", err=True)


def _ask_scopes(keep: Sequence[int], count: int) -> dict[int, str]:
    while True:
        answer = _prompt(f"Another scope for some? ({_SCOPED})")
        found = parse_scopes(answer, count)
        if found is not None and found.keys() <= set(keep):
            return found
        click.echo(f"type user or repo with numbers that you save, {_SCOPED}", err=True)


def _prompt(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False, err=True)
    return answer


# --- what is shown -------------------------------------------------------------------------------------


def _echo_to_stderr(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def numbered_proposals(waiting: Sequence[Proposed], paint: Painter) -> Iterator[str]:
    """Yield lines on proposed memories: number, day, agent, scope, and the whole text."""
    for number, each in enumerate(waiting, 1):
        agent = f"{escape_line(each.agent)}, " if each.agent else ""
        about = f"{local_time(each.created_at)[:10]}, {agent}for {_audience_text(each)}"
        yield f"{paint('strong', f'{number:>4}')}  {about}"
        yield from (f"      | {line}" for line in _escaped_lines(each.content))


def _audience_text(each: Proposed) -> str:
    instead = f", replaces {escape_line(each.supersedes)}" if each.supersedes else ""
    return f"{_AUDIENCES.get(each.scope, escape_line(each.scope))}{instead}"


def _review_lines(found: Reviewed, paint: Painter) -> Iterator[str]:
    for each in found.waiting:
        yield from _proposal_lines(each, paint)
    for file in found.files:
        yield from _file_lines(file, paint)


def _proposal_lines(each: Proposed, paint: Painter) -> Iterator[str]:
    yield paint("strong", escape_line(each.id))
    agent = f" of {escape_line(each.agent)}" if each.agent else ""
    yield f"  proposed {local_time(each.created_at)}, session {escape_line(each.session_id)}{agent}"
    yield f"  not saved yet: {escape_line(each.why)}"
    yield f"  would be saved for {_audience_text(each)} ({escape_line(each.category)})"
    yield from (f"  | {line}" for line in _escaped_lines(each.content))
    if each.pasted:
        yield "  pasted with it:"
        yield from (f"  : {line}" for line in _escaped_lines(each.pasted))
    yield ""


def _file_lines(each: wire.WithheldFile, paint: Painter) -> Iterator[str]:
    yield f"{paint('strong', escape_line(each.id))}  {escape_line(each.sha256[:_HASH_CHARS])}"
    yield f"  {escape_line(each.path)}, {counted(each.bytes, 'byte')}, {escape_line(each.category)}"
    yield f"  not used yet: {escape_line(each.why)}"
    yield f"  if accepted, it would {escape_line(each.effect)}"
    yield from (f"  | {line}" for line in _escaped_lines(each.text))
    yield ""


def _escaped_lines(text: str) -> list[str]:
    """Split a text of others into escaped lines, at newlines only, so that each can follow a bar."""
    return escape(text.strip("\n")).split("\n")


def _receipt_lines(found: Reviewed) -> Iterator[str]:
    for what, ids in (("accepted", found.accepted), ("saved", found.kept), ("dropped", found.dropped)):
        yield from (f"{what} {escape_line(each)}" for each in ids)


def _tell_hints(found: Reviewed, *, deciding: bool) -> None:
    for line in (*_proposal_hints(found, deciding=deciding), *_file_hints(found, deciding=deciding)):
        tell(line)


def _proposal_hints(found: Reviewed, *, deciding: bool) -> Iterable[str]:
    if found.waiting and deciding:
        yield f"{counted(len(found.waiting), 'proposal')} left; `forgectl review` shows them"
    elif found.waiting:
        yield "`forgectl review --keep ID` saves one, --edit ID with your text; --drop ID drops it"
        if len(found.waiting) > _FEW:
            yield "on a terminal `forgectl review` asks by number; --keep-all and --drop-all decide for all"
    if found.elsewhere:
        yield f"more proposals for {listed(found.elsewhere)}"


def _file_hints(found: Reviewed, *, deciding: bool) -> Iterable[str]:
    if found.root is None:
        return
    left = found.root.withheld
    if not left and (found.waiting or found.kept or found.dropped):
        return
    if not left:
        yield f"all memory files in {escape_line(found.root.root)} are used"
    elif deciding:
        are = "file is" if left == 1 else "files are"
        yield f"{left:,} memory {are} still not used; `forgectl review` shows {'it' if left == 1 else 'them'}"
    else:
        if left > len(found.files):
            yield f"and {left - len(found.files):,} more, shown after you accept some of these"
        yield "`forgectl review --accept ID` uses one of these files, --accept-all all of them"
