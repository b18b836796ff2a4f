"""Benchmarks, `make bench`: each row is a ratio to a peer or a lower bound of the same run.

    python tests/bench/run.py [ROW...]               rows by name, `all`, or without names all fast ones
    python tests/bench/run.py --against REV [ROW...] this checkout against another commit, round by round
    python tests/bench/run.py --list

The median of at least seven rounds decides. Exit code 0: every row is met (or no worse); 1: a row is missed,
worse, broken, or a gap, because a prerequisite is missing; 2: a row is too noisy.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import commits
import judging
import msgspec
import table
from judging import Outcome
from processes import ONE_THREAD, Broken, plain_environment
from row import Row, measured

_KERNELS = """
import numpy
try:
    from threadpoolctl import threadpool_info
    print(numpy.__version__, *(f"{x.get('version')} {x.get('architecture')}" for x in threadpool_info()))
except ImportError:
    print(numpy.__version__, "kernels unknown, threadpoolctl is not installed")
"""


def main() -> int:
    options = _options()
    try:
        rows = table.chosen(tuple(options.rows))
    except table.UnknownRow as unknown:
        print(f"no row {unknown}; --list shows them", file=sys.stderr)
        return 64
    if options.list:
        return _listed(rows if options.rows else table.ROWS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # also ends the started processes
    outcomes = []
    print(_machine(), flush=True)
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(commits.checked_out(options.against)) if options.against else None
        for row in rows:
            outcome = measured(row, commits.this(), other)
            outcomes.append(outcome)
            what = row.what.partition(" / ")[0] if other else row.what
            line = msgspec.json.encode(outcome).decode() if options.json else _line(row, outcome, what)
            print(line, flush=True)
    print("\n".join((f"load at the end {_load()}", *judging.summary(outcomes))))
    return judging.exit_code(outcomes)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what forged promises of its speed.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows by name, or all")
    parser.add_argument("--against", metavar="REV", help="measure another commit against this checkout")
    parser.add_argument("--list", action="store_true", help="say what rows there are, and measure nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    return parser.parse_args()


def _listed(rows: Sequence[Row]) -> int:
    for row in rows:
        slow = " [slow]" if row.slow else ""
        print(f"{row.name:<21} {row.goal!s:>8}  {row.what}; goal from {row.goal.source}{slow}")
    return 0


def _line(row: Row, outcome: Outcome, what: str) -> str:
    head = f"{outcome.row:<21} {outcome.verdict:<8}"
    if outcome.ratio is None or outcome.ours is None or outcome.theirs is None:
        return f"{head} {outcome.reason}"
    spread = f"{outcome.ratio:.2f} ({outcome.low:.2f}-{outcome.high:.2f})"
    ours, theirs = map(_SHOWN[row.unit], (outcome.ours, outcome.theirs))
    return f"{head} {spread:<20} {outcome.reason:<13} {ours:>9} {theirs:>9}  {what}"


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


_SHOWN: dict[str, Callable[[float], str]] = {
    "s": _seconds,
    "MiB": lambda size: f"{size:.0f} MiB",
    "/s": lambda rate: f"{rate:.0f}/s",
    "share": lambda share: f"{share:.3f}",
}


def _machine() -> str:
    """Describe the machine, for readers of the figures."""
    env = plain_environment(**ONE_THREAD)
    numpy = subprocess.run([sys.executable, "-c", _KERNELS], env=env, capture_output=True, text=True).stdout
    lines = {
        "cpu": f"{_cpu()}, {len(os.sched_getaffinity(0))} cores",
        "load": _load(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "numpy": numpy.strip(),
        "columns": "verdict, median ratio (smallest-largest of a round), judged by, ours, theirs",
    }
    return "\n".join(f"{name:<21} {value}" for name, value in lines.items())


def _cpu() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or "unknown"


def _load() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Broken as broken:
        print(broken, file=sys.stderr)
        sys.exit(1)
