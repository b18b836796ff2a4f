"""The capture cursor of sessions: it outlives the daemon and is bounded, in memory and in the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import StoreError
from forged.state import State
from forged.state import captures as module
from forged.state.captures import DIGEST_BYTES, NOTHING, CaptureCursors
from forged.state.database import Database
from tests.state.conftest import event, opened


def hears(heard: CaptureCursors, session: str, at: float, messages: int = 1) -> None:
    heard.update({session: heard.of(session).grown(bytes(messages * DIGEST_BYTES), at)})


async def in_file(state: State) -> set[str]:
    rows = await state._database.run(lambda connection: tuple(state.capture_cursors.read_all(connection)))
    return {row.key for row in rows}


async def test_the_capture_cursor_of_a_session_survives_a_restart(directory):
    async with opened(directory) as state:
        hears(state.capture_cursors, "s", 1.0, messages=3)
        await state.events.put_all([event()], state.capture_cursors.pending())
        kept = state.capture_cursors.of("s")
    async with opened(directory) as state:
        assert state.capture_cursors.of("s") == kept
        assert state.capture_cursors.of("t") == NOTHING


@pytest.mark.parametrize(("limit", "value"), [("MOST_CURSORS", 2), ("MOST_BYTES", 2 * DIGEST_BYTES)])
async def test_of_too_many_sessions_the_oldest_are_known_no_more_also_in_the_file(
    directory, monkeypatch, limit, value
):
    monkeypatch.setattr(module, limit, value)
    async with opened(directory) as state:
        for number in range(6):
            hears(state.capture_cursors, f"s{number}", float(number))
            await state.events.put_all([], state.capture_cursors.pending())
            assert await in_file(state) == {f"s{each}" for each in range(max(0, number - 1), number + 1)}
        assert state.capture_cursors.of("s3") == NOTHING
    async with opened(directory) as state:
        assert [number for number in range(6) if state.capture_cursors.of(f"s{number}") != NOTHING] == [4, 5]


async def test_a_session_that_made_room_goes_from_the_file_also_when_that_was_not_written_at_once(
    directory, monkeypatch
):
    monkeypatch.setattr(module, "MOST_CURSORS", 1)
    async with opened(directory) as state:
        hears(state.capture_cursors, "old", 1.0)
        await state.events.put_all([], state.capture_cursors.pending())
        hears(state.capture_cursors, "new", 2.0)
        with pytest.raises(StoreError):
            await state.events.put_all([event(text="\udcff")], state.capture_cursors.pending())
        await state.events.put_all([], state.capture_cursors.pending())

        assert await in_file(state) == {"new"}


@given(
    said=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(1, 3)), max_size=40),
    most_sessions=st.integers(1, 4),
    most_messages=st.integers(1, 8),
)
def test_cursors_are_bounded_and_the_file_has_the_same(said, most_sessions, most_messages):
    file = dict[str, bytes]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_CURSORS", most_sessions)
        patch.setattr(module, "MOST_BYTES", most_messages * DIGEST_BYTES)
        heard = CaptureCursors(Database(""))
        for at, (session, messages) in enumerate(said):
            hears(heard, session, float(at), messages)
            for each in heard._unsaved:
                if heard.of(each) == NOTHING:
                    file.pop(each, None)
                else:
                    file[each] = heard.of(each).digests
            heard._unsaved.clear()

            assert len(file) <= most_sessions
            assert sum(map(len, file.values())) <= most_messages * DIGEST_BYTES
            assert all(heard.of(each).digests == digests for each, digests in file.items())
            assert all((heard.of(each) != NOTHING) == (each in file) for each in "abcde")
