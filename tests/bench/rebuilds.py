"""P11: how much a ping notices of a rebuild in which every file is new."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import corpus
from daemons import Caller, Daemon, prepared, serving
from measuring import Broken, Figure, p50, p99, timed, us

from forged_client import framing, protocol

_FILES = 10_000
_ROUNDS = 4
_PAUSE_S = 0.001
_IDLE_S = 1.0
_PING = framing.encode(protocol.Ping(id=2))


def ping_meanwhile() -> Sequence[Figure]:
    """Pings a millisecond apart, in turn: one second of nothing, one whole rebuild of 10,000 files."""
    idle: list[float] = []
    busy: list[float] = []
    took: list[float] = []
    with prepared() as daemon:
        corpus.write(daemon.repo, _FILES, edition=0)
        corpus.write(daemon.repo, _FILES, edition=1, folder=".forge/other")
        with serving(daemon):
            _rebuild(daemon, "edition0")
            caller = Caller(daemon.socket)
            for number in range(1, _ROUNDS + 1):
                ends = time.monotonic() + _IDLE_S
                idle += _pings(caller, lambda ends=ends: time.monotonic() < ends)
                _swap(daemon)
                work = threading.Thread(target=_rebuild, args=(daemon, f"edition{number % 2}", took))
                work.start()
                busy += _pings(caller, work.is_alive)
                work.join()
            caller.close()
    if len(took) != _ROUNDS:
        raise Broken("a rebuild did not show the new files")
    raw = {
        "idle p50": us(p50(idle)),
        "idle p99": us(p99(idle)),
        "rebuilding p50": us(p50(busy)),
        "rebuilding p99": us(p99(busy)),
        "a rebuild": f"{p50(took):.2f} s",
    }
    return [Figure("ping p99 during a rebuild / idle", p99(busy) / p99(idle), 5.0, raw)]


def _pings(caller: Caller, wanted: Callable[[], bool]) -> list[float]:
    taken = []
    while wanted():
        taken.append(timed(lambda: caller.ask(_PING)))
        time.sleep(_PAUSE_S)
    return taken


def _swap(daemon: Daemon) -> None:
    """All files at once become others, as a checkout would have it."""
    folder = daemon.repo / ".forge"
    (folder / "memory").rename(folder / "aside")
    (folder / "other").rename(folder / "memory")
    (folder / "aside").rename(folder / "other")


def _rebuild(daemon: Daemon, expected: str, took: list[float] | None = None) -> None:
    """Rebuild and wait; note the seconds if the map then shows the new texts."""
    caller = Caller(daemon.socket)
    began = time.monotonic()
    caller.call(protocol.Rebuild(id=2, workspace=str(daemon.repo), full=True, wait=True))
    ended = time.monotonic()
    found = caller.call(
        protocol.GetMemories(id=3, workspace=str(daemon.repo), ids=(corpus.name(0), corpus.name(_FILES - 1)))
    )
    caller.close()
    assert isinstance(found, protocol.Memories)
    if took is not None and len(found.memories) == 2 and all(expected in m.content for m in found.memories):
        took.append(ended - began)
