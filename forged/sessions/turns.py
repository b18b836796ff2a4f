"""Open turns: their keys, and their state between requests.

A turn is its newest typed message, so each further model call of a turn has the key of the first. An agent's
list of messages grows from call to call: of a list that continues only new messages are read, and hashes of
the others are kept. An agent that cuts its list from the front gets a new key. Nothing is raised.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

import msgspec
from msgspec.structs import replace

from forged.retrieval import Answer, CachedAnswer
from forged.sessions.block import Injection
from forged.sessions.transcript import is_said, newest_typed, text_of, window_start
from forged.state import InjectedSet
from forged.stores import Ranked, Workplace
from forged_client import protocol as wire

# Open turns of all sessions, and message lists of one session with a known newest prompt.
OPEN_TURNS, _LISTS = 512, 8
# Messages before a typed one, and characters of each, that tell its turn from one with the same
# text.
_BEFORE, _BEFORE_LENGTH = 8, 4_096

_encoded = msgspec.msgpack.Encoder().encode

TurnKey = tuple[tuple[str, ...], str, bytes]
"""Tops of the roots, the turn's name or "", and a digest of the request."""


class TurnReply(msgspec.Struct, frozen=True):
    """A turn's reply: the answer `found`, the `answer` as its session gets it, and the text `block`.

    The first `known` memories were in the injected set, which is `after` once the reply is delivered.
    """

    found: Answer
    answer: Answer
    block: Injection
    known: int = 0
    contents: tuple[str, ...] = ()
    after: InjectedSet | None = None

    @property
    def new(self) -> tuple[Ranked, ...]:
        """Memories that the reply adds: they were not in the injected set."""
        return self.answer.ranked[self.known : self.block.included]


class CurrentTurn(msgspec.Struct, eq=False):
    """The turn that a session answered last: the injected set before it, and its replies by budget."""

    before: InjectedSet
    speaks: bool
    replies: dict[int, TurnReply]
    is_delivered: bool = False


class OpenTurn:
    """A turn between its requests: cached answer and last reply; `let_go` removes it from its session.

    `slot` is the key by which its session finds it: the same for all turns without a key. `reply` is the last
    one, `at` Unix seconds. `cleared` counts memories that were removed from it.
    """

    __slots__ = (
        *("agent", "at", "cleared", "kept", "key", "let_go"),
        *("reply", "round", "session_id", "slot", "tops"),
    )

    def __init__(
        self,
        agent: str,
        session_id: str,
        key: TurnKey | None,
        tops: tuple[str, ...],
        let_go: Callable[[OpenTurn], None],
    ) -> None:
        self.agent, self.session_id, self.key, self.tops, self.let_go = agent, session_id, key, tops, let_go
        self.slot: TurnKey = (tops, "", b"") if key is None else key
        self.kept = CachedAnswer()
        self.round: CurrentTurn | None = None
        self.reply: TurnReply | None = None
        self.at, self.cleared = 0.0, 0

    @property
    def name(self) -> str:
        """Id of the turn as the agent gave it, or ""."""
        return "" if self.key is None else self.key[1]

    def set_reply(self, reply: TurnReply) -> None:
        """Make this the turn's last reply."""
        self.reply, self.at, self.cleared = reply, time.time(), 0

    def forget(self, root: str, ids: Collection[str]) -> None:
        """Remove memories from the turn's last reply, and count them; their texts stay in context for now."""
        if (reply := self.reply) is None:
            return

        def is_left(each: Ranked) -> bool:
            return each.root != root or each.memory.id not in ids

        answer, included = reply.answer, reply.block.included
        gone = included - sum(map(is_left, answer.ranked[:included]))
        ranked = tuple(_without_removed(each, root, ids) for each in filter(is_left, answer.ranked))
        stayed = tuple(filter(is_left, answer.rejected))
        left = replace(answer, ranked=ranked, rejected=stayed)
        self.reply = replace(reply, answer=left, block=replace(reply.block, included=included - gone))
        self.cleared += gone


