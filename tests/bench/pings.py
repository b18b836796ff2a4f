"""Rows of the wire: a round trip through the real daemon, against C and against Redis from Python.

One client shares a core with its server; sixteen have the machine.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from commits import Checkout
from daemons import Caller, Daemon, prepared, serving
from judging import Goal
from loads import Call, Load, load
from processes import HERE, Broken, Missing, directory, need_package, need_program, on_one_core, process
from row import Row, Side
from sampling import Probe, median_of
from turns import REPLY_BYTES, cached_turn

if TYPE_CHECKING:
    import redis

_CALLS = 300
_CLIENTS, _EACH = 16, 2_000


def _ping(of: Callable[[Daemon, Caller], Call]) -> Side:
    """Measure a round trip on one core, as `of` makes it over a connection."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with prepared(checkout) as daemon, serving(daemon) as caller:
            yield _on_its_core(daemon.pid, of(daemon, caller))

    return side


def _on_its_core(pid: int, call: Call) -> Probe:
    def round_() -> float:
        with on_one_core(pid):
            return median_of(call, _CALLS)

    return round_


@contextlib.contextmanager
def _c_to_c(checkout: Checkout) -> Iterator[Probe]:
    """Measure the same bytes between two blocking C programs."""
    need_program("cc", "apt-get install gcc")
    with directory() as place:
        program, path = place / "pingpong", str(place / "c.sock")
        built = subprocess.run(["cc", "-O2", "-o", program, HERE / "pingpong.c"], capture_output=True)
        if built.returncode:
            raise Missing(f"cc cannot build pingpong.c: {built.stderr.decode().strip()[:200]}")
        (place / "ping").write_bytes(checkout.frames.encode(checkout.frames.ping()))
        command = [program, "ask", path, str(_CALLS), place / "ping"]

        with process([program, "serve", path]) as server:
            _wait_for(path)

            def round_() -> float:
                with on_one_core(server.pid):
                    said = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
                return statistics.median(map(int, said.split())) / 1e9

            yield round_


@contextlib.contextmanager
def _redis() -> Iterator[tuple[str, int]]:
    """Run a Redis server without persistence on a Unix socket; yield its path and process."""
    need_program("redis-server", "apt-get install redis-server")
    need_package("redis", "redis")
    need_package("hiredis", "hiredis")
    with directory() as place:
        path = str(place / "redis.sock")
        quiet = ["--save", "", "--appendonly", "no", "--dir", str(place), "--loglevel", "warning"]
        command = ["redis-server", "--port", "0", "--unixsocket", path, *quiet]
        with process(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            _wait_for(path)
            yield path, server.pid


def _redis_client(path: str) -> redis.Redis:
    import redis

    return redis.Redis(unix_socket_path=path)


def _of_redis(of: Callable[[redis.Redis], Call]) -> Side:
    """Measure the same with Redis, in which the reply is stored."""

    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        with _redis() as (path, pid), contextlib.closing(_redis_client(path)) as peer:
            peer.set("reply", bytes(REPLY_BYTES))
            yield _on_its_core(pid, of(peer))

    return side


@contextlib.contextmanager
def _cached_reply(checkout: Checkout) -> Iterator[Probe]:
    """Measure a repeated turn: a reply of 16 KiB from the turn cache."""
    with cached_turn(checkout) as (daemon, caller, turn):
        yield _on_its_core(daemon.pid, lambda: caller.call(turn))


def _sixteen(read: Callable[[Load], float]) -> Side:
    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        with prepared(checkout) as daemon, serving(daemon):
            yield lambda: read(load(lambda _: _typed(daemon, daemon.connect()), _CLIENTS, _EACH))

    return side


def _sixteen_of_redis(read: Callable[[Load], float]) -> Side:
    @contextlib.contextmanager
    def side(_: Checkout) -> Iterator[Probe]:
        with _redis() as (path, _pid):
            yield lambda: read(load(lambda _: _redis_client(path).ping, _CLIENTS, _EACH))

    return side


def _typed(daemon: Daemon, caller: Caller) -> Call:
    """Encode and decode, as redis-py does on its side."""
    ping = daemon.frames.ping()
    return lambda: caller.call(ping)


def _bare(daemon: Daemon, caller: Caller) -> Call:
    ping = daemon.ping
    return lambda: caller.ping(ping)


_RATE, _SLOWEST = attrgetter("per_second"), attrgetter("p99_s")


def _wait_for(path: str) -> None:
    deadline = time.monotonic() + 10
    while not Path(path).exists():
        if time.monotonic() > deadline:
            raise Broken(f"nothing serves {path}")
        time.sleep(0.005)


ROWS = (
    Row(
        "ping-c",
        "ping p50 / C to C, one core",
        Goal(1.3, "P1: as fast as C; a bare asyncio server was 1.38"),
        _ping(_bare),
        _c_to_c,
        rounds=15,
    ),
    Row(
        "ping-redis",
        "typed ping p50 / redis-py + hiredis, one core",
        Goal(0.6, "P2: faster than Redis from Python; a bare asyncio server was 0.62"),
        _ping(_typed),
        _of_redis(lambda peer: peer.ping),
        rounds=15,
    ),
    Row(
        "reply-redis",
        "cached turn of 16 KiB p50 / redis-py GET of 16 KiB, one core",
        Goal(0.6, "P2; a bare asyncio server was 0.63"),
        _cached_reply,
        _of_redis(lambda peer: lambda: peer.get("reply")),
        rounds=15,
    ),
    Row(
        "clients-redis",
        "16 clients, pings a second / redis-py",
        Goal(1.8, "P2; a bare asyncio server was 1.50 to 1.75", at_least=True),
        _sixteen(_RATE),
        _sixteen_of_redis(_RATE),
        unit="/s",
    ),
    Row(
        "clients-redis-p99",
        "16 clients, ping p99 / redis-py",
        Goal(1.0, "P2: not above Redis's; a bare asyncio server was 0.65 to 0.8"),
        _sixteen(_SLOWEST),
        _sixteen_of_redis(_SLOWEST),
        slow=True,
    ),
)
