"""What each session has heard, from reply to reply: a memory comes to a session once.

`Sessions` composes the reply to a turn of a session and takes note of it when `sent` says that it was written
whole; a reply that was written after its deadline was not heard. The same turn is answered from the list as
it was before that turn, so that its bytes stay the same. A list ends when what was said is gone: at a
compaction or the end of the session (`end`), when the summary's place has moved, and with the next turn after
24 hours or, where nobody ever tells of a compaction, after 30 turns or 60,000 tokens of what was said.

Explicit `hyde` has no sessions, nor has a request without a session or in mode `plain`: all of those are
`stateless`.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from secrets import token_hex
from typing import Any

import msgspec
from msgspec.structs import replace

from forged.daemon.handlers.heard import text_of
from forged.map import VectorMap
from forged.memory import Memory, Scope
from forged.retrieval import Answer, Injection, Said, Turn, TurnKey, personas, said, standing
from forged.scopes import Ranked, Workplace
from forged.state import Given, HeardList, InjectedTurn, Place, State
from forged.text import tokens
from forged_client import protocol as wire

MODES = ("block", "append", "plain")
BLOCK_TOKENS, SESSIONS = 4_000, 256
_TOKEN_BYTES = 4
_MOST_NAME = 80

Head = tuple[VectorMap, Memory]
_DAY_S, _TURNS, _WINDOW_TOKENS = 24 * 3600.0, 30, 60_000


class Stands(msgspec.Struct, frozen=True):
    """What stands with a session that begins, as it was in these maps."""

    maps: tuple[VectorMap, ...] = ()
    ranked: tuple[Ranked, ...] = ()


class Wanted(msgspec.Struct, frozen=True):
    """What a reply to a session is made from: whose it is, its turn, what was found, and how it may be.

    `speaks`: the turn has content, so that what stands may come with it. `budget` 0: none is set. `stands` is
    what was looked for before, if it was.
    """

    place: Place
    key: TurnKey | None
    answer: Answer
    speaks: bool
    budget: int
    whole: bool
    stands: Stands = Stands()


class Made(msgspec.Struct, frozen=True):
    """A reply that was made of an answer: what of it the session is `told`, and as which `block`."""

    answer: Answer
    said: Said
    told: Answer
    block: Injection


class _Turn(msgspec.Struct):
    """The newest turn of a session: the list before it, and its replies by their budgets."""

    key: TurnKey | None
    before: HeardList
    speaks: bool
    replies: dict[int, Made]
    counted: bool = False


class _Pending(msgspec.Struct, frozen=True):
    """A reply that is on its way."""

    request: wire.Retrieve
    place: Place
    turn: _Turn
    made: Made
    deadline: float
    captured: int = 0


def stateless(request: wire.Retrieve, strategy: str) -> bool:
    """Whether a request is answered as if there were no session."""
    return not request.session_id or request.mode == "plain" or strategy == "hyde"


def place_of(request: wire.Retrieve, place: Workplace) -> Place:
    return Place(request.agent, request.session_id, place.tops)


class Sessions:
    """One for the daemon; lives in its event loop. `clock` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._turns: OrderedDict[Place, _Turn] = OrderedDict()
        self._pending: dict[int, _Pending] = {}  # by the identity of the request that is answered

    def before(self, state: State, request: wire.Retrieve, place: Place, key: TurnKey | None) -> HeardList:
        """What the session had heard before this turn; a list that is over is begun anew."""
        now, turn = state.told.of(place), self._turns.get(place)
        same = turn if turn is not None and key is not None and turn.key == key else None
        if now is not None and now.summary == request.last_summary_index:
            if same is not None:  # a turn that is under way is answered as it was
                return same.before
            if not self._is_over(now, request):
                return now
        token = now.token if now is not None else token_hex(_TOKEN_BYTES)
        compacts = now is not None and (now.compacts or now.summary != request.last_summary_index)
        compacts = compacts or request.compacts
        now = HeardList(
            token, self._clock(), request.last_summary_index, _size(request.messages), compacts=compacts
        )
        state.told.put(place, now)
        self._turns.pop(place, None)
        return now

    def spoke(self, place: Place, key: TurnKey | None) -> bool | None:
        """Whether this turn has content, None if it is not the newest that was answered."""
        turn = self._turns.get(place)
        return turn.speaks if turn is not None and key is not None and turn.key == key else None

    def said(self, state: State, workplace: Workplace, wanted: Wanted, before: HeardList) -> Made:
        """The reply to a turn: of the same answer the same, whatever has become of its memories since."""
        replies = self._turn(wanted, before).replies
        made = replies.get(wanted.budget)
        if made is None or made.answer is not wanted.answer:
            reply = _composed(state, workplace, wanted, before)
            made = replies[wanted.budget] = Made(wanted.answer, reply, *told(wanted.answer, reply))
        return made

    def _turn(self, wanted: Wanted, before: HeardList) -> _Turn:
        known = self._turns.get(wanted.place)
        if known is None or known.before is not before or wanted.key is None or known.key != wanted.key:
            known = self._turns[wanted.place] = _Turn(wanted.key, before, wanted.speaks, {})
        self._turns.move_to_end(wanted.place)
        while len(self._turns) > SESSIONS:
            self._turns.popitem(last=False)
        return known

    def replied(
        self, request: wire.Retrieve, place: Place, budget: int, deadline: float, *, captured: int = 0
    ) -> None:
        """A reply goes out now, with so many sentences for the person; `sent` tells whether it has."""
        turn = self._turns[place]
        pending = _Pending(request, place, turn, turn.replies[budget], deadline, captured)
        self._pending[id(request)] = pending

    def carried(self, request: wire.Request[Any], by: wire.Request[Any]) -> None:
        """A reply goes out within the reply to another request."""
        if (pending := self._pending.pop(id(request), None)) is not None:
            self._pending[id(by)] = pending

    def sent(self, state: State, request: wire.Request[Any], *, whole: bool) -> tuple[str, int]:
        """A reply was handed to the network, `whole` or not: then it was heard, unless it was late.

        Returns the session, and how many sentences for the person were heard with it.
        """
        pending = self._pending.pop(id(request), None)
        if pending is None or not whole or time.monotonic() > pending.deadline:
            return "", 0
        heard = pending.request.session_id, pending.captured
        turn, now = pending.turn, state.told.of(pending.place)
        if all(
            now is not each for each in (turn.before, *(made.said.after for made in turn.replies.values()))
        ):
            return heard  # the list has ended meanwhile, or another turn of the same session was answered
        reply = pending.made.said
        state.told.put(pending.place, reply.after)
        if not turn.counted:
            turn.counted = True
            new = reply.ranked[reply.heard :]
            for each in new:
                if each.via == "search":
                    state.told.used(each.root, each.memory.id)
            note(state, pending.request, pending.place.tops, pending.made.answer.strategy, new)
        return heard

    def end(self, state: State, session_id: str, agent: str = "", *, compacts: bool) -> None:
        """What a session has heard is gone: compacted, or over; where no agent is named, for all of them."""
        for place in state.told.places(session_id):
            if agent and place.agent and place.agent != agent:
                continue
            known = state.told.of(place)
            if known is None or not compacts:
                state.told.drop(place)
            else:
                state.told.put(place, HeardList(known.token, self._clock(), known.summary, compacts=True))
            self._turns.pop(place, None)

    def _is_over(self, known: HeardList, request: wire.Retrieve) -> bool:
        """Whether it is a day old, or a harness has surely compacted by now without a word of it."""
        if self._clock() - known.began > _DAY_S:
            return True
        grown = _size(request.messages) - known.window
        is_long = known.turns >= _TURNS or grown > _WINDOW_TOKENS * tokens.BYTES_PER_TOKEN
        return is_long and not (known.compacts or request.compacts)


