"""Parser and editor of JSON with comments and trailing commas, which keeps all other bytes.

`parse` returns a tree in which each value has its place in the text. An edit is an insertion or a cut, and
every other byte stays. A cut is the exact inverse of an insertion. A new member comes first in its object,
in the line form of the next one, with a comma only if another one follows. Raises NotJson for a text that no
agent could read either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec

_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_LINE_START = re.compile(r"[ \t\r]*\n[ \t\r\n]*")
_DEEPEST = 100


class NotJson(ValueError):  # noqa: N818 - reads as the state it names
    """Raised if a text cannot be parsed, even as JSON with comments; the message names the line."""


class Node(msgspec.Struct, frozen=True):
    """A value in a JSON text: `text[start:end]`, its children by `keys` and `values`, or its `scalar`.

    `kind` is an opening bracket, or empty for a scalar. Only an object has `keys`.
    """

    start: int
    end: int
    kind: str
    scalar: object = None
    keys: tuple[str, ...] = ()
    key_starts: tuple[int, ...] = ()
    values: tuple[Node, ...] = ()

    def member(self, key: str) -> Node | None:
        """Return the node of a key in an object, None without it; the last one if there are several."""
        found = [value for name, value in zip(self.keys, self.values, strict=False) if name == key]
        return found[-1] if found else None

    @property
    def value(self) -> object:
        """Return the JSON value of this node and its children as Python objects."""
        if self.kind == "{":
            return {key: node.value for key, node in zip(self.keys, self.values, strict=True)}
        return [node.value for node in self.values] if self.kind == "[" else self.scalar


def parse(text: str) -> Node:
    """Parse JSON with comments and trailing commas into a tree of nodes with places. Raises NotJson."""
    at = _skip_blanks(text, 0)
    node = _parse_node(text, at, 0)
    if (rest := _skip_blanks(text, node.end)) < len(text):
        raise _error_at(text, rest)
    return node


def insert(text: str, parent: Node, key: str | None, value: object) -> str:
    """Return JSON text with a value as first member `key` of an object or, with None, as first array item."""
    at = parent.start + 1
    line = _LINE_START.match(text, at)
    lead = line.group() if line and parent.values else ""
    newline, _, indent = lead.rpartition("\n")
    end = "\r\n" if newline.endswith("\r") else "\n"
    body = json.dumps(value, indent=2) if lead else json.dumps(value)
    body = body.replace("\n", f"{end}{indent}")
    named = body if key is None else f"{json.dumps(key)}: {body}"
    return f"{text[:at]}{lead}{named}{',' if parent.values else ''}{text[at:]}"


def cut(text: str, parent: Node, number: int) -> str:
    """Return JSON text without member or item `number` of a node, and without its comma; comments stay."""
    node = parent.values[number]
    start = parent.key_starts[number] if parent.kind == "{" else node.start
    start -= len(text[:start]) - len(text[:start].rstrip(" \t\r\n"))
    comma = _skip_blanks(text, node.end)
    if text[comma] == ",":
        return text[:start] + text[node.end : comma] + text[comma + 1 :]
    if number == 0:
        return text[:start] + text[node.end :]
    before = _skip_blanks(text, parent.values[number - 1].end)
    return text[:before] + text[before + 1 : start] + text[node.end :]


def is_bare(text: str, node: Node) -> bool:
    """Return True if a node is an object or array with nothing between its brackets, even no comment."""
    return bool(node.kind) and not node.values and not text[node.start + 1 : node.end - 1].strip()


def _parse_node(text: str, at: int, depth: int) -> Node:
    """Parse the JSON value that begins at a place, with all below it. Raises NotJson, also if too deep."""
    if depth > _DEEPEST:
        raise _error_at(text, at)
    opened = text[at : at + 1]
    if opened in {"{", "["}:
        return _parse_container(text, at, opened, depth)
    found = _SCALAR.match(text, at)
    if not found:
        raise _error_at(text, at)
    try:
        return Node(at, found.end(), "", json.loads(found.group(), strict=False))
    except ValueError as error:
        raise _error_at(text, at) from error


def _parse_container(text: str, start: int, opened: str, depth: int) -> Node:
    """Parse the JSON object or array that begins at a place, with its children. Raises NotJson."""
    closed = "}" if opened == "{" else "]"
    keys: list[str] = []
    starts: list[int] = []
    values: list[Node] = []
    at = _skip_blanks(text, start + 1)
    while text[at : at + 1] != closed:
        if opened == "{":
            key, starts, at = _parse_key(text, at, starts, depth)
            keys.append(key)
        values.append(_parse_node(text, at, depth + 1))
        at = _skip_blanks(text, values[-1].end)
        if text[at : at + 1] == ",":
            at = _skip_blanks(text, at + 1)
        elif text[at : at + 1] != closed:
            raise _error_at(text, at)
    return Node(start, at + 1, opened, None, tuple(keys), tuple(starts), tuple(values))


def _parse_key(text: str, at: int, starts: Sequence[int], depth: int) -> tuple[str, list[int], int]:
    """Parse a key and its colon; return the key, the starts of keys up to it, and the place of its value."""
    name = _parse_node(text, at, depth + 1)
    colon = _skip_blanks(text, name.end)
    if not isinstance(name.scalar, str) or text[colon : colon + 1] != ":":
        raise _error_at(text, at)
    return name.scalar, [*starts, at], _skip_blanks(text, colon + 1)


def _skip_blanks(text: str, at: int) -> int:
    """Return the next place in JSON text that is neither blank nor comment."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


def _error_at(text: str, at: int) -> NotJson:
    """Return a NotJson error that names the line of a place in the text."""
    line = text.count("\n", 0, at) + 1
    return NotJson(f"it is no JSON at line {line}")
