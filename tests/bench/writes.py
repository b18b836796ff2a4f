"""Rows of a durable `remember`: acknowledged after its fsyncs, alone and by 32 writers at once."""

from __future__ import annotations

import contextlib
import itertools
import os
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

from forged_client import protocol

_WRITES = 15
_WRITERS, _EACH = 32, 10
_NO_DISK_S = 50e-6
_TEXT, _FILE = corpus.memory(0).content, corpus.memory(0).file


@contextlib.contextmanager
def _remember(checkout: Checkout) -> Iterator[Probe]:
    with prepared(checkout) as daemon, serving(daemon) as caller:
        caller.rebuild(daemon)
        write = _remembering(daemon, caller, 0)

        def round_() -> float:
            took = median_of(write, _WRITES)
            caller.rebuild(daemon)  # what it still does for these must not disturb the other side
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
                return _remembering(daemon, Caller(daemon.socket), first + writer)

            taken = load(connected, _WRITERS, _EACH)
            caller.rebuild(daemon)
            return taken.per_second

        yield round_


def _remembering(daemon: Daemon, caller: Caller, writer: int) -> Call:
    """Write another memory at every call; the file must be there when the reply is."""
    numbers = itertools.count(writer * 1_000)

    def call() -> None:
        content = f"{next(numbers)} {_TEXT}"
        reply = caller.call(protocol.Remember(id=3, workspace=daemon.workspace, content=content))
        if not isinstance(reply, protocol.Remembered) or not os.path.exists(reply.path):
            raise Broken(f"remember answered {reply.status} {reply.reason}")

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
    """A directory where fsync takes its time. Raises Missing where it does not: then durable says nothing."""
    with directory() as place:
        took = median_of(_writing(place, 999_999), 20)
        if took < _NO_DISK_S:
            raise Missing(f"no real disk below {place}: a durable write takes {took * 1e6:.0f} us")
        yield place


def _writing(place: Path, writer: int) -> Call:
    """A temporary file, fsync, its name by link, fsync of the directory: the least that lasts."""
    numbers = itertools.count(writer * 1_000)

    def call() -> None:
        number = next(numbers)
        draft, path = place / f".{number}.tmp", place / f"{number}.md"
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.write(file, _FILE)
        os.fsync(file)
        os.close(file)
        os.link(draft, path)
        os.unlink(draft)
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(folder)
        os.close(folder)

    return call


ROWS = (
    Row(
        "remember",
        "durable remember p50 / temp file + fsync + link + fsync of the directory",
        Goal(1.2, "P15: durable, and next to the disk's own time"),
        _remember,
        _raw,
        rounds=21,
    ),
    Row(
        "remember-32",
        "32 writers, durable memories a second / the same by 32 bare processes",
        Goal(1.5, "P15; a journal with a common flush was 2.2", at_least=True),
        _remember_by_many,
        _raw_by_many,
        unit="/s",
    ),
)
