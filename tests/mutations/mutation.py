"""A planted bug: the code that it changes, the change, and the tests that must notice.

Code moves and is renamed. So a mutation names a function, anywhere in the source, and has a change in the
words of `operators`; it has no path and no line. `place` raises Gone if no code with this name fits, and
Ambiguous if more than one does. Tests are found by their names, too. A file of mutations is TOML for editing
by hand: a table for each, `[area.name]`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.mutations import operators

SOURCES = ("forged", "client/forged_client")

_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Gone(Exception):  # noqa: N818 - reads as the state it names
    """No code has this name, or the change does not fit it any more."""


class Ambiguous(Exception):  # noqa: N818
    """The mutation fits more than one place."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of a file, its fields in this order."""

    name: str = ""
    area: str = ""
    where: str = msgspec.field(default="", name="in")  # a function, class, constant or module
    do: str | tuple[str, ...] = ()  # one step or several, in the words of `operators`
    tests: tuple[str, ...] = ()  # these must fail

    @property
    def steps(self) -> tuple[str, ...]:
        return (self.do,) if isinstance(self.do, str) else self.do


class Place(msgspec.Struct, frozen=True):
    """Place of a mutation: the file, its text without and with it, and the first changed line."""

    path: Path
    original: str
    mutated: str
    line: int


def load(path: Path) -> tuple[Mutation, ...]:
    areas = msgspec.toml.decode(path.read_bytes(), type=dict[str, dict[str, Mutation]])
    mutations = tuple(
        msgspec.structs.replace(mutation, name=name, area=area)
        for area, named in areas.items()
        for name, mutation in named.items()
    )
    names = [mutation.name for mutation in mutations]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{path.name} has these names more than once: {', '.join(sorted(twice))}")
    return mutations


def place(mutation: Mutation, tree: Path) -> Place:
    """Return the place of the mutation in `tree`; raises Gone or Ambiguous."""
    found: list[Place] = []
    reasons = [f"nothing is called {mutation.where}"]
    for path in source_files(tree):
        if not _is_named(mutation.where, path, tree):
            continue
        text = path.read_text(encoding="utf-8")
        for name, node in names_in(text):
            if not _means(mutation.where, module_of(path, tree), name):
                continue
            try:
                found.append(_done(mutation, path, text, node))
            except operators.Missing as reason:
                reasons.append(str(reason))
    if not found:
        raise Gone(f"{mutation.name}: {reasons[-1]}")
    if len(found) > 1:
        places = ", ".join(str(one.path.relative_to(tree)) for one in found)
        raise Ambiguous(f"{mutation.name}: {mutation.where} fits in {places}")
    return found[0]


def source_files(tree: Path) -> Iterator[Path]:
    for source in SOURCES:
        yield from sorted((tree / source).rglob("*.py"))


def module_of(path: Path, tree: Path) -> str:
    """Return a file's dotted name below its source folder; an `__init__` has the package's."""
    parts = path.relative_to(tree).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def names_in(text: str) -> Iterator[tuple[str, ast.stmt | ast.Module]]:
    """Yield everything with a name: the module as "", functions, classes, and assigned names."""
    tree = ast.parse(text)
    yield "", tree
    yield from _named(tree, "", of_function=False)


def node_id(name: str, tree: Path) -> str:
    """Return pytest's id of a test by its name, or by its file and name; empty if there is none."""
    path, _, last = name.rpartition("::")
    if "/" not in name:
        found = [each for each in _tests(tree).get(last, ()) if not path or each.endswith(f"/{path}")]
        return f"{found[0]}::{last}" if len(found) == 1 else ""
    file = tree / name.partition("::")[0]
    # The class of a state machine makes a generated test case.
    is_there = file.is_file() and (
        not path or last == "runTest" or last in _TEST.findall(file.read_text("utf-8"))
    )
    return name if is_there else ""


def _named(parent: ast.AST, prefix: str, *, of_function: bool) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, Named):
            yield prefix + node.name, node
            yield from _named(node, f"{prefix}{node.name}.", of_function=not isinstance(node, ast.ClassDef))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for target in () if of_function else getattr(node, "targets", None) or [node.target]:  # type: ignore[union-attr]
                yield from ((prefix + one.id, node) for one in ast.walk(target) if isinstance(one, ast.Name))
        elif isinstance(node, ast.stmt | ast.ExceptHandler):
            yield from _named(node, prefix, of_function=of_function)


def _is_named(where: str, path: Path, tree: Path) -> bool:
    """Return True if a file has this name."""
    stat = path.stat()
    names = _names_of(path, stat.st_mtime_ns, stat.st_size)
    module = module_of(path, tree)
    return any(_means(where, module, name) for name in names)


@functools.lru_cache(maxsize=10_000)
def _names_of(path: Path, _changed_ns: int, _size: int) -> frozenset[str]:
    return frozenset(name for name, _ in names_in(path.read_text(encoding="utf-8")))


def _means(where: str, module: str, name: str) -> bool:
    if where == name:
        return bool(name)
    return len(where) > len(name) and f".{module}.{name}".rstrip(".").endswith(f".{where}")


def _done(mutation: Mutation, path: Path, text: str, node: ast.stmt | ast.Module) -> Place:
    new, line = operators.applied(mutation.steps, node)
    if unknown := _unknown(mutation, text):
        raise operators.Missing(f"nothing is called {', '.join(unknown)} in {path.name}")
    return Place(path, text, _spliced(text, node, new), line)


def _unknown(mutation: Mutation, text: str) -> list[str]:
    """Return names in CODE that the file does not have: they were renamed, so the bug would differ."""
    steps = map(operators.parsed, mutation.steps)
    trees = [ast.parse(step.code) for step in steps if step.kind not in {"word", "operator"}]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    named = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in named if not isinstance(node.ctx, ast.Load)} | {"it", *vars(builtins)}
    bound |= {node.name.partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    names = {node.id for node in named}
    return sorted(name for name in names - bound if not re.search(rf"\b{name}\b", text))


def _spliced(text: str, node: ast.stmt | ast.Module, new: ast.Module) -> str:
    """Return the text with one statement replaced."""
    if isinstance(node, ast.Module):
        return ast.unparse(new) + "\n"
    depth = node.col_offset // 4
    block = new.body
    for _ in range(depth):
        block = [ast.If(ast.Constant(value=True), block, [])]
    written = ast.unparse(ast.Module(block, [])).split("\n", depth)[depth].lstrip("\n").split("\n")
    first = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
    lines = text.split("\n")
    return "\n".join([*lines[: first - 1], *written, *lines[node.end_lineno :]])


@functools.lru_cache(maxsize=8)
def _tests(tree: Path) -> dict[str, list[str]]:
    """Return the test files by the names of their tests."""
    found = dict[str, list[str]]()
    for path in sorted((tree / "tests").rglob("*.py")):
        for name in dict.fromkeys(_TEST.findall(path.read_text(encoding="utf-8"))):
            found.setdefault(name, []).append(str(path.relative_to(tree)))
    return found
