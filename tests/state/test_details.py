"""What is known of memories beside their files: durable with the write, inherited by versions, bounded."""

from __future__ import annotations

import asyncio

import pytest

from forged.state import Begun, Detail, Detailing, Known, OwnFile, Said, State, problem_of
from forged.state.details import MOST_BYTES, MOST_KEYS
from tests.state.conftest import opened, raw

TOP = "/home/me/.forge/agents/claude"
SAID = Said("learning", 0.7, {"topic": "debug"}, "claude")
DETAIL = Detail("learning", 0.7, {"topic": "debug"}, "claude")


async def wrote(state: State, *writes: Detailing, key: str = "") -> tuple[Known | None, ...]:
    rows = [
        Begun(
            "1:2:3", OwnFile(each.id, "beef"), key, Known("digest", each.id) if key else None, detailing=each
        )
        for each in writes
    ]
    return await asyncio.wrap_future(state.requests.begin(rows))


async def test_details_are_on_disk_with_the_write_they_are_of(tmp_path):
    async with opened(tmp_path) as state:
        await wrote(state, Detailing(TOP, "mem_1", said=SAID))
        assert state.details.of(TOP, "mem_1") == DETAIL
    async with opened(tmp_path) as state:
        assert state.details.of(TOP, "mem_1") == DETAIL
        assert state.details.of("/elsewhere", "mem_1") == Detail()


async def test_a_new_version_keeps_the_details_of_its_head_but_for_what_it_says(tmp_path):
    async with opened(tmp_path) as state:
        # Both in one transaction: the head of the second is not in memory yet.
        await wrote(
            state,
            Detailing(TOP, "mem_1", said=SAID),
            Detailing(TOP, "mem_2", "mem_1", Said(importance=0.1)),
            Detailing(TOP, "mem_3", "mem_2"),
        )
        assert state.details.of(TOP, "mem_3") == Detail("learning", 0.1, {"topic": "debug"}, "claude")


async def test_of_what_is_forgotten_no_byte_stays(tmp_path):
    said = Said(metadata={"about": "a-word-of-metadata"})
    async with opened(tmp_path) as state:
        await wrote(state, Detailing(TOP, "mem_gone", said=said), Detailing(TOP, "mem_stays", said=SAID))
        await state.details.forget(TOP, ["mem_gone", "mem_never"])
        await state.erase_traces()
        assert state.details.of(TOP, "mem_gone") == Detail()
        assert b"a-word-of-metadata" not in raw(tmp_path)
    async with opened(tmp_path) as state:
        assert state.details.of(TOP, "mem_gone") == Detail()
        assert state.details.of(TOP, "mem_stays") == DETAIL


@pytest.mark.parametrize(
    ("said", "scope", "problem"),
    [
        (Said("learning"), "agent", ""),
        (Said("summary"), "user", ""),
        (Said(), "repo", ""),
        (Said("learning"), "user", "unknown type 'learning' in scope user; use fact, preference, summary"),
        (Said("fact"), "agent", "unknown type 'fact' in scope agent"),
        (Said("fact"), "session", "memories of scope session have no type"),
        (Said(importance=0.0), "user", ""),
        (Said(importance=1.0), "user", ""),
        (Said(importance=1.01), "user", "importance 1.01 is not between 0 and 1"),
        (Said(importance=-0.01), "user", "not between 0 and 1"),
        (Said(importance=float("nan")), "user", "not between 0 and 1"),
        (Said(metadata={str(number): 0 for number in range(MOST_KEYS)}), "org", ""),
        (
            Said(metadata={str(number): 0 for number in range(MOST_KEYS + 1)}),
            "org",
            "33 keys; 32 are the most",
        ),
        (Said(metadata={"k": "x" * (MOST_BYTES - 8)}), "org", ""),
        (Said(metadata={"k": "x" * (MOST_BYTES - 7)}), "org", "takes 4097 bytes; 4096 are the most"),
        (Said(metadata={"": 1}), "org", "a key of metadata is not a text"),
        (Said(metadata={"k" * 129: 1}), "org", "a key of metadata is not a text"),
        (Said(metadata={1: 1}), "org", "a key of metadata is not a text"),
        (Said(metadata={"a\0b": 1}), "org", "not JSON"),
        (Said(metadata={"k": "a\0b"}), "org", "not JSON"),
        (Said(metadata={"k": "\ud800"}), "org", "not JSON"),
        (Said(metadata={"k": float("inf")}), "org", "not JSON"),
        (Said(metadata={"k": 1 << 63}), "org", "not JSON"),
        (Said(metadata={"k": b"bytes"}), "org", "not JSON"),
        (Said(metadata={"k": [[[[[[[1]]]]]]]}), "org", ""),
        (Said(metadata={"k": [[[[[[[[1]]]]]]]]}), "org", "at most 8 levels"),
    ],
)
def test_what_may_be_said_of_a_memory(said, scope, problem):
    found = problem_of(said, scope)
    assert problem in found
    assert bool(problem) == bool(found)
