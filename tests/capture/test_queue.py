"""Who waits, in which order, who takes whose place and who has to go."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from forged.capture.queue import CaptureQueue
from forged.conversation import Utterance
from forged.files.roots import Root
from forged.memory import Scope
from forged.state import Event

REPO, OTHER = Root("/srv/repo", Scope.REPO), Root("/srv/other", Scope.REPO)
DURABLE = ["compaction", "session_end", "explicit"]


def turn(number: int, session: str = "a", window: str = "w", size: int = 0, **fields: object) -> Event:
    said = (Utterance("user", "x" * (size - 576)),) if size else ()
    given = {"kind": "turn", "roots": (REPO,), "window": said, "received_at": ""} | fields
    return Event(id=f"ev_{number:03}", session_id=session, window_id=window, **given)


def never(_: Event) -> bool:
    return False


def numbers(things) -> list[int]:
    """Numbers of events, or of what waits."""
    return [int(getattr(thing, "event", thing).id[3:]) for thing in things]


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


def test_sessions_are_served_in_the_order_they_came(queue):
    waits(queue, *(turn(number, session, str(number)) for number, session in enumerate("abcb")))

    assert drained(queue) == [0, 1, 2, 3]
    assert queue.take(0, never) is None


def test_event_that_is_put_back_keeps_its_place(queue):
    first = waits(queue, turn(0, "a"), turn(1, "b"), turn(2, "c")).take(0, never)
    assert queue.in_hand is first
    queue.put_back(0, 0)
    assert queue.in_hand is None

    assert drained(queue) == [0, 1, 2]


@pytest.mark.parametrize("is_held", [True, False], ids=["held", "backs off"])
def test_event_that_has_to_wait_lets_other_sessions_pass_and_not_its_own_events(queue, is_held):
    waits(queue, turn(0, "a"), turn(1, "a", kind="explicit"), turn(2, "b"))
    if not is_held:
        queue.take(100, never)
        queue.put_back(100, 5)

    def held(event: Event) -> bool:
        return is_held and event.id == "ev_000"

    assert numbers([queue.take(104.9, held)]) == [2]
    queue.finish()
    assert queue.take(104.9, held) is None
    assert drained(queue, 105) == [0, 1]


def test_session_that_is_held_in_one_repository_goes_on_in_another(queue):
    waits(queue, turn(1, roots=(REPO,)), turn(2, roots=(OTHER,)))

    assert numbers([queue.take(0, lambda event: REPO in event.roots)]) == [2]


def test_journals_without_events_do_not_hold_each_other_up(queue):
    waits(queue, *(Event(id=f"ev_00{number}", kind="explicit") for number in (1, 2)), on_disk=True)
    queue.take(0, never)
    queue.put_back(0, 60)

    assert numbers([queue.take(0, never)]) == [2]


def test_time_to_wait_is_that_of_the_next_head(queue):
    assert queue.wait_s(0, never) is None
    waits(queue, turn(1, "a"), turn(2, "a", window="later"))
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
    assert queue.wait_s(102, lambda event: event.session_id == "b") == 6
    assert queue.wait_s(102, lambda event: True) is None


# Who takes whose place.

# What waits, what comes, whose place that takes, and the order then.
PLACES: dict[str, tuple[list[Event], Event, list[int], list[int]]] = {
    "newer window": ([turn(1)], turn(2), [1], [2]),
    "end of the session": ([turn(1)], turn(2, kind="session_end"), [1], [2]),
    "compaction": ([turn(1)], turn(2, kind="compaction"), [1], [2]),
    "another window": ([turn(1)], turn(2, window="v"), [], [1, 2]),
    "another session": ([turn(1)], turn(2, "b"), [], [1, 2]),
    "another place": ([turn(1)], turn(2, roots=(OTHER,)), [], [1, 2]),
    "no place": ([turn(1)], turn(2, roots=()), [], [1, 2]),
    "explicit wish": ([turn(1)], turn(2, kind="explicit"), [], [1, 2]),
    "windows without a name": ([turn(1, window="")], turn(2, window=""), [], [1, 2]),
    "revived turn": ([turn(2)], turn(1), [], [2, 1]),
    "a summary between": ([turn(1, window="v"), turn(2)], turn(3), [2], [1, 3]),
    "what was asked for before": ([turn(1), turn(2, "b"), turn(3, kind="explicit")], turn(4), [1], [2, 3, 4]),
} | {
    f"{newer} for a {kind}": ([turn(1, kind=kind)], turn(2, kind=newer), [], [1, 2])
    for kind in DURABLE
    for newer in ("turn", *DURABLE)
}


@pytest.mark.parametrize("on_disk", [True, False], ids=["spooled", "in_memory"])
@pytest.mark.parametrize("name", PLACES)
def test_only_a_waiting_turn_is_replaced_and_by_what_contains_it(queue, name, on_disk):
    waiting, newer, replaced, order = PLACES[name]
    waits(queue, *waiting, on_disk=on_disk)

    change = queue.add(newer, on_disk=True)

    assert (numbers(change.coalesced), change.evicted) == (replaced, ())
    assert all(gone.on_disk is on_disk for gone in change.coalesced)
    assert drained(queue) == order


def test_newer_event_replaces_all_that_it_contains(queue):
    waits(queue, turn(1)).take(0, never)
    waits(queue, turn(2)).put_back(0, 0)

    assert numbers(queue.add(turn(3), on_disk=False).coalesced) == [1, 2]
    assert drained(queue) == [3]


def test_busy_session_keeps_its_place_in_the_line(queue):
    waits(queue, turn(0, "busy"))
    for number in range(1, 20):
        waits(queue, turn(number, f"s{number}"), turn(100 + number, "busy"))

    waiting = queue.take(0, never)

    assert waiting.event == turn(119, "busy")


def test_without_coalescing_every_turn_waits():
    queue = CaptureQueue(coalesce=False)

    for number in range(5):
        assert queue.add(turn(number), on_disk=False).coalesced == ()
    assert drained(queue) == [0, 1, 2, 3, 4]


def test_replacement_inherits_the_kills_and_the_back_off(queue):
    poison = waits(queue, turn(1)).take(0, never)
    poison.kills, poison.failures = 2, 3
    queue.put_back(0, 30)
    waits(queue, turn(2))

    assert queue.take(29, never) is None
    newer = queue.take(30, never)
    assert (newer.event, newer.kills, newer.failures) == (turn(2), 2, 0)


def test_durable_event_has_all_its_tries(queue):
    waits(queue, turn(1)).take(0, never).kills = 2
    queue.put_back(0, 0)
    waits(queue, turn(2, kind="compaction"), on_disk=True)

    assert queue.take(1, never).kills == 0


# Who has to go.

SMALL, FEW = {"max_bytes": 1000}, {"max_sessions": 2}
# Limits, what waits, what comes, who has to go, and the order then.
EVICTIONS: dict[str, tuple[dict[str, int], list[Event], Event, list[int], list[int]]] = {
    "all turns of the oldest session": (
        *(FEW, [turn(1, "a", "v"), turn(2, "a"), turn(3, "b")]),
        *(turn(4, "c"), [1, 2], [3, 4]),
    ),
    "not a session that went on": (
        FEW,
        [turn(0, "a"), turn(1, "b"), turn(2, "a")],
        turn(4, "c"),
        [1],
        [2, 4],
    ),
    "who is too large alone": (SMALL, [turn(1, size=600)], turn(2, size=1001), [2], [1]),
} | {
    f"a {kind} for which no turn can make room": (
        *(SMALL, [turn(1, kind="compaction", size=800)]),
        *(turn(2, "b", kind=kind, size=800), [2], [1]),
    )
    for kind in ("turn", "explicit")
}


@pytest.mark.parametrize("name", EVICTIONS)
def test_who_has_to_go(name):
    limits, waiting, newer, evicted, order = EVICTIONS[name]
    queue = waits(CaptureQueue(**limits), *waiting)

    change = queue.add(newer, on_disk=False)

    assert (change.coalesced, numbers(change.evicted)) == ((), evicted)
    assert drained(queue) == order


def test_only_turns_that_memory_holds_count_as_sessions():
    queue = waits(CaptureQueue(max_sessions=1), turn(1, "a"), on_disk=True)
    waits(queue, turn(2, "b", kind="compaction"), turn(3, "c"))

    assert (queue.sessions, queue.turns, len(queue)) == (1, 1, 3)
    assert queue.add(turn(4, "d"), on_disk=True).evicted == ()
    assert numbers(queue.add(turn(5, "e"), on_disk=False).evicted) == [3]
    assert drained(queue) == [1, 2, 4, 5]


def test_event_in_hand_is_never_evicted():
    queue = waits(CaptureQueue(max_sessions=2, max_bytes=3000), turn(1, "a", size=1000))
    queue.take(0, never)
    waits(queue, turn(2, "b", size=1000))

    assert numbers(queue.add(turn(3, "c", size=1000), on_disk=False).evicted) == [2]
    assert numbers(queue.add(turn(4, "c", "later", size=2000), on_disk=False).evicted) == [3]
    assert numbers([queue.finish()]) == [1]


def test_bytes_too_many_cost_the_oldest_turns_of_others():
    queue = waits(CaptureQueue(max_bytes=3000), turn(1, "c", "before", size=1000))
    waits(queue, turn(2, "a", size=1000), turn(3, "b", size=1000))

    assert numbers(queue.add(turn(4, "c", size=1500), on_disk=False).evicted) == [2, 3]
    assert queue.bytes == 2500
    assert numbers(queue.add(turn(5, "c", "later", size=1000), on_disk=False).evicted) == [1]


def test_what_is_on_disk_neither_counts_nor_is_evicted():
    queue = CaptureQueue(max_bytes=1000)
    waits(queue, *(turn(number, str(number), size=900) for number in range(3)), on_disk=True)

    assert queue.add(turn(4, "d", size=900), on_disk=False).evicted == ()
    assert (queue.bytes, numbers(queue.in_memory())) == (900, [4])
    assert drained(queue) == [0, 1, 2, 4]


def test_a_long_line_is_asked_about_once_for_every_session(queue):
    waits(queue, *(turn(number, str(number % 64), str(number)) for number in range(500)), on_disk=True)
    asked = []

    def held(event: Event) -> bool:
        asked.append(event)
        return True

    assert queue.take(0, held) is None
    assert numbers(asked) == list(range(64))


# All rules at once, against a model that knows only what was promised.

SESSIONS, MAX_SESSIONS, MAX_BYTES = "abcd", 3, 6000


class Line(RuleBasedStateMachine):
    """`alive` are numbers that were added and not answered as gone; all else is asked of the queue."""

    @initialize(coalesce=st.booleans())
    def begin(self, coalesce):
        self.coalesce = coalesce
        self.queue = CaptureQueue(coalesce=coalesce, max_sessions=MAX_SESSIONS, max_bytes=MAX_BYTES)
        self.now, self.count = 0.0, 0
        self.alive: dict[int, tuple[Event, bool]] = {}
        self.held: set[str] = set()

    def is_held(self, event: Event) -> bool:
        return event.session_id in self.held

    @rule(
        session=st.sampled_from(SESSIONS),
        window=st.sampled_from(["", "v", "w"]),
        kind=st.sampled_from(["turn", "turn", "turn", "turn", *DURABLE]),
        size=st.sampled_from([600, 1500, 4000, 6001]),
        spooled=st.booleans(),
        roots=st.sampled_from([(REPO,), (OTHER,)]),
    )
    def add(self, *, session, window, kind, size, spooled, roots):
        self.count += 1
        event = turn(self.count, session, window, size, kind=kind, roots=roots)
        before = dict(self.alive)
        hand = self.queue.in_hand
        self.alive[self.count] = event, spooled
        change = self.queue.add(event, on_disk=spooled)

        for gone in (*change.coalesced, *change.evicted):
            old, on_disk = self.alive.pop(numbers([gone])[0])
            assert gone.event == old
            assert gone.on_disk == on_disk
            assert gone is not hand
        for gone in change.coalesced:
            self.replaced_rightly(gone.event, event)
        for gone in change.evicted:
            assert gone.event is event or (gone.event.kind == "turn" and not gone.on_disk)
        if event.id in {gone.event.id for gone in change.evicted}:
            assert not spooled
        elif self.coalesce and kind != "explicit" and window:
            self.contained_are_gone(before, event)

    def replaced_rightly(self, old: Event, new: Event) -> None:
        assert self.coalesce
        assert old.kind == "turn"
        assert new.kind != "explicit"
        assert old.window_id
        assert (old.session_id, old.window_id, old.roots) == (new.session_id, new.window_id, new.roots)

    def contained_are_gone(self, before: dict[int, tuple[Event, bool]], new: Event) -> None:
        hand = self.queue.in_hand
        for number, (old, _) in before.items():
            same = (old.session_id, old.window_id, old.roots) == (new.session_id, new.window_id, new.roots)
            if same and old.kind == "turn" and (hand is None or hand.event is not old):
                assert number not in self.alive

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
        for number in sorted(self.alive):
            event = self.alive[number][0]
            heads.setdefault((event.session_id, event.roots), number)
        return {
            number
            for number in heads.values()
            if not self.is_held(self.alive[number][0]) and self.backs_off_until(number) <= self.now
        }

    def backs_off_until(self, number: int) -> float:
        return next(w.not_before for w in self.queue._line if numbers([w]) == [number])

    @rule(delay=st.sampled_from([0, 1, 10]))
    def put_back(self, delay):
        if self.queue.in_hand is not None:
            self.queue.put_back(self.now, delay)

    @rule()
    def finish(self):
        if self.queue.in_hand is not None:
            del self.alive[numbers([self.queue.finish()])[0]]

    @rule(session=st.sampled_from(SESSIONS))
    def drop(self, session):
        hand = self.queue.in_hand
        for waiting in self.queue.waiting():
            if waiting.event.session_id == session and not waiting.is_cancelled:
                self.queue.drop(waiting)
                assert waiting.is_cancelled == (waiting is hand)
                if waiting is not hand:
                    del self.alive[numbers([waiting])[0]]

    @rule(seconds=st.sampled_from([0.5, 5, 20]))
    def wait(self, seconds):
        self.now += seconds

    @rule(session=st.sampled_from(SESSIONS))
    def hold_or_let_go(self, session):
        self.held ^= {session}

    @invariant()
    def nothing_is_lost_or_twice(self):
        assert sorted(numbers(self.queue._line)) == sorted(self.alive)
        assert len(self.queue) == len(self.alive)
        in_memory = {number for number, (_, on_disk) in self.alive.items() if not on_disk}
        assert set(numbers(self.queue.in_memory())) == in_memory

    @invariant()
    def every_session_is_in_its_order(self):
        by_session: dict[object, list[int]] = {}
        for waiting in self.queue._line:
            key = (waiting.event.session_id, waiting.event.roots)
            by_session.setdefault(key, []).extend(numbers([waiting]))
        assert all(order == sorted(order) for order in by_session.values())

    @invariant()
    def caps_hold(self):
        assert self.queue.bytes <= MAX_BYTES
        assert self.queue.sessions <= MAX_SESSIONS

    @invariant()
    def time_to_wait_is_right(self):
        if self.queue.in_hand is None:
            wait_s = self.queue.wait_s(self.now, self.is_held)
            assert (wait_s == 0) == bool(self.takeable())

    def teardown(self):
        """Whatever is there ends in hand in the end."""
        if self.queue.in_hand is not None:
            self.queue.put_back(self.now, 0)
        assert sorted(drained(self.queue, self.now + 100)) == sorted(self.alive)


TestLine = Line.TestCase
TestLine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
