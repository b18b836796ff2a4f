"""P12: from a file renamed into place to a retrieve that returns it, beside watchfiles' bare event."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

import corpus
from daemons import Caller, Daemon, prepared, serving
from measuring import Broken, Figure, ms, p50, p99, plain_environment, process

from forged.files.frontmatter import render
from forged.memory import Memory
from forged_client import framing, protocol

_CHANGES = 120
_LIMITS = {1_000: 0.3, 10_000: 1.0}
_PATIENCE_S = 10.0
_SETTLING_S = 0.5
_WATCHER = """
import os, sys, time, watchfiles
print("ready", flush=True)
for changes in watchfiles.watch(sys.argv[1]):
    now = time.monotonic()
    for _, path in changes:
        print(os.path.basename(path), now, flush=True)
"""


def until_found() -> Sequence[Figure]:
    """The same renames are seen by both; every second one makes a new file, the others replace one."""
    return [_measured(memories, limit) for memories, limit in _LIMITS.items()]


def _measured(memories: int, limit: float) -> Figure:
    with prepared() as daemon:
        place = corpus.write(daemon.repo, memories)
        with serving(daemon, stub=True), _Watcher(place) as watcher:
            caller, events = Caller(daemon.socket), Caller(daemon.socket)
            caller.call(protocol.Rebuild(id=2, workspace=str(daemon.repo), wait=True))
            events.send(framing.encode(protocol.Events(id=2, workspace=str(daemon.repo))))
            before = daemon.passages_embedded()
            pauses = random.Random(12)
            ours, theirs = [], []
            for number in range(_CHANGES):
                time.sleep(0.08 * (1 + pauses.random()))
                edited = corpus.memory(number if number % 2 else memories + number, edition=2 + number)
                began = _renamed(place, edited)
                ours.append(_found(daemon, caller, events, edited) - began)
                theirs.append(watcher.saw(f"{edited.id}.md", began) - began)
            embedded = daemon.passages_embedded() - before
            caller.close()
            events.close()
    if embedded != _CHANGES:
        raise Broken(f"{_CHANGES} changes, but {embedded} texts were embedded")
    raw = {
        "found p50": ms(p50(ours)),
        "found p99": ms(p99(ours)),
        "event p50": ms(p50(theirs)),
        "event p99": ms(p99(theirs)),
        "texts embedded per change": "1",
    }
    return Figure(f"change to found p99 / watchfiles event, {memories}", p99(ours) / p99(theirs), limit, raw)


def _renamed(place: Path, memory: Memory) -> float:
    """Put the file in place as an editor does; the moment before its rename."""
    draft = place / f".{memory.id}.tmp"
    draft.write_bytes(render(memory))
    began = time.monotonic()
    draft.rename(place / f"{memory.id}.md")
    return began


def _found(daemon: Daemon, caller: Caller, events: Caller, memory: Memory) -> float:
    """When a retrieve returned the new text: asked whenever the daemon says that it swapped a map."""
    words = " ".join(memory.content.split()[:12])
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        event = framing.decode_reply(events.next())
        if not isinstance(event, protocol.Progress) or event.event != "swapped":
            continue
        reply = caller.call(protocol.Retrieve(id=3, workspace=str(daemon.repo), hypotheses=(words,)))
        assert isinstance(reply, protocol.Retrieved)
        if any(
            hit.id == memory.id and hit.content == memory.content and hit.cosine for hit in reply.memories
        ):
            return time.monotonic()
    raise Broken(f"{memory.id} was not found within {_PATIENCE_S} s")


class _Watcher:
    """`watchfiles.watch` with its defaults in a process of its own, and when it named which file."""

    def __init__(self, place: Path) -> None:
        self._running = process(
            [sys.executable, "-c", _WATCHER, place], plain_environment(), stdout=subprocess.PIPE
        )
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()

    def __enter__(self) -> Self:
        child = self._running.__enter__()
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(_SETTLING_S)  # it does not say when its watches stand
        self._reader = threading.Thread(target=self._read, args=(child.stdout,))
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.__exit__(None, None, None)
        self._reader.join()

    def _read(self, lines: IO[bytes]) -> None:
        for line in lines:
            name, _, moment = line.decode().strip().partition(" ")
            with self._changed:
                self._seen[name] = float(moment)
                self._changed.notify_all()

    def saw(self, name: str, after: float) -> float:
        """When it told of this file, once that is later than `after`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen.get(name, 0.0) > after, _PATIENCE_S):
                raise Broken(f"watchfiles did not see {name}")
            return self._seen[name]
