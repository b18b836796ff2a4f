"""`make test-mutations`: does the suite notice small bugs?

    python tests/mutations/run.py planted [NAME...]    each bug chosen by hand must turn its tests red
    python tests/mutations/run.py drawn --recheck      each drawn bug that was noticed once still is
    python tests/mutations/run.py drawn [NAME...]      find out which tests notice drawn bugs, and record it:
                                                       of those named, else of those that have no outcome yet
    python tests/mutations/run.py places               name those that have lost their place, or their tests
    python tests/mutations/run.py draw                 draw 150 anew, by the fixed seed; forgets all outcomes

Bugs are planted one at a time in copies of the tree, never in the checkout; a hang counts as noticed.
Whatever is expected to turn red has to be green without any bug, which is tried first. Exit code 1: a planted
bug or one recorded as killed survives, its code is gone and no `retired = "why"` says so, or its tests are
gone or red anyway.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import queue
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # it stands for the folder of the script

from tests.mutations import drawing, reach
from tests.mutations.mutation import (
    KILLED,
    SURVIVED,
    Ambiguous,
    Gone,
    Mutation,
    head_of,
    load,
    node_id,
    place,
    save,
    short_of,
)
from tests.mutations.scratch import REPO, Result, Scratch, scratch

HERE = Path(__file__).parent
PLANTED = HERE / "planted.toml"
DRAWN = HERE / "drawn.toml"
_REACH = REPO / ".venv" / "reach.json"
_DRAWN_HEAD = f"""\
Bugs drawn by `run.py draw` from random number {drawing.SEED} on, in the form of planted.toml, and what the
tests made of them then. `tests` names the test that noticed one; `tried` counts the tests that entered a
survivor's function and passed; one without an outcome was not tried yet. One whose code is gone needs a
line: retired = "why"."""

# A run that takes longer hangs; so does one that takes ten times as long, and this much, as without the bug.
_LIMIT_S = 120.0
_PATIENCE_S = 15.0
# The likeliest are tried alone first: pytest reads the files of all that it is given before it runs one.
_FIRST = 15

RETIRED = "retired"


class Verdict(msgspec.Struct, frozen=True):
    mutation: Mutation
    word: str
    by: str = ""
    seconds: float = 0.0


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.command == "draw":
        save(DRAWN, _DRAWN_HEAD, drawing.draw(REPO))
        return 0
    if options.command == "places":
        return lost((*load(PLANTED), *load(DRAWN)))
    if options.command == "planted":
        return check(_named(load(PLANTED), options.names), options.jobs)
    if options.recheck:
        killed = [one for one in load(DRAWN) if one.outcome == KILLED]
        return check(_named(killed, options.names), options.jobs)
    record(options.names, options.jobs, options.seconds)
    return 0


def check(mutations: Sequence[Mutation], jobs: int, repo: Path = REPO) -> int:
    """Try each against its own tests; the exit code."""
    with _copies(jobs, repo) as copies:
        words = Counter(verdict.word for verdict in _each(_verdict, mutations, copies))
    print(", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    return 0 if set(words) <= {KILLED, RETIRED} else 1


def lost(mutations: Sequence[Mutation], repo: Path = REPO) -> int:
    """Name those that can be planted no more, without running a test; the exit code."""
    problems = []
    for mutation in mutations:
        if mutation.retired:
            continue
        try:
            place(mutation, repo)
        except (Gone, Ambiguous) as problem:
            problems.append(str(problem))
        if mutation.tests and (missing := _missing(mutation, repo)):
            problems.append(f"{mutation.name}: no such test: {missing}")
    print(*problems, f"{len(problems)} of {len(mutations)} have lost their place", sep="\n")
    return 1 if problems else 0


def record(names: Sequence[str], jobs: int, seconds: float) -> None:
    """Find a test for each drawn mutation, and write down after each what came of it.

    Tests that take `seconds` together are tried before one is called a survivor.
    """
    drawn = {one.name: one for one in load(DRAWN)}
    wanted = (
        _named(list(drawn.values()), names) if names else [one for one in drawn.values() if not one.outcome]
    )
    seen = reach.of_suite(jobs, _REACH)

    def searched(mutation: Mutation, copy: Scratch) -> Verdict:
        return search(mutation, copy, _candidates(mutation, seen, seconds))

    with _copies(jobs) as copies:
        for verdict in _each(searched, wanted, copies):
            drawn[verdict.mutation.name] = verdict.mutation
            save(DRAWN, head_of(DRAWN), drawn.values())
    print(", ".join(f"{count} {word}" for word, count in Counter(m.outcome for m in drawn.values()).items()))


def _verdict(mutation: Mutation, copy: Scratch) -> Verdict:
    """One bug, tried against the tests that it names, which must be green without it."""
    began = time.monotonic()
    try:
        place(mutation, copy.tree)
    except Gone:
        return Verdict(mutation, RETIRED if mutation.retired else "gone", mutation.retired)
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
    return Verdict(mutation, KILLED if result.red else SURVIVED, _by(result), time.monotonic() - began)


def _missing(mutation: Mutation, tree: Path) -> str:
    """Those of its tests that are not there, or there twice."""
    return ", ".join(test for test in mutation.tests or ("none",) if not node_id(test, tree))


def _red_anyway(tests: Sequence[str], copy: Scratch) -> str:
    """The test that is red without any bug, twice: on a busy machine once proves nothing."""
    again = copy.run(tests, _LIMIT_S).red and copy.run(tests, _LIMIT_S)
    return again.by if again and again.red else ""


def search(mutation: Mutation, copy: Scratch, tests: Sequence[str]) -> Verdict:
    """Try the tests in turn until one is red alone, and only with the bug: some need others, or good luck."""
    began = time.monotonic()
    left = list(tests)
    batch = _FIRST
    while left:
        tried, left, batch = left[:batch], left[batch:], len(left)
        with copy.mutated(mutation):
            result = copy.run(tried, _LIMIT_S)
            again = result.red and copy.run([result.by], _LIMIT_S).red
        if again and not copy.run([result.by], _LIMIT_S).red:
            by = (short_of(result.by, copy.tree),)
            found = msgspec.structs.replace(mutation, outcome=KILLED, tests=by, tried=0)
            return Verdict(found, KILLED, _by(result), time.monotonic() - began)
        if result.red:
            at = tried.index(result.by) if result.by in tried else 0
            left = [*tried[at + 1 :], *left]
    lived = msgspec.structs.replace(mutation, outcome=SURVIVED, tests=(), tried=len(tests))
    return Verdict(lived, SURVIVED, f"{len(tests)} tests", time.monotonic() - began)


def _candidates(mutation: Mutation, seen: reach.Reach, limit_s: float) -> list[str]:
    """Tests that enter the function, those of its own test file first, then the cheapest."""
    spot = place(mutation, REPO)
    function = reach.function_at(spot.original, spot.line)
    tests = seen.tests_of([(_path(spot.path), function)])
    if not tests:  # a constant, of a module or of a class: whoever enters what names it, else that file
        users = {(_path(path), name) for path, name in reach.users_of(spot.path, spot.line, REPO)}
        tests = seen.tests_of(users) or seen.tests_of(seen.of_file(_path(spot.path)))
    own = f"test_{spot.path.stem}.py"
    tests.sort(key=lambda test: own not in test)
    totals = itertools.accumulate(seen.seconds.get(test, 0.0) for test in tests)
    return [test for test, total in zip(tests, totals, strict=True) if total < limit_s]


def _path(path: Path) -> str:
    return str(path.relative_to(REPO))


@contextlib.contextmanager
def _copies(jobs: int, repo: Path = REPO) -> Iterator[queue.Queue[Scratch]]:
    """One for each job; who takes one has it alone until he puts it back."""
    free: queue.Queue[Scratch] = queue.Queue()
    with contextlib.ExitStack() as stack:
        for _ in range(jobs):
            free.put(stack.enter_context(scratch(repo)))
        yield free


def _each(
    act: Callable[[Mutation, Scratch], Verdict], mutations: Sequence[Mutation], copies: queue.Queue[Scratch]
) -> Iterator[Verdict]:
    """What came of each, as they are done."""

    def alone(mutation: Mutation) -> Verdict:
        copy = copies.get()
        try:
            return act(mutation, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(copies.qsize()) as pool:
        todo = [pool.submit(alone, mutation) for mutation in mutations]
        try:
            for done in as_completed(todo):
                yield _told(done.result())
        finally:
            pool.shutdown(cancel_futures=True)


def _told(verdict: Verdict) -> Verdict:
    print(f"{verdict.word:>9}  {verdict.mutation.name}  {verdict.by}  {verdict.seconds:.1f} s", flush=True)
    return verdict


def _by(result: Result) -> str:
    return f"{result.by} hung" if result.hung else result.by


def _named(mutations: Sequence[Mutation], names: Sequence[str]) -> list[Mutation]:
    """Those with these names, or all."""
    if unknown := set(names) - {mutation.name for mutation in mutations}:
        raise SystemExit(f"no such mutation: {', '.join(sorted(unknown))}")
    return [mutation for mutation in mutations if not names or mutation.name in names]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("planted", "drawn", "places", "draw"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument(
        "--recheck", action="store_true", help="of the drawn ones, try those recorded as killed"
    )
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at once (2)")
    parser.add_argument(
        "--seconds", type=float, default=60, help="of tests to try before a drawn one is a survivor (60)"
    )
    return parser.parse_intermixed_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
