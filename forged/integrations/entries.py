"""Add, find and remove forged's entries in the settings of an agent. Pure functions on texts.

An entry is at a path of keys: under its own key in an object (`mcpServers`, `forged`), or as an item of an
array (`hooks`, `Stop`). It is recognized by the program that it runs, even if the agent has rewritten the
file. `add` returns the containers that it made, so that `remove` can remove them; then the text is the
original, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from forged.integrations.jsonc import Node, cut, insert, is_bare, parse

_PROGRAMS = ("/forged_client/hook.py", "/forged/mcp/bridge.py")
Path = tuple[str, ...]
Head = Mapping[str, int]


class SettingsEntry(msgspec.Struct, frozen=True):
    """One entry of forged (hook or MCP server) in an agent's settings; `key` is empty in an array."""

    path: Path
    key: str
    value: object


class UnfitSettings(ValueError):  # noqa: N818 - reads as the state it names
    """Raised if settings have no place for forged's entries: another type, or the key is taken."""


def add(text: str, entries: Sequence[SettingsEntry], head: Head) -> tuple[str, tuple[Path, ...]]:
    """Return settings text with forged's entries added, and paths of the JSON containers made for them.

    A blank text becomes a new document that begins with `head`, and the container `()`. Raises NotJson and
    UnfitSettings.
    """
    made: list[Path] = []
    whole = json.dumps(head) if _is_blank(text) else text
    for entry in reversed(entries):
        whole = _insert_entry(whole, entry, made)
    if not _is_blank(text):
        return whole, tuple(made)
    return json.dumps(parse(whole).value, indent=2) + text, ((), *made)


def remove(text: str, made: Collection[Path], head: Head) -> str:
    """Return settings text without forged's entries, and without containers in `made` that are empty now."""
    if _is_blank(text):
        return text
    while (found := next(_own_entries(text), None)) is not None:
        text = cut(text, *found)
    for path in sorted(filter(None, made), key=len, reverse=True):
        text = _without_container(text, path)
    return _without_head(text, head) if () in made else text


def has_entries(text: str) -> bool:
    """Return True if settings text has an entry that runs forged, of any installation or version."""
    if not any(program in text for program in _PROGRAMS):
        return False
    return next(_own_entries(text), None) is not None


def has_all(text: str, entries: Sequence[SettingsEntry], *, exact: bool = True) -> bool:
    """Return True if forged's entries in a text are just the given ones; `exact` compares `env`, too."""
    wanted = [_comparable(entry.value, exact=exact) for entry in entries]
    found = [_comparable(parent.values[number].value, exact=exact) for parent, number in _own_entries(text)]
    return len(found) == len(wanted) and all(value in found for value in wanted)


def _comparable(value: object, *, exact: bool) -> object:
    """Return an entry as it is compared with others: without its `env`, unless `exact`."""
    if exact or not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key != "env"}


def _insert_entry(text: str, entry: SettingsEntry, made: list[Path]) -> str:
    """Return settings text with an entry; add new containers to `made`. Raises UnfitSettings."""
    node = parse(text)
    if node.kind != "{":
        raise UnfitSettings("it contains no object")
    for depth, key in enumerate(entry.path):
        child = node.member(key)
        if child is None:
            made += [entry.path[:length] for length in range(depth + 1, len(entry.path) + 1)]
            return insert(text, node, key, _nested(entry, depth + 1))
        if child.kind != "{" and depth + 1 < len(entry.path):
            raise UnfitSettings(f"its {key} has another type")
        node = child
    if node.kind != ("{" if entry.key else "["):
        raise UnfitSettings(f"its {'.'.join(entry.path)} has another type")
    if entry.key in node.keys:
        raise UnfitSettings(
            f"its {'.'.join((*entry.path, entry.key))} is there already and runs something else"
        )
    return insert(text, node, entry.key or None, entry.value)


def _nested(entry: SettingsEntry, depth: int) -> object:
    """Return an entry's value wrapped in the JSON containers of its path that are below `depth`."""
    value: object = {entry.key: entry.value} if entry.key else [entry.value]
    for name in reversed(entry.path[depth:]):
        value = {name: value}
    return value


def _without_container(text: str, path: Path) -> str:
    """Return settings text without the JSON container at a path, if it is empty and has no comment."""
    node: Node | None = parse(text)
    for key in path[:-1]:
        node = node.member(key) if node else None
    numbers = [number for number, key in enumerate(node.keys) if key == path[-1]] if node else []
    if node and numbers and is_bare(text, node.values[numbers[-1]]):
        return cut(text, node, numbers[-1])
    return text


def _without_head(text: str, head: Head) -> str:
    """Return only the text after the document if nothing but its head is left, else all."""
    node = parse(text)
    is_alone = not text[: node.start].strip() and "/" not in text[node.start : node.end]
    return text[node.end :] if is_alone and node.value == head else text


def _is_blank(text: str) -> bool:
    """Return True if a text has only blanks, or a byte order mark."""
    return not text.strip(" \t\r\n\ufeff")


def _own_entries(text: str) -> Iterator[tuple[Node, int]]:
    """Yield each hook and MCP server of forged in a settings text: its container, and its number in it."""
    root = parse(text)
    for name, node in zip(root.keys, root.values, strict=False):
        if name in {"mcpServers", "servers"}:
            yield from ((node, at) for at, one in enumerate(node.values) if _runs_forged(one.value))
        elif name == "hooks":
            for event in node.values:
                yield from ((event, at) for at, one in enumerate(event.values) if _runs_forged(one.value))


def _runs_forged(value: object) -> bool:
    """Return True if the value of a settings entry runs a program of forged, or has only such hooks."""
    if not isinstance(value, dict):
        return False
    if isinstance(inner := value.get("hooks"), list):
        return bool(inner) and all(map(_runs_forged, inner))
    words = [value.get("command"), *(args if isinstance(args := value.get("args"), list) else ())]
    return any(program in word for word in words if isinstance(word, str) for program in _PROGRAMS)
