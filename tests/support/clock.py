"""The clock stage: async tests without a plugin, time that can be put forward, and waits with a deadline.

`run` runs one async test in a loop of its own and cancels it when it hangs; all that it started ends with
the loop. `later` puts that loop's time forward, so that nobody waits for a back-off; `Clock` is time of its
own. `eventually` and `until` wait, outside and inside of a loop, for what a test can see; `turns` lets happen
what is ready.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

# The one deadline of every wait in the tests: a broken test ends, and a working one never waits for it,
# however busy the machine is. No test of `make test` asserts a time.
PATIENCE_S = 60.0
T = TypeVar("T")


class Clock:
    """Seconds that stand still until a test puts them forward."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class _Loop(asyncio.SelectorEventLoop):
    shift = 0.0

    def time(self) -> float:
        return super().time() + self.shift


def run(work: Coroutine[None, None, T]) -> T:
    """Run one async test, which is cancelled when it hangs."""

    async def limited() -> T:
        task = asyncio.current_task()
        assert task is not None
        cancel = asyncio.get_running_loop().call_soon_threadsafe
        # Of the real clock, whatever the test does with the loop's.
        watchdog = threading.Timer(2 * PATIENCE_S, cancel, [task.cancel])
        watchdog.start()
        try:
            return await work
        finally:
            watchdog.cancel()
            watchdog.join()

    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(limited())


async def later(seconds: float) -> None:
    """Put the loop's time forward, after what is under way, and let happen what was due."""
    await turns()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.shift += seconds
    await turns()


async def turns(count: int = 20) -> None:
    """Let everything that is ready run, a few times over: what has not happened then will not."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(check: Callable[[], T]) -> T:
    """Let the loop turn until `check` returns something true; returns that."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.001)
    return found


def eventually(check: Callable[[], T], timeout_s: float = PATIENCE_S, pause_s: float = 0.02) -> T:
    """Repeat `check` until it returns something true, at most `timeout_s`; returns that."""
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause_s)
    return found
