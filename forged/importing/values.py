"""Values of an import: items that become memories, and text that is skipped with a reason.

Every sentence of a source ends in one of them, so that a person sees any loss.
"""

from __future__ import annotations

import hashlib
import uuid

import msgspec

from forged.memory import MOST_CUE_CHARS, MOST_CUES
from forged.text.same_text import normalised

MOST_CHARS = 16_000
"""Limit for a memory from foreign text; whole memory files may be longer."""


class ItemLink(msgspec.Struct, frozen=True):
    """Link of an imported item to the item that has this key, with the kind of relationship."""

    key: str
    relationship: str


class ImportItem(msgspec.Struct, frozen=True, kw_only=True):
    """Memory to import; `where` is its file and line, or the number of its entry.

    `place` is a folder in its repository, "" for the importing person's. `repo` is a repository by name.
    `keys` are names that links use. `file` and `name` are a whole memory file, imported byte by byte; then
    `text` is its body and `memory_id` its id.
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
    links: tuple[ItemLink, ...] = ()
    file: bytes = b""
    name: str = ""
    memory_id: str = ""


class SkippedPart(msgspec.Struct, frozen=True, order=True):
    """Part of an imported source or an exported root that is skipped: place and reason, never the text."""

    where: str
    why: str


class ImportBatch(msgspec.Struct, frozen=True):
    """Items and skipped parts read from one or several sources; `formats` counts files by format."""

    items: tuple[ImportItem, ...] = ()
    left: tuple[SkippedPart, ...] = ()
    formats: dict[str, int] = {}


def id_of_text(text: str) -> str:
    """Return a memory id derived from the normalised text, so that a repeated import finds it."""
    digest = hashlib.blake2b(normalised(text).encode("utf-8", "replace"), digest_size=16).digest()
    return f"mem_{uuid.UUID(bytes=digest, version=5)}"


def fitting_cues(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return distinct non-empty cues in one line each, cut to the allowed length and number."""
    cut = (" ".join(line.split())[:MOST_CUE_CHARS].rstrip() for line in lines)
    return tuple(dict.fromkeys(filter(None, cut)))[:MOST_CUES]
