"""`make bench`: the performance promises of forged, each as a ratio to a peer or a floor of the same run.

    python tests/bench/run.py [--only P7,P12] [--runs 3] [--json]

The best of the runs counts, because a neighbour can only make a run worse; a promise that no run keeps ends
with exit code 1. What cannot be measured here (no C compiler, no Redis, no faiss) is named and skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

import edits
import footprint
import msgspec
import pings
import rebuilds
import scans
import searches
import starts
from measuring import Broken, Figure, Measurement, Missing, environment

# Set on some shared machines; with foreign kernels the figures say nothing about forged. Only the benchmarks
# drop them: what a user sets for OpenBLAS is his own affair.
_BLAS_OVERRIDES = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}
_BLAS_THREADS = {"OPENBLAS_NUM_THREADS": "1"}  # as the daemon has it

MEASUREMENTS: dict[str, Measurement] = {
    "P1": pings.against_c,
    "P2": pings.against_redis,
    "P4": searches.against_faiss,
    "P7": searches.over_the_socket,
    "P9": scans.cold,
    "P10": scans.unchanged,
    "P11": rebuilds.ping_meanwhile,
    "P12": edits.until_found,
    "P14": starts.daemon,
    "P16": footprint.daemon,
    "import": starts.client,
}


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of output: a figure of one run, or (run 0) the verdict over all runs."""

    promise: str
    run: int = 0
    figure: Figure | None = None
    best: float = 0.0
    limit: float = 0.0
    verdict: str = ""
    reason: str = ""


Printed = Callable[[Line], None]


def main() -> int:
    options = _options()
    _start_anew_without_overrides()
    printed: Printed = _as_json if options.json else _as_text
    if options.json:
        print(msgspec.json.encode({"environment": environment()}).decode(), flush=True)
    else:
        print("\n".join(f"{name:>11}  {value}" for name, value in environment().items()), flush=True)
    failed = 0
    for promise in options.only:
        failed += _judged(promise, options.runs, printed)
    return 1 if failed else 0


def _start_anew_without_overrides() -> None:
    """OpenBLAS has read its environment when numpy was imported, so this takes a new process."""
    wanted = {
        name: value for name, value in os.environ.items() if name not in _BLAS_OVERRIDES
    } | _BLAS_THREADS
    if wanted != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.argv], wanted)


def _judged(promise: str, runs: int, printed: Printed) -> int:
    """Measure one promise; the number of its figures that no run kept."""
    seen: dict[str, list[Figure]] = {}
    reason = ""
    for run in range(1, runs + 1):
        try:
            figures = MEASUREMENTS[promise]()
        except Missing as missing:
            printed(Line(promise, verdict="skipped", reason=str(missing)))
            return 0
        except Broken as broken:
            reason = f"run {run} is broken: {broken}"
            printed(Line(promise, run, reason=reason))
            continue
        for figure in figures:
            seen.setdefault(figure.name, []).append(figure)
            printed(Line(promise, run, figure))
    if not seen:
        printed(Line(promise, verdict="FAIL", reason=reason))
        return 1
    return sum(_verdict(promise, figures, printed) for figures in seen.values())


def _verdict(promise: str, figures: Sequence[Figure], printed: Printed) -> int:
    best = min(figures, key=lambda figure: figure.ratio)
    verdict = "pass" if best.holds else "FAIL"
    printed(Line(promise, best=round(best.ratio, 3), limit=best.limit, verdict=verdict, reason=best.name))
    return not best.holds


def _as_text(line: Line) -> None:
    if line.verdict:
        best = f"best {line.best:.2f}x, limit {line.limit}x" if line.limit else ""
        print(
            f"{line.promise:>7}  {line.verdict}: {'; '.join(filter(None, (line.reason, best)))}", flush=True
        )
    elif line.figure is None:
        print(f"{line.promise:>7}  {line.reason}", flush=True)
    else:
        raw = ", ".join(f"{name} {value}" for name, value in line.figure.raw.items())
        print(
            f"{line.promise:>7}  run {line.run}  {line.figure.name}  {line.figure.ratio:.2f}x  ({raw})",
            flush=True,
        )


def _as_json(line: Line) -> None:
    print(msgspec.json.encode(line).decode(), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure what forged promises about its speed.")
    known = ", ".join(MEASUREMENTS)
    parser.add_argument("--only", type=_promises, default=list(MEASUREMENTS), help=f"some of {known}")
    parser.add_argument("--runs", type=int, default=3, help="how often each is measured; the best counts")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse_args()


def _promises(text: str) -> list[str]:
    wanted = text.split(",")
    unknown = [name for name in wanted if name not in MEASUREMENTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; use {', '.join(MEASUREMENTS)}")
    return wanted


if __name__ == "__main__":
    sys.exit(main())
