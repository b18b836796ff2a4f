"""Session: one conversation of one agent. A memory is injected into it once.

A reply counts only when the kernel took it whole and in time (`Turn.mark_delivered`). The same turn is
answered from the set as it was before, so that its bytes stay the same. A session has one injected set for
each set of roots, which survives restarts. It is emptied after a compaction, by a newer summary and after 24
hours; without reports of compactions also after 30 turns or 60,000 tokens. Explicit `hyde`, mode `plain` and
a request without a session have no injected set.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import compress
from secrets import token_hex

import msgspec
from msgspec.structs import replace

from forged.capture import CaptureService
from forged.config import Config
from forged.conversation import Utterance
from forged.hooks import HookEvent
from forged.map import VectorMap
from forged.retrieval import Answer, Ask
from forged.sessions.block import come_once, render
from forged.sessions.injected_set import TurnContent, compose
from forged.sessions.message_buffer import MessageBuffer
from forged.sessions.messages import SessionMessages
from forged.sessions.pinned import pinned_in
from forged.sessions.transcript import clean_hypotheses, clean_transcript, size_of, without_echoes
from forged.sessions.turns import CurrentTurn, OpenTurn, OpenTurns, TurnKey, TurnKeys, TurnReply
from forged.state import InjectedSet, InjectionRecord, RecordedMemory, SetKey, State
from forged.stores import Ranked, SessionMemories, Workplace
from forged.text.tokens import BYTES_PER_TOKEN
from forged_client import protocol as wire

MODES = ("block", "append", "plain")
BLOCK_TOKENS = 4_000
# "No limit" still fits a reply, which holds each memory twice: 1 MiB of injection.
MOST_TOKENS = 256 << 10
_TOKEN_BYTES = 4
_MOST_NAME = 80
_DAY_S, _TURNS, _WINDOW_TOKENS = 24 * 3600.0, 30, 60_000
# Open turns of one session.
_TURNS_OF_ONE = 8


class SharedParts(msgspec.Struct):
    """Parts of the daemon that all sessions share. `clock` returns Unix seconds."""

    state: State
    config: Config
    memories: SessionMemories
    capture: CaptureService
    buffer: MessageBuffer
    turns: OpenTurns
    clock: Callable[[], float] = time.time


class Session:
    """One conversation of an agent: its turns, injected sets, messages of hooks, and notices."""

    __slots__ = (
        *("_keys", "_messages", "_newest", "_notices", "_turns"),
        *("agent", "session_id", "shared", "silenced"),
    )

    def __init__(self, shared: SharedParts, agent: str, session_id: str) -> None:
        self.agent, self.session_id = agent, session_id
        self.silenced: int | None = None  # hash of a prompt that must not be captured
        self.shared = shared
        self._messages: SessionMessages | None = None
        self._turns: dict[TurnKey, OpenTurn] = {}
        self._newest: dict[tuple[str, ...], OpenTurn] = {}  # the newest answered one, by its roots
        self._keys = TurnKeys(session_id)
        self._notices: set[str] = set()

    def open(self, turn: Turn) -> OpenTurn:
        """Return the open turn of a request, else a new one; budget and deadline do not count."""
        what, place = (turn.hypotheses, turn.mode), turn.place
        key = self._keys.of(place, turn.turn_id, turn.messages, turn.summary, *what)
        known = None if key is None else self._turns.get(key)
        if known is None:
            known = OpenTurn(self.agent, self.session_id, key, place.tops, self._remove_turn)
        if key is not None:
            self.keep_turn(known)
        return known

    def keep_turn(self, turn: OpenTurn) -> None:
        """Make a turn the newest open one; drop the oldest above 8, and others without a key."""
        known = self._turns.pop(turn.slot, None)
        if known is not None and known is not turn:
            self.shared.turns.drop(known)
        self._turns[turn.slot] = turn
        if self.session_id and len(self._turns) > _TURNS_OF_ONE:
            older = list(self._turns.values())[:-1]
            self.shared.turns.drop(next((each for each in older if not self.is_newest(each)), older[0]))
        self.shared.turns.mark_used(turn)

    def _remove_turn(self, turn: OpenTurn) -> None:
        """Remove a turn from the session, as it was dropped from the open turns."""
        if self._turns.get(turn.slot) is turn:
            del self._turns[turn.slot]
        if self._newest.get(turn.tops) is turn:
            del self._newest[turn.tops]

    def is_first_notice(self, about: str) -> bool:
        """Record a notice on a subject; return True for the first, always without a session."""
        if not self.session_id:
            return True
        is_first = about not in self._notices
        self._notices.add(about)
        return is_first

    def injected_set_before(self, turn: Turn) -> InjectedSet:
        """Return the injected set before a turn; an expired one is replaced by an empty one."""
        known, key = turn.open, self.set_key(turn.open.tops)
        now = self.shared.state.injected_sets.now.get(key)
        if now is not None and now.summary == turn.summary:
            if known.round is not None and self.is_newest(known):  # under way: its set stays as it was
                return known.round.before
            if not self._has_expired(now, turn):
                return now
        token, compacts = token_hex(_TOKEN_BYTES), turn.compacts
        if now is not None:
            token, compacts = now.token, compacts or now.compacts or now.summary != turn.summary
        now = InjectedSet(token, self.shared.clock(), turn.summary, turn.size, compacts=compacts)
        self.put_set(key, now)
        self._newest.pop(known.tops, None)
        return now

    def is_newest(self, turn: OpenTurn) -> bool:
        """Return True if a turn is the one that the session answered last in its roots."""
        return turn.key is not None and self._newest.get(turn.tops) is turn

    def begin_round(self, turn: OpenTurn, before: InjectedSet, *, speaks: bool) -> CurrentTurn:
        """Mark a turn as answered last; return its state: the set before it, and its replies."""
        known = turn.round
        if known is None or known.before is not before or not self.is_newest(turn):
            known = turn.round = CurrentTurn(before, speaks, {})
        self._newest[turn.tops] = turn
        return known

    def set_key(self, tops: tuple[str, ...]) -> SetKey:
        return SetKey(self.agent, self.session_id, tops)

    def in_context(self, tops: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        """Return the roots and ids of the memories of the session's injected set in these roots."""
        known = self.shared.state.injected_sets.now.get(self.set_key(tops))
        return () if known is None else tuple((each.root, each.id) for each in known.entries)

    def put_set(self, key: SetKey, injected: InjectedSet) -> None:
        """Replace an injected set of the session; it is written to disk within five seconds."""
        self.shared.state.injected_sets.put(key, injected)

    def _has_expired(self, known: InjectedSet, turn: Turn) -> bool:
        """Return True if an injected set is a day old, or is long and no compaction was reported."""
        if self.shared.clock() - known.began > _DAY_S:
            return True
        is_long = known.turns >= _TURNS or turn.size - known.window > _WINDOW_TOKENS * BYTES_PER_TOKEN
        return is_long and not (known.compacts or turn.compacts)

    # --- messages of hooks ------------------------------------------------------------------------------

    @property
    def messages(self) -> SessionMessages | None:
        """Messages of hooks since the summary; None if there are none, or they were handed over."""
        return None if self._messages is None or self._messages.has_left else self._messages

    def messages_for(self, workspace: str, place: Workplace, *, headless: bool = False) -> SessionMessages:
        """Return the session's messages to add to; other roots or another kind of run get new ones."""
        known, messages = self._messages, self.messages  # dropped messages may have had private spans
        if messages is None or (messages.place.tops, messages.is_headless) != (place.tops, headless):
            messages = SessionMessages(self.agent, self.session_id, workspace, place, headless=headless)
            messages.open_spans = known.open_spans if known is not None else 0
        messages.workspace, messages.place = workspace, place
        self.set_messages(messages)
        return messages

    def set_messages(self, messages: SessionMessages) -> None:
        """Make these the messages of the session, and hand over earlier ones to capture."""
        known, self._messages = self.messages, messages
        if known is not None and known is not messages:
            self.shared.buffer.leave(known)
        self.shared.buffer.touch(messages)

    def add_prompt(self, event: HookEvent) -> bool:
        """Add a prompt to the session's messages; False without any, or if it is all private."""
        return self._add(SessionMessages.add_prompt, event)

    def add_reply(self, event: HookEvent) -> bool:
        """Add the reply of a turn that ended to the session's messages; False if its prompt is unknown."""
        return self._add(SessionMessages.add_reply, event)

    def _add(self, add: Callable[[SessionMessages, HookEvent], bool], event: HookEvent) -> bool:
        if (messages := self.messages) is None:
            return False
        counts = add(messages, event)
        self.set_messages(messages)
        return counts

    def resume_turn(
        self,
        event: HookEvent,
        place: Workplace,
        said: Sequence[Utterance],
        asked_at: float,
        *,
        headless: bool,
    ) -> bool:
        """Continue a turn from before the daemon's start, with its transcript; False without a prompt."""
        messages = SessionMessages(self.agent, self.session_id, event.workspace, place, headless=headless)
        if not event.prompt:
            messages.restore_turn(event.turn_id, said, asked_at)
        is_known = messages.add_reply(event)
        if is_known or messages.open_spans:
            self.set_messages(messages)
        return is_known

    def is_silenced(self, prompt: str) -> bool:
        """Return True for a prompt not to be captured: memory was off when it was sent or later."""
        return bool(prompt) and self.silenced == hash(prompt)

    def drop_messages(self, tops: tuple[str, ...] | None = None) -> None:
        """Drop the messages, as memory is off in `tops` (None: all); of other roots they are captured."""
        if (messages := self.messages) is None:
            return
        self.silenced = messages.prompt_hash
        self.shared.buffer.leave(messages, drops=tops is None or messages.place.tops == tops)
        if messages.open_spans:
            left = SessionMessages(self.agent, self.session_id, messages.workspace, messages.place)
            left.open_spans = messages.open_spans
            self.set_messages(left)

    def copy_injected_sets(self, parent: str) -> None:
        """Copy the injected sets of a parent session of the agent, for roots where this one has none."""
        sets = self.shared.state.injected_sets
        for key, injected in sets.of_session(self.agent, parent).items():
            if (own := self.set_key(key.tops)) not in sets.now:
                self.put_set(own, injected)

    def empty_injected_sets(self) -> None:
        """After a compaction, empty the injected sets and drop the captured messages before the prompt."""
        sets = self.shared.state.injected_sets
        for key, known in sets.of_session(self.agent, self.session_id).items():
            self.put_set(key, InjectedSet(known.token, self.shared.clock(), known.summary, compacts=True))
        self._newest.clear()
        if self.messages is not None:
            self.messages.drop_summarized()

    def end(self, *, may_resume: bool = False) -> None:
        """Drop the session's memories; unless it `may_resume`, drop all, and capture messages."""
        self.shared.memories.end(self.session_id, self.agent)
        if may_resume:
            return
        sets = self.shared.state.injected_sets
        sets.drop(sets.of_session(self.agent, self.session_id))
        for held in (self._turns, self._newest, self._notices):
            held.clear()
        if self.messages is not None:
            self.shared.buffer.leave(self.messages)
        self._messages = None


