"""Rows of a durable `remember`: acknowledged after its fsyncs, alone and by 32 writers at once."""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import corpus
from commits import Checkout
from daemons import Caller, Daemon, prepared, serving
from judging import Goal
from loads import Call, load
from processes import Broken, Missing, directory
from row import Row
from sampling import Probe, median_of

_WRITES = 15
_WRITERS, _EACH = 32, 10
_NO_DISK_S = 50e-6
_ROW_BYTES = 120
_TEXT, _FILE = corpus.memory(0).content, corpus.memory(0).file


@contextlib.contextmanager
def _remember(checkout: Checkout) -> Iterator[Probe]:
    with prepared(checkout) as daemon, serving(daemon) as caller:
        caller.rebuild(daemon)
        write = _remembering(daemon, caller, 0)

        def round_() -> float:
            took = median_of(write, _WRITES)
            caller.rebuild(daemon)  # its remaining work for these must not disturb the other side
            return took

        yield round_


@contextlib.contextmanager
def _remember_by_many(checkout: Checkout) -> Iterator[Probe]:
    with prepared(checkout) as daemon, serving(daemon) as caller:
        caller.rebuild(daemon)
        rounds = itertools.count()

        def round_() -> float:
            first = next(rounds) * _WRITERS

            def connected(writer: int) -> Call:
                return _remembering(daemon, daemon.connect(), first + writer)

            taken = load(connected, _WRITERS, _EACH)
            caller.rebuild(daemon)
            return taken.per_second

        yield round_


def _remembering(daemon: Daemon, caller: Caller, writer: int) -> Call:
    """Write another memory at every call; the file must exist at the reply."""
    numbers = itertools.count(writer * 1_000)

    def call() -> None:
        content = f"{next(numbers)} {_TEXT}"
        reply = caller.call(daemon.frames.remember(daemon.workspace, content))
        if not os.path.exists(daemon.frames.written_to(reply)):
            raise Broken(f"remember answered {reply}")

    return call


@contextlib.contextmanager
def _raw(_: Checkout) -> Iterator[Probe]:
    with _disk() as place:
        write = _writing(place, 0)
        yield lambda: median_of(write, _WRITES)


@contextlib.contextmanager
def _raw_by_many(_: Checkout) -> Iterator[Probe]:
    with _disk() as place:
        rounds = itertools.count()

        def round_() -> float:
            first = next(rounds) * _WRITERS
            return load(lambda writer: _writing(place, first + writer), _WRITERS, _EACH).per_second

        yield round_


@contextlib.contextmanager
def _disk() -> Iterator[Path]:
    """Yield a directory with a real fsync. Raises Missing without one, where durable means nothing."""
    with directory() as place:
        took = median_of(_writing(place, 999_999), 20)
        if took < _NO_DISK_S:
            raise Missing(f"no real disk below {place}: a durable write takes {took * 1e6:.0f} us")
        yield place


def _writing(place: Path, writer: int) -> Call:
    """Write one SQLite row and one durable file: the minimum for a durable memory."""
    numbers = itertools.count(writer * 1_000)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    rows = sqlite3.connect(place / f"{writer}.db", isolation_level=None)
    for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
        rows.execute(f"PRAGMA {pragma}")
    rows.execute("CREATE TABLE IF NOT EXISTS own (id TEXT PRIMARY KEY, row) WITHOUT ROWID")

    def call() -> None:
        name = f"{next(numbers)}.md"
        rows.execute("INSERT INTO own VALUES (?, ?)", (name, _FILE[:_ROW_BYTES]))
        file = os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=folder)
        os.write(file, _FILE)
        os.fsync(file)
        os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder, follow_symlinks=True)
        os.close(file)
        os.fsync(folder)

    return call


ROWS = (
    Row(
        "remember",
        "durable remember p50 / a SQLite commit, a file's fsync, link, fsync of the directory",
        Goal(1.4, "P15: durable, and next to the disk's own time"),
        _remember,
        _raw,
        rounds=21,
    ),
    Row(
        "remember-32",
        "32 writers, durable memories a second / the same by 32 bare processes",
        Goal(1.5, "P15: who waits together shares what it costs", at_least=True),
        _remember_by_many,
        _raw_by_many,
        unit="/s",
    ),
)
