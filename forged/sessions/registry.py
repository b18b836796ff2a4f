"""All sessions of the daemon, by agent and id: opened, limited in number, handed over to capture.

Messages of sessions that end, are silent for an hour, or are open when the daemon stops are captured without
the end of their turn. At most 20,000 sessions are kept; the one unused for the longest time is dropped first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import Any

from forged.attributes import Facts
from forged.capture import CaptureService, Outcome, Submission, response_in
from forged.config import Config
from forged.counters import Metrics
from forged.errors import ForgedError, WorkspaceError
from forged.memory import Origin, Scope
from forged.retrieval import Retriever
from forged.sessions.message_buffer import MessageBuffer
from forged.sessions.messages import SessionMessages
from forged.sessions.session import Session, SharedParts, Turn
from forged.sessions.transcript import clean_transcript
from forged.sessions.turns import OpenTurn, OpenTurns
from forged.state import Kind, State
from forged.stores import Resolver, SessionMemories, SessionMemory, Workplace, new_session_memory
from forged_client import protocol as wire

logger = logging.getLogger(__name__)

MOST_SESSIONS, _TRIED = 20_000, 8
_MOST_NAME = 256
# Seconds between two searches for silent sessions.
_LOOKS_S = 60.0


class Sessions:
    """All sessions of the daemon by agent and id, at most 20,000; `buffer` holds messages of hooks."""

    def __init__(
        self,
        config: Config,
        state: State,
        capture: CaptureService,
        memories: SessionMemories,
        *,
        retriever: Retriever,
        resolver: Resolver,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.buffer = MessageBuffer(clock)
        self._turns = OpenTurns()
        self._shared = SharedParts(state, config, memories, capture, self.buffer, self._turns, clock)
        self._capture, self._resolver, self._metrics = capture, resolver, metrics
        self._retriever, self._keeps_responses = retriever, Scope.SESSION in config.scopes.retrieved
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._replies: dict[int, Turn] = {}  # replies being sent, by the identity of their request

    def open(self, agent: str, session_id: str) -> Session:
        """Return the session of an agent and an id, a new one if it is unknown."""
        key = agent, session_id
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(self._shared, *key)
            if len(self._sessions) > MOST_SESSIONS:
                self._make_room()
        else:
            self._sessions.move_to_end(key)
        return session

    def _make_room(self) -> None:
        """Drop the longest unused session, if possible with no private span; queue its messages."""
        for _ in range(_TRIED):
            key, oldest = next(iter(self._sessions.items()))
            if oldest.messages is None or not oldest.messages.open_spans:
                break
            self._sessions.move_to_end(key)
        del self._sessions[key]
        if oldest.messages is not None:
            self.buffer.early += oldest.messages.has_waiting
            self.buffer.leave(oldest.messages)

    # --- replies ----------------------------------------------------------------------------------------

    def expect_delivery(self, request: wire.Request[Any], turn: Turn) -> None:
        """Remember the turn of a request until `sent` reports that its reply has gone or failed."""
        self._replies[id(request)] = turn

    def sent(self, request: wire.Request[Any], *, whole: bool) -> None:
        """Mark the turn of a request as delivered if its reply was sent `whole` and before the deadline."""
        turn = self._replies.pop(id(request), None)
        if turn is not None and whole and time.monotonic() <= turn.deadline:
            turn.mark_delivered()

    def last(self, session_id: str, tops: tuple[str, ...]) -> OpenTurn | None:
        """Return the turn answered last in these roots, of a session or, without an id, of any."""
        return self._turns.last(session_id, tops)

    def purge(self) -> None:
        """Drop the cached answers of all turns; running searches still answer their own requests."""
        self._turns.purge()
        self._retriever.runs.purge()

    def forget(self, root: str, ids: Collection[str]) -> None:
        """Drop all turns' cached answers, and these memories of a root from their last replies."""
        self._turns.forget(root, ids)
        self._retriever.runs.purge()

    # --- capture ----------------------------------------------------------------------------------------

    async def capture(
        self,
        session: Session,
        place: Workplace,
        kind: Kind,
        messages: Sequence[wire.Message],
        *,
        summary: int = 0,
        said_at: Sequence[float] = (),
        headless: bool = False,
        event_id: str = "",
        part: int = 0,
        parts: int = 1,
        begun: bool = False,
        goes_on: bool = False,
    ) -> Outcome:
        """Clean and submit messages to capture; return the outcome. May keep a turn's response."""
        found = await clean_transcript(messages, summary)
        spoken = Submission(
            kind=kind,
            session_id=session.session_id[:_MOST_NAME],
            roots=place.roots,
            messages=found.said,
            injected=self._turns.injected_texts(session.session_id, place.tops, session.agent),
            event_id=event_id,
            part=part,
            parts=parts,
            begun=begun,
            goes_on=goes_on,
            agent=session.agent[:_MOST_NAME],
            said_at=tuple(said_at[at] for at in found.places) if said_at else (),
            headless=headless,
        )
        outcome = await self._capture.submit(spoken)
        self._metrics.echoes_removed += found.echoes
        if outcome.word != "rejected":
            await self._keep_response(place, spoken)
        return outcome

    async def prompt_of(
        self, session: Session, place: Workplace, messages: Sequence[wire.Message]
    ) -> Submission | None:
        """Return a prompt, the last message, with its context; None if nothing is left of it."""
        found = await clean_transcript(messages)
        if not found.said or found.places[-1] != len(messages) - 1:
            return None
        return Submission(
            kind="turn",
            session_id=session.session_id[:_MOST_NAME],
            roots=place.roots,
            messages=found.said[-1:],
            injected=self._turns.injected_texts(session.session_id, place.tops, session.agent),
            agent=session.agent[:_MOST_NAME],
            before=found.said[:-1],
            context=session.in_context(place.tops),
        )

    async def _keep_response(self, place: Workplace, spoken: Submission) -> None:
        """Keep a turn's newest response as a session memory, if `[scopes].retrieve` has sessions."""
        is_wanted = self._keeps_responses and spoken.session_id
        is_whole = spoken.parts == 1 and not (spoken.begun or spoken.goes_on)
        newest = spoken.messages[-1:]
        is_response = spoken.kind == "turn" and all(each.role != "user" for each in newest)
        if not (is_wanted and is_whole and is_response):
            return
        if text := await asyncio.to_thread(response_in, newest, spoken.injected):
            memories = self._shared.memories
            now = memories.clock()
            kept = new_session_memory(text, spoken.session_id, now, origin=Origin.AGENT)
            memories.add(SessionMemory(kept, Facts(agent_id=spoken.agent), now, place.tops))

    async def capture_new(self, messages: SessionMessages, kind: Kind, place: Workplace) -> None:
        """Submit a session's new messages to capture; `refusal` is set to the reason if it takes none."""
        is_whole, upto = kind == "compaction", messages.said
        messages.refusal = ""
        if not (new := messages.uncaptured(whole=is_whole)):
            return
        texts, said_at = zip(*new, strict=True)
        session = self.open(messages.agent, messages.session_id)
        outcome = await self.capture(
            session, place, kind, texts, said_at=said_at, headless=messages.is_headless
        )
        if outcome.word != "rejected" or outcome.reason == "nothing_to_capture":
            messages.mark_captured(upto, whole=is_whole)
        else:
            messages.refusal = outcome.reason

    async def hand_over(self, *, all_of_them: bool = False, again: bool = False) -> None:
        """Capture messages of ended sessions, with `again` of silent ones and refused, or of all."""
        for messages in self.buffer.due(all_of_them=all_of_them, again=again):
            try:
                await self._hand_over_one(messages)
            except ForgedError as error:
                messages.refusal = str(error)
            if messages.refusal:
                logger.warning(
                    "a session waits for capture agent=%s error=%s", messages.agent, messages.refusal
                )
            else:
                self.buffer.release(messages)

    async def _hand_over_one(self, messages: SessionMessages) -> None:
        """Capture a session's messages in their roots, unless memory is off or paused there by now."""
        place = messages.place
        with contextlib.suppress(WorkspaceError):  # the folder may be gone while its repository exists
            now = await self._resolver.resolve(messages.workspace)
            place = now if now.tops == place.tops else place
        if place.off or self._shared.state.pauses.reason(place.tops):
            messages.refusal = ""
        else:
            await self.capture_new(messages, "turn", place)

    async def run(self) -> None:
        """Hand over messages of ended and silent sessions to capture once a minute, for ever."""
        while True:
            await asyncio.sleep(_LOOKS_S)
            await self.hand_over(again=True)

    def drop_messages(self, top: str | None = None) -> None:
        """Drop messages of hooks of all sessions that see this root or, without one, of all sessions."""
        for session in tuple(self._sessions.values()):
            if session.messages is not None and (top is None or top in session.messages.place.tops):
                session.drop_messages()
        self.buffer.clear(top)
