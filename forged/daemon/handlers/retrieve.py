"""`retrieve`: what an agent asks before a turn."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from forged.conversation import last_user_text
from forged.counters import Metrics
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import generation_of, hit
from forged.daemon.handlers.heard import asked, heard, without_echoes
from forged.daemon.handlers.sessions import (
    BLOCK_TOKENS,
    MODES,
    Made,
    Stands,
    Wanted,
    note,
    place_of,
    standing_in,
    stateless,
)
from forged.daemon.handlers.trust import in_reply
from forged.daemon.handlers.turn import key_of
from forged.errors import InvalidRequest
from forged.retrieval import (
    Answer,
    Ask,
    Injection,
    Sources,
    TurnKey,
    before,
    goes_on,
    render,
)
from forged.scopes import Workplace
from forged.text import tokens
from forged_client import protocol as wire

_MOST_HYPOTHESES = 32
# "No limit" still has to fit into a reply, which holds each memory twice: 1 MiB of injection.
_MOST_TOKENS = 256 << 10


async def retrieve(context: Context, place: Workplace, request: wire.Retrieve) -> tuple[wire.Retrieved, int]:
    """The injection for one turn."""
    if request.mode not in MODES:
        raise InvalidRequest(f"unknown mode {request.mode[:64]!r}; use one of {', '.join(MODES)}")
    place = await context.daemon.resolver.with_others(
        place, agent=request.agent, session_id=request.session_id
    )
    retriever, key = context.daemon.retriever, key_of(request, place, context.daemon.lists)
    answer, cached, question = _kept(context, place, key, request), True, None
    if answer is None or _is_of_another(context, place, request, key):
        question = await _ask(context, request, place, key)
        if answer and key and not question.ask.heard:  # what it leaves out as heard is gone from context
            retriever.turns.drop(key)
        answer, cached = await retriever.retrieve(question.ask, sources(place, question.ask), key)
    notice = await in_reply(context, place, request.session_id)
    told, contents, heard = answer, tuple[str, ...](), 0
    captured = _captured(context, request)
    if _is_stateless(context, request):
        block = render(answer.ranked, _budget(request, place))
        if _is_for_an_agent(request) and not cached:
            note(context.daemon.state, request, place.tops, answer.strategy, answer.ranked[: block.included])
    else:
        made = _said(context, place, request, (key, answer, question), captured=len(captured))
        told, block, contents, heard = made.told, made.block, made.said.contents, made.said.heard
    unchanged = bool(block.digest) and block.digest == request.known_digest
    retrieved = wire.Retrieved(
        **_found(told, block, heard),
        text="" if unchanged else block.text,
        unchanged=unchanged,
        cached=cached,
        elapsed_ms=elapsed_ms(context),
        notice=notice,
        captured=captured,
    )
    turns = retriever.turns
    turns.note(request.session_id, request.turn_id, place.tops, told, block.included, contents=contents)
    _count(context.daemon.metrics, told, retrieved.status, cached=cached)
    if not cached and request.mode != "plain":
        for store in place.stores:
            store.use(told.ranked[heard : block.included])
    return retrieved, answer.generation


def _is_stateless(context: Context, request: wire.Retrieve) -> bool:
    return stateless(request, context.daemon.config.memory.retrieval_strategy)


def _is_for_an_agent(request: wire.Retrieve) -> bool:
    """Whether what no list counts as heard goes to an agent all the same, not to a person who looks."""
    return request.mode != "plain" and bool(request.session_id or request.agent)


def _captured(context: Context, request: wire.Retrieve) -> tuple[str, ...]:
    """What the person has not been told of the session's capture."""
    tells = context.daemon.config.capture.tell and not _is_stateless(context, request)
    return context.daemon.capture.news.of(request.session_id) if tells else ()


def _is_of_another(context: Context, place: Workplace, request: wire.Retrieve, key: TurnKey | None) -> bool:
    """Whether what is kept for a turn was answered to another list, or before another turn was."""
    if _is_stateless(context, request):
        return False
    daemon, where = context.daemon, place_of(request, place)
    daemon.sessions.before(daemon.state, request, where, key)
    return daemon.sessions.spoke(where, key) is None


def _said(
    context: Context, place: Workplace, request: wire.Retrieve, turn: _Turn, *, captured: int = 0
) -> Made:
    """The reply to a session, which goes out next; a turn that was not asked is the newest answered one."""
    key, answer, question = turn
    daemon, where, budget = context.daemon, place_of(request, place), _session_budget(request, place)
    known = daemon.sessions.before(daemon.state, request, where, key)
    spoke = bool(daemon.sessions.spoke(where, key)) if question is None else not question.ask.says_nothing
    stands = Stands() if question is None else question.stands
    wanted = Wanted(where, key, answer, spoke, budget, request.mode == "block", stands)
    reply = daemon.sessions.said(daemon.state, place, wanted, known)
    deadline = _deadline(context, request, place)
    daemon.sessions.replied(request, where, budget, deadline, captured=captured)
    return reply


def _deadline(context: Context, request: wire.Retrieve, place: Workplace) -> float:
    return deadline_of(context, request.timeout_s, place)


