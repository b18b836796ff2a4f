"""Read positions of past sessions: persistent, bounded, and written with events."""

from __future__ import annotations

import pytest

from forged.state import CaptureCursor, LearnedSession
from forged.state import captures as module
from tests.state.conftest import event, opened


def progress(number: int, digests: bytes, mark: str = "") -> LearnedSession:
    cursor = CaptureCursor().grown(digests, float(number))
    return LearnedSession(agent="claude", session_id=f"s{number}", mark=mark, cursor=cursor)


async def test_it_is_known_after_a_restart_with_its_marks_by_agent(directory):
    one, other = progress(1, mark="all", digests=b"12345678"), LearnedSession(agent="codex", session_id="s1")
    async with opened(directory) as state:
        for key, each in (("k1", one), ("k2", other)):
            await state.events.put_all([event()], state.learned.change({key: each}))
    async with opened(directory) as state:
        assert state.learned.get("k1") == one
        assert state.learned.get("unknown") is None
        assert state.learned.marks("claude") == {"s1": "all"}
        assert state.learned.marks("codex") == {"s1": ""}


@pytest.mark.parametrize(("limit", "value"), [("MOST_SESSIONS", 2), ("MOST_LEARNED_BYTES", 20)])
async def test_of_too_many_the_oldest_are_known_no_more_also_in_the_file(
    directory, monkeypatch, limit, value
):
    monkeypatch.setattr(module, limit, value)
    async with opened(directory) as state:
        for number in range(4):
            each = progress(number, digests=b"x" * 8)
            await state.events.put_all([], state.learned.change({f"k{number}": each}))
        assert [number for number in range(4) if state.learned.get(f"k{number}")] == [2, 3]
    monkeypatch.undo()
    async with opened(directory) as state:
        assert [number for number in range(4) if state.learned.get(f"k{number}")] == [2, 3]
