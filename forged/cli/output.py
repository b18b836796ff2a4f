"""Data on stdout, messages on stderr, both harmless to a terminal.

The JSON form is one object a line with `schema_version` first; a failure is the same object with `error`.
Colour is only for words that carry a state, and off wherever nobody can see it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

import msgspec

from forged.cli.escape import escape, escape_json, escape_line
from forged.cli.exits import BROKEN_PIPE, Stop
from forged.cli.invocation import Invocation
from forged_client.protocol import Reply

SCHEMA_VERSION = 1

_COLOURS = {"good": "32", "warn": "33", "bad": "31", "strong": "1", "faint": "2"}


class Painter(msgspec.Struct, frozen=True):
    """Colours words, or leaves them alone. What it gets is escaped already."""

    on: bool = False

    def __call__(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.on else text


def painter(call: Invocation) -> Painter:
    return Painter(call.colour(sys.stdout))


def say(text: str) -> None:
    """One or several lines of data. Foreign text in it was escaped by the caller, before any colour."""
    _write(sys.stdout, text + "\n")


def say_exactly(text: str) -> None:
    """Foreign text as data, with nothing added but the line end that a terminal needs."""
    ended = "" if text.endswith("\n") or not sys.stdout.isatty() else "\n"
    _write(sys.stdout, escape(text) + ended)


def say_json(value: msgspec.Struct | Mapping[str, object]) -> None:
    """One value as a line of JSON; `type` and `id` of a reply are the wire's business and left out."""
    fields = dict(msgspec.to_builtins(value))
    if isinstance(value, Reply):
        del fields["type"], fields["id"]
    encoded = msgspec.json.encode({"schema_version": SCHEMA_VERSION, **fields})
    _write(sys.stdout, escape_json(encoded.decode()) + "\n")


def tell(message: str) -> None:
    """A line for the person, never part of the data."""
    _write(sys.stderr, escape_line(message) + "\n")


def report(stop: Stop, *, as_json: bool) -> int:
    """Say why a verb ended, in the form that was asked for; returns the exit code."""
    if as_json:
        say_json({"error": {"code": stop.word, "message": str(stop)}})
    else:
        tell(f"forgectl: {stop}")
    return stop.exit_code


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # The reader has enough. Python would try once more at exit and complain: give it a place to write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        sys.exit(BROKEN_PIPE)
