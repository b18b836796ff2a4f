"""Clock of the tests: async tests without a plugin, advanced time, and waits with a deadline.

`run` runs one async test in a loop of its own and cancels it when it hangs; all of its tasks end with the
loop. `later` advances that loop's time, so that no test waits for a back-off. `Clock` is a separate time.
`eventually` and `until` wait, outside and inside of a loop, for a visible condition. `turns` runs everything
that is ready.
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
    """Seconds that change only when a test advances them."""

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
        # Of the real clock, independent of the loop's.
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
    """Advance the loop's time, after running tasks, and run everything that is due."""
    await turns()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, _Loop)
    loop.shift += seconds
    await turns()


async def turns(count: int = 20) -> None:
    """Run everything that is ready, a few times over; anything later will not happen."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(check: Callable[[], T]) -> T:
    """Run the loop until `check` returns a true value, and return it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.001)
    return found


def eventually(check: Callable[[], T], timeout_s: float = PATIENCE_S, pause_s: float = 0.02) -> T:
    """Repeat `check` until it returns a true value, at most `timeout_s`, and return it."""
    deadline = time.monotonic() + timeout_s
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(pause_s)
    return found
