"""What a drawn mutation does to the source, and the drawing of some out of all that could be done, by a seed.

Four operators take their turns: a call whose result nobody uses is dropped, a comparison is flipped, a number
or a truth is changed, an exception is swallowed where it is raised or where it is caught. A module is taken
as often as it has lines. Left out is what no test should pin: log lines, annotations, the flags of a class
statement, `__repr__` and the demo; the evaluation of data sets comes at a fifth of its weight.
"""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.mutations.mutation import Mutation, occurrences, source_files

SEED = 9
COUNT = 150
_LEFT_OUT = ("forged/forgectl/demo",)
_RARE = ("forged/evaluation/", "forged/forgectl/evaluating.py")
_RARE_WEIGHT = 0.2
_LOGGING = ("logger", "logging", "log")
_MOST_LINES = 12  # of context on either side; what is not unique by then is not drawn

_FLIPPED = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}


class Change(msgspec.Struct, frozen=True):
    """Text from one position of a source to another, positions as `ast` counts them, and what comes there."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str
    instead_of: str = ""  # if that is not what stands there, the change is not made


class _Module(msgspec.Struct, frozen=True):
    hint: str
    text: str
    weight: float
    changes: dict[str, list[Change]]


def draw(tree: Path, *, seed: int = SEED, count: int = COUNT, of: Sequence[str] = ()) -> list[Mutation]:
    """By all operators, or some. The same for the same tree; no line is mutated twice."""
    turns = tuple(of or OPERATORS)
    chosen = random.Random(seed)  # anybody may guess it
    modules = [_module(path, tree) for path in source_files(tree)]
    texts = [module.text for module in modules]
    drawn: list[Mutation] = []
    taken = set[tuple[str, int]]()
    while len(drawn) < count:
        operator = turns[len(drawn) % len(turns)]
        able = [module for module in modules if module.changes[operator]]
        module = chosen.choices(able, [one.weight for one in able])[0]
        change = chosen.choice(module.changes[operator])
        snippet = _unique(module.text, change, texts)
        if snippet is None or (module.hint, change.start[0]) in taken:
            continue
        taken.add((module.hint, change.start[0]))
        name = f"drawn-{len(drawn) + 1:03}"
        find, replace = snippet
        one = Mutation(name=name, operator=operator, hint=module.hint, find=find, replace=replace)
        drawn.append(one)
    return drawn


def changes(text: str) -> dict[str, list[Change]]:
    """All that the operators can do to a source, in its order."""
    tree = ast.parse(text)
    return {name: list(operator(tree)) for name, operator in OPERATORS.items()}


def function_at(text: str, line: int) -> str:
    """Name, as its code object has it, of the innermost function or class of a line; empty if none."""
    return ["", *(name for name, lines in _definitions(ast.parse(text), "") if line in lines)][-1]


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


def users_of(home: Path, line: int, tree: Path) -> Iterator[tuple[Path, str]]:
    """Files and functions that name what the assignment at a line of `home` gives a value to.

    A private name is looked for at home alone.
    """
    names = _assigned(ast.parse(home.read_text(encoding="utf-8")), line)
    for path in source_files(tree):
        text = path.read_text(encoding="utf-8")
        for node in _nodes(ast.parse(text)) if any(name in text for name in names) else ():
            name = getattr(node, "id", getattr(node, "attr", ""))
            is_one = name in names and (path == home or not name.startswith("_"))
            if is_one and (function := function_at(text, node.lineno)):  # type: ignore[attr-defined]
                yield path, function


def _assigned(tree: ast.AST, line: int) -> set[str]:
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    targets = [target for node in found for target in getattr(node, "targets", None) or [node.target]]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _module(path: Path, tree: Path) -> _Module:
    hint = str(path.relative_to(tree))
    text = path.read_text(encoding="utf-8")
    weight = 0.0 if hint.startswith(_LEFT_OUT) else float(len(text.splitlines()))
    if hint.startswith(_RARE):
        weight *= _RARE_WEIGHT
    return _Module(hint, text, weight, changes(text))


def _dropped_calls(tree: ast.Module) -> Iterator[Change]:
    for node in _nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(_awaited(node.value), ast.Call):
            yield _instead(node, "pass")


def _flipped_comparisons(tree: ast.Module) -> Iterator[Change]:
    for node in _nodes(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            old, new = _FLIPPED[type(node.ops[0])]
            left, right = node.left, node.comparators[0]
            start, end = (left.end_lineno or 0, left.end_col_offset or 0), (right.lineno, right.col_offset)
            yield Change(start, end, f" {new} ", instead_of=old)  # brackets are in between as well


def _changed_constants(tree: ast.Module) -> Iterator[Change]:
    for node in _nodes(tree):
        if not isinstance(node, ast.Constant) or type(node.value) not in {bool, int, float}:
            continue
        if isinstance(node.value, bool):
            yield _instead(node, str(not node.value))
        elif isinstance(node.value, int):
            yield _instead(node, str(node.value + 1 if node.value < 3 else node.value * 2))
        else:
            yield _instead(node, str(node.value * 2 or 1.0))


def _swallowed_exceptions(tree: ast.Module) -> Iterator[Change]:
    for node in _nodes(tree):
        if isinstance(node, ast.Raise):
            yield _instead(node, "pass")
        elif isinstance(node, ast.ExceptHandler) and not _does_nothing(node.body):
            yield _between(node.body[0], node.body[-1], "pass")


OPERATORS: dict[str, Callable[[ast.Module], Iterator[Change]]] = {
    "dropped call": _dropped_calls,
    "flipped comparison": _flipped_comparisons,
    "changed constant": _changed_constants,
    "swallowed exception": _swallowed_exceptions,
}


def _nodes(parent: ast.AST) -> Iterator[ast.AST]:
    """Every node below that may be mutated."""
    for node in _children(parent):
        if not _is_left_out(node):
            yield node
            yield from _nodes(node)


def _children(parent: ast.AST) -> Iterator[ast.AST]:
    """All of them but annotations and what a class statement has in its brackets."""
    for name, value in ast.iter_fields(parent):
        if name in {"annotation", "returns"} or (name == "keywords" and isinstance(parent, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    call = _awaited(node.value) if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[0] in _LOGGING


def _awaited(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _does_nothing(body: Sequence[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Pass | ast.Continue)


def _instead(node: ast.AST, text: str) -> Change:
    return _between(node, node, text)


def _between(first: ast.AST, last: ast.AST, text: str) -> Change:
    start = (first.lineno, first.col_offset)  # type: ignore[attr-defined]
    return Change(start, (last.end_lineno, last.end_col_offset), text)  # type: ignore[attr-defined]


def _unique(text: str, change: Change, texts: Sequence[str]) -> tuple[str, str] | None:
    """The fewest lines around the change that stand in one place only, as they are and as they become."""
    lines = text.splitlines()
    (first, begin), (last, end) = change.start, change.end
    before = lines[first - 1].encode()[:begin].decode()
    after = lines[last - 1].encode()[end:].decode()
    new = (before + change.text + after).splitlines()
    if change.instead_of and (
        first != last or change.instead_of != lines[first - 1].encode()[begin:end].decode().strip()
    ):
        return None
    for more in range(2 * _MOST_LINES):
        top, bottom = max(0, first - 1 - (more + 1) // 2), min(len(lines), last + more // 2)
        find = lines[top:bottom]
        if not find[0].strip() or not find[-1].strip():
            continue
        if sum(len(occurrences("\n".join(find), one)) for one in texts) == 1:
            replace = [*lines[top : first - 1], *new, *lines[last:bottom]]
            return _dedented(find, replace)
    return None


def _dedented(find: Sequence[str], replace: Sequence[str]) -> tuple[str, str]:
    """Both lose the indentation that `find` has in common."""
    margin = min(len(line) - len(line.lstrip()) for line in find if line.strip())
    less = textwrap.dedent("\n".join(find))
    return less, "\n".join(line[margin:] for line in replace)