def deadline_of(context: Context, timeout_s: float | None, place: Workplace) -> float:
    """Until when an answer is of use to whoever gives it so many seconds, of the monotonic clock."""
    limit = place.settings.retrieval_timeout_s
    wanted = timeout_s or limit
    return context.arrived + (limit if math.isnan(wanted) else min(wanted, limit))


class _Question(msgspec.Struct, frozen=True):
    """What a request asks, and what stands with its session if that begins."""

    ask: Ask
    stands: Stands


# Key, answer and question of a turn.
_Turn = tuple[TurnKey | None, Answer, _Question | None]


def _kept(context: Context, place: Workplace, key: TurnKey | None, request: wire.Retrieve) -> Answer | None:
    """What was found for this turn before, if it is new enough and nothing of it has expired."""
    if key is None:
        return None
    least = generation_of(context.daemon.epoch, request.min_generation)
    answer = context.daemon.retriever.turns.get(key, least)
    if answer is not None and place.others and not place.is_whole(answer.ranked):
        context.daemon.retriever.turns.drop(key)
        return None
    return answer


def _found(answer: Answer, block: Injection, heard: int) -> dict[str, Any]:
    """Fields of the reply that say what was found and what of it has room."""
    status, reason = outcome(answer, block.included)
    return {
        "status": status,
        "reason": reason,
        "memories": tuple(hit(ranked) for ranked in answer.ranked[: block.included]),
        "included": block.included,
        "omitted": block.omitted,
        "digest": block.digest,
        "strategy": answer.strategy,
        "legs": answer.legs,
        "partial": answer.partial,
        "heard": heard,
    }


def outcome(answer: Answer, included: int) -> tuple[str, str]:
    """Status and reason of what was found, of which so many had room."""
    if answer.ranked and not included:
        return "empty", answer.reason or "nothing fits the token budget"
    return answer.status, answer.reason


def _budget(request: wire.Retrieve, place: Workplace, none: int = _MOST_TOKENS) -> int:
    """Tokens that an injection may have; `none` where nobody limits them."""
    return budget_of(request.token_budget, place, none)


def budget_of(asked_for: int | None, place: Workplace, none: int = _MOST_TOKENS) -> int:
    """Tokens that an injection may have for whoever asks for so many, or says nothing."""
    wanted = place.settings.injection_token_budget if asked_for is None else asked_for
    return min(wanted, _MOST_TOKENS) if wanted > 0 else none


def _session_budget(request: wire.Retrieve, place: Workplace) -> int:
    """The same of a session: what is not limited has one, as a block has all that was heard."""
    return _budget(request, place, BLOCK_TOKENS if request.mode == "block" else _MOST_TOKENS)


async def _ask(context: Context, request: wire.Retrieve, place: Workplace, key: TurnKey | None) -> _Question:
    daemon, settings, known = context.daemon, place.settings, None
    if not _is_stateless(context, request):
        await daemon.state.opened(settings.retrieval_timeout_s)
        known = daemon.sessions.before(daemon.state, request, place_of(request, place), key)
    said = (await heard(request.messages, request.last_summary_index)).said
    window = without_echoes(said, daemon.retriever.turns.injected(request.session_id, place.tops))
    ask = Ask(
        window=window,
        message=last_user_text(window),
        before=before(window),
        goes_on=goes_on(window),
        hypotheses=sentences_of(request.hypotheses),
        top_k=settings.retrieval_top_k,
        hop_depth=settings.retrieval_hop_depth,
        deadline=_deadline(context, request, place),
        min_generation=generation_of(daemon.epoch, request.min_generation),
    )
    if known is None:
        return _Question(ask, Stands())
    stands, in_context = Stands(), {(each.root, each.id): each.turn for each in known.entries}
    if not known.stood and not ask.says_nothing:
        limit = _session_budget(request, place) * tokens.BYTES_PER_TOKEN
        stands = standing_in(daemon.state, place, limit)
    beside, turn = frozenset(each.key for each in stands.ranked), known.turns + 1 if known.stood else 1
    return _Question(replace(ask, turn=turn, beside=beside, heard=in_context), stands)


def sentences_of(hypotheses: Iterable[str]) -> tuple[str, ...]:
    """Hypotheses of the caller as they may be sent to a model: those that say something, not too many."""
    said = (text for each in hypotheses if (text := asked(each)).strip())
    return tuple(islice(said, _MOST_HYPOTHESES))


def sources(place: Workplace, ask: Ask) -> Sources:
    return Sources(place.tops, partial(place.files.view, ask.min_generation), place.others)


def _count(metrics: Metrics, answer: Answer, status: str, *, cached: bool) -> None:
    metrics.retrieves += 1
    metrics.turn_cache_hits += cached
    metrics.retrieve_partial += bool(answer.partial) and not cached
    metrics.retrieve_hits += status == "ok"
    metrics.retrieve_empty += status == "empty"
    metrics.retrieve_timeouts += status == "timeout"
    metrics.retrieve_errors += status == "error"


def elapsed_ms(context: Context) -> float:
    return round((time.monotonic() - context.arrived) * 1000, 3)
