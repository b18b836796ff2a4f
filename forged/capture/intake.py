"""Make events of submissions: new messages only, cleaned and cut into windows.

Input: a submission. Output: `SubmittedEvents`, or the outcome if there is no event now. A turn, a session end
and a past session contribute only new messages. A compaction and an explicit request are classified again as
a whole. If a session is new, its messages before the newest prompt get no time, as they may be old. `clean`
removes secrets, echoes and opt-outs; no text is stored or sent before. `places` finds a window in the capture
cursor, although windows grow, lose their beginning, come late or come again. Raises nothing; long text is
read in threads.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, TypeVar

import msgspec

from forged.capture.authorship import MOST_ASKED
from forged.capture.off_record import OptOut, cut_opted_out, opt_out_of, prepare, without_repeats
from forged.capture.slices import WINDOW_LIMIT, TimedMessage, slices
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.errors import StoreError
from forged.files import Root
from forged.memory import utc
from forged.state import CaptureCursor, CapturePart, Event, Kind, LearnedSession, State, digests, new_digests
from forged.text.injected_text import InjectedText
from forged.text.redaction import INLINE_LENGTH, redact
from forged.text.tokens import BYTES_PER_TOKEN
from forged.trust import stored_identity

MOST_PARTS = 4096
# Longest secret in characters; a private key is shorter.
LONGEST_SECRET = 16_000
# Tokens of a response in its session's memory, as many as a document's piece has.
_MOST_TOKENS = 512
# Distance between the times of turns in one capture.
_APART_S = 1e-5
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Messages after the newest prompt that identify a known window.
_MOST_COMPARED = 8
_WHOLE_WINDOW_KINDS = frozenset({"compaction", "explicit"})
# Most sessions with stored opt-outs, and texts of each.
_MOST_SESSIONS, _MOST_OPT_OUTS = 256, 32
T = TypeVar("T")


class Outcome(msgspec.Struct, frozen=True):
    """Acknowledgement of a submission: accepted, coalesced, durable, or rejected with a reason.

    `slices` counts its windows.
    """

    word: str
    reason: str = ""
    slices: int = 0


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """Conversation messages to capture, or one part of them, as an agent sent them with their context.

    `injected` has the texts that were injected into the session. `said_at` has the Unix time of each message
    (0: unknown) or is empty. `mark` identifies the state of a past session. `take` sets the `identities` of
    `roots`. `headless`: a script runs the agent. A prompt has the messages `before` it, and the roots and ids
    of the memories that the session has in `context`.
    """

    kind: Kind
    session_id: str
    roots: tuple[Root, ...]
    messages: tuple[Utterance, ...]
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
    before: tuple[Utterance, ...] = ()
    context: tuple[tuple[str, str], ...] = ()

    @property
    def problem(self) -> str:
        """Return the reason why the part numbers or the id are invalid, or ""."""
        if self.event_id and not _ID.fullmatch(self.event_id):
            return "event_id: use at most 64 letters, digits, `_` and `-`"
        if not (1 <= self.parts <= MOST_PARTS and 0 <= self.part < self.parts):
            return f"part {self.part} of {self.parts}: parts are numbered from 0, and at most {MOST_PARTS}"
        if self.parts > 1 and not self.event_id:
            return "a capture in parts needs an event_id"
        return ""


class SubmittedEvents(msgspec.Struct, frozen=True):
    """Events of a submission, with the capture cursor and other state that is stored with them.

    For a past session, `learned` is the new progress. `is_known`: all messages were taken before.
    """

    events: tuple[Event, ...] = ()
    session: str = ""
    cursor: CaptureCursor | None = None
    capture_id: str = ""
    is_urgent: bool = True
    learned: LearnedSession | None = None
    is_known: bool = False


class OffRecord:
    """Words of the texts that each session asked not to remember, in this daemon's memory only.

    The oldest sessions are dropped beyond a limit; their transcripts still have the opt-outs.
    """

    def __init__(self) -> None:
        self._opted_out: dict[str, tuple[OptOut, ...]] = {}  # newest last

    def add(self, key: str, opted_out: Sequence[OptOut]) -> None:
        """Store a session's opt-outs by its key; the oldest ones and sessions beyond limits are dropped."""
        if opted_out and key:
            known = self._opted_out.pop(key, ())
            self._opted_out[key] = tuple(dict.fromkeys((*known, *opted_out)))[-_MOST_OPT_OUTS:]
            if len(self._opted_out) > _MOST_SESSIONS:
                del self._opted_out[next(iter(self._opted_out))]

    def of(self, key: str) -> tuple[OptOut, ...]:
        """Return the opt-outs of a session."""
        return self._opted_out.get(key, ())

    def of_all(self, session_ids: Collection[str]) -> tuple[OptOut, ...]:
        """Return the opt-outs of sessions with these ids, in all roots."""
        found = (some for key, some in self._opted_out.items() if key.partition("\0")[0] in session_ids)
        return tuple(chain.from_iterable(found))


