"""Which tests enter which functions, and how long they take: what a drawn mutation is tried against.

One traced run of the suite gives both; a mutation is tried by the tests that enter its function, whatever
process that happens in, the cheapest first. The answer is kept in a file beside the checkout's environment,
since a whole run takes minutes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.mutations.scratch import REPO, Scratch, scratch

_WHOLE_RUN_S = 3600.0
_LONGEST_NAME = 4096
_LEFT_OUT = {"bench", "faults", "real", "mutations"}


class Reach(msgspec.Struct):
    """`entered` is keyed by "file:function", as it was when the suite ran."""

    entered: dict[str, set[str]] = {}
    seconds: dict[str, float] = {}

    def add(self, lines: Iterable[str]) -> None:
        for line in lines:
            test, path, what = (*line.split("\t"), "", "", "")[:3]
            if not what:
                continue  # whoever wrote it was killed in the middle
            if path:
                self.entered.setdefault(f"{path}:{what}", set()).add(test)
            else:
                self.seconds[test] = self.seconds.get(test, 0.0) + float(what)

    def tests_of(self, places: Iterable[tuple[str, str]]) -> list[str]:
        """The tests that enter one of these functions, each a file and a name; the cheapest first."""
        found = set[str]().union(*(self.entered.get(f"{path}:{name}", ()) for path, name in places))
        return sorted(found & self.seconds.keys(), key=lambda test: (self.seconds[test], test))

    def of_file(self, path: str) -> list[tuple[str, str]]:
        """All that was entered in a file."""
        keys = (key.rpartition(":") for key in self.entered)
        return [(file, name) for file, _, name in keys if file == path]


def of_suite(jobs: int, kept: Path) -> Reach:
    """Read from `kept`, or found out by running the suite in `jobs` copies, and kept."""
    if not kept.exists():
        tests = REPO / "tests"
        files = sorted(tests.rglob("test_*.py"), key=lambda file: file.stat().st_size)
        names = [str(file.relative_to(REPO)) for file in files if file.parent.name not in _LEFT_OUT]
        with ThreadPoolExecutor(jobs) as pool:
            parts = list(pool.map(of_tests, [names[at::jobs] for at in range(jobs)]))
        kept.write_bytes(msgspec.json.encode(_joined(parts)))
    return msgspec.json.decode(kept.read_bytes(), type=Reach)


def of_tests(tests: Sequence[str], repo: Path = REPO) -> Reach:
    """Run some tests in a copy, and see what they enter."""
    found = Reach()
    with scratch(repo) as copy:
        _follow(copy)
        copy.run(tests, _WHOLE_RUN_S, ("-p", "seen"))
        found.add((copy.site / "seen.lines").read_text(encoding="utf-8").splitlines())
    return found


def _joined(parts: Iterable[Reach]) -> Reach:
    whole = Reach()
    for part in parts:
        whole.seconds |= part.seconds
        for function, tests in part.entered.items():
            whole.entered.setdefault(function, set()).update(tests)
    return whole


def _follow(copy: Scratch) -> None:
    """Have every process of this copy write down what it enters."""
    shutil.copy(Path(__file__).with_name("seen.py"), copy.site)
    (copy.site / "seen.test").write_bytes(bytes(_LONGEST_NAME))
    (copy.site / "seen.tree").write_text(str(copy.tree), encoding="utf-8")
    (copy.site / "seen.pth").write_text("import seen\n")
