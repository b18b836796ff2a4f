"""P9 and P10: reading a whole store, and looking at one in which nothing changed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

import corpus
from measuring import Broken, Figure, directory, in_turn, ms, p50

from forged.files.roots import Root
from forged.files.scan import scan
from forged.memory import Scope

_FILES = 10_000
_ROUNDS = 7


def cold() -> Sequence[Figure]:
    """P9: scan and parse, against the same files only opened and read."""
    with directory() as top:
        place = corpus.write(top, _FILES)
        root = Root(str(top), Scope.REPO)
        found = scan(root)
        if len(found.memories) != _FILES or found.problems:
            raise Broken(f"{len(found.memories)} memories and {len(found.problems)} problems")
        del found
        taken = in_turn({"forged": lambda: scan(root), "floor": lambda: _read_all(place)}, _ROUNDS)
    return [_figure("scan and parse / scandir + open + read", taken, 3.6)]


def unchanged() -> Sequence[Figure]:
    """P10: a rescan, against scandir and stat."""
    with directory() as top:
        place = corpus.write(top, _FILES)
        root = Root(str(top), Scope.REPO)
        before = scan(root)
        if scan(root, before) is not before:
            raise Broken("a rescan of unchanged files made a new snapshot")
        taken = in_turn(
            {"forged": lambda: scan(root, before), "floor": lambda: _look_at_all(place)}, 2 * _ROUNDS
        )
    return [_figure("rescan / scandir + stat", taken, 1.4)]


def _figure(name: str, taken: dict[str, list[float]], limit: float) -> Figure:
    ratio = statistics.median(
        ours / floor for ours, floor in zip(taken["forged"], taken["floor"], strict=True)
    )
    return Figure(name, ratio, limit, {"forged": ms(p50(taken["forged"])), "floor": ms(p50(taken["floor"]))})


def _read_all(place: Path) -> list[bytes]:
    contents = []
    for entry in os.scandir(place):
        if entry.name.endswith(".md"):
            file = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                contents.append(os.read(file, 1 << 16))
            finally:
                os.close(file)
    return contents


def _look_at_all(place: Path) -> dict[str, tuple[int, int, int]]:
    return {
        entry.name: (status.st_ino, status.st_size, status.st_mtime_ns)
        for entry in os.scandir(place)
        if entry.name.endswith(".md")
        for status in (entry.stat(follow_symlinks=False),)
    }
