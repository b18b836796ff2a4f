"""Whether somebody asks that something be kept, in seven languages; the wordings are data, `requests.toml`.

In goes a text, out comes whether it asks; not what is to be kept. The file is read with the first text,
in some 20 ms; raises re.error for a pattern that is none, msgspec.ValidationError for odd fields.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from typing import Literal

import msgspec

FILE = os.path.join(os.path.dirname(__file__), "requests.toml")
# A request stands at the beginning of what is long, or at its end.
_ENDS = 600


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as it stands in the file."""

    kind: Literal["asks", "not"]
    language: str
    name: str
    pattern: str
    yes: str
    no: str


def asks(text: str) -> bool:
    """Whether a text asks that something be remembered, and nothing in it speaks against that."""
    text = text if len(text) <= 2 * _ENDS else f"{text[:_ENDS]}\n{text[-_ENDS:]}"
    asking, against = _patterns()
    return asking.search(text) is not None and against.search(text) is None


@functools.cache
def wordings() -> tuple[Wording, ...]:
    """Return the file."""
    with open(FILE, "rb") as file:
        return msgspec.convert(tomllib.load(file)["wording"], tuple[Wording, ...])


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    return _any_of("asks"), _any_of("not")


def _any_of(kind: str) -> re.Pattern[str]:
    forms = "|".join(f"(?:{each.pattern})" for each in wordings() if each.kind == kind)
    return re.compile(forms, re.IGNORECASE | re.MULTILINE)
