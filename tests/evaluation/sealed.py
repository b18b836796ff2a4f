"""Hashes of the sealed sets, which identify a copy anywhere.

`sealed.txt` has the beginning of a SHA-256 sum for each session, conversation and script of the project's
sealed sets, of what is said in it and nothing else, so that other ids, another order, or only some of its
lines are known too. Texts of few characters are left out: anybody may say them. Raises DatasetError when a
file cannot be read.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import msgspec

from tests.evaluation.dataset import DatasetError

_DIGITS = 10
_SHORT = 24
_SAID_IN = {"user", "content", "text", "message", "first", "second"}
_NO_WORD = re.compile(r"[\W_]+")


def is_known(path: Path) -> bool:
    """Whether a file, or one of the lists in a directory, holds something of a sealed set."""
    return any(not _known().isdisjoint(fingerprints(file)) for file in files(path))


def files(path: Path) -> tuple[Path, ...]:
    """The files that a measurement would read of a path."""
    return tuple(sorted(path.glob("*.jsonl"))) if path.is_dir() else (path,) if path.is_file() else ()


def fingerprints(file: Path) -> frozenset[str]:
    """Those of what is said in each line, an object or plain text."""
    try:
        rows = file.read_bytes().split(b"\n")
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}") from error
    said = (_NO_WORD.sub("", text) for text in map(_said, rows))
    sums = (hashlib.sha256(text.encode("utf-8", "replace")) for text in said if len(text) >= _SHORT)
    return frozenset(each.hexdigest()[:_DIGITS] for each in sums)


def _said(row: bytes) -> str:
    try:
        return "".join(_texts(msgspec.json.decode(row)))
    except (msgspec.DecodeError, UnicodeError):
        return row.decode("utf-8", "replace")


def _texts(value: object) -> Iterator[str]:
    """What people and agents say in an object, in its order."""
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in _SAID_IN and isinstance(each, str):
                yield each
            else:
                yield from _texts(each)


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(resources.files(__package__).joinpath("sealed.txt").read_text("ascii").split())
