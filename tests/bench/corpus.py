"""Memories to measure with: deterministic texts, files and vectors, alike in every process.

Words follow Zipf's law over 4,000 stems, as text does: a vocabulary of two dozen words would put every term
into every memory, and the lexical leg would be measured on something that nobody has.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forged.files.frontmatter import render
from forged.memory import Memory, Related
from forged.models import Vectors

DIMENSION = 384
BODY_BYTES = 600
_SYLLABLES = [
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "wu",
    "xa",
    "ye",
    "zi",
    "lo",
    "mer",
    "tan",
    "gil",
    "sor",
    "pad",
]
_WORDS = 4000


def words(source: random.Random, count: int) -> list[str]:
    return [_word(int(_WORDS ** source.random())) for _ in range(count)]


def _word(rank: int) -> str:
    name = ""
    rank += len(_SYLLABLES)
    while rank:
        rank, digit = divmod(rank, len(_SYLLABLES))
        name += _SYLLABLES[digit]
    return name


def memory(number: int, edition: int = 0, scope: str = "repo") -> Memory:
    """One memory of 600 bytes; another edition has the same id and other words."""
    source = random.Random(number * 1_000_003 + edition)
    text = " ".join([f"fact{number}edition{edition}", *words(source, 110)])
    when = f"2026-01-{number % 28 + 1:02}T{number % 24:02}:00:00.000000Z"
    return Memory(
        id=name(number),
        content=text[: BODY_BYTES - 1] + "\n",
        created_at=when,
        updated_at=when,
        version=1,
        scope=scope,
        category="project-conventions",
        session_id=f"session-{number % 50}",
        trigger="cadence",
        related=tuple(Related(name(number - back), "refines") for back in range(1, number % 3 + 1)),
    )


def name(number: int) -> str:
    return f"mem_{number:06d}"


def write(top: Path, count: int, edition: int = 0, folder: str = ".forge/memory") -> Path:
    """Files of `count` memories below a root's top; returns their directory."""
    place = top / folder
    place.mkdir(parents=True)
    for number in range(count):
        (place / f"{name(number)}.md").write_bytes(render(memory(number, edition)))
    return place


def hypotheses(number: int, count: int = 5) -> tuple[str, ...]:
    """Sentences of a dozen words; the first is about the memory of this number."""
    source = random.Random(-number - 1)
    own = " ".join(memory(number).content.split()[:12])
    return (own, *(" ".join(words(source, 12)) for _ in range(count - 1)))


def vector(text: str) -> Vectors:
    """A unit vector that depends on the first word alone: whoever begins alike means the same."""
    first = text.partition(" ")[0]
    seed = int.from_bytes(hashlib.blake2b(first.encode(), digest_size=8).digest())
    row = np.random.default_rng(seed).standard_normal(DIMENSION, dtype=np.float32)
    return row / np.linalg.norm(row)


def vectors(texts: Sequence[str]) -> Vectors:
    """Unit rows, shape (len(texts), 384)."""
    return np.stack([vector(text) for text in texts])
