"""Recall of the lexical leg on LoCoMo, in process. The data is not ours: FORGED_LOCOMO says where it lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged.graph import NO_CHAINS
from forged.memory import Memory
from forged.vector_map import VectorMap, search
from tests.flows import locomo
from tests.support.maps import lexical_leg

# What somebody who works with agents keeps about themselves: nothing of it is about the people of LoCoMo.
USER_MEMORIES = [
    f"{habit} {place}"
    for habit in (
        "Prefers ruff over flake8",
        "Wants commit messages in the imperative",
        "Runs the tests with pytest -x",
        "Never uses mock.patch for own modules",
        "Keeps functions under thirty lines",
        "Pins dependencies with uv",
        "Reviews migrations twice",
        "Uses structured logging without f-strings",
        "Likes small pull requests",
        "Writes docstrings that say what is raised",
    )
    for place in (
        "in every Python repository.",
        "on the payments team.",
        "before a release.",
        "when pairing with an agent.",
        "for the data pipeline.",
        "unless the linter disagrees.",
    )
]


@pytest.fixture(scope="module")
def conversations():
    path = os.environ.get("FORGED_LOCOMO")
    if not path:
        pytest.skip("FORGED_LOCOMO is not set: recall on LoCoMo was NOT measured")
    return locomo.load(Path(path))


def map_of(texts, prefix="m"):
    memories = tuple(
        Memory(f"{prefix}{i:05d}", text, "", "", 1, "repo", "patterns", "s", "explicit")
        for i, text in enumerate(texts)
    )
    rows = {memory.id: row for row, memory in enumerate(memories)}
    return VectorMap("/root", "repo", 1, memories, rows, lexical_leg(memories), None, NO_CHAINS)


def recall(conversations, *others, k=10):
    shares = []
    for conversation in conversations:
        maps = [map_of(fact.text for fact in conversation.facts), *others]
        for question in conversation.questions:
            hits = search(maps, texts=[question.text], vectors=None, k=k, lexical_weight=0.3)
            ranked = [hit.row for hit in hits if hit.map_index == 0]
            shares.append(locomo.recall_at(conversation.facts, ranked, question, k))
    return locomo.mean(shares)


def test_every_question_with_covered_evidence_is_asked(conversations):
    assert sum(len(conversation.questions) for conversation in conversations) == 631


def test_lexical_leg_finds_the_evidence(conversations):
    assert recall(conversations) >= 0.72


def test_unrelated_user_memories_cost_less_than_half_a_point(conversations):
    assert recall(conversations, map_of(USER_MEMORIES, "u")) > recall(conversations) - 0.005
