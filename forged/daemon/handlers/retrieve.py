"""`retrieve`, `search` and `why`: what an agent asks before a turn, and how a person checks it."""

from __future__ import annotations

import math
import time
from functools import partial

from msgspec.structs import replace

from forged import memory
from forged.conversation import last_user_text
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import asked, fitting, generation_of, heard, hit, without_echoes
from forged.daemon.handlers.refusals import InvalidRequest
from forged.daemon.handlers.trust import in_reply
from forged.models import cleaned
from forged.retrieval import Answer, Ask, Sources
from forged.scopes import Workplace
from forged_client import protocol as wire

_MOST_ASKED = 100
_MOST_HYPOTHESES = 32
# "No limit" still has to fit into a reply, which holds each memory twice: 1 MiB of injection.
_MOST_TOKENS = 256 << 10


async def retrieve(context: Context, place: Workplace, request: wire.Retrieve) -> tuple[wire.Retrieved, int]:
    """The injection for one turn."""
    ask, retriever = await _ask(context, request, place), context.daemon.retriever
    answer, cached = await retriever.retrieve(ask, _sources(place, ask))
    retriever.turns.note(request.session_id, request.turn_id, place.tops, answer)
    _count(context, answer, cached=cached)
    unchanged = bool(answer.digest) and answer.digest == request.known_digest
    reply = wire.Retrieved(
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
        cached=cached,
        elapsed_ms=_elapsed_ms(context),
        partial=answer.partial,
        notice=await in_reply(context, place, request.session_id),
    )
    return reply, answer.generation


async def _ask(context: Context, request: wire.Retrieve, place: Workplace) -> Ask:
    settings = place.settings
    limit = settings.retrieval_timeout_s
    wanted = request.timeout_s or limit
    budget = settings.injection_token_budget if request.token_budget is None else request.token_budget
    said = (await heard(request.messages, request.last_summary_index)).said
    window = without_echoes(said, context.daemon.retriever.turns.injected(request.session_id, place.tops))
    return Ask(
        session_id=request.session_id,
        turn_id=request.turn_id,
        window=window,
        message=last_user_text(window),
        hypotheses=tuple(text for each in request.hypotheses if (text := asked(each)).strip())[
            :_MOST_HYPOTHESES
        ],
        top_k=settings.retrieval_top_k,
        hop_depth=settings.retrieval_hop_depth,
        budget_tokens=min(budget, _MOST_TOKENS) if budget > 0 else _MOST_TOKENS,
        deadline=context.arrived + (limit if math.isnan(wanted) else min(wanted, limit)),
        min_generation=generation_of(context.daemon.epoch, request.min_generation),
    )


def _sources(place: Workplace, ask: Ask) -> Sources:
    return Sources(place.tops, partial(place.files.see, ask.min_generation))


def _count(context: Context, answer: Answer, *, cached: bool) -> None:
    metrics = context.daemon.metrics
    metrics.retrieves += 1
    metrics.turn_cache_hits += cached
    metrics.retrieve_partial += bool(answer.partial) and not cached
    metrics.retrieve_hits += answer.status == "ok"
    metrics.retrieve_empty += answer.status == "empty"
    metrics.retrieve_timeouts += answer.status == "timeout"
    metrics.retrieve_errors += answer.status == "error"


async def search(context: Context, place: Workplace, request: wire.Search) -> tuple[wire.Found, int]:
    """Ranked memories for a text."""
    if not (query := asked(request.query)).strip():
        raise InvalidRequest("the query is empty; say what to look for")
    ask = _question(context, place, query, top_k=request.limit, token=request.min_generation)
    answer = await context.daemon.retriever.search(ask, _sources(place, ask))
    reply = wire.Found(
        status=answer.status,
        reason=answer.reason,
        memories=fitting([hit(ranked) for ranked in answer.ranked if ranked.via == "search"]),
        legs=answer.legs,
        elapsed_ms=_elapsed_ms(context),
        notice=await in_reply(context, place),
    )
    return reply, answer.generation


def _question(
    context: Context, place: Workplace, text: str, *, top_k: int, budget: int = 0, token: str = ""
) -> Ask:
    settings = place.settings
    return Ask(
        message=text,
        top_k=min(max(top_k, 1), _MOST_ASKED),
        hop_depth=settings.retrieval_hop_depth,
        budget_tokens=budget,
        deadline=time.monotonic() + settings.retrieval_timeout_s,
        min_generation=generation_of(context.daemon.epoch, token),
    )


async def why(
    context: Context, place: Workplace, request: wire.Why
) -> wire.Explained | tuple[wire.Explained, int]:
    """The last injection of a session, or what a query would find now."""
    notice = await in_reply(context, place)
    if (query := asked(request.query)).strip():
        top_k, budget = place.settings.retrieval_top_k, place.settings.injection_token_budget
        ask = _question(context, place, query, top_k=top_k, budget=budget)
        answer = await context.daemon.retriever.search(ask, _sources(place, ask), inject=True)
        return _explained(answer, at=memory.utc_now(), notice=notice)
    found = context.daemon.retriever.turns.last(request.session_id, place.tops)
    if found is None:
        return wire.Explained(status="empty", reason="no injection is on record", notice=notice)
    reply, generation = _explained(found.answer, at=memory.utc(found.at), notice=notice)
    return replace(reply, session_id=found.session_id, turn_id=found.turn_id), generation


def _explained(answer: Answer, *, at: str, notice: str) -> tuple[wire.Explained, int]:
    reply = wire.Explained(
        status=answer.status,
        reason=answer.reason,
        at=at,
        strategy=answer.strategy,
        legs=answer.legs,
        hypotheses=tuple(map(cleaned, answer.hypotheses)),
        memories=fitting([hit(ranked) for ranked in answer.ranked]),
        included=answer.included,
        omitted_ids=tuple(ranked.memory.id for ranked in answer.ranked[answer.included :]),
        far_ids=answer.far,
        partial=answer.partial,
        notice=notice,
    )
    return reply, answer.generation


def _elapsed_ms(context: Context) -> float:
    return round((time.monotonic() - context.arrived) * 1000, 3)
