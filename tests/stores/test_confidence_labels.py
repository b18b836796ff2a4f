"""Confidence labels of hits in a list."""

from __future__ import annotations

import pytest

from forged.map import evidence_threshold
from forged.map.gate import confidence_label
from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put

STRONG = evidence_threshold(0.95)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (STRONG, "strong"),
        (STRONG - 0.01, "near"),
        (STRONG - 1.25, "near"),
        (STRONG - 1.26, "weak"),
        (-5.0, "weak"),
    ],
)
def test_the_words_are_the_tiers_of_the_gate(evidence, expected):
    assert confidence_label(evidence, STRONG) == expected


async def found(parts, top, query: str, **fields) -> dict[str, str]:
    reply = await parts.ask(wire.Search(workspace=str(top), query=query, **fields))
    return {hit.id: hit.found.admitted_as for hit in reply.memories}


async def test_what_a_query_names_is_strong_and_what_shares_an_everyday_word_is_not(home, repo):
    put(repo, memory("mem_a", "The parser of Kubernetes manifests runs quintessence tests on zephyr."))
    for number in range(8):
        put(repo, memory(f"mem_{number}", f"A note about the release number {number} of the year."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        rated = await found(parts, repo, "kubernetes manifests zephyr quintessence year", rated=True)
        plain = await found(parts, repo, "kubernetes manifests zephyr quintessence year")

    assert rated["mem_a"] == "strong"
    assert {each for name, each in rated.items() if name != "mem_a"} <= {"near", "weak"}
    assert list(rated) == list(plain)  # a word changes no order
    assert set(plain.values()) == {""}  # and nobody pays for one that is not wanted
