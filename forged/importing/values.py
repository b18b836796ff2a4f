"""What is read out of other programs' files: memories as their source has them, and what cannot be one.

Every sentence of a source ends in one of the two, so that a person can see what an import loses.
"""

from __future__ import annotations

import hashlib
import uuid

import msgspec

from forged.memory import MOST_CUE_CHARS, MOST_CUES
from forged.text.same_text import normalised

MOST_CHARS = 16_000
"""No memory that is made of somebody else's text is longer; whole memory files may be."""


class Link(msgspec.Struct, frozen=True):
    """From one item to the one of this `key`, with a relationship that memories know."""

    key: str
    relationship: str


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One memory to be; `where` is the file and line, or the number of the entry, that it was read from.

    `place` is a folder in whose repository it belongs, "" for the importing person's; `repo` a repository by
    name. `keys` are what links of other items call it. `file` and `name` are a whole memory file, to be there
    byte by byte; `text` is then its body and `memory_id` its id.
    """

    text: str
    where: str
    source: str = ""
    scope: str = ""
    category: str = ""
    created_at: str = ""
    updated_at: str = ""
    cues: tuple[str, ...] = ()
    place: str = ""
    repo: str = ""
    keys: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    file: bytes = b""
    name: str = ""
    memory_id: str = ""


class SkippedItem(msgspec.Struct, frozen=True, order=True):
    """What was not taken over: where it stands, and why. The text itself is not repeated."""

    where: str
    why: str


class ImportBatch(msgspec.Struct, frozen=True):
    """What one or several sources came to. `formats` counts their files."""

    items: tuple[Item, ...] = ()
    left: tuple[SkippedItem, ...] = ()
    formats: dict[str, int] = {}


def new_id(text: str) -> str:
    """The id that a text gets by being imported: the same each time, so that nothing is there twice."""
    digest = hashlib.blake2b(normalised(text).encode("utf-8", "replace"), digest_size=16).digest()
    return f"mem_{uuid.UUID(bytes=digest, version=5)}"


def fitting_cues(lines: tuple[str, ...]) -> tuple[str, ...]:
    """As many cues as a memory may have, each cut to its length, each once."""
    cut = (" ".join(line.split())[:MOST_CUE_CHARS].rstrip() for line in lines)
    return tuple(dict.fromkeys(filter(None, cut)))[:MOST_CUES]
