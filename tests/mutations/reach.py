"""Which tests enter which functions, and how long they take: what a drawn mutation is tried against.

One traced run of the suite gives both; a mutation is tried by the tests that enter its function, whatever
process that happens in, the cheapest first. The answer is kept in a file beside the checkout's environment,
since a whole run takes minutes.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from tests.mutations.mutation import source_files
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


def function_at(text: str, line: int) -> str:
    """Name, as its code object has it, of the innermost function or class of a line; empty if none."""
    return ["", *(name for name, lines in _definitions(ast.parse(text), "") if line in lines)][-1]


def users_of(home: Path, line: int, tree: Path) -> Iterator[tuple[Path, str]]:
    """Files and functions that name what the assignment at a line of `home` gives a value to.

    A private name is looked for at home alone.
    """
    names = _assigned(ast.parse(home.read_text(encoding="utf-8")), line)
    for path in source_files(tree):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(name in text for name in names) else ():
            name = getattr(node, "id", getattr(node, "attr", ""))
            is_one = name in names and (path == home or not name.startswith("_"))
            if is_one and (function := function_at(text, node.lineno)):  # type: ignore[attr-defined]
                yield path, function


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


def _definitions(parent: ast.AST, prefix: str) -> Iterator[tuple[str, range]]:
    """Functions and classes with their lines, decorators included, the outer ones first."""
    for node in ast.iter_child_nodes(parent):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _definitions(node, prefix)
            continue
        first = min(one.lineno for one in (node, *node.decorator_list))
        name = f"{prefix}{node.name}"
        yield name, range(first, (node.end_lineno or first) + 1)
        yield from _definitions(node, f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>.")


def _assigned(tree: ast.AST, line: int) -> set[str]:
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    targets = [target for node in found for target in getattr(node, "targets", None) or [node.target]]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
