"""Deciding about many proposals at once: all that wait here, or those whose numbers a person says.

Numbers stand for what was shown in this very call, so they cannot mean another proposal by the time they are
said. What is decided goes to the daemon by ids, a few at a time, as each that is kept is written and found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence

import click
from msgspec.structs import replace

from forged.cli.call import Invocation, check_done, daemon
from forged.cli.confirm import confirm, require_answer
from forged.cli.exits import Stop
from forged.cli.terminal import Painter, ProgressBar, counted, escape, escape_line, local_time
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
        return _done(call, client, asked, keep, [each for each in drop if each not in keep])


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
        return _done(call, client, asked, *((ids, []) if keep else ([], ids)))


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


def _done(
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
