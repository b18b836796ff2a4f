"""`forgectl review`: what a person has to decide about, before it counts.

Two things wait: what a repository brought and nobody accepted, and what capture proposes from a conversation
in which something was pasted, or from past sessions. All may be somebody else's text: each line of it stands
behind a bar, escaped, so that it can pass for nothing that forgectl says. What has changed since it was shown
is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import click
from msgspec.structs import replace

from forged.cli.call import Invocation, ask, check_done, daemon, show, stdin_text
from forged.cli.commands import asks
from forged.cli.confirm import yes_option
from forged.cli.exits import Stop
from forged.cli.picking import all_of_them, picked
from forged.cli.terminal import Painter, counted, escape, escape_line, listed, local_time, tell
from forged_client import protocol as wire

_HASH_CHARS = 12
_FEW = 2
_WHOSE = {"user": "you in all projects", "repo": "this repository"}


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
    if each.beside:
        yield "  pasted beside it:"
        yield from (f"  : {line}" for line in _lines(each.beside))
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
