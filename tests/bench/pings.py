"""P1 and P2: a ping through the real daemon, against C and against Redis from Python; all on one core."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from daemons import Caller, prepared, serving
from measuring import (
    HERE,
    Broken,
    Figure,
    Missing,
    directory,
    in_turn,
    needs,
    on_one_core,
    p50,
    process,
    timed,
    us,
)

from forged_client import framing, protocol

_ROUNDS, _CALLS = 15, 300
_PING = framing.encode(protocol.Ping(id=2))


def against_c() -> Sequence[Figure]:
    """P1: a fixed frame and the bytes of its reply, against the same between two C programs."""
    with directory() as place, _c_server(place) as (program, path), prepared() as daemon, serving(daemon):
        (place / "ping").write_bytes(_PING)
        caller = Caller(daemon.socket)
        floor: list[float] = []
        ours: list[float] = []
        with on_one_core(daemon.pid):
            for _ in range(_ROUNDS):
                floor.append(_asked(program, path, place / "ping"))
                ours.append(p50([timed(lambda: caller.ping(_PING)) for _ in range(_CALLS)]))
        caller.close()
    ratio = statistics.median(mine / c for mine, c in zip(ours, floor, strict=True))
    return [Figure("ping p50 / C to C", ratio, 1.6, {"forged": us(p50(ours)), "C to C": us(p50(floor))})]


@contextlib.contextmanager
def _c_server(place: Path) -> Iterator[tuple[Path, str]]:
    """The compiled program, and the socket that it serves."""
    needs(program="cc")
    program, path = place / "pingpong", str(place / "c.sock")
    built = subprocess.run(["cc", "-O2", "-o", program, HERE / "pingpong.c"], capture_output=True, text=True)
    if built.returncode:
        raise Missing(f"`cc` cannot build pingpong.c: {built.stderr.strip()[:200]}")
    with on_one_core(), process([program, "serve", path]):
        _wait_for(path)
        yield program, path


def _asked(program: Path, path: str, frame: Path) -> float:
    """Median round trip of one client process, in seconds."""
    command = [program, "ask", path, str(_CALLS), frame]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return statistics.median(int(line) for line in out.split()) / 1e9


def against_redis() -> Sequence[Figure]:
    """P2: typed ping and decoded reply, against redis-py with its C parser."""
    needs(program="redis-server")
    needs(package="redis")
    needs(package="hiredis")
    import redis

    with directory() as place, prepared() as daemon, serving(daemon):
        path = str(place / "redis.sock")
        quiet = ["--save", "", "--appendonly", "no", "--dir", str(place), "--loglevel", "warning"]
        command = ["redis-server", "--port", "0", "--unixsocket", path, *quiet]
        with process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            _wait_for(path)
            peer = redis.Redis(unix_socket_path=path)
            caller = Caller(daemon.socket)

            def ping() -> None:
                caller.call(protocol.Ping(id=2))

            with on_one_core(daemon.pid, server.pid):
                taken = in_turn({"forged": ping, "redis": peer.ping}, _ROUNDS, calls=_CALLS)
            caller.close()
            peer.close()
    ours, theirs = p50(taken["forged"]), p50(taken["redis"])
    raw = {"forged": us(ours), "redis-py + hiredis": us(theirs)}
    return [Figure("ping p50 / redis-py + hiredis", ours / theirs, 0.75, raw)]


def _wait_for(path: str) -> None:
    deadline = time.monotonic() + 10
    while not Path(path).exists():
        if time.monotonic() > deadline:
            raise Broken(f"nothing serves {path}")
        time.sleep(0.005)