def note(
    state: State, request: wire.Retrieve, tops: tuple[str, ...], strategy: str, new: Sequence[Ranked]
) -> None:
    """Let it be on record which memories a turn got that its session did not have."""
    if new:
        memories = tuple(
            Given(each.root, each.memory.id, each.memory.version, each.via, each.came) for each in new
        )
        turn = InjectedTurn(
            at=time.time(),
            tops=tops,
            session_id=request.session_id,
            agent=request.agent,
            turn_id=request.turn_id,
            strategy=strategy,
            memories=memories,
        )
        state.injections.add(turn)


def _size(messages: Sequence[wire.Message]) -> int:
    return sum(len(text_of(each)) for each in messages)


def _composed(state: State, workplace: Workplace, wanted: Wanted, before: HeardList) -> Said:
    limit, maps, stands = wanted.budget * tokens.BYTES_PER_TOKEN, workplace.maps(), Stands()
    if may_stand := wanted.speaks and not before.stood:
        stands = wanted.stands if wanted.stands.maps == maps else standing_in(state, workplace, limit)
    has_all = len(workplace.files.maps()) == len(
        workplace.roots
    )  # what a root has that is not read yet may stand as well
    turn = Turn(
        stands=stands.ranked,
        stood=may_stand and has_all,
        found=wanted.answer.ranked,
        limit=limit,
        whole=wanted.whole,
        name=_name_of(wanted.key, before),
    )
    reply = said(before, maps, turn)
    return replace(reply, after=replace(reply.after, turns=before.turns + 1))