class OpenTurns:
    """The 512 most recently used turns of all sessions, with cached answers and last replies."""

    def __init__(self) -> None:
        self._turns: OrderedDict[OpenTurn, None] = OrderedDict()

    def mark_used(self, turn: OpenTurn) -> None:
        """Make a turn the most recently used one; the oldest is dropped above the limit."""
        self._turns[turn] = None
        self._turns.move_to_end(turn)
        while len(self._turns) > OPEN_TURNS:
            self.drop(next(iter(self._turns)))

    def drop(self, turn: OpenTurn) -> None:
        """Drop a turn here and in its session."""
        self._turns.pop(turn, None)
        turn.let_go(turn)

    def last(self, session_id: str, tops: tuple[str, ...], agent: str | None = None) -> OpenTurn | None:
        """Return the turn answered last in these roots, of a session (or any) and, if given, an agent."""
        for turn in reversed(self._turns):
            if turn.reply is None or turn.tops != tops or (agent is not None and turn.agent != agent):
                continue
            if not session_id or turn.session_id == session_id:
                return turn
        return None

    def injected_texts(self, session_id: str, tops: tuple[str, ...], agent: str) -> tuple[str, ...]:
        """Return the memory texts in context after a session's last reply; none without one."""
        last = self.last(session_id, tops, agent) if session_id else None
        return last.reply.contents if last is not None and last.reply is not None else ()

    def purge(self) -> None:
        """Drop the cached answers of all turns; their last replies stay on record."""
        for turn in self._turns:
            turn.kept.drop()

    def forget(self, root: str, ids: Collection[str]) -> None:
        """Drop all turns' cached answers, and these memories of a root from their last replies."""
        self.purge()
        for turn in self._turns:
            turn.forget(root, ids)


class _TypedMessage(msgspec.Struct, frozen=True):
    """Newest typed message at `place` in a list of `length` messages since `start`, with hashes."""

    place: int
    digest: bytes
    start: int
    length: int
    typed: int
    last: int

    def is_continued_by(self, messages: Sequence[wire.Message], start: int) -> bool:
        """Return True if messages begin with those of this list, by the hashes of two of them."""
        return (
            self.start == start
            and len(messages) >= self.length
            and hash(messages[self.length - 1]) == self.last
            and hash(messages[self.place]) == self.typed
        )


class TurnKeys:
    """Keys of the turns of one session, with the newest lists of messages that were read."""

    __slots__ = ("_seen", "_session_id")

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._seen: OrderedDict[tuple[str, tuple[str, ...]], _TypedMessage] = OrderedDict()

    def of(
        self, place: Workplace, turn_id: str, messages: Sequence[wire.Message], summary: int, *what: object
    ) -> TurnKey | None:
        """Return the key of a turn that asks for `what`; None if nothing identifies the turn.

        Messages of assistant and tools after its newest typed message change nothing. Without a `turn_id` the
        place since the summary, the messages just before and the maps count too, so that no other message
        gets its answer.
        """
        if not (turn_id or self._session_id):
            return None
        start = window_start(messages, summary)
        typed = self._typed((turn_id, place.tops), messages, start)
        if typed is None and not turn_id:
            return None
        settings = place.settings
        asked: list[object] = [settings.retrieval_top_k, settings.retrieval_hop_depth, *what]
        if typed is not None:
            asked.append(typed.digest)
            if not turn_id:
                ahead = messages[max(typed.place - _BEFORE, start) : typed.place]
                said = [text_of(each)[:_BEFORE_LENGTH] for each in ahead if is_said(each)]
                asked += [typed.place - start, said, place.map_versions()]
        return place.tops, turn_id, _digest(asked)

    def _typed(
        self, name: tuple[str, tuple[str, ...]], messages: Sequence[wire.Message], start: int
    ) -> _TypedMessage | None:
        """Return the newest typed message since `start`; reads only new messages of a known list."""
        known = self._seen.get(name)
        if known is not None and not known.is_continued_by(messages, start):
            known = None
        found = newest_typed(messages, start if known is None else known.length)
        if found is not None:
            at, digest = found[0], _digest(found[1])
        elif known is not None:
            at, digest = known.place, known.digest
        else:
            return None
        typed = _TypedMessage(at, digest, start, len(messages), hash(messages[at]), hash(messages[-1]))
        self._seen[name] = typed
        self._seen.move_to_end(name)
        while len(self._seen) > _LISTS:
            self._seen.popitem(last=False)
        return typed


def _without_removed(ranked: Ranked, root: str, ids: Collection[str]) -> Ranked:
    """Return a memory without removed ones among its older versions and concurrent heads."""
    if ranked.root != root:
        return ranked
    older = tuple(each for each in ranked.older if each.id not in ids)
    concurrent_heads = tuple(each for each in ranked.concurrent_heads if each.id not in ids)
    return replace(ranked, older=older, concurrent_heads=concurrent_heads)


def _digest(value: object) -> bytes:
    return hashlib.blake2b(_encoded(value), digest_size=16).digest()
