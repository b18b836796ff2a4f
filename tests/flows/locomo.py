"""Recall on LoCoMo: facts of a conversation as memories, its questions as queries.

LoCoMo (Maharana et al. 2024, snap-research/LoCoMo) is licensed CC BY-NC 4.0: it may measure forged, but no
byte of it is part of the project, so the path always comes from outside (FORGED_LOCOMO). The rules are those
of the paper's retrieval task: a fact is relevant when it shares a dialog id with the question's evidence;
dialog ids that no fact covers do not count, and questions left without any are not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

ANSWERABLE = frozenset({1, 2, 3, 4})  # category 5 asks for what was never said
_DIALOG_ID = re.compile(r"D\d+:\d+")


class Fact(msgspec.Struct, frozen=True):
    """One observation and the dialog ids it was drawn from."""

    text: str
    dialogs: frozenset[str]


class Question(msgspec.Struct, frozen=True):
    """One question and the dialog ids that answer it, all of them covered by some fact."""

    text: str
    evidence: frozenset[str]
    category: int


class Conversation(msgspec.Struct, frozen=True):
    """One store of facts and what is asked of it."""

    facts: tuple[Fact, ...]
    questions: tuple[Question, ...]


def load(path: Path) -> tuple[Conversation, ...]:
    samples = msgspec.json.decode(path.read_bytes(), type=list[dict[str, Any]])
    return tuple(map(_conversation, samples))


def recall_at(facts: Sequence[Fact], ranked: Sequence[int], question: Question, k: int = 10) -> float:
    """Share of the question's evidence found in the first k of `ranked`, which are positions in `facts`."""
    found = frozenset().union(*(facts[i].dialogs for i in ranked[:k]))
    return len(found & question.evidence) / len(question.evidence)


def mean(shares: Iterable[float]) -> float:
    values = list(shares)
    return sum(values) / len(values)


def _conversation(sample: dict[str, Any]) -> Conversation:
    facts = tuple(
        Fact(text, _dialogs(ids))
        for session in sample["observation"].values()
        for spoken in session.values()
        for text, ids in spoken
    )
    covered = frozenset().union(*(fact.dialogs for fact in facts))
    asked = (
        Question(qa["question"], _dialogs(qa.get("evidence", [])) & covered, qa["category"])
        for qa in sample["qa"]
        if qa["category"] in ANSWERABLE
    )
    return Conversation(facts, tuple(question for question in asked if question.evidence))


def _dialogs(ids: str | list[str]) -> frozenset[str]:
    """Dialog ids of a field that is one id, a list of them, or several in one string."""
    return frozenset(_DIALOG_ID.findall(ids if isinstance(ids, str) else " ".join(ids)))