def _name_of(key: TurnKey | None, before: HeardList) -> str:
    """The turn as its agent calls it, or its number in the session."""
    return (key[2] if key is not None else "")[:_MOST_NAME] or f"{before.turns + 1}"


def standing_in(state: State, place: Workplace, limit: int) -> Stands:
    """What stands with a session that begins, of so many bytes at most."""
    maps, own = place.maps(), place.files.maps()
    budget = min(place.settings.standing_token_budget * tokens.BYTES_PER_TOKEN, limit)
    trusted = {record.top for record in state.trust.roots() if record.trusted_at}
    trusted |= {root.top for root in place.roots if root.is_own}
    heads = standing(own, trusted, budget, partial(_uses, state))
    if place.others:
        heads = (*heads, *personas(_personas_of(place, state), budget, heads))
    ranked = (Ranked(memory, 0.0, via="standing", root=home.root, came="standing") for home, memory in heads)
    return Stands(maps, tuple(ranked))


def _personas_of(place: Workplace, state: State) -> list[Head]:
    """What an agent was told about itself; nothing else beside the workspace's roots stands."""
    homes = (home for each in place.others if each.scope is Scope.AGENT for home in each.maps())
    return [
        (home, each)
        for home in homes
        for each in home.memories
        if home.chains.is_head(each.id) and state.attributes.of(home.root, each.id).memory_type == "persona"
    ]


def _uses(state: State, home: VectorMap) -> dict[str, int]:
    """How many sessions searched for each head or one that it has replaced."""
    found: dict[str, int] = {}
    for memory_id, count in state.told.uses.of_root(home.root).items():
        head = home.chains.head(memory_id)
        for each in (head, *home.chains.rivals.get(head, ())):
            found[each] = found.get(each, 0) + count
    return found


def told(answer: Answer, reply: Said) -> tuple[Answer, Injection]:
    """An answer as the session gets it, and its block: what it has heard stands, whatever has failed."""
    ranked = (*reply.ranked, *reply.left_out)
    digest = hashlib.sha256(reply.text.encode()).hexdigest()[:16] if reply.text else ""
    block = Injection(reply.text, digest, len(reply.ranked), len(reply.left_out))
    if reply.text:
        reason = f"nothing new: {answer.reason}" if answer.status == "empty" else answer.reason
        if answer.status not in ("ok", "empty"):
            reason = f"only what stands or was heard: {answer.reason}"
        return replace(answer, status="ok", reason=reason, ranked=ranked), block
    if answer.status == "ok" and not ranked:
        return replace(
            answer, status="empty", reason="nothing that this session has not heard", ranked=()
        ), block
    return replace(answer, ranked=ranked), block
