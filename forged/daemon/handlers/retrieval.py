"""`retrieve`, `search` and `why`: what an agent asks before a turn, and how a person checks it."""

from __future__ import annotations

import math
import time

from forged import memory
from forged.conversation import Utterance
from forged.daemon.handlers.context import Context, InvalidRequest, Workplace
from forged.daemon.handlers.translation import fitting, hit, utterances
from forged.map.view import View
from forged.retrieval.values import Answer, Ask
from forged_client import protocol as wire

_MOST_ASKED = 100
_MOST_HYPOTHESES = 32
# "No limit" still has to fit into a reply, which holds each memory twice: 1 MiB of injection.
_MOST_TOKENS = 256 << 10


async def retrieve(context: Context, request: wire.Retrieve) -> wire.Retrieved:
    """The injection for one turn (design.md section 6 "Retrieve")."""
    started = time.monotonic()
    place = context.workplace(request.workspace)
    if not context.daemon.state.tried.is_set():  # nobody knows yet what is paused
        await context.daemon.state.opened(place.settings.retrieval_timeout_s)
    if off := context.daemon.disabled or place.off or context.daemon.state.pauses.reason(place.tops):
        return wire.Retrieved(id=request.id, status="disabled", reason=off)
    ask = _ask(context, request, place, started)

    async def see(deadline: float) -> View:
        return await context.daemon.indexer.view(place.roots, ask.min_generation, deadline)

    answer, cached = await context.daemon.retriever.retrieve(ask, place.tops, see)
    context.daemon.ledger.note(request.session_id, request.turn_id, place.tops, answer)
    _count(context, answer, cached=cached)
    unchanged = bool(answer.digest) and answer.digest == request.known_digest
    return wire.Retrieved(
        id=request.id,
        status=answer.status,
        reason=answer.reason,
        text="" if unchanged else answer.text,
        memories=tuple(hit(ranked) for ranked in answer.ranked[: answer.included]),
        included=answer.included,
        omitted=answer.omitted,
        digest=answer.digest,
        unchanged=unchanged,
        strategy=answer.strategy,
        legs=answer.legs,
        generation=context.token(answer.generation),
        cached=cached,
        elapsed_ms=_since(started),
    )


def _ask(context: Context, request: wire.Retrieve, place: Workplace, started: float) -> Ask:
    settings = place.settings
    limit = settings.retrieval_timeout_s
    asked = request.timeout_s or limit
    budget = settings.injection_token_budget if request.token_budget is None else request.token_budget
    return Ask(
        session_id=request.session_id,
        turn_id=request.turn_id,
        window=utterances(request.messages, request.last_summary_index),
        hypotheses=tuple(text for text in request.hypotheses if text.strip())[:_MOST_HYPOTHESES],
        top_k=settings.retrieval_top_k,
        hop_depth=settings.retrieval_hop_depth,
        budget_tokens=min(budget, _MOST_TOKENS) if budget > 0 else _MOST_TOKENS,
        deadline=started + (limit if math.isnan(asked) else min(asked, limit)),
        min_generation=context.generation(request.min_generation),
    )


def _count(context: Context, answer: Answer, *, cached: bool) -> None:
    metrics = context.daemon.metrics
    metrics.retrieves += 1
    metrics.turn_cache_hits += cached
    metrics.retrieve_hits += answer.status == "ok"
    metrics.retrieve_empty += answer.status == "empty"
    metrics.retrieve_timeouts += answer.status == "timeout"
    metrics.retrieve_errors += answer.status == "error"


async def search(context: Context, request: wire.Search) -> wire.Found:
    """Ranked memories for a text."""
    started = time.monotonic()
    place = context.workplace(request.workspace)
    if off := context.daemon.disabled or place.off:
        return wire.Found(id=request.id, status="disabled", reason=off)
    if not request.query.strip():
        raise InvalidRequest("the query is empty; say what to look for")
    ask = _question(context, place, request.query, top_k=request.limit, token=request.min_generation)
    answer = await _look_up(context, place, ask)
    return wire.Found(
        id=request.id,
        status=answer.status,
        reason=answer.reason,
        memories=fitting([hit(ranked) for ranked in answer.ranked if ranked.via == "search"]),
        legs=answer.legs,
        generation=context.token(answer.generation),
        elapsed_ms=_since(started),
    )


def _question(
    context: Context, place: Workplace, text: str, *, top_k: int, budget: int = 0, token: str = ""
) -> Ask:
    settings = place.settings
    return Ask(
        session_id="",
        turn_id="",
        window=(Utterance("user", text),),
        hypotheses=(),
        top_k=min(max(top_k, 1), _MOST_ASKED),
        hop_depth=settings.retrieval_hop_depth,
        budget_tokens=budget,
        deadline=time.monotonic() + settings.retrieval_timeout_s,
        min_generation=context.generation(token),
    )


async def _look_up(context: Context, place: Workplace, ask: Ask, *, gated: bool = False) -> Answer:
    view = await context.daemon.indexer.view(place.roots, ask.min_generation, ask.deadline)
    return await context.daemon.retriever.search(ask, view, gated=gated)


async def why(context: Context, request: wire.Why) -> wire.Explained:
    """The last injection of a session, or what a query would find now."""
    place = context.workplace(request.workspace)
    if off := context.daemon.disabled or place.off:
        return wire.Explained(id=request.id, status="disabled", reason=off)
    if request.query.strip():
        top_k, budget = place.settings.retrieval_top_k, place.settings.injection_token_budget
        ask = _question(context, place, request.query, top_k=top_k, budget=budget)
        answer = await _look_up(context, place, ask, gated=True)
        return _explained(context, request, answer, at=memory.utc_now())
    found = context.daemon.ledger.last(request.session_id, place.tops)
    if found is None:
        return wire.Explained(id=request.id, status="empty", reason="no injection is on record")
    return _explained(
        context, request, found.answer, at=found.at, session_id=found.session_id, turn_id=found.turn_id
    )


def _explained(
    context: Context,
    request: wire.Why,
    answer: Answer,
    *,
    at: str,
    session_id: str = "",
    turn_id: str = "",
) -> wire.Explained:
    return wire.Explained(
        id=request.id,
        status=answer.status,
        reason=answer.reason,
        session_id=session_id,
        turn_id=turn_id,
        at=at,
        strategy=answer.strategy,
        legs=answer.legs,
        hypotheses=answer.hypotheses,
        memories=fitting([hit(ranked) for ranked in answer.ranked]),
        included=answer.included,
        omitted_ids=tuple(ranked.memory.id for ranked in answer.ranked[answer.included :]),
        far_ids=answer.far,
        generation=context.token(answer.generation),
    )


def _since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
