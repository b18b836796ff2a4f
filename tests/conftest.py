"""Fixtures of the whole suite: above all, no test can reach a real home directory."""

from __future__ import annotations

import os

# As the product does, and before anything imports numpy: BLAS threads that wait for each other on a busy
# machine take five times as long as one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import inspect
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.faults.amount import times
from tests.support.clock import run

# How long an example takes says nothing on a busy machine. `make test` has time for a few of them.
settings.register_profile(
    "forged",
    settings.default,
    deadline=None,
    max_examples=times(100, 25),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("forged")

# A shell that starts the tests in its background has Ctrl-C ignored, by all that they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_KEPT = {
    "PATH",
    "LANG",
    "LC_ALL",
    "TERM",
    "FORGED_LOCOMO",
    "FORGED_FASTEMBED_MODEL",
    "ORT_DISABLE_TELEMETRY",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A test that is a coroutine runs in a loop of its own, and fails when it hangs.

    What a fixture gives it as an async context manager is entered in that loop before and left after it.
    """
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def entered() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for name, value in given.items():
                if isinstance(value, contextlib.AbstractAsyncContextManager):
                    given[name] = await stack.enter_async_context(value)
            await pyfuncitem.obj(**given)

    run(entered())
    return True


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOME, and an environment in which nothing points at the real one."""
    home = tmp_path_factory.mktemp("home")
    for name in set(os.environ) - _KEPT - {"PYTEST_CURRENT_TEST", "PYTEST_VERSION"}:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An XDG_CACHE_HOME for tests with the real local model, whose graph is made once and not by each."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A directory that looks like a git repository's top level."""
    top = tmp_path / "repo"
    (top / ".git").mkdir(parents=True)
    return top
