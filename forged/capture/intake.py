"""Make events of submissions: new messages only, cleaned, whole, and in slices.

In: a submission. Out: `SubmittedEvents`, or the outcome where no event comes of it now. A turn, an end of
session and a past session bring only what is new; of a compaction and an explicit request all is judged once
more. What is new to all sessions may be from before: messages before the newest prompt then have no time.
`clean` cleans: nothing waits, is stored or leaves that has not passed there. `places` finds a window in the
capture cursor, as windows grow, lose their beginning, come late or again, and agents may share a session.
Raises nothing; long text is read in threads.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

import msgspec

from forged.capture.off_record import OffRecord, Refusal, cut, prepare, refused_in, without_repeats
from forged.capture.slices import WINDOW_LIMIT, TimedMessage, slices
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.errors import StoreError
from forged.files import Root
from forged.memory import utc
from forged.state import CaptureCursor, CapturePart, Event, Kind, LearnedSession, State, digests, new_of
from forged.text.injected_text import InjectedText
from forged.text.redaction import INLINE_LENGTH, redact
from forged.text.tokens import BYTES_PER_TOKEN
from forged.trust import stored_identity

MOST_PARTS = 4096
# Characters; no secret is longer, not even a private key.
LONGEST_SECRET = 16_000
# Of a response in its session's memory: as many as a piece of a document has.
_MOST_TOKENS = 512
# Turns that come in one capture are as far apart.
_APART_S = 1e-5
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Messages from the newest prompt on by which a window is known again.
_MOST_COMPARED = 8
_WHOLE_WINDOW_KINDS = frozenset({"compaction", "explicit"})
T = TypeVar("T")


class Outcome(msgspec.Struct, frozen=True):
    """The acknowledgement: accepted, coalesced, durable or rejected and then why; in how many slices."""

    word: str
    reason: str = ""
    slices: int = 0


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A capture, or one of its parts, as it comes from an agent, and what was injected into its session.

    `said_at` has the Unix seconds of each message, 0 for unknown, or is empty. `mark` is a reader's word for
    a past session. `take` sets the `identities` of `roots`. `headless`: a script runs the agent.
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

    @property
    def problem(self) -> str:
        """Why the numbers of a capture make no sense, or nothing."""
        if self.event_id and not _ID.fullmatch(self.event_id):
            return "event_id: use at most 64 letters, digits, `_` and `-`"
        if not (1 <= self.parts <= MOST_PARTS and 0 <= self.part < self.parts):
            return f"part {self.part} of {self.parts}: parts are numbered from 0, and at most {MOST_PARTS}"
        if self.parts > 1 and not self.event_id:
            return "a capture in parts needs an event_id"
        return ""


class SubmittedEvents(msgspec.Struct, frozen=True):
    """Events of a submission, and what is stored with them: the cursor of their session, a capture's end.

    Of a past session it is how far that was `learned` from. `is_known`: all that was said was taken before.
    """

    events: tuple[Event, ...] = ()
    session: str = ""
    cursor: CaptureCursor | None = None
    capture_id: str = ""
    is_urgent: bool = True
    learned: LearnedSession | None = None
    is_known: bool = False


class Cleaned(msgspec.Struct, frozen=True):
    """Messages after cleaning, None where nothing is left; counts of secrets and echoes that were cut.

    `refusing` are the places of messages that refuse, `refused` the words of each such text, `forgets` the
    places and sentences that ask to forget. `points_before`: the first refusal means what was said before.
    """

    window: tuple[Utterance | None, ...] = ()
    redacted: int = 0
    echoes: int = 0
    refusing: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()
    forgets: tuple[tuple[int, str], ...] = ()
    points_before: bool = False

    @property
    def is_answered(self) -> bool:
        """True if a refusal or a request to forget was cut out."""
        return bool(self.refusing or self.forgets)


class _Window(NamedTuple):
    """Digests of messages, the session's live cursor and that of all that is known, and places in that."""

    row: bytes
    live: CaptureCursor
    known: CaptureCursor
    places: tuple[int | None, ...]


