"""Sentences with the names in them, and questions over two of them: the tables of `whole_names.toml`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec


class Sentence(msgspec.Struct, frozen=True):
    """Sentence of the store, and all names in it."""

    id: str
    text: str
    names: tuple[str, ...]


class Question(msgspec.Struct, frozen=True):
    """Question, the sentences that answer it, and those about names that only look alike."""

    text: str
    answer: tuple[str, ...]
    never: tuple[str, ...]

    def missed(self, found: list[str]) -> list[str]:
        """Return the ids of sentences that lack in an answer, or that it has and must not have."""
        return sorted({*self.answer} - {*found}) + sorted({*self.never} & {*found})


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
SENTENCES = tuple(msgspec.convert(each, Sentence) for each in _TABLES["sentence"])
QUESTIONS = tuple(msgspec.convert(each, Question) for each in _TABLES["question"])
