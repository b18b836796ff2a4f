"""Recall of the lexical index on LoCoMo, in process; FORGED_LOCOMO is the path of the data."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from forged.map.search import search_maps
from forged.memory import Memory
from tests.data.maps import vector_map
from tests.evaluation import locomo, scores

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
    return locomo.load(Path(path)).repositories


def map_of(memories):
    return vector_map(memories, root="/root")


@pytest.fixture(scope="module")
def of_the_user():
    memories = (
        Memory(f"u{i:05d}", text, "", "", 1, "user", "patterns", "s", "explicit")
        for i, text in enumerate(USER_MEMORIES)
    )
    return map_of(list(memories))


def recall(conversations, *others, k=10, dated=True):
    shares = []
    for conversation in conversations:
        memories = [item.memory for item in conversation.items]
        if not dated:
            memories = [msgspec.structs.replace(memory, created_at="") for memory in memories]
        item_of = {item.memory.id: item for item in conversation.items}
        maps = [map_of(memories), *others]
        for question in conversation.queries:
            hits = search_maps(maps, texts=[question.text], vectors=None, lexical_weight=0.3).best(k)
            ranked = [item_of[maps[0].memories[hit.row].id] for hit in hits if hit.map_index == 0]
            shares.append(scores.recall(question, ranked))
    return fmean(shares)


def test_every_question_with_covered_evidence_is_asked(conversations):
    assert sum(len(conversation.queries) for conversation in conversations) == 631


@pytest.mark.parametrize(("dated", "least"), [(True, 0.755), (False, 0.74)])
def test_lexical_index_finds_the_evidence_also_of_memories_without_a_time(conversations, dated, least):
    assert recall(conversations, dated=dated) >= least


def test_unrelated_user_memories_cost_less_than_half_a_point(conversations, of_the_user):
    assert recall(conversations, of_the_user) > recall(conversations) - 0.005
