"""The capture queue: order, waits, and growth of a pending turn."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forged.capture.queue import CaptureQueue, QueuedEvent
from forged.capture.slices import WINDOW_LIMIT
from forged.conversation import Utterance
from forged.files.roots import Root
from forged.memory import Scope
from forged.state import Event
from tests.faults.amount import times

REPO, OTHER = Root("/srv/repo", Scope.REPO), Root("/srv/other", Scope.REPO)
DURABLE = ["compaction", "session_end", "explicit", "learned"]


def turn(number: int, session: str = "a", size: int = 0, **fields: object) -> Event:
    said = (Utterance("user", "x" * (size - 576) if size else f"said {number}"),)
    given = {"kind": "turn", "roots": (REPO,), "window": said, "received_at": ""} | fields
    return Event(id=f"ev_{number:03}", session_id=session, **given)


def never(_: QueuedEvent) -> bool:
    return False


def numbers(entities) -> list[int]:
    """Numbers of events, or of what waits."""
    return [int(getattr(thing, "event", thing).id[3:]) for thing in entities]


def drained(queue: CaptureQueue, now: float = 1e9) -> list[int]:
    """Numbers of all that can be taken now, in the order of taking."""
    order = []
    while (waiting := queue.take(now, never)) is not None:
        order += numbers([waiting])
        assert queue.finish() is waiting
    return order


def waits(queue: CaptureQueue, *events: Event, on_disk: bool = False) -> CaptureQueue:
    """The queue, in which these wait too."""
    for event in events:
        queue.add(event, on_disk=on_disk)
    return queue


@pytest.fixture
def queue() -> CaptureQueue:
    return CaptureQueue()


# Order.


def test_past_sessions_come_after_all_others(queue):
    waits(queue, turn(0, "past", kind="learned"), turn(1, "old", kind="learned"), turn(2), turn(3, "b"))

    assert queue.holds(queue.waiting()[0].session)
    assert drained(queue) == [2, 3, 0, 1]
    assert not queue.holds("past")


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "backs off"])
def test_event_that_has_to_wait_lets_other_sessions_pass_and_not_its_own_events(queue, is_held):
    waits(queue, turn(0, "a"), turn(1, "a", kind="explicit"), turn(2, "b"))
    if not is_held:
        queue.take(100, never)
        queue.put_back(100, 5)

    def held(waiting: QueuedEvent) -> bool:
        return is_held and waiting.event.id == "ev_000"

    assert numbers([queue.take(104.9, held)]) == [2]
    queue.finish()
    assert queue.take(104.9, held) is None
    assert drained(queue, 105) == [0, 1]


def test_time_to_wait_is_that_of_the_next_head(queue):
    assert queue.wait_s(0, never) is None
    waits(queue, turn(1, "a"), turn(2, "a"))
    assert queue.wait_s(0, never) == 0
    queue.take(100, never)
    assert queue.wait_s(100, never) is None  # whoever has it in hand will tell
    queue.put_back(100, 8)
    assert queue.wait_s(102, never) == 6
    waits(queue, turn(3, "b"))
    assert queue.wait_s(102, never) == 0
    queue.take(102, never)
    queue.put_back(102, 2)
    assert queue.wait_s(102, never) == 2
    assert queue.wait_s(102, lambda waiting: waiting.event.session_id == "b") == 6
    assert queue.wait_s(102, lambda event: True) is None


# What grows by what.


def said(event: Event) -> list[str]:
    return [utterance.text for utterance in event.window]


# What waits, what comes, whether that is added to it, and the order then.
GROWTH: dict[str, tuple[list[Event], Event, bool, list[int]]] = {
    "another turn": ([turn(1)], turn(2), True, [1]),
    "behind others": ([turn(1), turn(2, "b")], turn(3), True, [1, 2]),
    "another session": ([turn(1)], turn(2, "b"), False, [1, 2]),
    "another place": ([turn(1)], turn(2, roots=(OTHER,)), False, [1, 2]),
    "no session": ([turn(1, "")], turn(2, ""), False, [1, 2]),
    "what was asked for before": ([turn(1), turn(3, kind="explicit")], turn(4), False, [1, 3, 4]),
    "no room": ([turn(1, size=WINDOW_LIMIT)], turn(2, size=WINDOW_LIMIT), False, [1, 2]),
    "a message that goes on": ([turn(1, goes_on=True)], turn(2, begun=True), False, [1, 2]),
    "the rest of a message": ([turn(1)], turn(2, begun=True), False, [1, 2]),
} | {
    f"a {newer} after a {kind}": ([turn(1, kind=kind)], turn(2, kind=newer), False, [1, 2])
    for kind in ("turn", *DURABLE)
    for newer in ("turn", *DURABLE)
    if (kind, newer) != ("turn", "turn")
}


@pytest.mark.parametrize("on_disk", [True, False], ids=["stored", "in_memory"])
@pytest.mark.parametrize("name", GROWTH)
def test_only_the_newest_turn_of_a_session_that_waits_grows(queue, name, on_disk):
    """And is no longer stored as it is."""
    waiting, newer, grows, order = GROWTH[name]
    waits(queue, *waiting, on_disk=on_disk)

    assert queue.add(newer, on_disk=True) is grows
    whole = [*(text for event in waiting for text in said(event)), *said(newer)]
    assert sorted(text for event in queue.events() for text in said(event)) == sorted(whole)
    assert numbers(queue.in_memory()) == (numbers(waiting) if not on_disk else [1] if grows else [])
    assert drained(queue) == order


def test_an_event_that_was_tried_or_taken_up_grows_no_more(queue):
    """What is said next must not be given up with what kills the worker."""
    waits(queue, turn(1)).take(0, never).kills = 2
    assert not queue.add(turn(2), on_disk=False)
    queue.put_back(0, 30)
    assert queue.add(turn(3), on_disk=False)
    queue.add(turn(4, "b"), on_disk=True, sealed=True)
    assert not queue.add(turn(5, "b"), on_disk=False)

    assert [said(event) for event in queue.events()] == [
        ["said 1"],
        ["said 2", "said 3"],
        ["said 4"],
        ["said 5"],
    ]


# When an event is ripe.


@pytest.fixture
def batches() -> CaptureQueue:
    return CaptureQueue(batch_turns=3)


def spoken(queue: CaptureQueue, *events: Event, now: float, at_once: bool = False) -> None:
    for event in events:
        queue.add(event, on_disk=False, now=now, at_once=at_once)


@pytest.mark.parametrize("then", ["urgent", *DURABLE, "full", "long", "asked"])
def test_turns_wait_no_longer_when(batches, then):
    spoken(batches, turn(1), now=0)
    match then:
        case "urgent":
            spoken(batches, turn(2), now=0, at_once=True)
            spoken(batches, turn(3), now=0)  # nor for what is said after that
        case "full":
            spoken(batches, turn(2, size=WINDOW_LIMIT + 576), now=0)
        case "long":
            spoken(batches, turn(2, goes_on=True), now=0)
        case "asked":
            batches.ripen(batches._line[0].session)
        case kind:
            spoken(batches, turn(2, kind=kind), now=0)

    assert numbers([batches.take(0, never)]) == [1]


def test_only_what_is_not_stored_counts_as_in_memory():
    queue = CaptureQueue()
    waits(queue, *(turn(number, str(number), size=900) for number in range(3)), on_disk=True)

    queue.add(turn(4, "d", size=900), on_disk=False)
    assert (queue.bytes, numbers(queue.in_memory()), queue.turns) == (900, [4], 4)


def test_a_long_line_is_asked_about_once_for_every_session(queue):
    waits(queue, *(turn(number, str(number % 64)) for number in range(500)), on_disk=True)
    asked = []

    def held(event: Event) -> bool:
        asked.append(event)
        return True

    assert queue.take(0, held) is None
    assert numbers(asked) == list(range(64))


# All rules at once, against a model that knows only what was promised.

SESSIONS = "abcd"


class Line(RuleBasedStateMachine):
    """`alive` are the texts that were added and not finished or dropped; all else is asked of the queue."""

    @initialize(batch_turns=st.sampled_from([1, 3]))
    def begin(self, batch_turns):
        self.queue = CaptureQueue(batch_turns=batch_turns)
        self.now, self.count = 0.0, 0
        self.alive: dict[int, Event] = {}
        self.held: set[str] = set()

    def is_held(self, waiting: QueuedEvent) -> bool:
        return waiting.event.session_id in self.held

    @rule(
        session=st.sampled_from(SESSIONS),
        kind=st.sampled_from(["turn", "turn", "turn", "turn", *DURABLE]),
        size=st.sampled_from([600, 1500, 40_000]),
        stored=st.booleans(),
        at_once=st.booleans(),
        roots=st.sampled_from([(REPO,), (OTHER,)]),
    )
    def add(self, *, session, kind, size, stored, at_once, roots):
        self.count += 1
        event = turn(self.count, session, kind=kind, roots=roots)
        text = f"{self.count} {'x' * size}"
        event = msgspec.structs.replace(event, window=(Utterance("user", text),))
        before = self.queue.events()
        grew = self.queue.add(event, on_disk=stored, now=self.now, at_once=at_once)
        self.alive[self.count] = event
        assert len(self.queue) == len(before) + (not grew)
        assert not grew or kind == "turn"

    @rule()
    def take(self):
        hand = self.queue.in_hand
        expected = self.takeable()
        taken = self.queue.take(self.now, self.is_held)
        if hand is not None:
            assert taken is None
        elif taken is None:
            assert not expected
        else:
            assert numbers([taken])[0] in expected

    def takeable(self) -> set[int]:
        """First event of every session, if it may be worked on."""
        heads = {}
        for waiting in self.queue._line:
            heads.setdefault((waiting.event.session_id, waiting.event.roots), waiting)
        return {
            numbers([waiting])[0]
            for waiting in heads.values()
            if not self.is_held(waiting) and waiting.ready_at <= self.now
        }

    def left(self, waiting) -> None:
        for text in said(waiting.event):
            del self.alive[int(text.split()[0])]

    @rule(delay=st.sampled_from([0, 1, 10]))
    def put_back(self, delay):
        if self.queue.in_hand is not None:
            self.queue.put_back(self.now, delay)

    @rule()
    def finish(self):
        if self.queue.in_hand is not None:
            self.left(self.queue.finish())

    @rule(session=st.sampled_from(SESSIONS))
    def drop(self, session):
        hand = self.queue.in_hand
        for waiting in self.queue.waiting():
            if waiting.event.session_id == session and not waiting.is_cancelled:
                self.queue.drop(waiting)
                assert waiting.is_cancelled == (waiting is hand)
                if waiting is not hand:
                    self.left(waiting)

    @rule(seconds=st.sampled_from([0.5, 5, 70]))
    def wait(self, seconds):
        self.now += seconds

    @rule(session=st.sampled_from(SESSIONS))
    def hold_or_let_go(self, session):
        self.held ^= {session}

    @invariant()
    def nothing_is_lost_or_twice(self):
        texts = [text for event in self.queue.events() for text in said(event)]
        assert sorted(int(text.split()[0]) for text in texts) == sorted(self.alive)

    @invariant()
    def every_session_is_in_its_order(self):
        by_session: dict[object, list[int]] = {}
        for event in self.queue.events():
            order = by_session.setdefault((event.session_id, event.roots), [])
            order += [int(text.split()[0]) for text in said(event)]
        assert all(order == sorted(order) for order in by_session.values())

    @invariant()
    def no_window_is_larger_than_a_classifier_can_take(self):
        assert all(event.length <= WINDOW_LIMIT for event in self.queue.events())

    @invariant()
    def only_the_last_of_a_session_waits_for_more(self):
        last = {waiting.session: waiting for waiting in self.queue._line}
        assert all(not w.ripe_at for w in self.queue._line if w is not last[w.session])

    @invariant()
    def time_to_wait_is_right(self):
        if self.queue.in_hand is None:
            wait_s = self.queue.wait_s(self.now, self.is_held)
            assert (wait_s == 0) == bool(self.takeable())

    def teardown(self):
        """Whatever is there ends in hand in the end."""
        if self.queue.in_hand is not None:
            self.queue.put_back(self.now, 0)
        waiting = numbers(self.queue.events())
        assert sorted(drained(self.queue, self.now + 100)) == sorted(waiting)


TestLine = Line.TestCase
TestLine.settings = settings(max_examples=times(150, 30), stateful_step_count=40, deadline=None)
