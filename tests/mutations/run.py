"""Mutation tests, `make test-mutations`: check that the tests notice small bugs.

    python tests/mutations/run.py planted [NAME...]    each planted bug must fail its tests
    python tests/mutations/run.py places               name bugs whose code or tests are gone

Bugs are planted one at a time in copies of the tree, never in the checkout; a hang counts as a failure. The
tests of a bug have to pass without it, which is checked first. Exit code 1: a bug survives, its code is
gone, or its tests are gone or fail without it.
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # replaces the folder of the script

from tests.mutations.mutation import Ambiguous, Gone, Mutation, load, node_id, place
from tests.mutations.scratch import REPO, Result, Scratch, scratch

PLANTED = Path(__file__).with_name("planted.toml")
KILLED = "killed"

# Time limit of a run; also ten times the time without the bug, and at least this much.
_LIMIT_S = 120.0
_PATIENCE_S = 15.0


class Verdict(msgspec.Struct, frozen=True):
    mutation: Mutation
    word: str
    by: str = ""
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("planted", "places"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at once (2)")
    options = parser.parse_intermixed_args(arguments)
    planted = load(PLANTED)
    if unknown := set(options.names) - {mutation.name for mutation in planted}:
        raise SystemExit(f"no such mutation: {', '.join(sorted(unknown))}")
    named = [mutation for mutation in planted if not options.names or mutation.name in options.names]
    return lost(named) if options.command == "places" else check(named, options.jobs)


def check(mutations: Sequence[Mutation], jobs: int, repo: Path = REPO) -> int:
    """Try each bug with its own tests; return the exit code."""
    with _copies(jobs, repo) as copies:
        words = Counter(verdict.word for verdict in _each(mutations, copies))
    print(", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    return 0 if set(words) <= {KILLED} else 1


def lost(mutations: Sequence[Mutation], repo: Path = REPO) -> int:
    """Name the bugs that cannot be planted, without running a test; return the exit code."""
    problems = []
    for mutation in mutations:
        try:
            place(mutation, repo)
        except (Gone, Ambiguous) as problem:
            problems.append(str(problem))
        if missing := _missing(mutation, repo):
            problems.append(f"{mutation.name}: no such test: {missing}")
    print(*problems, f"{len(problems)} of {len(mutations)} have lost their place", sep="\n")
    return 1 if problems else 0


def _verdict(mutation: Mutation, copy: Scratch) -> Verdict:
    """Return the verdict on one bug; its tests must pass without it."""
    began = time.monotonic()
    try:
        place(mutation, copy.tree)
    except Gone:
        return Verdict(mutation, "gone")
    except Ambiguous as problem:
        return Verdict(mutation, "ambiguous", str(problem))
    if missing := _missing(mutation, copy.tree):
        return Verdict(mutation, "no such test", missing)
    tests = [node_id(test, copy.tree) for test in mutation.tests]
    if red := _red_anyway(tests, copy):
        return Verdict(mutation, "red anyway", red)
    limit_s = min(_LIMIT_S, _PATIENCE_S + 10 * (time.monotonic() - began))
    with copy.mutated(mutation):
        result = copy.run(tests, limit_s)
    return Verdict(mutation, KILLED if result.red else "survived", _by(result), time.monotonic() - began)


def _missing(mutation: Mutation, tree: Path) -> str:
    """Return those of its tests that do not exist, or exist twice."""
    return ", ".join(test for test in mutation.tests or ("none",) if not node_id(test, tree))


def _red_anyway(tests: Sequence[str], copy: Scratch) -> str:
    """Return the test that fails twice without any bug; once is no proof on a busy machine."""
    again = copy.run(tests, _LIMIT_S).red and copy.run(tests, _LIMIT_S)
    return again.by if again and again.red else ""


@contextlib.contextmanager
def _copies(jobs: int, repo: Path = REPO) -> Iterator[queue.Queue[Scratch]]:
    """Yield a queue with one copy for each job; a job takes a copy and puts it back."""
    free: queue.Queue[Scratch] = queue.Queue()
    with contextlib.ExitStack() as stack:
        for _ in range(jobs):
            free.put(stack.enter_context(scratch(repo)))
        yield free


def _each(mutations: Sequence[Mutation], copies: queue.Queue[Scratch]) -> Iterator[Verdict]:
    """Yield the verdicts as the runs end."""

    def alone(mutation: Mutation) -> Verdict:
        copy = copies.get()
        try:
            return _verdict(mutation, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(copies.qsize()) as pool:
        todo = [pool.submit(alone, mutation) for mutation in mutations]
        try:
            for done in as_completed(todo):
                yield _printed(done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _printed(verdict: Verdict) -> Verdict:
    print(f"{verdict.word:>9}  {verdict.mutation.name}  {verdict.by}  {verdict.seconds:.1f} s", flush=True)
    return verdict


def _by(result: Result) -> str:
    return f"{result.by} hung" if result.hung else result.by


if __name__ == "__main__":
    raise SystemExit(main())
