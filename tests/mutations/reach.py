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

from tests.mutations.scratch import Scratch, scratch

_WHOLE_RUN_S = 3600.0


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


def of_suite(jobs: int, kept: Path) -> Reach:
    """Read from `kept`, or found out by running the suite in `jobs` copies, and kept."""
    if not kept.exists():
        files = sorted((Path(__file__).parents[1]).rglob("test_*.py"), key=lambda file: file.stat().st_size)
        skipped = {"bench", "faults", "real", "mutations"}
        names = [f"tests/{file.relative_to(Path(__file__).parents[1])}" for file in files]
        names = [name for name in names if name.split("/")[1] not in skipped]
        found = Reach()
        with ThreadPoolExecutor(jobs) as pool:
            for lines in pool.map(_traced, [names[at::jobs] for at in range(jobs)]):
                found.add(lines)
        kept.write_bytes(msgspec.json.encode(found))
    return msgspec.json.decode(kept.read_bytes(), type=Reach)


def _traced(tests: Sequence[str]) -> list[str]:
    with scratch() as copy:
        follow(copy)
        copy.run(tests, _WHOLE_RUN_S, ("-p", "seen"))
        return (copy.site / "seen.lines").read_text(encoding="utf-8").splitlines()


def follow(copy: Scratch) -> None:
    """Have every process of this copy write down what it enters."""
    shutil.copy(Path(__file__).with_name("seen.py"), copy.site)
    (copy.site / "seen.tree").write_text(str(copy.tree), encoding="utf-8")
    (copy.site / "seen.pth").write_text("import seen\n")
