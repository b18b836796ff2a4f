"""Counts of the source: package interfaces, names, structs, imports, lengths.

`p90` is the value at place ceil(0.9 n) of the sorted list. Each function documents its count.
"""

from __future__ import annotations

import ast
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import NamedTuple

from tests.house.sources import Source, base_of, listed, marked

_FIELDS = 4
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Each of these lists the rows of a registry; a row has one importer by design.
REGISTRIES = {
    "forged.daemon.handlers.dispatch": "a handler of each family of verbs",
    "forged.importing.reading": "a form of another program's memories",
    "forged.state.state": "a table of state.db",
    "forged.transcripts.formats": "what a harness writes down",
}
Sources = dict[str, Source]


class Single(NamedTuple):
    """A module that exactly one other imports."""

    module: str
    importer: str
    lines: int

    @property
    def is_row(self) -> bool:
        """Return True if a registry lists it."""
        return self.importer in REGISTRIES


def p90(values: Iterable[int]) -> int:
    ordered = sorted(values)
    return ordered[math.ceil(0.9 * len(ordered)) - 1]


def doors(sources: Sources) -> Counter[str]:
    """Count the names in `__all__` of each `__init__.py`."""
    return Counter({name: len(listed(each.tree)) for name, each in sources.items() if each.is_door})


def double_meanings(sources: Sources) -> dict[str, list[str]]:
    """Return the public module-level class names that two or more modules define."""
    defined: dict[str, list[str]] = defaultdict(list)
    for name, each in sources.items():
        for node in each.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].append(name)
    return {name: modules for name, modules in defined.items() if len(modules) > 1}


def mirrored(sources: Sources) -> list[tuple[str, str]]:
    """Return pairs of structs where all fields of the smaller one are in the other by name.

    A struct has `msgspec.Struct` as direct base and four or more annotated fields of its own.
    """
    structs = [
        (f"{name}.{node.name}", fields)
        for name, each in sources.items()
        for node in each.nodes
        if isinstance(node, ast.ClassDef) and _is_struct(node) and len(fields := _fields(node)) >= _FIELDS
    ]
    return [(one, other) for (one, a), (other, b) in combinations(structs, 2) if a <= b or b <= a]


def _is_struct(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("msgspec.Struct", "Struct") for base in node.bases)


def _fields(node: ast.ClassDef) -> frozenset[str]:
    targets = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def singles(sources: Sources) -> list[Single]:
    """Return the modules that exactly one module imports, from the same package.

    A package's `__init__` is neither counted nor an importer: an import through it is followed to its
    module. Imports under `TYPE_CHECKING` do not count. Two names with equal first two parts are of one
    package, so modules directly in `forged` or `forged_client` never count.
    """
    importers: dict[str, set[str]] = defaultdict(set)
    for name, each in sources.items():
        if not each.is_door:
            for target in _targets(each, sources):
                importers[target].add(name)
    return [
        Single(name, importer, each.lines)
        for name, each in sources.items()
        if not each.is_door
        for importer in _only(importers[name] - {name})
        if importer.split(".")[:2] == name.split(".")[:2]
    ]


def _only(names: set[str]) -> Iterator[str]:
    if len(names) == 1:
        yield from names


def _targets(source: Source, sources: Sources) -> Iterator[str]:
    for node in _at_run_time(source.tree):
        if isinstance(node, ast.Import):
            yield from (marked(alias.name, sources) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(node, source.name)
            yield from (_home(base, alias.name, sources) for alias in node.names)


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes except those under `if TYPE_CHECKING:`."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from _at_run_time(other)
        else:
            yield from _at_run_time(child)


def _home(base: str, name: str, sources: Sources) -> str:
    """Return the module that defines a name, through any number of package interfaces."""
    if (inner := marked(f"{base}.{name}", sources)) in sources:
        return inner
    here = marked(base, sources)
    if here not in sources or not here.endswith("="):
        return here
    for node in sources[here].nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _home(base_of(node, here), alias.name, sources)
    return here


def daemon_paths(sources: Sources) -> set[str]:
    """Return the longest chains of two or more attributes after `daemon` or `_daemon`, in its handlers."""
    found: set[str] = set()
    for name, each in sources.items():
        if name.startswith("forged.daemon.handlers"):
            attributes = [node for node in each.nodes if isinstance(node, ast.Attribute)]
            inner = {id(node.value) for node in attributes}
            chains = (_chain(node) for node in attributes if id(node) not in inner)
            found |= {".".join(chain) for chain in chains if len(chain) > 1}
    return found


def _chain(node: ast.expr) -> tuple[str, ...]:
    """Return the attributes after `daemon`, in order; none without it."""
    names: list[str] = []
    while True:
        name = getattr(node, "attr", getattr(node, "id", ""))
        if name in ("daemon", "_daemon"):
            return tuple(reversed(names))
        if not isinstance(node, ast.Attribute):
            return ()
        names.append(name)
        node = node.value


def function_lengths(sources: Sources) -> list[int]:
    """Return the lines of each function, nested ones too, without docstrings."""
    return [
        node.end_lineno - node.lineno + 1 - _docstring_lines(node)
        for each in sources.values()
        for node in each.nodes
        if isinstance(node, _FUNCTIONS) and node.end_lineno is not None
    ]


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    if ast.get_docstring(node) is None or first.end_lineno is None:
        return 0
    return first.end_lineno - first.lineno + 1


def docstring_words(sources: Sources) -> int:
    kinds = (ast.Module, ast.ClassDef, *_FUNCTIONS)
    return sum(
        len((ast.get_docstring(node) or "").split())
        for each in sources.values()
        for node in each.nodes
        if isinstance(node, kinds)
    )
