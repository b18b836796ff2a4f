"""Deterministic memories to measure with: texts, files and vectors, alike in every process and commit.

It imports nothing of forged, so that two commits get the same bytes. Words follow Zipf's law over 4,000
stems, as in real text. A vocabulary of two dozen words would put every term into every memory, which is
unrealistic for the lexical index.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
BODY_BYTES = 600
_PASSAGE_BYTES = 400
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se")
_SYLLABLES += ("ti", "vo", "wu", "xa", "ye", "zi", "lo", "mer", "tan", "gil", "sor", "pad")
_WORDS = 4000
_FILE = """---
id: {id}
created_at: {when}
updated_at: {when}
version: 1
scope: repo
category: project-conventions
{related}session_id: session-{session}
trigger: cadence
---
{content}"""


class Text(msgspec.Struct, frozen=True):
    """One memory: its id, its text, and the bytes of its file."""

    id: str
    content: str
    file: bytes


def write_texts(top: Path, texts: Sequence[str]) -> None:
    """Write files of memories with these texts below a root's top."""
    place = top / ".forge/memory"
    place.mkdir(parents=True)
    for number, text in enumerate(texts):
        when = f"2026-01-{number % 28 + 1:02}T{number % 24:02}:00:00.000000Z"
        fields = {"id": name(number), "when": when, "related": "", "session": number, "content": f"{text}\n"}
        (place / f"{name(number)}.md").write_text(_FILE.format(**fields), encoding="utf-8")


def memory(number: int, edition: int = 0, body_bytes: int = BODY_BYTES) -> Text:
    """Return one memory of 600 bytes; another edition has the same id and other words."""
    source = random.Random(number * 1_000_003 + edition)
    text = " ".join([f"fact{number}edition{edition}", *words(source, body_bytes // 5)])
    content = text[: body_bytes - 1] + "\n"
    when = f"2026-01-{number % 28 + 1:02}T{number % 24:02}:00:00.000000Z"
    file = _FILE.format(
        id=name(number), when=when, related=_related(number), session=number % 50, content=content
    )
    return Text(name(number), content, file.encode())


def _related(number: int) -> str:
    """Return links: a third each of the memories has none, one and two."""
    edges = [
        f"    - id: {name(number - back)}\n      relationship: refines\n"
        for back in range(1, number % 3 + 1)
        if number >= back
    ]
    return "related:\n" + "".join(edges) if edges else ""


def words(source: random.Random, count: int) -> list[str]:
    return [_word(int(_WORDS ** source.random())) for _ in range(count)]


def _word(rank: int) -> str:
    name = ""
    rank += len(_SYLLABLES)
    while rank:
        rank, digit = divmod(rank, len(_SYLLABLES))
        name += _SYLLABLES[digit]
    return name


def name(number: int) -> str:
    return f"mem_{number:06d}"


def write(
    top: Path,
    count: int,
    edition: int = 0,
    folder: str = ".forge/memory",
    body_bytes: int = BODY_BYTES,
) -> Path:
    """Write files of `count` memories below a root's top; return their directory."""
    place = top / folder
    place.mkdir(parents=True)
    for number in range(count):
        (place / f"{name(number)}.md").write_bytes(memory(number, edition, body_bytes).file)
    return place


def passages(count: int) -> list[str]:
    """Return texts of about 150 tokens, as a model counts them."""
    return [memory(number, body_bytes=_PASSAGE_BYTES).content for number in range(count)]


def opening(number: int, count: int = 12) -> str:
    """Return the first words of a memory, which are a query for it."""
    return " ".join(memory(number).content.split()[:count])


def hypotheses(number: int, count: int = 5) -> tuple[str, ...]:
    """Return sentences of a dozen words; the first is about the memory of this number."""
    source = random.Random(-number - 1)
    return (opening(number), *(" ".join(words(source, 12)) for _ in range(count - 1)))


def vector(text: str) -> NDArray[np.float32]:
    """Return a unit vector that depends on the first word alone."""
    first = text.partition(" ")[0]
    seed = int.from_bytes(hashlib.blake2b(first.encode(), digest_size=8).digest())
    row = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    return row / np.linalg.norm(row)


def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return unit rows, shape (len(texts), 384)."""
    return np.stack([vector(text) for text in texts])


def units(seed: int, count: int, dimension: int) -> NDArray[np.float32]:
    """Return random unit rows, the same for forged and for its peer."""
    rows = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows
