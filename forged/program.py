"""A program of the person's own that is asked like a chat model, as a value."""

from __future__ import annotations

import msgspec


class Program(msgspec.Struct, frozen=True):
    """A program that answers like a chat model, and all that is needed to call it.

    `name` is what it is called in lists, `row` how it is called, `command` the absolute path and arguments
    before those of the row, `env` what it may be given of the environment, `key` the key itself.
    """

    name: str = ""
    row: str = ""
    model: str = ""
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    key: str = ""

    def __repr__(self) -> str:
        return f"Program(name={self.name!r})"
