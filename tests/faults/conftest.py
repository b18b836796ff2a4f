"""The fault tier: a fast disk for it, and at the end a table of what was promised, how often, and how it went."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.facts import FAST

Row = Callable[[str, int, str], None]


@pytest.fixture
def place(home: Path) -> Iterator[Path]:
    """A directory for HOME and a repository, in memory if there is such a place."""
    if FAST is None:
        yield home
        return
    directory = Path(tempfile.mkdtemp(prefix="forged-faults-", dir=FAST))
    yield directory
    shutil.rmtree(directory)


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
            told = [value for name, value in report.user_properties if name == "row"]
            if report.when == "call" and outcome == "passed":
                rows += [(promise, str(runs), result) for promise, runs, result in told]
            elif outcome != "passed":
                rows.append((report.nodeid.partition("::")[2], "", outcome.upper()))
    width = max(len(promise) for promise, _, _ in rows)
    terminalreporter.section("promises")
    for promise, runs, result in rows:
        terminalreporter.write_line(f"{promise:{width}}  {runs:>5}  {result}")
