"""Rows of reading a store: a full read, and a rescan without changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import corpus
from commits import Checkout
from daemons import running_over
from judging import Goal
from processes import directory
from row import Row, Side
from sampling import Probe, median_of

_FILES = 10_000


def _inside(case: str, *words: int) -> Side:
    """Return a case of the checkout's own inside.py, over a store of files."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with directory() as top:
            corpus.write(top, _FILES)
            with checkout.inside(case, top, *words) as running:
                yield running.figure

    return side


@contextlib.contextmanager
def _rescan_of_the_daemon(checkout: Checkout) -> Iterator[Probe]:
    """Measure a rescan of the daemon with its pauses, over the socket."""
    with running_over(checkout, _FILES) as (daemon, caller):
        yield lambda: median_of(lambda: caller.rebuild(daemon), 3)


def _floor(look: Callable[[Path], object], calls: int) -> Side:
    """Measure the bare system calls over the same files."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        with directory() as top:
            place = corpus.write(top, _FILES)
            yield lambda: median_of(lambda: look(place), calls)

    return side


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


ROWS = (
    Row(
        "scan",
        "scan and parse 10,000 files / scandir + open + read",
        Goal(2.5, "P9: a cold rebuild at grep's speed; a prototype was 2.9"),
        _inside("scan", _FILES),
        _floor(_read_all, 1),
    ),
    Row(
        "rescan",
        "rescan of 10,000 unchanged files / scandir + stat",
        Goal(1.1, "P10: nothing changed costs nothing; the floor itself is 1.0"),
        _inside("rescan"),
        _floor(_look_at_all, 3),
    ),
    Row(
        "rescan-daemon",
        "rescan of 10,000 unchanged files by the daemon, pauses included / scandir + stat",
        Goal(1.1, "P10"),
        _rescan_of_the_daemon,
        _floor(_look_at_all, 3),
    ),
)
