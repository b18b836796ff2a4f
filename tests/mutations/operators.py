"""Language for the changes of planted bugs.

    VERB KIND [NAME] [#N] [by CODE]      remove call fsync, negate condition closed, replace constant 3 by 4

KIND is a kind of syntax: a key of `_TYPES` or `_FIELDS`, or `word`, `operator`, `text`. NAME is a name that
occurs in it, or a literal as Python prints it; of nested matches, the innermost counts. #N is the Nth of
those, from 1. In CODE, `it` is the replaced code.

    remove    a statement, operand, argument, element, decorator, bound, handler
    unwrap    replace it by its content: the first argument of a call, the body of an `if` or a `with`
    skip      a call of a method: its object is left
    empty     a handler, a loop, a function: it does nothing
    replace   by CODE: a call, a condition, a value; a `word`, an `operator`, a part of a `text`
    precede   the statement that it is in, by CODE
    follow    the same, by CODE

`return CODE` makes that the whole body of a function. All steps of a bug name places of the unchanged
source.
"""

from __future__ import annotations

import ast
import copy
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_STEP = re.compile(
    rf"(?P<verb>[a-z]+) (?P<kind>[a-z]+)(?: (?P<name>(?!by |#\d)(?:{_STRING}|\S+)))?"
    r"(?: #(?P<number>\d+))?(?: by (?P<code>.+))?",
    re.DOTALL,
)
_LONGEST = 40  # literals that may be a NAME
Function = ast.FunctionDef | ast.AsyncFunctionDef
_TYPES: dict[str, tuple[type[ast.AST], ...]] = {
    "call": (ast.Call,),
    "comparison": (ast.Compare,),
    "constant": (ast.Constant,),
    "name": (ast.Name,),
    "attribute": (ast.Attribute,),
    "subscript": (ast.Subscript,),
    "await": (ast.Await,),
    "choice": (ast.IfExp,),
    "comprehension": (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    "collection": (ast.List, ast.Tuple, ast.Set, ast.Dict),
    "assignment": (ast.Assign, ast.AnnAssign, ast.AugAssign),
    "if": (ast.If,),
    "for": (ast.For, ast.AsyncFor),
    "while": (ast.While,),
    "with": (ast.With, ast.AsyncWith),
    "try": (ast.Try,),
    "return": (ast.Return,),
    "raise": (ast.Raise,),
    "except": (ast.ExceptHandler,),
    "break": (ast.Break,),
    "continue": (ast.Continue,),
    "delete": (ast.Delete,),
    "function": (ast.FunctionDef, ast.AsyncFunctionDef),
}
_FIELDS: dict[str, dict[type[ast.AST], tuple[str, ...]]] = {
    "condition": {
        **dict.fromkeys((ast.If, ast.While, ast.IfExp, ast.Assert), ("test",)),
        ast.comprehension: ("ifs",),
        ast.match_case: ("guard",),
    },
    "operand": {ast.BoolOp: ("values",), ast.BinOp: ("left", "right")},
    "side": {ast.Compare: ("left", "comparators")},
    "argument": {ast.Call: ("args", "keywords")},
    "element": {ast.List: ("elts",), ast.Tuple: ("elts",), ast.Set: ("elts",), ast.Dict: ("values",)},
    "value": dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr), ("value",)),
    "default": {ast.arguments: ("defaults", "kw_defaults")},
    "result": {**dict.fromkeys((ast.Return, ast.Yield, ast.YieldFrom), ("value",)), ast.Lambda: ("body",)},
    "item": {
        **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), ("elt",)),
        ast.DictComp: ("value",),
    },
    "iterable": dict.fromkeys((ast.For, ast.AsyncFor, ast.comprehension), ("iter",)),
    "branch": {ast.IfExp: ("body", "orelse")},
    "context": {ast.withitem: ("context_expr",)},
    "bound": {ast.Slice: ("lower", "upper", "step")},
    "index": {ast.Subscript: ("slice",)},
    "caught": {ast.ExceptHandler: ("type",)},
    "decorator": dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), ("decorator_list",)),
    "base": {ast.ClassDef: ("bases",)},
}
_WITH_LITERALS = {"constant", "element", "argument", "operator"}
_BODIES = {"body", "orelse", "finalbody", "handlers"}
_SYMBOLS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "|",
    "&",
    "^",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "is",
    "in",
    "and",
    "or",
)


class Missing(Exception):  # noqa: N818 - reads as the state it names
    """A step names no place, or more than one."""


