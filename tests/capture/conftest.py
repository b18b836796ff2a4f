"""An async test is run to its end, in a loop whose time it may put forward.

What a fixture gives it as an async context manager is entered in that loop before and left after it.
"""

from __future__ import annotations

import contextlib
import inspect

import pytest

from tests.support.clock import run


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None

    async def entered() -> None:
        async with contextlib.AsyncExitStack() as stack:
            given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
            for name, value in given.items():
                if isinstance(value, contextlib.AbstractAsyncContextManager):
                    given[name] = await stack.enter_async_context(value)
            await test(**given)

    run(entered())
    return True
