"""From what an agent hands over to the events that wait: what is new of it, clean, whole, and in slices.

`hear` gets what was said in a capture and answers with a word. Of a turn and an end of session only what the
session has not said before is judged; of a compaction and an explicit request all is, once more. A capture in
parts is judged when all parts are there; one that comes again under its id is answered and not judged again.
Of a past session that is learned from, only what was judged neither live nor before is new, and it was heard
when it was said. What a session brings along that nobody has heard of may be from before: it counts as heard
when another session said it, else of its messages before the newest prompt nobody knows when.
What a session has said counts as heard with the events that hold it, never before: one transaction. `durable`
is said when all of it is on stable storage; what is said of a turn is there within a second.

Captures of one session are heard one after the other, others meanwhile. Long text is read in threads.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from forged.capture.intake import Intake, take_in
from forged.capture.keeping import Keeping
from forged.capture.off_record import OffRecord, prepare
from forged.capture.queue import CaptureQueue, session_of
from forged.capture.slices import Said, Slice, slices
from forged.capture.watermark import digests, places
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.errors import StoreError
from forged.files import Root
from forged.memory import utc
from forged.state import DIGEST_BYTES, Change, Event, Kind, Part, Progress, State, Watermark, new_event_id
from forged.text.redaction import INLINE_LENGTH
from forged.trust import stored_identity

MOST_PARTS = 4096
# Turns that come in one capture are heard one after the other.
_APART_S = 1e-5
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
T = TypeVar("T")
# Messages from the newest prompt on by which a window is known again.
_MOST_COMPARED = 8
_ALL_IS_JUDGED = frozenset({"compaction", "explicit"})


class Outcome(msgspec.Struct, frozen=True):
    """The acknowledgement: accepted, coalesced, durable or rejected and then why; in how many slices."""

    word: str
    reason: str = ""
    slices: int = 0


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """A capture, or one of its parts, as it comes from an agent, and what was injected into its session.

    `said_at` is when each message was said (Unix seconds, 0: nobody knows), where that is told. Of a past
    session `mark` is its reader's word for all of it, which stands with the last of its messages. `hear` sets
    the `identities` of `roots`. `headless`: a script runs the agent.
    """

    kind: Kind
    session_id: str
    roots: tuple[Root, ...]
    said: tuple[Utterance, ...]
    injected: Collection[str] = ()
    event_id: str = ""
    part: int = 0
    parts: int = 1
    begun: bool = False
    goes_on: bool = False
    agent: str = ""
    said_at: tuple[float, ...] = ()
    mark: str = ""
    identities: tuple[str, ...] = ()
    headless: bool = False


class Heard(msgspec.Struct, frozen=True):
    """What is to be stored together with events: what their session has said, and which capture is done.

    Of a past session it is how far that was `learned` from.
    """

    session: str = ""
    watermark: Watermark | None = None
    event_id: str = ""
    is_urgent: bool = True
    learned: Progress | None = None


class Add(Protocol):
    """Has events wait for the worker from now on."""

    def __call__(self, events: Sequence[Event], *, on_disk: bool, at_once: bool = True) -> None: ...


class Hearing:
    """One for the daemon; lives in its event loop."""

    def __init__(
        self,
        state: State,
        metrics: Metrics,
        queue: CaptureQueue,
        keeping: Keeping,
        off_record: OffRecord,
        *,
        is_urgent: Callable[[Sequence[str]], bool] | None,
        refusal: Callable[[tuple[str, ...]], Awaitable[str]],
        add: Add,
        answer: Callable[[Spoken, Intake, Sequence[str]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`is_urgent` says whether something must not wait for more.

        `refusal` says why nothing is taken of these roots now, or nothing; `answer` answers who does not want
        something remembered, or wants it forgotten.
        """
        self._state = state
        self._metrics = metrics
        self._queue = queue
        self._keeping = keeping
        self._off_record = off_record
        self._is_urgent = is_urgent
        self._refusal = refusal
        self._add = add
        self._answer = answer
        self._clock = clock
        self._is_prepared = False
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def hear(self, spoken: Spoken) -> Outcome:
        """Take what was said, or say why not."""
        if problem := _problem(spoken):
            return self._refused(problem)
        event_id = new_event_id()  # before anything is awaited: ids are in the order of arrival
        tops = tuple(root.top for root in spoken.roots)
        reason = await self._refusal(tops)
        key = session_of(Event(id=event_id, session_id=spoken.session_id, roots=spoken.roots))
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            if reason:
                if spoken.session_id and self._state.pauses.is_paused(tops):
                    await self._passed_over(spoken, key)
                return self._refused(reason)
            if (done := self._state.parts.done(spoken.event_id)) is not None:
                return Outcome("coalesced" if spoken.kind == "turn" else "durable", slices=done)
            # Fresh, and not with the workspace: a new clone within five seconds is another root.
            identities = await asyncio.to_thread(self._looked_at, spoken.roots)
            spoken = msgspec.structs.replace(spoken, identities=identities)
            take = self._whole if spoken.parts == 1 else self._part
            return await take(spoken, event_id, key if spoken.session_id else "")

    async def _passed_over(self, spoken: Spoken, key: str) -> None:
        """Let what is said under a pause count as heard, so that no window brings it along afterwards."""
        row = await _read(spoken.said, lambda: digests(spoken.said, key))
        now, stands = self._now(key), places(self._known(key).digests, row)
        new = _new(row, stands, (now,) * len(stands))
        if new and spoken.kind != "learned":
            watermark = self._state.heard.of(key).grown(b"".join(each for each, _ in new), now)
            self._state.heard.update({key: watermark})
            self._keeping.soon()

    def _looked_at(self, roots: Sequence[Root]) -> tuple[str, ...]:
        """Return the identity of each root, in a thread; the first one reads the wordings of refusals too."""
        if not self._is_prepared:
            prepare()
            self._is_prepared = True
        return tuple(map(stored_identity, roots))

    async def _whole(self, spoken: Spoken, event_id: str, key: str) -> Outcome:
        """A capture that came at once: what is known already is not even looked through for secrets."""
        if not spoken.said:
            return self._refused("nothing_to_capture")
        row = await _read(spoken.said, lambda: digests(spoken.said, key))
        stands = places(self._known(key).digests, row)
        new = [place is None or spoken.kind in _ALL_IS_JUDGED for place in stands]
        fresh = tuple(each for each, is_new in zip(spoken.said, new, strict=True) if is_new)
        taken = await self._clean(spoken, fresh, key)
        left = iter(taken.window)
        window = [next(left) if is_new else None for is_new in new]
        part = Part(tuple(window), row, spoken.begun, spoken.goes_on)
        return await self._judged(spoken, event_id, key, (part,), is_answered=_is_answered(taken))

    async def _part(self, spoken: Spoken, event_id: str, key: str) -> Outcome:
        parts, is_answered = self._state.parts, False
        if spoken.part not in parts.of(spoken.event_id):
            row = await _read(spoken.said, lambda: digests(spoken.said, key))
            taken = await self._clean(spoken, spoken.said, key)
            is_answered = _is_answered(taken)
            part = Part(taken.window, row, spoken.begun, spoken.goes_on)
            if not self._has_room(1, part.size):
                return self._refused(self._full())
            try:
                await parts.put(spoken.event_id, spoken.part, part)
            except StoreError as error:
                return self._refused(f"storage_error: {error}")
        there = parts.of(spoken.event_id)
        if any(number not in there for number in range(spoken.parts)):
            return Outcome("accepted")
        whole = tuple(there[number] for number in range(spoken.parts))
        return await self._judged(spoken, event_id, key, whole, is_answered=is_answered)

    async def _clean(self, spoken: Spoken, said: tuple[Utterance, ...], key: str) -> Intake:
        """Cut out what must not be kept, and have it answered once a message."""
        begun = spoken.begun and said[:1] == spoken.said[:1]
        goes_on = spoken.goes_on and said[-1:] == spoken.said[-1:]

        refused = self._off_record.of(key)

        def cleaned() -> Intake:
            return take_in(said, spoken.injected, begun=begun, goes_on=goes_on, refused=refused)

        taken = await _read(said, cleaned)
        self._metrics.secrets_redacted += taken.redacted
        self._metrics.echoes_removed += taken.echoes
        self._off_record.add(key, taken.refused)
        if spoken.kind != "learned" and _is_answered(taken):
            self._answer(spoken, taken, [digests([each], key).hex() for each in said])
        return taken

    async def _judged(
        self, spoken: Spoken, event_id: str, key: str, parts: tuple[Part, ...], *, is_answered: bool
    ) -> Outcome:
        """What is to be judged of all parts waits from now on, or it is said why not."""
        now, known = self._now(key), self._known(key)
        row = b"".join(part.digests for part in parts)
        stands = places(known.digests, row)
        is_whole = spoken.kind in _ALL_IS_JUDGED
        messages = _messages(parts)
        fresh = await self._fresh_times(spoken, key, messages, now)
        turns = accumulate(
            place is None and _begins_turn(each) for each, place in zip(messages, stands, strict=True)
        )
        times = [
            (at + max(turn - 1, 0) * _APART_S if at == now else at) if place is None else known.times[place]
            for place, at, turn in zip(stands, fresh, turns, strict=True)
        ]
        said = [
            msgspec.structs.replace(each, heard_at=at)
            for each, place, at in zip(messages, stands, times, strict=True)
            if each is not None and (place is None or is_whole)
        ]
        heard = self._heard(spoken, key, _new(row, stands, times), now)
        heard = msgspec.structs.replace(heard, is_urgent=await self._urgent(spoken.kind, said))
        pieces = await _read([each.utterance for each in said], lambda: tuple(slices(said)))
        ids = [event_id] if len(pieces) == 1 else [f"{event_id}-{at:04}" for at in range(len(pieces))]
        events = tuple(_event(spoken, each, piece, now) for each, piece in zip(ids, pieces, strict=True))
        is_known = is_answered or all(place is not None for place in stands)
        return await self.accept_all(spoken.kind, events, heard, is_known=is_known)

    async def _fresh_times(
        self, spoken: Spoken, key: str, messages: Sequence[Said | None], now: float
    ) -> Sequence[float]:
        """Return the time of each message if it is new to the session; 0 where it is unknown."""
        count = len(messages)
        if len(spoken.said_at) == count:
            return spoken.said_at
        if spoken.kind == "learned":
            return (0.0,) * count
        if self._known(key).digests or not self._state.forgotten:
            return (now,) * count
        roles = [each.utterance.role if each is not None else "" for each in messages]
        newest = max((at for at, role in enumerate(roles) if role == "user"), default=count)
        if spoken.parts > 1:
            return (0.0,) * count
        others, turn = tuple(self._state.heard.items()), spoken.said[newest:][:_MOST_COMPARED]
        before = await asyncio.to_thread(_said_before, turn, others) if turn else 0.0
        return (0.0,) * newest + (before or now,) * (count - newest)

    def _now(self, key: str) -> float:
        """Return the time, later than every turn of a session even where the clock stepped back."""
        before = self._state.heard.of(key).heard_last
        return max(round(self._clock(), 3), before + _APART_S if before else 0.0)

    def _known(self, key: str) -> Watermark:
        """What the session has said, live and as it was read afterwards."""
        live, learned = self._state.heard.of(key), self._state.learned.get(key)
        if learned is None:
            return live
        count = len(learned.digests) // DIGEST_BYTES
        return Watermark(learned.digests + live.digests, ((count, learned.at), *live.runs))

    def _heard(self, spoken: Spoken, key: str, new: Sequence[tuple[bytes, float]], now: float) -> Heard:
        """Build the record of new messages that is stored with the events: digests and times."""
        if spoken.kind == "learned":
            before = self._state.learned.get(key)
            digests = b"".join((before.digests if before else b"", *(each for each, _ in new)))
            progress = Progress(
                agent=spoken.agent, session_id=spoken.session_id, mark=spoken.mark, digests=digests, at=now
            )
            return Heard(session=key, learned=progress)
        watermark = self._state.heard.of(key)
        for at, some in groupby(new, key=itemgetter(1)):
            watermark = watermark.grown(b"".join(each for each, _ in some), at)
        is_told = bool(key) and spoken.kind != "explicit"
        return Heard(session=key, watermark=watermark if is_told else None, event_id=spoken.event_id)

    async def _urgent(self, kind: Kind, said: Sequence[Said]) -> bool:
        if self._is_urgent is None or kind != "turn":
            return True
        typed = [each.utterance.text for each in said if each.utterance.role == "user"]
        return bool(typed) and await asyncio.to_thread(self._is_urgent, typed)

    async def accept_all(
        self, kind: Kind, events: Sequence[Event], heard: Heard, *, is_known: bool = False
    ) -> Outcome:
        """Take all events that a capture comes to, which is nothing if all that was said `is_known`."""
        if reason := await self._refusal(events[0].tops if events else ()):
            return self._refused(reason)
        if not events and not is_known:
            return self._refused("nothing_to_capture")
        gone = self._state.parts.of(heard.event_id)
        size = sum(event.size for event in events) - sum(part.size for part in gone.values())
        if not self._has_room(len(events), size):
            return self._refused(self._full())
        if kind != "turn":
            return await self._store(events, heard)
        if heard.watermark is not None:
            self._state.heard.update({heard.session: heard.watermark})
        before = len(self._queue)
        self._add(events, on_disk=False, at_once=heard.is_urgent)
        also = [self._state.parts.finishing(heard.event_id, len(events))] if heard.event_id else []
        if heard.event_id:
            self._state.parts.finished(heard.event_id, len(events))
        self._keeping.soon(*also)
        if len(self._queue) == before:
            self._metrics.captures_coalesced += 1
            return Outcome("coalesced", slices=len(events))
        self._metrics.captures_accepted += 1
        return Outcome("accepted", slices=len(events))

    async def _store(self, events: Sequence[Event], heard: Heard) -> Outcome:
        """Take what has to be on disk before it is answered, and with it what its session said before."""
        before = self._state.heard.of(heard.session)
        if heard.watermark is not None:
            self._state.heard.update({heard.session: heard.watermark})
        self._queue.ripen(heard.session)
        parts, also = self._state.parts, list[Change]()
        if heard.event_id:
            also.append(parts.finishing(heard.event_id, len(events)))
        if heard.learned is not None:
            also.append(self._state.learned.change({heard.session: heard.learned}))
        try:
            await self._keeping.write(events, *also)
        except StoreError as error:
            if heard.watermark is not None:
                self._state.heard.update({heard.session: before})
            return self._refused(f"storage_error: {error}")
        if heard.event_id:
            parts.finished(heard.event_id, len(events))
        self._add(events, on_disk=True)
        self._metrics.captures_durable += 1
        return Outcome("durable", slices=len(events))

    def _refused(self, reason: str) -> Outcome:
        """Say no, and count it."""
        self._metrics.captures_rejected += 1
        return Outcome("rejected", reason)

    def _full(self) -> str:
        """What is said where there is no room."""
        waits = self._state.events.count + len(self._queue.in_memory())
        return f"spool_full: {waits} events wait already; `forgectl status` says for what"

    def _has_room(self, count: int, size: int) -> bool:
        """Whether so many further events of so many bytes in all may wait."""
        held = self._queue.in_memory()
        size += sum(waiting.size for waiting in held) + self._state.parts.bytes
        return self._state.events.has_room(count + len(held), size)