class Spot(NamedTuple):
    """A node, with its parent and field."""

    node: ast.AST
    parent: ast.AST
    field: str


class Step(NamedTuple):
    """One parsed step."""

    verb: str
    kind: str
    name: str = ""
    number: int = 0
    code: str = ""

    def __str__(self) -> str:
        if self.verb == "return":
            return f"return {self.code}"
        number = f"#{self.number}" if self.number else ""
        code = f"by {self.code}" if self.code else ""
        return " ".join(filter(None, (self.verb, self.kind, self.name, number, code)))


def parsed(text: str) -> Step:
    """Parse a step; raises ValueError."""
    if text.startswith("return "):
        return Step("return", "function", code=text.removeprefix("return "))
    match = _STEP.fullmatch(text)
    if match is None or match["verb"] not in VERBS or match["kind"] not in KINDS:
        raise ValueError(f"this is no step: {text}")
    verb, kind, name, number, code = match.groups(default="")
    return Step(verb, kind, name, int(number or 0), code)


class Scope:
    """A piece of code, in a module of its own, with all of its nodes in source order."""

    def __init__(self, node: ast.stmt | ast.Module) -> None:
        self.whole = node if isinstance(node, ast.Module) else ast.Module([node], [])
        self.spots = sorted(_spots(self.whole), key=_position)
        self._holders = {id(spot.node): spot for spot in self.spots}
        self._of_kind = defaultdict[str, list[Spot]](list)
        for spot in self.spots:
            for kind in kinds_of(spot):
                self._of_kind[kind].append(spot)

    def candidates(self, verb: str, kind: str) -> list[Spot]:
        """Return all nodes of a kind to which a verb applies."""
        found = self._of_kind[kind]
        if verb == "return":
            return found[:1]
        if verb == "remove" and kind == "call":
            return [spot for spot in found if self._is_statement(spot)]
        return found

    def chosen(self, step: Step) -> Spot:
        """Return the spot that a step names; raises Missing."""
        found = _fitting(step, self.candidates(step.verb, step.kind))
        if step.number:
            found = found[step.number - 1 : step.number]
        if len(found) != 1:
            raise Missing(f"`{step}` fits {len(found) or 'no'} places")
        return found[0]

    def holder(self, node: ast.AST) -> Spot:
        """Return the place of a node in its parent."""
        return self._holders[id(node)]

    def statement(self, spot: Spot) -> Spot:
        """Return the statement that contains a spot."""
        while not isinstance(spot.node, ast.stmt):
            spot = self.holder(spot.parent)
        return spot

    def _is_statement(self, spot: Spot) -> bool:
        parent = spot.parent
        return isinstance(self.holder(parent).parent if isinstance(parent, ast.Await) else parent, ast.Expr)


def applied(steps: Iterable[str], node: ast.stmt | ast.Module) -> tuple[ast.Module, int]:
    """Return a changed copy of a piece of code, in a module, and the first changed line."""
    scope = Scope(copy.deepcopy(node))
    todo = [(step := parsed(text), scope.chosen(step)) for text in steps]
    line = min(getattr(scope.statement(spot).node, "lineno", 1) for _, spot in todo)
    for step, spot in todo:
        VERBS[step.verb](step, spot, scope)
    return scope.whole, line


def kinds_of(spot: Spot) -> Iterator[str]:
    """Yield the kinds of syntax of a spot, by itself and in its place."""
    node, parent, field = spot
    if isinstance(node, ast.Constant):
        if isinstance(parent, ast.Expr):
            return
        if isinstance(node.value, str):
            yield "text"
        if isinstance(parent, ast.JoinedStr):
            return
    yield from (kind for kind, types in _TYPES.items() if isinstance(node, types))
    yield from (kind for kind, fields in _FIELDS.items() if field in fields.get(type(parent), ()))
    if isinstance(node, ast.Name | ast.Attribute | ast.keyword):
        yield "word"
    if isinstance(node, ast.cmpop | ast.operator | ast.boolop):
        yield "operator"


