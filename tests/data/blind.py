"""Secrets and clean text by an author who knew only the names in secret-shapes.txt.

Sealed until the code was done; whoever tunes by it has to draw a new one. The values were drawn and never
were keys; they lie here in base64, so that no scanner stops at the file.
"""

from __future__ import annotations

import base64
import functools
import json
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent


class Blind(NamedTuple):
    """A text, the parts of it that must go, and whether the vendor's form has a fixed prefix."""

    shape: str
    text: str
    secrets: tuple[str, ...]
    has_prefix: bool


@functools.cache
def blind_secrets() -> tuple[Blind, ...]:
    rows = map(json.loads, (_HERE / "blind_secrets.jsonl").read_text(encoding="utf-8").splitlines())
    return tuple(
        Blind(row["shape"], _plain(row["text"]), tuple(map(_plain, row["secret"])), row["fixed_prefix"])
        for row in rows
    )


@functools.cache
def blind_clean() -> tuple[str, ...]:
    lines = (_HERE / "blind_clean.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)["text"] for line in lines)


def _plain(coded: str) -> str:
    return base64.b64decode(coded).decode()
