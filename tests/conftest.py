"""Fixtures of the whole suite: above all, no test can reach a real home directory."""

from __future__ import annotations

import os

# As the product does, and before anything imports numpy: BLAS threads that wait for each other on a busy
# machine take five times as long as one.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import contextlib
import functools
import gc
import inspect
import itertools
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from forged import memory
from tests.faults.amount import times
from tests.support import left_out
from tests.support.clock import run

# How long an example takes says nothing on a busy machine. `make test` has time for a few of them. They
# are the same ones in each run, so that a commit has one verdict; `make test-properties` draws new ones.
_EXAMPLES = os.environ.get("FORGED_EXAMPLES")
settings.register_profile(
    "forged",
    settings.default,
    deadline=None,
    derandomize=_EXAMPLES is None,
    max_examples=int(_EXAMPLES or times(100, 25)),
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


_NUMBERS = itertools.count()  # pytest's own go through all that are there already
_HERE, _SLOW = Path(__file__).parent, {"faults", "flows", "postgres"}
_DESELECTED, _FREE = pytest.StashKey[Counter[str]](), pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Count the user's free inotify instances once, before the workers begin to take some."""
    given = getattr(config, "workerinput", {}).get("free_instances")
    config.stash[_FREE] = left_out.free_instances() if given is None else given
    config.stash[_DESELECTED] = Counter()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:
    node.workerinput["free_instances"] = node.config.stash[_FREE]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session):
    """Collect ten thousand tests without looking through all of them for garbage again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this run does not ask for; files with daemons go first, so none is last and alone."""
    config.stash[_DESELECTED] = left_out.leave_out(config, items)
    items.sort(key=lambda item: _is_quick(item.path))


@functools.cache
def _is_quick(file: Path) -> bool:
    return file.relative_to(_HERE).parts[0] not in _SLOW


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("inotify") and item.config.stash[_FREE] < left_out.INSTANCES:
        pytest.skip(f"NOT TESTED: fewer than {left_out.INSTANCES} inotify instances are free for this user")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (report := getattr(session.config, "workeroutput", None)) is not None:
        report["deselected"] = dict(session.config.stash[_DESELECTED])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error: object) -> None:
    """Every worker has collected all tests, and left out the same of them."""
    if report := getattr(node, "workeroutput", {}).get("deselected"):
        node.config.stash[_DESELECTED] = Counter(report)


COUNTED = "counted"
"""The property of a test that counts something with a limit; the report of a run prints its text."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed"))
    counted = [text for each in reports for name, text in each.user_properties if name == COUNTED]
    if counted:
        terminalreporter.section("counted")
        for text in counted:
            terminalreporter.write_line(text)
    left_out.table(terminalreporter, terminalreporter.config.stash[_DESELECTED])


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


class _Numbers(random.Random):
    """The numbers of new ids: none begins like one that a test gives, as one in 16 does with `mem_1`."""

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k) >> 4 | 0xE << (k - 4)


memory._numbers = _Numbers()
os.register_at_fork(after_in_child=memory._numbers.seed)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty HOME, and an environment in which nothing points at the real one."""
    home = tmp_path_factory.mktemp(f"own-home-{next(_NUMBERS)}", numbered=False)
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