async def _read(said: Sequence[Utterance], work: Callable[[], T]) -> T:
    """Do something that takes time with the length of a text: in a thread if it is long."""
    if sum(len(each.text) for each in said) < INLINE_LENGTH:
        return work()
    return await asyncio.to_thread(work)


def _is_answered(taken: Intake) -> bool:
    """Return True if a refusal or a request to forget was cut out: its author gets an answer."""
    return bool(taken.refusing or taken.forgets)


def _problem(spoken: Spoken) -> str:
    """Why the numbers of a capture make no sense, or nothing."""
    if spoken.event_id and not _ID.fullmatch(spoken.event_id):
        return "event_id: use at most 64 letters, digits, `_` and `-`"
    if not (1 <= spoken.parts <= MOST_PARTS and 0 <= spoken.part < spoken.parts):
        return f"part {spoken.part} of {spoken.parts}: parts are numbered from 0, and at most {MOST_PARTS}"
    if spoken.parts > 1 and not spoken.event_id:
        return "a capture in parts needs an event_id"
    return ""


def _messages(parts: Sequence[Part]) -> list[Said | None]:
    """The messages of all parts, None for those of which nothing is left."""
    found: list[Said | None] = []
    for part in parts:
        last = len(part.window) - 1
        for place, each in enumerate(part.window):
            begun, goes_on = part.begun and place == 0, part.goes_on and place == last
            found.append(None if each is None else Said(each, 0, begun, goes_on))
    return found


def _said_before(turn: Sequence[Utterance], others: Sequence[tuple[str, Watermark]]) -> float:
    """Return the last time (Unix seconds) another session said this prompt and reply; 0 for never."""
    newest = 0.0
    for key, known in others:
        stands = places(known.digests, digests(turn, key))
        first = stands[0]
        if first is not None and None not in stands:
            newest = max(newest, known.times[first])
    return newest


def _begins_turn(each: Said | None) -> bool:
    return each is not None and each.utterance.role == "user" and not each.begun


def _new(row: bytes, stands: Sequence[int | None], times: Sequence[float]) -> list[tuple[bytes, float]]:
    new = [at for at, place in enumerate(stands) if place is None]
    return [(row[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES], times[at]) for at in new]


def _event(spoken: Spoken, event_id: str, piece: Slice, now: float) -> Event:
    return Event(
        id=event_id,
        kind=spoken.kind,
        session_id=spoken.session_id,
        roots=spoken.roots,
        window=tuple(each.utterance for each in piece),
        heard_at=tuple(each.heard_at for each in piece),
        received_at=utc(now),
        begun=piece[0].begun,
        goes_on=piece[-1].goes_on,
        agent=spoken.agent,
        identities=spoken.identities,
        headless=spoken.headless,
    )
