"""The drawing of some bugs out of all that could be made, by a seed.

Four operators take their turns: a call whose result nobody uses is removed, a comparison is flipped, a number
or a truth is replaced, an exception is swallowed where it is raised or where it is caught. A module is taken
as often as it has lines. Left out is what no test should pin: log lines, annotations, class statements,
`__repr__`, `TYPE_CHECKING` and the demo; the evaluation of data sets comes at a fifth of its weight.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.mutations.mutation import Ambiguous, Mutation, forms_of, names_in, place, source_files
from tests.mutations.operators import Missing, Scope, Spot, Step

SEED = 10
COUNT = 150
_LEFT_OUT = ("forged/cli/demo", "tests/demo")
_RARE = ("forged/evaluation/", "forged/cli/eval", "tests/evaluation/")
_RARE_WEIGHT = 0.2
_LOGGING = ("logger", "logging", "log")
_TRIES = 1000  # for each that is wanted

Change = tuple[Step, Spot]


def draw(tree: Path, *, seed: int = SEED, count: int = COUNT, of: Sequence[str] = ()) -> list[Mutation]:
    """By all operators, or some. The same for the same tree; no line is mutated twice."""
    turns = tuple(of or OPERATORS)
    chosen = random.Random(seed)  # anybody may guess it
    paths = list(source_files(tree))
    weights = [_weight(path, tree) for path in paths]
    drawn: list[Mutation] = []
    taken = set[tuple[Path, int]]()
    for _ in range(_TRIES * count):
        path = chosen.choices(paths, weights)[0]
        able = list(changes(path.read_text(encoding="utf-8"), turns[len(drawn) % len(turns)]))
        if not able:
            continue
        name, scope, change = chosen.choice(able)
        one = _written(change, scope, name, path, tree)
        if one is None or (path, line := place(one, tree).line) in taken:
            continue
        taken.add((path, line))
        drawn.append(msgspec.structs.replace(one, name=f"{len(drawn) + 1:03}"))
        if len(drawn) == count:
            return drawn
    raise LookupError(f"{len(drawn)} of {count} were found")


def changes(text: str, operator: str) -> Iterator[tuple[str, Scope, Change]]:
    """All that an operator can do to a source, each with the function or constant that it is in."""
    within = "\0"
    for name, node in names_in(text):
        if isinstance(node, ast.Module | ast.ClassDef) or name.startswith(within):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            within = f"{name}."
        scope = Scope(node)
        odd = {id(one) for spot in scope.spots if _is_left_out(spot.node) for one in ast.walk(spot.node)}
        for step, spot in OPERATORS[operator](scope):
            if id(spot.node) not in odd:
                yield name, scope, (step, spot)


def _written(change: Change, scope: Scope, name: str, path: Path, tree: Path) -> Mutation | None:
    """The bug in the fewest words that mean it; None if none do."""
    step, spot = change
    try:
        do = str(scope.spelled(step, spot, scope.local_names()))
    except Missing:
        return None
    for form in forms_of(name, path, tree):
        one = Mutation(area="drawn", where=form, do=do)
        try:
            return one if place(one, tree).path == path else None
        except Ambiguous:
            continue
    return None


def _weight(path: Path, tree: Path) -> float:
    where = str(path.relative_to(tree))
    lines = 0 if where.startswith(_LEFT_OUT) else len(path.read_text(encoding="utf-8").splitlines())
    return lines * (_RARE_WEIGHT if where.startswith(_RARE) else 1.0)


def _removed_calls(scope: Scope) -> Iterator[Change]:
    yield from ((Step("remove", "call"), spot) for spot in scope.candidates("remove", "call"))


def _flipped_comparisons(scope: Scope) -> Iterator[Change]:
    for spot in scope.candidates("flip", "comparison"):
        if isinstance(spot.node, ast.Compare) and len(spot.node.ops) == 1:
            yield Step("flip", "comparison"), spot


def _replaced_constants(scope: Scope) -> Iterator[Change]:
    for spot in scope.candidates("replace", "constant"):
        if isinstance(spot.node, ast.Constant) and type(spot.node.value) in {bool, int, float}:
            yield Step("replace", "constant", code=str(_another(spot.node.value))), spot


def _another(value: object) -> object:
    match value:
        case bool():
            return not value
        case int():
            return value + 1 if value < 3 else value * 2
        case float():
            return value * 2 or 1.0
    return value


def _swallowed_exceptions(scope: Scope) -> Iterator[Change]:
    yield from ((Step("remove", "raise"), spot) for spot in scope.candidates("remove", "raise"))
    for spot in scope.candidates("empty", "except"):
        if isinstance(spot.node, ast.ExceptHandler) and not _does_nothing(spot.node.body):
            yield Step("empty", "except"), spot


OPERATORS: dict[str, Callable[[Scope], Iterator[Change]]] = {
    "remove call": _removed_calls,
    "flip comparison": _flipped_comparisons,
    "replace constant": _replaced_constants,
    "swallow exception": _swallowed_exceptions,
}


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    value = node.value if isinstance(node, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    return isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[0] in _LOGGING


def _does_nothing(body: Sequence[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Pass | ast.Continue)
