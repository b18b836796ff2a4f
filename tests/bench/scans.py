"""Rows of reading a store: all of it, and looking at one in which nothing changed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import corpus
from commits import Checkout
from daemons import prepared, serving
from judging import Goal
from processes import directory
from row import Row
from sampling import Probe, median_of

_FILES = 10_000


@contextlib.contextmanager
def _scan(checkout: Checkout) -> Iterator[Probe]:
    with directory() as top:
        corpus.write(top, _FILES)
        with checkout.inside("scan", top, _FILES) as running:
            yield running.figure


@contextlib.contextmanager
def _rescan(checkout: Checkout) -> Iterator[Probe]:
    with directory() as top:
        corpus.write(top, _FILES)
        with checkout.inside("rescan", top) as running:
            yield running.figure


@contextlib.contextmanager
def _rescan_of_the_daemon(checkout: Checkout) -> Iterator[Probe]:
    """With the pauses that it makes for other work, asked for and waited for over the socket."""
    with prepared(checkout) as daemon:
        corpus.write(daemon.repo, _FILES)
        with serving(daemon) as caller:
            caller.rebuild(daemon)
            yield lambda: median_of(lambda: caller.rebuild(daemon), 3)


@contextlib.contextmanager
def _reading(_: Checkout) -> Iterator[Probe]:
    with directory() as top:
        place = corpus.write(top, _FILES)
        yield lambda: median_of(lambda: _read_all(place), 1)


@contextlib.contextmanager
def _looking(_: Checkout) -> Iterator[Probe]:
    with directory() as top:
        place = corpus.write(top, _FILES)
        yield lambda: median_of(lambda: _look_at_all(place), 3)


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
        name="scan",
        what="scan and parse 10,000 files / scandir + open + read",
        goal=Goal(2.5),
        goal_from="P9: a cold rebuild at grep's speed; a prototype was 2.9",
        ours=_scan,
        theirs=_reading,
    ),
    Row(
        name="rescan",
        what="rescan of 10,000 unchanged files / scandir + stat",
        goal=Goal(1.1),
        goal_from="P10: nothing changed costs nothing; the floor itself is 1.0",
        ours=_rescan,
        theirs=_looking,
    ),
    Row(
        name="rescan-daemon",
        what="the same asked of the daemon over the socket, pauses included",
        goal=Goal(1.1),
        goal_from="P10",
        ours=_rescan_of_the_daemon,
        theirs=_looking,
    ),
)
