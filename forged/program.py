"""A program of the user that answers like a chat model, as a value."""

from __future__ import annotations

import msgspec


class Program(msgspec.Struct, frozen=True):
    """A user's program that answers like a chat model, with its command, environment and key.

    `name` is its name in lists, `row` describes its command line, `command` is the absolute path with the
    arguments before those of the row, `env` the environment passed to it, `key` the API key.
    """

    name: str = ""
    row: str = ""
    model: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    key: str = ""

    def __repr__(self) -> str:
        return f"Program(name={self.name!r})"
