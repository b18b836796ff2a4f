"""The fault tier: a fast disk for it, and at the end a table of what was promised and what came out."""

from __future__ import annotations

import contextlib
import functools
import inspect
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.amount import SHORT
from tests.faults.telling import FAST, Telling, classified, facts_in, telling
from tests.support.provider import Answer, Request, ScriptedProvider

_HERE = Path(__file__).parent
Row = Callable[[str, int, str], None]


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="forged-faults-", dir=FAST) as directory:
        yield Path(directory)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for HOME and a repository, in memory if there is such a place."""
    with _directory() as directory:
        yield directory


@dataclass(frozen=True)
class Poisoned:
    """A daemon with a model that refuses to speak of one fact, and what it was told besides."""

    telling: Telling
    name: str
    others: list[str]
    since: float
    mended: threading.Event


@dataclass(frozen=True)
class Outage:
    """A daemon whose endpoint answers 503, and how many events wait for it."""

    telling: Telling
    events: int


# Both need a minute of waiting, so they begin first and their tests come last; a short run does without them.


@pytest.fixture(scope="session", autouse=not SHORT)
def poisoned() -> Iterator[Poisoned]:
    mended = threading.Event()

    def classify(_: ScriptedProvider, request: Request) -> Answer:
        names = facts_in(request)
        refuses = "odd-0" in names and not mended.is_set()
        return Answer({"error": {"message": "no"}}, status=400) if refuses else classified(names)

    with _directory() as place, telling(place) as one:
        one.provider.chat = classify
        one.tell("odd-0")
        others = [f"s{number % 4}-{number:02}" for number in range(20)]
        for name in others:
            one.tell(name)
        yield Poisoned(one, "odd-0", others, time.monotonic(), mended)


@pytest.fixture(scope="session", autouse=not SHORT)
def outage() -> Iterator[Outage]:
    with _directory() as place, telling(place) as one:
        one.provider.chat = Answer({"error": {"message": "out of order"}}, status=503)
        for number in range(100):
            one.tell(f"s{number % 20}-{number:02}")
        yield Outage(one, 100)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    waiting = {item for item in items if _is_of_this_tier(item.path) and _waits_a_minute(item)}
    for item in waiting:
        item.add_marker(pytest.mark.long)
    items.sort(key=waiting.__contains__)


@functools.cache
def _is_of_this_tier(file: Path) -> bool:
    return file.is_relative_to(_HERE)


def _waits_a_minute(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and bool(
        {"poisoned", "outage"} & inspect.signature(item.function).parameters.keys()
    )


@pytest.fixture
def promised(record_property: Callable[[str, object], None]) -> Row:
    """Put a line of the table: what is promised, in how many runs, and what came out."""

    def row(promise: str, runs: int, result: str) -> None:
        record_property("row", (promise, runs, result))

    return row


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [("promise", "runs", "result")]
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.getreports(outcome):
            found = [value for name, value in report.user_properties if name == "row"]
            if report.when == "call" and outcome == "passed":
                rows += [(promise, str(runs), result) for promise, runs, result in found]
            elif outcome != "passed":
                rows.append((report.nodeid.partition("::")[2], "", outcome.upper()))
    width = max(len(promise) for promise, _, _ in rows)
    terminalreporter.section("promises")
    for promise, runs, result in rows:
        terminalreporter.write_line(f"{promise:{width}}  {runs:>5}  {result}")
