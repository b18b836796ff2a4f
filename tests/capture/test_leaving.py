"""An event that is over leaves the disk, and nothing that is written meanwhile brings it back there.

The next daemon would judge it once more, and no `forget` would find it: that looks at what waits.
"""

from __future__ import annotations

import asyncio

import pytest

from forged.state import Event
from forged.text.forgetting import words_of
from tests.capture.pipeline import Capture, captured
from tests.support.clock import later, turns, until

HARBOUR = [words_of("the harbour opens")]


@pytest.fixture
def one(tmp_path):
    return captured(tmp_path)


async def grown_in_hand(one: Capture) -> Event:
    """What the worker has: on disk as it was before its session's last turn, so it is due to be written."""
    other, grown = one.event(session="other"), one.event("The harbour opens at noon.")
    await one.accepted(other, grown)
    await one.hands_over(other)
    await later(1)
    await until(lambda: len(one.rows()) == 2)
    await one.accepted(one.event("Trains run."))
    one.done(other)
    await one.hands_over(grown)
    assert one.pipeline._flusher.is_due
    return grown


async def die_of(one: Capture, event: Event) -> None:
    """Two of the three times that it takes."""
    for attempt in (2, 3):
        one.worker.dies()
        await one.hands_over(event, attempt)


async def goes_while_others_are_written(one: Capture, event: Event, *, dies: bool = False) -> None:
    """It ends just as all that is not on disk is written."""
    with one.held_disk():
        one.worker.dies() if dies else one.done(event)
        await turns()
        await later(1)
    await one.idle()
    await until(lambda: not one.pipeline._flusher.is_due)


async def test_an_event_that_is_done_is_not_written_again_by_what_is_written_as_it_goes(one):
    event = await grown_in_hand(one)
    await goes_while_others_are_written(one, event)

    assert one.rows() == []
    await one.pipeline.purge(HARBOUR)
    assert b"harbour" not in await one.bytes_on_disk()


async def test_an_event_that_is_given_up_is_among_the_dead_and_nowhere_else(one):
    event = await grown_in_hand(one)
    await die_of(one, event)
    await goes_while_others_are_written(one, event, dies=True)

    assert (one.rows(), one.rows("dead")) == ([], [f"{event.id}.dead"])


async def test_an_event_that_could_not_be_given_up_waits_on_and_is_stored_at_the_end(one):
    one.disk.failing = frozenset({"give_up"})
    event = await grown_in_hand(one)
    await die_of(one, event)
    one.worker.dies()
    await until(lambda: not one.in_hand)
    await one.stop()

    assert one.rows() == [f"{event.id}.events"]
    async with captured(one.top) as again:
        task = await again.hands_over(event)
        assert [each.text for each in task.event.window] == ["The harbour opens at noon.", "Trains run."]


async def test_a_sentence_that_is_forgotten_as_an_event_goes_does_not_bring_the_rest_of_it_back(one):
    event = one.durable("Boats float. The harbour opens at noon.")
    await one.accepted(event)
    await one.hands_over(event)
    with one.held_disk():
        one.done(event)
        await turns()
        purging = asyncio.create_task(one.pipeline.purge(HARBOUR))
        await until(lambda: "harbour" not in one.pipeline._queue.events()[0].window[0].text)
    await purging
    await one.idle()

    assert one.rows() == []
    assert b"Boats" not in await one.bytes_on_disk()