class Intake:
    """One for the daemon; lives in its event loop. Submissions of one session come one after the other."""

    def __init__(
        self,
        state: State,
        metrics: Metrics,
        off_record: OffRecord,
        *,
        is_urgent: Callable[[Sequence[str]], bool] | None,
        full: Callable[[int, int], str],
        answer: Callable[[Submission, Cleaned, Sequence[str]], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`full` is why so many events of so many bytes cannot wait; `answer` answers refusals and such."""
        self._state = state
        self._metrics = metrics
        self._off_record = off_record
        self._is_urgent = is_urgent
        self._full = full
        self._answer = answer
        self._clock = clock

    async def take(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        """Return what a submission comes to, or its outcome if it is no event now; `key` is its session's."""
        # Fresh, and not with the workspace: a new clone within five seconds is another root.
        identities = await asyncio.to_thread(_stored_identities, submission.roots)
        submission = msgspec.structs.replace(submission, identities=identities)
        take = self._whole if submission.parts == 1 else self._part
        return await take(submission, event_id, key)

    async def mark_seen(self, submission: Submission, key: str) -> bool:
        """Count what is said under a pause as taken; return False if nothing of it is new."""
        row = await _run_work(submission.said, lambda: digests(submission.said, key))
        window = self._window(row, key)
        new = new_of(row, window.places)
        if not new or submission.kind == "learned":
            return False
        self._state.capture_cursors.update({key: window.live.grown(new, self._now(window.live))})
        return True

    async def _whole(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        """Take a capture that came at once: what is known already is not even looked through for secrets."""
        if not submission.said:
            return Outcome("rejected", "nothing_to_capture")
        row = await _run_work(submission.said, lambda: digests(submission.said, key))
        known, is_whole = self._window(row, key), submission.kind in _WHOLE_WINDOW_KINDS
        due = [is_whole or place is None for place in known.places]
        fresh = tuple(each for each, is_due in zip(submission.said, due, strict=True) if is_due)
        taken = await self._clean(submission, fresh, key)
        left = iter(taken.window)
        window = [next(left) if is_due else None for is_due in due]
        messages = _timed(window, begun=submission.begun, goes_on=submission.goes_on)
        return await self._to_events(
            submission, event_id, key, messages, known, is_answered=taken.is_answered
        )

    async def _part(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        parts, is_answered = self._state.parts, False
        if submission.part not in parts.of(submission.event_id):
            row = await _run_work(submission.said, lambda: digests(submission.said, key))
            taken = await self._clean(submission, submission.said, key)
            is_answered = taken.is_answered
            part = CapturePart(taken.window, row, submission.begun, submission.goes_on)
            if full := self._full(1, part.size):
                return Outcome("rejected", full)
            try:
                await parts.put(submission.event_id, submission.part, part)
            except StoreError as error:
                return Outcome("rejected", f"storage_error: {error}")
        there = parts.of(submission.event_id)
        if any(number not in there for number in range(submission.parts)):
            return Outcome("accepted")
        whole = [there[number] for number in range(submission.parts)]
        messages = [
            each for part in whole for each in _timed(part.window, begun=part.begun, goes_on=part.goes_on)
        ]
        known = self._window(b"".join(part.digests for part in whole), key)
        return await self._to_events(submission, event_id, key, messages, known, is_answered=is_answered)

    async def _clean(self, submission: Submission, said: tuple[Utterance, ...], key: str) -> Cleaned:
        """Cut out what must not be kept, and have it answered once a message."""
        begun = submission.begun and said[:1] == submission.said[:1]
        goes_on = submission.goes_on and said[-1:] == submission.said[-1:]
        refused = self._off_record.of(key)

        def cleaned() -> Cleaned:
            return clean(said, submission.injected, begun=begun, goes_on=goes_on, refused=refused)

        taken = await _run_work(said, cleaned)
        self._metrics.secrets_redacted += taken.redacted
        self._metrics.echoes_removed += taken.echoes
        self._off_record.add(key, taken.refused)
        if submission.kind != "learned" and taken.is_answered:
            self._answer(submission, taken, [digests([each], key).hex() for each in said])
        return taken

    async def _to_events(
        self,
        submission: Submission,
        event_id: str,
        key: str,
        messages: Sequence[TimedMessage | None],
        window: _Window,
        *,
        is_answered: bool,
    ) -> SubmittedEvents:
        row, live, known, there = window
        now, is_whole = self._now(live), submission.kind in _WHOLE_WINDOW_KINDS
        fresh = await self._fresh_times(submission, messages, now, is_first=not known.digests)
        turns = accumulate(
            place is None and _begins_turn(each) for each, place in zip(messages, there, strict=True)
        )
        before = known.times
        times = [
            (at + max(turn - 1, 0) * _APART_S if at == now else at) if place is None else before[place]
            for place, at, turn in zip(there, fresh, turns, strict=True)
        ]
        said = [
            msgspec.structs.replace(each, said_at=at)
            for each, place, at in zip(messages, there, times, strict=True)
            if each is not None and (place is None or is_whole)
        ]
        is_urgent = await self._urgent(submission.kind, said)
        pieces = await _sliced(said)
        ids = [event_id] if len(pieces) == 1 else [f"{event_id}-{at:04}" for at in range(len(pieces))]
        events = tuple(_event(submission, each, piece, now) for each, piece in zip(ids, pieces, strict=True))
        is_known = is_answered or all(place is not None for place in there)
        taken = SubmittedEvents(events, key, is_urgent=is_urgent, is_known=is_known)
        if submission.kind == "learned":
            learned = self._state.learned.get(key)
            all_known = (learned.digests if learned else b"") + new_of(row, there)
            who = {"agent": submission.agent, "session_id": submission.session_id, "mark": submission.mark}
            return msgspec.structs.replace(taken, learned=LearnedSession(**who, digests=all_known, at=now))
        cursor = live.grown_by(row, there, times) if key and submission.kind != "explicit" else None
        return msgspec.structs.replace(taken, cursor=cursor, capture_id=submission.event_id)

    async def _fresh_times(
        self, submission: Submission, messages: Sequence[TimedMessage | None], now: float, *, is_first: bool
    ) -> Sequence[float]:
        """Return the time of each message if it is new to the session; 0 where it is unknown."""
        count = len(messages)
        if len(submission.said_at) == count:
            return submission.said_at
        if submission.kind == "learned":
            return (0.0,) * count
        if not (is_first and self._state.forgotten):
            return (now,) * count
        roles = [each.utterance.role if each is not None else "" for each in messages]
        newest = max((at for at, role in enumerate(roles) if role == "user"), default=count)
        if submission.parts > 1:
            return (0.0,) * count
        turn = submission.said[newest:][:_MOST_COMPARED]
        before = await asyncio.to_thread(self._state.capture_cursors.said_last, turn) if turn else 0.0
        return (0.0,) * newest + (before or now,) * (count - newest)

    def _now(self, live: CaptureCursor) -> float:
        """Return the time, later than every turn of a session even where the clock stepped back."""
        before = live.newest
        return max(round(self._clock(), 3), before + _APART_S if before else 0.0)

    def _window(self, row: bytes, key: str) -> _Window:
        live = self._state.capture_cursors.of(key)
        known = self._state.learned.before(key, live)
        return _Window(row, live, known, known.places(row))

    async def _urgent(self, kind: Kind, said: Sequence[TimedMessage]) -> bool:
        if self._is_urgent is None or kind != "turn":
            return True
        typed = [each.utterance.text for each in said if each.utterance.role == "user"]
        return bool(typed) and await asyncio.to_thread(self._is_urgent, typed)


async def _run_work(said: Sequence[Utterance], work: Callable[[], T]) -> T:
    """Do something that takes time with the length of a text: in a thread if it is long."""
    if sum(len(each.text) for each in said) < INLINE_LENGTH:
        return work()
    return await asyncio.to_thread(work)


def _stored_identities(roots: Sequence[Root]) -> tuple[str, ...]:
    """Return the identity of each root, in a thread; the first call reads the wordings of refusals too."""
    prepare()
    return tuple(map(stored_identity, roots))


def _timed(window: Sequence[Utterance | None], *, begun: bool, goes_on: bool) -> list[TimedMessage | None]:
    last = len(window) - 1
    return [
        None if each is None else TimedMessage(each, 0, begun and not place, goes_on and place == last)
        for place, each in enumerate(window)
    ]


async def _sliced(said: Sequence[TimedMessage]) -> Sequence[Sequence[TimedMessage]]:
    is_whole = not any(each.begun or each.goes_on for each in said)
    if is_whole and sum(len(each.utterance.text) for each in said) <= WINDOW_LIMIT:
        return [said] if said else []
    return await _run_work([each.utterance for each in said], lambda: tuple(slices(said)))


def _begins_turn(each: TimedMessage | None) -> bool:
    return each is not None and each.utterance.role == "user" and not each.begun


def _event(submission: Submission, event_id: str, piece: Sequence[TimedMessage], now: float) -> Event:
    return Event(
        id=event_id,
        kind=submission.kind,
        session_id=submission.session_id,
        roots=submission.roots,
        window=tuple(each.utterance for each in piece),
        said_at=tuple(each.said_at for each in piece),
        received_at=utc(now),
        begun=piece[0].begun,
        goes_on=piece[-1].goes_on,
        agent=submission.agent,
        identities=submission.identities,
        headless=submission.headless,
    )


def clean(
    utterances: Sequence[Utterance],
    injected: Collection[str],
    *,
    begun: bool = False,
    goes_on: bool = False,
    refused: Sequence[Refusal] = (),
) -> Cleaned:
    """Return all messages without echoes of `injected` memories, secrets, and what is not to be remembered.

    `refused` are the words of earlier refusals of the session. Where the first message is the rest of one
    that is `begun`, or the last the beginning of one that `goes_on`, half a secret there goes.
    """
    ours = InjectedText(injected)
    window: list[Utterance | None] = []
    secrets = echoes = 0
    for place, utterance in enumerate(utterances):
        text, cut = ours.cut(utterance.text, inline=utterance.role == "assistant")
        clean = redact(text.rstrip())
        echoes += cut
        secrets += clean.count
        start = LONGEST_SECRET if begun and not place else 0
        end = LONGEST_SECRET if goes_on and place == len(utterances) - 1 else 0
        kept = clean.text[start : len(clean.text) - end]
        window.append(Utterance(utterance.role, kept) if kept.strip() else None)
    return _without_opted_out(Cleaned(tuple(window), secrets, echoes), refused)


def _without_opted_out(taken: Cleaned, before: Sequence[Refusal]) -> Cleaned:
    """Take out what is off the record, what was said of it before, and what the assistant says of it."""
    window = [*taken.window]
    refusing, texts, forgets = list[int](), list[str](), list[tuple[int, str]]()
    points_before = False
    for place, each in enumerate(taken.window):
        if each is None or each.role != "user" or (found := cut(each.text)).text == each.text:
            continue
        window[place] = Utterance("user", found.text) if found.text.strip() else None
        forgets += [(place, text) for text in found.forgets]
        texts += found.refused
        if found.refused:
            refusing.append(place)
        if found.points_before:
            first = _place_before(taken.window, place)
            points_before = points_before or first is None
            texts += [gone.text for gone in taken.window[first or 0 : place] if gone is not None]
            window[first or 0 : place] = [None] * (place - (first or 0))
    refused = tuple(map(refused_in, texts))
    for place, left in enumerate(window):
        # What the person says after a refusal is a new word about it.
        is_past = refusing and place < refusing[-1]
        if left is not None and (before or refused) and (left.role == "assistant" or is_past):
            is_own = left.role == "user"
            text = without_repeats(left.text, refused if is_own else (*before, *refused), by_name=not is_own)
            window[place] = Utterance(left.role, text) if text.strip() else None
    return msgspec.structs.replace(
        taken,
        window=tuple(window),
        refusing=tuple(refusing),
        refused=refused,
        forgets=tuple(forgets),
        points_before=points_before,
    )


def _place_before(window: Sequence[Utterance | None], place: int) -> int | None:
    before = (at for at in reversed(range(place)) if (each := window[at]) is not None and each.role == "user")
    return next(before, None)


def response_of(text: str) -> str:
    """As much of a response as its session remembers: its beginning, up to whole words."""
    encoded = text.strip().encode("utf-8", "replace")
    if len(encoded) <= (most := _MOST_TOKENS * BYTES_PER_TOKEN):
        return encoded.decode()
    beginning = encoded[:most].decode("utf-8", "ignore")
    whole, _, _ = beginning.rpartition(" ")
    return f"{whole or beginning}…"


def response_in(said: Sequence[Utterance], injected: Collection[str]) -> str:
    """The response that ends a turn, as capture takes it; "" where nothing of it is left."""
    window = clean(said, injected).window
    return "" if not window or window[0] is None else response_of(window[0].text)