class Turn:
    """One retrieval for a session: `ask`, then `compose_reply`, then `mark_delivered` once it is sent.

    `composed` is its reply, `sentences` are for the person. `summary` is an index in `messages`.
    """

    composed: TurnReply

    def __init__(
        self,
        session: Session,
        place: Workplace,
        *,
        deadline: float,
        turn_id: str = "",
        messages: tuple[wire.Message, ...] = (),
        summary: int = 0,
        hypotheses: tuple[str, ...] = (),
        mode: str = "block",
        compacts: bool = False,
        min_generation: int = 0,
    ) -> None:
        self.session, self.place, self.deadline, self.turn_id = session, place, deadline, turn_id
        self.messages, self.summary, self.hypotheses = messages, summary, hypotheses
        self.mode, self.compacts, self.min_generation = mode, compacts, min_generation
        self.open, self._state = session.open(self), session.shared.state
        self.kept = self.open.kept if self.open.key is not None else None
        self.is_cached = True
        self.sentences: tuple[str, ...] = ()
        self.recalled: tuple[Ranked, ...] = ()  # memories that the person asks for
        strategy = session.shared.config.memory.retrieval_strategy
        self.is_stateless = not session.session_id or mode == "plain" or strategy == "hyde"
        self._is_of_another = False
        self._ask: Ask | None = None
        self._pinned: tuple[Ranked, ...] = ()
        self._pinned_from: tuple[VectorMap, ...] = ()
        self._round: CurrentTurn | None = None

    @cached_property
    def size(self) -> int:
        """Number of characters of the conversation."""
        return size_of(self.messages)

    @property
    def answer(self) -> Answer | None:
        """The turn's cached answer; None without one, or if another turn or injected set came after it."""
        if self.kept is None or (answer := self.kept.get(self.min_generation)) is None:
            return None
        if self.place.others and not self.place.still_has(answer.ranked):
            self.kept.drop()
            return None
        if self.is_stateless:
            return answer
        self.session.injected_set_before(self)
        self._is_of_another = not self.session.is_newest(self.open)
        return None if self._is_of_another else answer

    def budget(self, wanted: int | None) -> int:
        """Return the token limit of the turn's text: `wanted` or the configured one, within bounds."""
        is_block = self.mode == "block" and not self.is_stateless
        none = BLOCK_TOKENS if is_block else MOST_TOKENS  # a block has the whole injected set
        return budget_of(wanted, self.place, none)

    async def ask(self, budget: int) -> Ask:
        """Return the request for the retriever: the cleaned window, limits, and the memories in context."""
        settings, session = self.place.settings, self.session
        known: InjectedSet | None = None
        if not self.is_stateless:
            if not self._state.tried.is_set():
                await self._state.wait_until_open(settings.retrieval_timeout_s)
            known = session.injected_set_before(self)
        said = (await clean_transcript(self.messages, self.summary)).said
        injected = session.shared.turns.injected_texts(session.session_id, self.place.tops, session.agent)
        ask = Ask.about(
            without_echoes(said, injected),
            hypotheses=clean_hypotheses(self.hypotheses),
            top_k=settings.retrieval_top_k,
            hop_depth=settings.retrieval_hop_depth,
            deadline=self.deadline,
            min_generation=self.min_generation,
        )
        if known is not None:
            ask = self._session_ask(ask, known, budget)
        if self._is_of_another and self.kept is not None and not ask.in_context:
            self.kept.drop()  # memories that it left out are no longer in context
        self._ask = ask
        return ask

    def _session_ask(self, ask: Ask, known: InjectedSet, budget: int) -> Ask:
        """Return a request with the session's turn number, pinned memories, and memories in context."""
        if not known.has_pinned and not ask.says_nothing:
            self._pinned_from = self.place.maps()
            self._pinned = pinned_in(self._state, self.place, budget * BYTES_PER_TOKEN)
        known_turns = {(each.root, each.id): each.turn for each in known.entries}
        comes = frozenset(each.key for each in self._pinned)
        number = known.turns + 1 if known.has_pinned else 1
        return replace(ask, turn=number, pinned=comes, in_context=known_turns)

    def compose_reply(self, answer: Answer, budget: int) -> TurnReply:
        """Compose the turn's reply from an answer, and record it; equal answers give equal replies."""
        session, answer = self.session, self._with_recalled(answer)
        if self.is_stateless:
            once = come_once([each.memory for each in answer.ranked])
            answer = replace(answer, ranked=tuple(compress(answer.ranked, once)))
            block = render(answer.ranked, budget)
            shown = answer.ranked[: block.included]
            reply = TurnReply(answer, answer, block, contents=tuple(each.memory.content for each in shown))
            is_for_agent = self.mode != "plain" and (session.session_id or session.agent)
            if is_for_agent and not self.is_cached:
                self._record_injection(reply)
        else:
            shared, name = session.shared, session.session_id
            if shared.config.capture.tell and name in self._state.capture_log.due:
                self.sentences = shared.capture.notifications.unreported(name)
            reply = self._session_reply(answer, budget)
        self.composed = reply
        self.open.set_reply(reply)
        session.keep_turn(self.open)
        return reply

    def _with_recalled(self, answer: Answer) -> Answer:
        """Return an answer that begins with the memories that the person asks for."""
        if not self.recalled:
            return answer
        asked = {each.key for each in self.recalled}
        others = tuple(each for each in answer.ranked if each.key not in asked)
        return replace(answer, status="ok", reason="", ranked=(*self.recalled, *others))

    def _session_reply(self, answer: Answer, budget: int) -> TurnReply:
        """Return the turn's reply for its session: composed earlier from the same answer, or a new one."""
        known = self.session.injected_set_before(self)
        if self._ask is not None:
            speaks = not self._ask.says_nothing
        else:
            speaks = self.open.round is not None and self.open.round.speaks
        turn = self._round = self.session.begin_round(self.open, known, speaks=speaks)
        reply = turn.replies.get(budget)
        if reply is None or reply.found is not answer:
            reply = turn.replies[budget] = self._compose(answer, known, speaks=speaks, budget=budget)
        return reply

    def _compose(self, answer: Answer, known: InjectedSet, *, speaks: bool, budget: int) -> TurnReply:
        """Compose a new reply for a session: pinned memories, if they are due, and found ones."""
        limit, maps, chosen = budget * BYTES_PER_TOKEN, self.place.maps(), tuple[Ranked, ...]()
        if may_pin := speaks and not known.has_pinned:
            is_fresh = self._pinned_from == maps
            chosen = self._pinned if is_fresh else pinned_in(self._state, self.place, limit)
        content = TurnContent(
            pinned=(*self.recalled, *chosen),
            # A root that is not read yet may also have pinned memories.
            has_pinned=may_pin and len(self.place.files.maps()) == len(self.place.roots),
            found=answer,
            limit=limit,
            whole=self.mode == "block",
            name=(self.turn_id[:_MOST_NAME] if self.kept is not None else "") or f"{known.turns + 1}",
        )
        return compose(known, maps, content)

    def mark_delivered(self) -> None:
        """Count the sent reply: add its memories to the injected set, and record them and their use."""
        if self.sentences:
            self.session.shared.capture.notifications.mark_reported(
                self.session.session_id, len(self.sentences)
            )
        if (turn := self._round) is None:
            return
        reply = self.composed
        sets, key = self._state.injected_sets, self.session.set_key(self.place.tops)
        now = sets.now.get(key)
        if now is not turn.before and all(now is not each.after for each in turn.replies.values()):
            return  # the set has ended meanwhile, or another turn of the session was answered
        assert reply.after is not None
        self.session.put_set(key, reply.after)
        if not turn.is_delivered:
            turn.is_delivered = True
            for each in self._record_injection(reply):
                if each.found_by == "search":
                    sets.count_use(each.root, each.memory.id)

    def _record_injection(self, reply: TurnReply) -> tuple[Ranked, ...]:
        """Record the memories that a turn adds to its session, for the list of injections; return them."""
        if not (new := reply.new):
            return ()
        found = ((each, each.memory) for each in new)
        given = tuple(
            RecordedMemory(each.root, it.id, it.version, each.found_by, each.admitted_as)
            for each, it in found
        )
        turn = InjectionRecord(
            at=time.time(),
            tops=self.place.tops,
            session_id=self.session.session_id,
            agent=self.session.agent,
            turn_id=self.turn_id,
            strategy=reply.found.strategy,
            memories=given,
        )
        self._state.injections.add(turn)
        return new


def budget_of(wanted: int | None, place: Workplace, none: int = MOST_TOKENS) -> int:
    """Return the token limit of a text: `wanted`, else the configured one; `none` if that is no limit."""
    wanted = place.settings.injection_token_budget if wanted is None else wanted
    return min(wanted, MOST_TOKENS) if wanted > 0 else none
