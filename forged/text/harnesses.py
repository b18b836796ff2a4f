"""Rows of `harnesses.toml`: text that harnesses put into conversations, and their hooks.

Read when imported; a row with a wrong field raises msgspec.ValidationError.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from typing import Literal

import msgspec

from forged_client.typed import resolved

Speaker = Literal["user", "assistant"]
Kind = Literal["own", "pasted", "tools", "thinking"]
EventKind = Literal[
    "session_start",
    "prompt",
    "turn_end",
    "compaction",  # is about to happen
    "compacted",  # has happened
    "cleared",
    "session_end",
]


class InsertedSpan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pattern that finds text without tags that a harness inserts into a message."""

    mark: str
    begins: str = ""
    ends: str = ""
    first: bool = False
    of: Speaker | Literal[""] = ""
    needs: tuple[str, ...] = ()


class Hooks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hook events of a harness, the fields of their input, and limits of the context that it accepts."""

    called: str
    events: dict[str, EventKind]
    context: tuple[str, ...] = ()
    most_characters: int = 10_000
    tells: bool = True
    unsure: bool = False
    session: tuple[str, ...] = ("session_id",)
    turn: tuple[str, ...] = ("prompt_id", "turn_id")
    workspace: tuple[str, ...] = ("cwd",)
    prompt: tuple[str, ...] = ("prompt",)
    reply: tuple[str, ...] = ("last_assistant_message",)
    source: tuple[str, ...] = ("source", "trigger", "reason")
    version: tuple[str, ...] = ()
    parent: tuple[str, ...] = ()
    skipped: dict[str, tuple[str, ...]] = {}

    @property
    def compacts(self) -> bool:
        """True if the harness reliably announces that it has compacted a conversation."""
        return "compacted" in self.events.values() and not self.unsure


class Harness(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Row of harnesses.toml: tags and texts that one harness inserts, and its hooks."""

    name: str
    own: tuple[str, ...] = ()
    pasted: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    spans: tuple[InsertedSpan, ...] = ()
    roles: dict[str, Speaker] = {}
    hooks: Hooks | None = None


class _HarnessesFile(msgspec.Struct, forbid_unknown_fields=True):
    """Contents of harnesses.toml."""

    harness: tuple[Harness, ...]


def _read_rows() -> tuple[Harness, ...]:
    """Read the rows of harnesses.toml."""
    with open(os.path.join(os.path.dirname(__file__), "harnesses.toml"), "rb") as file:
        return msgspec.convert(tomllib.load(file), resolved(_HarnessesFile)).harness


ROWS = _read_rows()
SPANS = tuple(dict.fromkeys(span for row in ROWS for span in row.spans))
HOOKS = {row.hooks.called: row.hooks for row in ROWS if row.hooks is not None}
ROLES: dict[str, Speaker] = {theirs: ours for row in ROWS for theirs, ours in row.roles.items()}


def tags(*kinds: Kind) -> str:
    """Return a regex for all harnesses' tag names of these kinds, in any case, `-` equal to `_`."""
    by_letter: dict[str, list[str]] = {}
    for name in dict.fromkeys(_tag_names(kinds)):
        by_letter.setdefault(name[0].lower(), []).append(re.sub(r"(?<=\w)[-_](?=\w)", "[-_]", name[1:]))
    letters = "".join(by_letter)
    branches = (f"[{first}{first.upper()}](?i:{'|'.join(rest)})" for first, rest in by_letter.items())
    return f"(?=[{letters}{letters.upper()}])(?:{'|'.join(branches)})"


def _tag_names(kinds: tuple[Kind, ...]) -> Iterator[str]:
    """Yield the tag names of these kinds that any harness inserts."""
    for row in ROWS:
        for kind in kinds:
            yield from getattr(row, kind)
