"""Async tests without a plugin: run one to its end, and wait for a condition without a clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar

# Longer than any test may take, so that a broken test ends and a working one never waits for it.
PATIENCE_S = 30.0
T = TypeVar("T")


def run(work: Coroutine[None, None, T]) -> T:
    """Run one async test, which fails when it hangs."""

    async def limited() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await work

    return asyncio.run(limited())


async def until(check: Callable[[], T]) -> T:
    """Let the loop turn until `check` returns something true; returns that."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.001)
    return found


async def turns(count: int = 20) -> None:
    """Let everything that is ready run, a few times over: what has not happened then will not."""
    for _ in range(count):
        await asyncio.sleep(0)
