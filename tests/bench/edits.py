"""Rows of an edit: from the rename of a file to a retrieve that returns it, against a bare file event."""

from __future__ import annotations

import contextlib
import itertools
import random
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import corpus
from commits import Checkout
from daemons import Caller, Daemon, running_over
from judging import Goal
from processes import Broken, directory, plain_environment, process
from row import Row, Side
from sampling import Probe, p99

_CHANGES = 30
_PATIENCE_S = 10.0
_SETTLING_S = 0.5
_WATCHER = """
import os, sys, time, watchfiles
print("ready", flush=True)
for changes in watchfiles.watch(sys.argv[1]):
    now = time.monotonic()
    print(now, *(os.path.basename(path) for _, path in changes), flush=True)
"""


def found(memories: int) -> Side:
    """Measure the slowest of thirty edits until a retrieve returned them by vector."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with (
            running_over(checkout, memories, stub=True) as (daemon, caller),
            contextlib.closing(daemon.connect()) as events,
        ):
            events.send(daemon.frames.encode(daemon.frames.events(daemon.workspace)))
            edits = uneven(memories)

            def round_() -> float:
                return p99(edited(daemon, caller, events, itertools.islice(edits, _CHANGES)))

            yield round_

    return side


def edited(daemon: Daemon, caller: Caller, events: Caller, edits: Iterable[corpus.Text]) -> list[float]:
    """Make some edits, one after the other; return the seconds until each was found."""
    before = daemon.passages_embedded()
    taken = []
    for edit in edits:
        began = _renamed(daemon.memories, edit)
        taken.append(_found(daemon, caller, events, edit) - began)
    embedded = daemon.passages_embedded() - before
    if embedded != len(taken):
        raise Broken(f"{len(taken)} changes, but {embedded} texts were embedded")
    return taken


def _event(memories: int) -> Side:
    """Measure the slowest of as many events of `watchfiles.watch`, in a process of its own."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        with directory() as top:
            place = corpus.write(top, memories)
            command = [sys.executable, "-c", _WATCHER, place]
            with process(command, plain_environment(), stdout=subprocess.PIPE, bufsize=0) as child:
                assert child.stdout is not None
                child.stdout.readline()
                time.sleep(_SETTLING_S)  # it does not report when its watches are set
                edits = uneven(memories)

                def round_() -> float:
                    return p99(
                        [_seen(child.stdout, place, edit) for edit in itertools.islice(edits, _CHANGES)]
                    )

                yield round_

    return side


def uneven(memories: int) -> Iterator[corpus.Text]:
    """Yield endless edits at uneven times, because an even rhythm could match a watcher's."""
    pauses = random.Random(12)
    for number in itertools.count():
        time.sleep(0.04 * (1 + 2 * pauses.random()))
        yield corpus.memory(number % memories if number % 2 else memories + number, edition=2 + number)


def _renamed(place: Path, memory: corpus.Text) -> float:
    """Rename the file into place as an editor does; return the time before the rename."""
    draft = place / f".{memory.id}.tmp"
    draft.write_bytes(memory.file)
    began = time.monotonic()
    draft.rename(place / f"{memory.id}.md")
    return began


def _found(daemon: Daemon, caller: Caller, events: Caller, memory: corpus.Text) -> float:
    """Return the time when a retrieve returned the new text; asked after each swap of a map."""
    words, frames = " ".join(memory.content.split()[:12]), daemon.frames
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if not frames.is_swap(frames.decode(events.next())):
            continue
        answer = frames.answer(caller.call(frames.retrieve(daemon.workspace, hypotheses=(words,))))
        if any(hit.id == memory.id and hit.content == memory.content and hit.cosine for hit in answer.hits):
            return time.monotonic()
    raise Broken(f"{memory.id} was not found within {_PATIENCE_S} s")


def _seen(events: IO[bytes], place: Path, memory: corpus.Text) -> float:
    """Return the seconds from the rename to the event that names the file."""
    began = _renamed(place, memory)
    while select.select([events], [], [], _PATIENCE_S)[0]:
        moment, *names = events.readline().decode().split()
        if f"{memory.id}.md" in names:
            return float(moment) - began
    raise Broken(f"watchfiles did not see {memory.id}")


ROWS = tuple(
    Row(
        f"edit-{memories // 1000}k",
        f"file renamed to found, slowest of 30, {memories:,} memories / watchfiles' default event alone",
        goal,
        found(memories),
        _event(memories),
    )
    for memories, goal in (
        (
            1_000,
            Goal(0.25, "P12: saved in the editor, found at once; a bare event without its wait was 0.07"),
        ),
        (10_000, Goal(0.35, "P12")),
    )
)
