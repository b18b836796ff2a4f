"""`forgectl review`: decide about what waits, before it counts.

What a repository brought and nobody accepted, and what capture proposes from a conversation with pasted text
or from past sessions. All may be somebody else's text: each line is behind a bar, escaped. What has changed
since it was shown is refused. Numbers are those of this very call; decisions go to the daemon by ids, a few
at a time, as each that is kept is written and found.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import click
from msgspec.structs import replace

from forged.cli.call import Invocation, ask, check_done, daemon, show, stdin_text
from forged.cli.commands import asks
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.terminal import Painter, ProgressBar, counted, escape, escape_line, listed, local_time, tell
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.protocol import Proposed, Review, Reviewed

_AT_ONCE = 16
_WHOSE = {"user": "you in all projects", "repo": "this repository"}
_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_HOW = "numbers and ranges such as 1-4,7; `all`; nothing for none"


def picked(call: Invocation, asked: Review) -> Reviewed:
    """Show what waits with numbers, ask which to keep and which of the others to drop, and do it."""
    require_answer(call, "review --pick")
    with daemon(call) as client:
        waiting = _waiting(client, asked)
        for line in numbered(waiting, call.paint):
            click.echo(line, err=True)
        keep = _asked("Keep which?", waiting)
        drop = _asked("Drop which of the others?", waiting) if len(keep) < len(waiting) else ()
        return _decided(call, client, asked, keep, [each for each in drop if each not in keep])


def all_of_them(call: Invocation, asked: Review, *, keep: bool, yes: bool) -> Reviewed:
    """Keep or drop all that waits here, after a yes."""
    word = "Keep" if keep else "Drop"
    if not yes:
        require_answer(call, f"review --{word.lower()}-all")
    with daemon(call) as client:
        waiting = _waiting(client, asked)
        if waiting and not yes:
            question = f"{word} {counted(len(waiting), 'proposal')}?"
            confirm(numbered(waiting, call.paint), question, "nothing was decided; the proposals still wait")
        ids = [each.id for each in waiting]
        return _decided(call, client, asked, *((ids, []) if keep else ([], ids)))


def numbered(waiting: Sequence[Proposed], paint: Painter) -> Iterator[str]:
    """What waits: whole, as nothing is to be kept that was not seen."""
    for number, each in enumerate(waiting, 1):
        whose = _WHOSE.get(each.scope, escape_line(each.scope))
        agent = f"{escape_line(each.agent)}, " if each.agent else ""
        instead = f", in place of {escape_line(each.supersedes)}" if each.supersedes else ""
        told = f"{local_time(each.created_at)[:10]}, {agent}for {whose}{instead}"
        yield f"{paint('strong', f'{number:>4}')}  {told}"
        yield from (f"      | {line}" for line in escape(each.content.strip("\n")).split("\n"))


def chosen(text: str, count: int) -> list[int] | None:
    """The numbers that are meant, from 1, in their order; None if that is not clear."""
    said = text.strip().lower()
    if said in ("", "none", "all"):
        return [*range(1, count + 1)] if said == "all" else []
    found = set[int]()
    for part in re.split(r"[,\s]+", said.strip(",")):
        if not (match := _RANGE.fullmatch(part)):
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= first <= last <= count:
            return None
        found.update(range(first, last + 1))
    return sorted(found)


def _waiting(client: Client, asked: Review) -> tuple[Proposed, ...]:
    found = client.ask(replace(asked, keep=(), drop=()))
    check_done(found)
    if not found.waiting:
        raise Stop("not_found", "no proposal waits here")
    return found.waiting


def _asked(question: str, waiting: Sequence[Proposed]) -> list[str]:
    while True:
        said = click.prompt(f"{question} ({_HOW})", default="", show_default=False, err=True)
        if (numbers := chosen(said, len(waiting))) is not None:
            return [waiting[number - 1].id for number in numbers]
        click.echo(f"there are 1 to {len(waiting)}; say {_HOW}", err=True)


def _decided(
    call: Invocation, client: Client, asked: Review, keep: Sequence[str], drop: Sequence[str]
) -> Reviewed:
    """Have it done; the last answer, with all that was kept and dropped."""
    bar, kept, dropped = ProgressBar(call.redraws(sys.stderr) and not call.as_json), list[str](), list[str]()
    found = Reviewed()
    try:
        for start in range(0, max(len(keep), len(drop), 1), _AT_ONCE):
            bar.draw("deciding", start, max(len(keep), len(drop)))
            now = slice(start, start + _AT_ONCE)
            found = client.ask(replace(asked, keep=tuple(keep[now]), drop=tuple(drop[now])))
            check_done(found)
            kept += found.kept
            dropped += found.dropped
    finally:
        bar.wipe()
    return replace(found, kept=tuple(kept), dropped=tuple(dropped))


_HASH_CHARS = 12
_FEW = 2


@click.command("review")
@click.argument("directory", required=False, metavar="[DIR]")
@click.option(
    "--accept", multiple=True, metavar="ID", help="Use this file; an id or a hash as shown. Repeatable."
)
@click.option("--accept-all", "everything", is_flag=True, help="Use all files that are withheld now.")
@click.option("--keep", multiple=True, metavar="ID", help="Keep this proposal as a memory. Repeatable.")
@click.option("--drop", multiple=True, metavar="ID", help="Drop this proposal. Repeatable.")
@click.option("--edit", metavar="ID", default="", help="Open this proposal in your editor, then keep it.")
@click.option("--text", default="", help="With one --keep: keep it in these words; `-` reads stdin.")
@click.option("--pick", is_flag=True, help="Show all proposals with numbers, and ask which to keep and drop.")
@click.option("--keep-all", is_flag=True, help="Keep all proposals that wait here, after asking.")
@click.option("--drop-all", is_flag=True, help="Drop all proposals that wait here, after asking.")
@yes_option
@click.option("--allow-secret", is_flag=True, help="Keep a text that holds a secret: agents will see it.")
@asks
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
    pick: bool,
    keep_all: bool,
    drop_all: bool,
    yes: bool,
    allow_secret: bool,
) -> None:
    """Print what waits for you: files that are withheld, and proposals of capture and of past sessions."""
    many = pick + keep_all + drop_all
    if many > 1 or (many and (accept or everything or keep or drop or edit or text)):
        raise Stop("usage", "--pick, --keep-all and --drop-all each decide by themselves; give one of them")
    if accept and everything:
        raise Stop("usage", "give --accept or --accept-all, not both")
    if edit and (keep or text):
        raise Stop("usage", "--edit keeps one proposal by itself; it goes with no --keep and no --text")
    asked = wire.Review(
        workspace=os.path.join(call.workspace, directory or ""),
        accept=accept,
        everything=everything,
        keep=keep,
        drop=drop,
        text=stdin_text() if text == "-" else text,
        allow_secret=allow_secret,
    )
    if edit:
        asked = _edited(call, asked, edit)
    if pick:
        found = picked(call, asked)
    elif many:
        found = all_of_them(call, asked, keep=keep_all, yes=yes)
    else:
        found = ask(call, asked, check_done)
    deciding = bool(many or accept or everything or asked.keep or drop)
    show(call, found, _done(found) if deciding else _pages(found, call.paint))
    if not call.as_json:
        _tell_rest(found, deciding=deciding)


def _edited(call: Invocation, asked: wire.Review, wanted: str) -> wire.Review:
    """The request to keep a proposal in the words that a person makes of it. Raises Stop."""
    if not call.interactive:
        raise Stop("usage", "--edit opens an editor; where there is none, give --keep ID --text TEXT")
    with daemon(call) as client:
        found = client.ask(wire.Review(workspace=asked.workspace))
    check_done(found)
    meant = [each for each in found.waiting if each.id.startswith((wanted, f"mem_{wanted}"))]
    if len(meant) != 1:
        what = "several proposals begin" if meant else "no proposal begins"
        raise Stop("not_found", f"{what} with {escape_line(wanted[:80])}; `forgectl review` shows them")
    text = click.edit(meant[0].content, extension=".md")
    if text is None or not text.strip():
        raise Stop("declined", "nothing was kept; the proposal still waits")
    return replace(asked, keep=(meant[0].id,), text=text)


# --- what is shown ---------------------------------------------------------------------------------------


def _pages(found: wire.Reviewed, paint: Painter) -> Iterator[str]:
    for each in found.waiting:
        yield from _proposal(each, paint)
    for file in found.files:
        yield from _file(file, paint)


def _proposal(each: wire.Proposed, paint: Painter) -> Iterator[str]:
    yield paint("strong", escape_line(each.id))
    agent = f" of {escape_line(each.agent)}" if each.agent else ""
    yield f"  proposed {local_time(each.created_at)} in session {escape_line(each.session_id)}{agent}"
    yield f"  waits, as {escape_line(each.why)}"
    whose = _WHOSE.get(each.scope, escape_line(each.scope))
    instead = f", in place of {escape_line(each.supersedes)}" if each.supersedes else ""
    yield f"  kept, it would hold for {whose} ({escape_line(each.category)}){instead}"
    yield from (f"  | {line}" for line in _lines(each.content))
    if each.pasted:
        yield "  pasted beside it:"
        yield from (f"  : {line}" for line in _lines(each.pasted))
    yield ""


def _file(each: wire.WithheldFile, paint: Painter) -> Iterator[str]:
    yield f"{paint('strong', escape_line(each.id))}  {escape_line(each.sha256[:_HASH_CHARS])}"
    yield f"  {escape_line(each.path)}, {counted(each.bytes, 'byte')}, {escape_line(each.category)}"
    yield f"  withheld, as {escape_line(each.why)}"
    yield f"  accepted, it would {escape_line(each.effect)}"
    yield from (f"  | {line}" for line in _lines(each.text))
    yield ""


def _lines(text: str) -> list[str]:
    """A foreign text in lines, escaped; nothing but a newline ends one."""
    return escape(text.strip("\n")).split("\n")


def _done(found: wire.Reviewed) -> Iterator[str]:
    for what, ids in (("accepted", found.accepted), ("kept", found.kept), ("dropped", found.dropped)):
        yield from (f"{what} {escape_line(each)}" for each in ids)


def _tell_rest(found: wire.Reviewed, *, deciding: bool) -> None:
    for line in (*_of_proposals(found, deciding=deciding), *_of_files(found, deciding=deciding)):
        tell(line)


def _of_proposals(found: wire.Reviewed, *, deciding: bool) -> Iterable[str]:
    if found.waiting and deciding:
        yield f"{counted(len(found.waiting), 'proposal')} still to review; `forgectl review` shows them"
    elif found.waiting:
        yield "`forgectl review --keep ID` makes a memory of it, --edit ID in your words; --drop ID drops it"
        if len(found.waiting) > _FEW:
            yield "--pick asks about all of them by number; --keep-all and --drop-all decide at once"
    if found.elsewhere:
        yield f"more to review in {listed(found.elsewhere)}"


def _of_files(found: wire.Reviewed, *, deciding: bool) -> Iterable[str]:
    if found.root is None:
        return
    left = found.root.withheld
    if not left and (found.waiting or found.kept or found.dropped):
        return
    if not left:
        yield f"nothing is withheld in {escape_line(found.root.root)}"
    elif deciding:
        yield f"{counted(left, 'memory', 'memories')} still withheld; `forgectl review` shows them"
    else:
        if left > len(found.files):
            yield f"and {left - len(found.files):,} more, shown when some of these are accepted"
        yield (
            "`forgectl review --accept ID` uses one of them, --accept-all all; what you leave stays withheld"
        )
