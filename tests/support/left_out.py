"""Tests that a run leaves out, and the table at its end that counts them by reason.

A test that asserts a speed is run by `make bench` alone. A test that needs more inotify instances than the
user has left is skipped. With xdist the workers choose, and report to the process that prints the table.
"""

from __future__ import annotations

import ctypes
import os
from collections import Counter

import pytest

from tests.faults.amount import SHORT

# For four workers with two daemons each; with fewer instances the other tests run.
INSTANCES = 24
_REASONS = {
    "speed": "assert a speed: `make bench` runs them",
    "long": "are long: `make test-all` runs them",
}


def free_instances(most: int = INSTANCES) -> int:
    """Return how many inotify instances the user can have now, counted up to `most`."""
    make, got = getattr(ctypes.CDLL(None), "inotify_init1", None), list[int]()
    if make is None:
        return 0
    try:
        while len(got) < most and (one := make(os.O_CLOEXEC)) >= 0:
            got.append(one)
        return len(got)
    finally:
        for one in got:
            os.close(one)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> Counter[str]:
    """Remove the tests from `items` that this run does not want; return their counts by marker."""
    asked = config.getoption("markexpr") or ""
    names = [name for name in ("speed", *(("long",) if SHORT else ())) if name not in asked]
    if any("::" in argument for argument in config.args):  # a named test always runs
        names = []
    gone = {item: name for item in items for name in names if item.get_closest_marker(name)}
    if gone:
        config.hook.pytest_deselected(items=list(gone))
        items[:] = [item for item in items if item not in gone]
    return Counter(gone.values())


def table(reporter: pytest.TerminalReporter, deselected: Counter[str]) -> None:
    """Print how many tests were left out, by reason."""
    rows = Counter({_REASONS[name]: count for name, count in deselected.items()})
    for report in reporter.getreports("skipped"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        rows[reason.removeprefix("Skipped: ")] += 1
    if not rows:
        return
    title = f"left out: {rows.total()} tests"
    lines = [f"{count:>5}  {reason}" for reason, count in rows.most_common()]
    reporter.section(title)
    for line in lines:
        reporter.write_line(line)
    if file := os.environ.get("FORGED_LEFT_OUT"):  # for several runs of pytest
        with open(file, "a", encoding="utf-8") as written:
            written.write("\n".join([title, *lines, ""]))
