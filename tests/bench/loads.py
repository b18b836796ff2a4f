"""Many clients at once: processes in a closed loop, each with a connection of its own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier

import msgspec
from processes import Broken
from sampling import p99, timed

Call = Callable[[], object]
_PATIENCE_S = 120


class Load(msgspec.Struct, frozen=True):
    """Throughput of all clients, and the p99 and median of their calls."""

    per_second: float
    p99_s: float
    median_s: float


def load(
    connected: Callable[[int], Call], clients: int, calls: int, *, patience_s: float = _PATIENCE_S
) -> Load:
    """Run so many calls of each of so many clients; `connected` makes a client's call in its process.

    Raises Broken when a client fails.
    """
    context = get_context("fork")  # a client has nothing to import
    gate, ends = context.Barrier(clients + 1), []
    for number in range(clients):
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_client, args=(connected, number, calls, gate, there), daemon=True)
        child.start()
        there.close()
        ends.append((child, here))
    try:
        gate.wait(patience_s)
        spans, lists = zip(*(end.recv() for _, end in ends), strict=True)
    except (EOFError, OSError, RuntimeError) as error:
        raise Broken("a client of the load failed") from error
    finally:
        for child, end in ends:
            end.close()
            child.kill()
            child.join()
    taken = [seconds for one in lists for seconds in one]
    # By the clients' clocks, which are one clock; this process may wake up late.
    took = max(ended for _, ended in spans) - min(began for began, _ in spans)
    return Load(clients * calls / took, p99(taken), statistics.median(taken))


def _client(connected: Callable[[int], Call], number: int, calls: int, gate: Barrier, end: object) -> None:
    call = connected(number)
    call()
    gate.wait(_PATIENCE_S)
    began = time.perf_counter()
    taken = [timed(call) for _ in range(calls)]
    end.send(((began, time.perf_counter()), taken))  # type: ignore[attr-defined]