class Cleaned(msgspec.Struct, frozen=True):
    """Cleaned messages (None if empty), counts of removals, and cut opt-outs and requests to forget.

    `opting_out` has the indexes of messages with an opt-out, `opt_outs` the words of each text that was opted
    out. `forgets` has the indexes and sentences of requests to forget. `points_before`: the first opt-out
    means the message before.
    """

    window: tuple[Utterance | None, ...] = ()
    redacted: int = 0
    echoes: int = 0
    opting_out: tuple[int, ...] = ()
    opt_outs: tuple[OptOut, ...] = ()
    forgets: tuple[tuple[int, str], ...] = ()
    points_before: bool = False

    @property
    def is_answered(self) -> bool:
        """Return True if an opt-out or a request to forget was cut out, which must be answered."""
        return bool(self.opting_out or self.forgets)


class _Window(NamedTuple):
    """Digests of submitted messages, the session's cursors, and the messages' places in them."""

    row: bytes
    live: CaptureCursor
    known: CaptureCursor
    places: tuple[int | None, ...]


class Intake:
    """Finds and cleans the new messages of submissions, and makes events of them. One for the daemon."""

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
        """Store the service's callbacks; `is_urgent` is None if no event waits for further turns.

        `full` returns the reason why so many events and bytes have no room, or "". `answer` answers opt-outs
        and requests to forget.
        """
        self._state = state
        self._metrics = metrics
        self._off_record = off_record
        self._is_urgent = is_urgent
        self._full = full
        self._answer = answer
        self._clock = clock

    async def take(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        """Return the cleaned events of a submission; an outcome if it is rejected or parts are missing.

        `key` is the session's.
        """
        # Read now, as a new clone within five seconds is another root.
        identities = await asyncio.to_thread(_stored_identities, submission.roots)
        submission = msgspec.structs.replace(submission, identities=identities)
        take = self._take_whole if submission.parts == 1 else self._take_part
        return await take(submission, event_id, key)

    async def mark_seen(self, submission: Submission, key: str) -> bool:
        """Advance the cursor over messages sent during a pause; return False if none is new."""
        row = await _run_work(submission.messages, lambda: digests(submission.messages, key))
        window = self._find_window(row, key)
        new = new_digests(row, window.places)
        if not new or submission.kind == "learned":
            return False
        self._state.capture_cursors.update({key: window.live.grown(new, self._now(window.live))})
        return True

    async def _take_whole(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        """Make events of a one-part capture; clean only new messages, or all of a compaction or request."""
        if not submission.messages:
            return Outcome("rejected", "nothing_to_capture")
        row = await _run_work(submission.messages, lambda: digests(submission.messages, key))
        known, is_whole = self._find_window(row, key), submission.kind in _WHOLE_WINDOW_KINDS
        new = [is_whole or place is None for place in known.places]
        # The question that a new message may answer is cleaned, too.
        due = [
            is_new or (is_next_new and each.role == "assistant")
            for each, is_new, is_next_new in zip(submission.messages, new, [*new[1:], False], strict=True)
        ]
        fresh = tuple(each for each, is_due in zip(submission.messages, due, strict=True) if is_due)
        taken = await self._clean(submission, fresh, key)
        left = iter(taken.window)
        window = [next(left) if is_due else None for is_due in due]
        messages = _to_timed(window, begun=submission.begun, goes_on=submission.goes_on)
        return await self._to_events(
            submission, event_id, key, messages, known, is_answered=taken.is_answered
        )

    async def _take_part(self, submission: Submission, event_id: str, key: str) -> SubmittedEvents | Outcome:
        """Store one part of a capture, and make its events when all parts are there."""
        parts, is_answered = self._state.parts, False
        if submission.part not in parts.of(submission.event_id):
            row = await _run_work(submission.messages, lambda: digests(submission.messages, key))
            taken = await self._clean(submission, submission.messages, key)
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
            each for part in whole for each in _to_timed(part.window, begun=part.begun, goes_on=part.goes_on)
        ]
        known = self._find_window(b"".join(part.digests for part in whole), key)
        return await self._to_events(submission, event_id, key, messages, known, is_answered=is_answered)

    async def _clean(self, submission: Submission, said: tuple[Utterance, ...], key: str) -> Cleaned:
        """Clean messages, count cuts, store opt-outs; answer opt-outs and requests to forget."""
        begun = submission.begun and said[:1] == submission.messages[:1]
        goes_on = submission.goes_on and said[-1:] == submission.messages[-1:]
        opt_outs = self._off_record.of(key)

        def clean_new() -> Cleaned:
            return clean(said, submission.injected, begun=begun, goes_on=goes_on, opt_outs=opt_outs)

        taken = await _run_work(said, clean_new)
        self._metrics.secrets_redacted += taken.redacted
        self._metrics.echoes_removed += taken.echoes
        self._off_record.add(key, taken.opt_outs)
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
        """Make events of new messages (or of all, by the kind), with the new cursor or progress."""
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
        asked = "" if is_whole else _asked_before(messages, there)
        is_urgent = await self._should_not_wait(submission.kind, said)
        pieces = await _to_windows(said)
        ids = [event_id] if len(pieces) == 1 else [f"{event_id}-{at:04}" for at in range(len(pieces))]
        events = tuple(
            _make_event(submission, each, piece, now, asked if each == ids[0] else "")
            for each, piece in zip(ids, pieces, strict=True)
        )
        is_known = is_answered or all(place is not None for place in there)
        taken = SubmittedEvents(events, key, is_urgent=is_urgent, is_known=is_known)
        if submission.kind == "learned":
            kept = self._state.learned.get(key)
            known_before = kept.cursor if kept is not None else CaptureCursor()
            learned = LearnedSession(
                agent=submission.agent,
                session_id=submission.session_id,
                mark=submission.mark,
                cursor=known_before.grown_by(row, there, [at or now for at in times]),
            )
            return msgspec.structs.replace(taken, learned=learned)
        cursor = live.grown_by(row, there, times) if key and submission.kind != "explicit" else None
        return msgspec.structs.replace(taken, cursor=cursor, capture_id=submission.event_id)

    async def _fresh_times(
        self, submission: Submission, messages: Sequence[TimedMessage | None], now: float, *, is_first: bool
    ) -> Sequence[float]:
        """Return the time of each message as if it were new to the session; 0 if unknown."""
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
        turn = submission.messages[newest:][:_MOST_COMPARED]
        before = await asyncio.to_thread(self._state.capture_cursors.last_said_at, turn) if turn else 0.0
        return (0.0,) * newest + (before or now,) * (count - newest)

    def _now(self, live: CaptureCursor) -> float:
        """Return the time now, but later than every turn of the session even if the clock stepped back."""
        before = live.newest
        return max(round(self._clock(), 3), before + _APART_S if before else 0.0)

    def _find_window(self, row: bytes, key: str) -> _Window:
        """Find the places of submitted messages in the capture cursors of a session, by their digests."""
        live = self._state.capture_cursors.of(key)
        known = self._state.learned.joined_cursor(key, live)
        return _Window(row, live, known, known.places(row))

    async def _should_not_wait(self, kind: Kind, said: Sequence[TimedMessage]) -> bool:
        """Return True if an event of these messages should not wait for further turns."""
        if self._is_urgent is None or kind != "turn":
            return True
        typed = [each.utterance.text for each in said if each.utterance.role == "user"]
        return bool(typed) and await asyncio.to_thread(self._is_urgent, typed)


async def _run_work(said: Sequence[Utterance], work: Callable[[], T]) -> T:
    """Run work on messages and return its result; in a thread if their text is long."""
    if sum(len(each.text) for each in said) < INLINE_LENGTH:
        return work()
    return await asyncio.to_thread(work)


def _stored_identities(roots: Sequence[Root]) -> tuple[str, ...]:
    """Return the identity of each root, and compile the opt-out patterns. Runs in a thread."""
    prepare()
    return tuple(map(stored_identity, roots))


def _to_timed(window: Sequence[Utterance | None], *, begun: bool, goes_on: bool) -> list[TimedMessage | None]:
    """Make timed messages of a window, the first `begun` and the last `goes_on`; the times are 0."""
    last = len(window) - 1
    return [
        None if each is None else TimedMessage(each, 0, begun and not place, goes_on and place == last)
        for place, each in enumerate(window)
    ]


async def _to_windows(said: Sequence[TimedMessage]) -> Sequence[Sequence[TimedMessage]]:
    """Cut messages into windows, one for each event; in a thread if they are long."""
    is_whole = not any(each.begun or each.goes_on for each in said)
    if is_whole and sum(len(each.utterance.text) for each in said) <= WINDOW_LIMIT:
        return [said] if said else []
    return await _run_work([each.utterance for each in said], lambda: tuple(slices(said)))


def _begins_turn(each: TimedMessage | None) -> bool:
    """Return True if a message begins a turn: the user's, and no continuation of an earlier one."""
    return each is not None and each.utterance.role == "user" and not each.begun


def _asked_before(messages: Sequence[TimedMessage | None], places: Sequence[int | None]) -> str:
    """Return the end of the agent's message directly before the first new message, or ""."""
    first = next((at for at, place in enumerate(places) if place is None), 0)
    before = messages[first - 1] if first else None
    is_agents = before is not None and before.utterance.role == "assistant"
    return before.utterance.text[-MOST_ASKED:] if before is not None and is_agents else ""


def _make_event(
    submission: Submission, event_id: str, piece: Sequence[TimedMessage], now: float, asked: str
) -> Event:
    """Make the event of one window of a submission, received at `now`; `asked` precedes the window."""
    return Event(
        asked=asked,
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
    opt_outs: Sequence[OptOut] = (),
) -> Cleaned:
    """Return messages without echoes of `injected` memories, secrets and opted-out text, with counts.

    `opt_outs` are the session's earlier ones. If the first message is `begun` or the last one
    `goes_on`, text at that end is dropped, as it may be half a secret.
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
    return _without_opted_out(Cleaned(tuple(window), secrets, echoes), opt_outs)


def _without_opted_out(taken: Cleaned, before: Sequence[OptOut]) -> Cleaned:
    """Remove opted-out text, requests to forget, and repetitions of opted-out text from messages."""
    window = [*taken.window]
    opting_out, texts, forgets = list[int](), list[str](), list[tuple[int, str]]()
    points_before = False
    for place, each in enumerate(taken.window):
        if each is None or each.role != "user" or (found := cut_opted_out(each.text)).text == each.text:
            continue
        window[place] = Utterance("user", found.text) if found.text.strip() else None
        forgets += [(place, text) for text in found.forgets]
        texts += found.opted_out
        if found.opted_out:
            opting_out.append(place)
        if found.points_before:
            first = _user_before(taken.window, place)
            points_before = points_before or first is None
            texts += [gone.text for gone in taken.window[first or 0 : place] if gone is not None]
            window[first or 0 : place] = [None] * (place - (first or 0))
    opt_outs = tuple(map(opt_out_of, texts))
    for place, left in enumerate(window):
        # A repetition by the person after the opt-out counts as a new statement.
        is_past = opting_out and place < opting_out[-1]
        if left is not None and (before or opt_outs) and (left.role == "assistant" or is_past):
            is_own = left.role == "user"
            text = without_repeats(
                left.text, opt_outs if is_own else (*before, *opt_outs), by_name=not is_own
            )
            window[place] = Utterance(left.role, text) if text.strip() else None
    return msgspec.structs.replace(
        taken,
        window=tuple(window),
        opting_out=tuple(opting_out),
        opt_outs=opt_outs,
        forgets=tuple(forgets),
        points_before=points_before,
    )


def _user_before(window: Sequence[Utterance | None], place: int) -> int | None:
    """Return the index of the last user message before `place`, or None."""
    before = (at for at in reversed(range(place)) if (each := window[at]) is not None and each.role == "user")
    return next(before, None)


def response_of(text: str) -> str:
    """Return the first 512 tokens of a response, cut at a word, as its session's memory stores it."""
    encoded = text.strip().encode("utf-8", "replace")
    if len(encoded) <= (most := _MOST_TOKENS * BYTES_PER_TOKEN):
        return encoded.decode()
    beginning = encoded[:most].decode("utf-8", "ignore")
    whole, _, _ = beginning.rpartition(" ")
    return f"{whole or beginning}…"


def response_in(said: Sequence[Utterance], injected: Collection[str]) -> str:
    """Return the response that `said` begins with, cleaned and cut as its session stores it, or ""."""
    window = clean(said, injected).window
    return "" if not window or window[0] is None else response_of(window[0].text)