def names_of(spot: Spot, kind: str) -> set[str]:
    """Return the names that identify a spot, and literals if it has no names."""
    node, parent, _ = spot
    nodes: list[object] = [node]
    match node, kind:
        case (ast.Call(func=one), "call") | ((ast.Name() | ast.Attribute() | ast.keyword()) as one, "word"):
            return {_word(one)} - {""}
        case (ast.Attribute(), "attribute"):
            return {_word(node)}
        case (ast.cmpop() | ast.operator() | ast.boolop(), _):
            return {symbol for symbol in _SYMBOLS if isinstance(node, type(_operator(symbol)))}
        case (ast.stmt() | ast.ExceptHandler(), _):
            nodes = [value for name, value in ast.iter_fields(node) if name not in _BODIES]
        case (_, "default") if isinstance(parent, ast.arguments):
            nodes.append(_parameter_of(node, parent))
        case (_, "value" | "iterable"):
            nodes += [getattr(parent, "target", None), getattr(parent, "targets", None)]
        case (_, "element") if isinstance(parent, ast.Dict):
            nodes.append(parent.keys[_at(parent.values, node)])
    names = _names(nodes)
    return names if kind in _WITH_LITERALS else {name for name in names if name.isidentifier()} - _LITERALS


# The verbs.


def _remove(_step: Step, spot: Spot, scope: Scope) -> None:
    if isinstance(spot.node, ast.Call) and spot.field == "value":
        spot = scope.statement(spot)
    node, parent, field = spot
    if isinstance(node, ast.stmt):
        _put(spot, ast.Pass())
    elif isinstance(parent, ast.BinOp):
        _put(scope.holder(parent), parent.right if field == "left" else parent.left)
    elif isinstance(parent, ast.Dict):
        del parent.keys[_at(parent.values, node)]
        _put(spot)
    else:
        _put(spot)
        if isinstance(parent, ast.BoolOp) and len(parent.values) == 1:
            _put(scope.holder(parent), parent.values[0])


def _unwrap(step: Step, spot: Spot, _scope: Scope) -> None:
    node = spot.node
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        _put(spot, *getattr(node, "body", ()))
        return
    match node:
        case ast.Call(args=[ast.Starred(value=inner), *_]) | ast.Call(args=[inner, *_]):
            pass
        case ast.List(elts=[inner]) | ast.Tuple(elts=[inner]) | ast.Set(elts=[inner]):
            pass
        case (
            ast.Attribute() | ast.Subscript() | ast.Await() | ast.NamedExpr() | ast.Starred() | ast.keyword()
        ):
            inner = node.value
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            inner = node.generators[0].iter
        case ast.UnaryOp():
            inner = node.operand
        case _:
            raise Missing(f"`{step}` is of what holds nothing")
    _put(spot, inner)


def _skip(step: Step, spot: Spot, _scope: Scope) -> None:
    if not isinstance(spot.node, ast.Call) or not isinstance(spot.node.func, ast.Attribute):
        raise Missing(f"`{step}` is of no call of a method")
    _put(spot, spot.node.func.value)


def _empty(step: Step, spot: Spot, _scope: Scope) -> None:
    if not isinstance(getattr(spot.node, "body", None), list):
        raise Missing(f"`{step}` is of what has no body")
    spot.node.body = [ast.Pass()]  # type: ignore[attr-defined]


def _replace(step: Step, spot: Spot, scope: Scope) -> None:
    node = spot.node
    if step.kind == "word":
        _set_word(node, step.code)
    elif step.kind == "operator":
        _put(spot, _operator(step.code))
    elif step.kind == "text":
        old, new = ast.literal_eval(step.name), ast.literal_eval(step.code)
        node.value = node.value.replace(old, new)  # type: ignore[attr-defined]
    elif isinstance(node, ast.stmt):
        _put(spot, *_statements(step, node))
    elif isinstance(node, ast.keyword):
        node.value = _expression(step, node.value)
    elif step.kind == "call" and not _is_expression(step.code):
        _put(scope.statement(spot), *_statements(step, node))
    else:
        _put(spot, _expression(step, node))


def _precede(step: Step, spot: Spot, scope: Scope) -> None:
    statement = scope.statement(spot)
    _put(statement, *_statements(step, statement.node), statement.node)


def _follow(step: Step, spot: Spot, scope: Scope) -> None:
    statement = scope.statement(spot)
    _put(statement, statement.node, *_statements(step, statement.node))


def _return(step: Step, spot: Spot, _scope: Scope) -> None:
    node = spot.node
    if not isinstance(node, Function):
        raise Missing(f"`{step}` is of no function")
    node.body[:] = [*node.body[: ast.get_docstring(node) is not None], *ast.parse(str(step)).body]


VERBS: dict[str, Callable[[Step, Spot, Scope], None]] = {
    "remove": _remove,
    "unwrap": _unwrap,
    "skip": _skip,
    "empty": _empty,
    "replace": _replace,
    "precede": _precede,
    "follow": _follow,
    "return": _return,
}
KINDS = {*_TYPES, *_FIELDS, "word", "operator", "text"}


# CODE.


class _It(ast.NodeTransformer):
    """Replaces `it` in CODE by the original code."""

    def __init__(self, old: ast.AST) -> None:
        self._old = old

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_it = isinstance(self._old, ast.stmt) and _word(node.value) == "it"
        return copy.deepcopy(self._old) if is_it else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self._old) if node.id == "it" else node


def _expression(step: Step, old: ast.AST) -> ast.expr:
    filled: ast.expr = _It(old).visit(ast.parse(step.code, mode="eval").body)
    return filled


def _statements(step: Step, old: ast.AST) -> list[ast.stmt]:
    return [_It(old).visit(each) for each in ast.parse(step.code).body]


def _is_expression(code: str) -> bool:
    body = ast.parse(code).body
    return len(body) == 1 and isinstance(body[0], ast.Expr)


def _operator(symbol: str) -> ast.AST:
    whole = ast.parse(f"a {symbol} b", mode="eval").body
    return whole.ops[0] if isinstance(whole, ast.Compare) else whole.op  # type: ignore[attr-defined]


# The tree.


def _spots(root: ast.AST) -> Iterator[Spot]:
    """Yield all nodes of a tree except annotations."""
    for field, held in ast.iter_fields(root):
        for node in held if isinstance(held, list) else [held]:
            if isinstance(node, ast.AST) and field not in {"annotation", "returns"}:
                yield Spot(node, root, field)
                yield from _spots(node)


def _position(spot: Spot) -> tuple[int, int]:
    node = spot.node
    if isinstance(
        node, ast.cmpop | ast.operator | ast.boolop
    ):  # it has no position, and comes before the right side
        sides = getattr(spot.parent, "comparators", None) or getattr(spot.parent, "values", None)
        node = sides[-1] if sides else getattr(spot.parent, "right", spot.parent)
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _fitting(step: Step, among: list[Spot]) -> list[Spot]:
    """Return the nodes with the name, without those that contain another of them."""
    if not step.name:
        return among
    if step.kind == "text":
        part = ast.literal_eval(step.name)
        return [spot for spot in among if spot.node.value.count(part) == 1]  # type: ignore[attr-defined]
    named = [spot for spot in among if step.name in names_of(spot, step.kind)]
    if step.kind == "call":
        return named
    ids = {id(spot.node) for spot in named}
    return [
        spot
        for spot in named
        if not any(id(one) in ids for one in ast.walk(spot.node) if one is not spot.node)
    ]


_LITERALS = {"True", "False", "None"}


def _names(nodes: Iterable[object]) -> set[str]:
    """Return the identifiers, and the literals as Python prints them."""
    found = set[str]()
    for node in nodes:
        if isinstance(node, list):
            found |= _names(node)
        elif isinstance(node, str):
            found.add(node)
        for one in ast.walk(node) if isinstance(node, ast.AST) else ():
            is_short = isinstance(one, ast.Constant) and len(repr(one.value)) < _LONGEST
            found.add(repr(one.value) if is_short else _word(one))  # type: ignore[attr-defined]
    return found - {""}


def _word(node: ast.AST) -> str:
    """Return the identifier that a node adds to the source."""
    match node:
        case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)) | ast.arg(arg=word):
            return str(word)
        case ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word) | ast.ClassDef(name=word):
            return str(word)
    return ""


def _set_word(node: ast.AST, word: str) -> None:
    field = {ast.Name: "id", ast.Attribute: "attr", ast.keyword: "arg"}[type(node)]
    setattr(node, field, word)


def _parameter_of(default: ast.AST, of: ast.arguments) -> str:
    """Return the name of the parameter with this default."""
    by_place = zip([*of.posonlyargs, *of.args][::-1], of.defaults[::-1], strict=False)
    pairs = [*by_place, *zip(of.kwonlyargs, of.kw_defaults, strict=True)]
    return next(parameter.arg for parameter, one in pairs if one is default)


def _put(spot: Spot, *new: ast.AST) -> None:
    held = getattr(spot.parent, spot.field)
    if isinstance(held, list):
        at = _at(held, spot.node)
        held[at : at + 1] = new
    else:
        setattr(spot.parent, spot.field, new[0] if new else None)


def _at(held: list[ast.AST] | list[ast.expr], node: ast.AST) -> int:
    return next(at for at, one in enumerate(held) if one is node)
