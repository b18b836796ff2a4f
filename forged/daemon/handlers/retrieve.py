"""`retrieve`, `search` and `why`: what an agent asks before a turn, and how a person checks it."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

from msgspec.structs import replace

from forged import memory
from forged.conversation import last_user_text
from forged.counters import Metrics
from forged.daemon import spliced
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.convert import fitting, generation_of, hit, token_of
from forged.daemon.handlers.heard import asked, heard, without_echoes
from forged.daemon.handlers.refusals import InvalidRequest
from forged.daemon.handlers.trust import has_news, in_reply
from forged.daemon.handlers.turn import key_of
from forged.models import cleaned
from forged.retrieval import Answer, Ask, Injection, Ready, Sources, TurnKey, before, goes_on, render
from forged.scopes import Workplace
from forged_client import protocol as wire

_MOST_ASKED = 100
_MOST_HYPOTHESES = 32
# "No limit" still has to fit into a reply, which holds each memory twice: 1 MiB of injection.
_MOST_TOKENS = 256 << 10


async def retrieve(context: Context, place: Workplace, request: wire.Retrieve) -> tuple[wire.Retrieved, int]:
    """The injection for one turn."""
    retriever, key = context.daemon.retriever, key_of(request, place, context.daemon.lists)
    answer, cached = _kept(context, key, request), True
    if answer is None:
        ask = await _ask(context, request, place)
        answer, cached = await retriever.retrieve(ask, _sources(place, ask), key)
    block = render(answer.ranked, _budget(request, place))
    unchanged = bool(block.digest) and block.digest == request.known_digest
    reply = wire.Retrieved(
        **_constant(answer, block),
        text="" if unchanged else block.text,
        unchanged=unchanged,
        cached=cached,
        elapsed_ms=_elapsed_ms(context),
        notice=await in_reply(context, place, request.session_id),
    )
    retriever.turns.note(request.session_id, request.turn_id, place.tops, answer, block.included)
    _count(context.daemon.metrics, answer, reply.status, cached=cached)
    return reply, answer.generation


def again(context: Context, place: Workplace, request: wire.Retrieve) -> bytes | None:
    """The frame of the reply if the turn was answered before, or None if anything has to be done for it.

    What changes from reply to reply is encoded, and the rest is as it was sent before.
    """
    key = key_of(request, place, context.daemon.lists)
    answer = _kept(context, key, request)
    if answer is None or has_news(context, place, request.session_id):
        return None
    turns, budget = context.daemon.retriever.turns, _budget(request, place)
    ready = turns.replies.get((key, budget), answer)
    if ready is None:
        ready = _ready(context, answer, budget)
        turns.replies.put((key, budget), ready)
    turns.note(request.session_id, request.turn_id, place.tops, answer, ready.included)
    _count(context.daemon.metrics, answer, ready.status, cached=True)
    unchanged = bool(ready.digest) and ready.digest == request.known_digest
    now = {"id": request.id, "unchanged": unchanged, "elapsed_ms": _elapsed_ms(context), "notice": ""}
    return spliced.frame(
        wire.Retrieved, spliced.pairs(now), _NO_TEXT if unchanged else ready.text, ready.rest
    )


_NO_TEXT = spliced.pairs({"text": ""})


def _ready(context: Context, answer: Answer, budget: int) -> Ready:
    """An answer as the reply that it is for whoever asks again."""
    block = render(answer.ranked, budget)
    fields = _constant(answer, block)
    generation = token_of(context.daemon.epoch, answer.generation)
    rest = spliced.pairs({**fields, "cached": True, "generation": generation})
    text = spliced.pairs({"text": block.text})
    return Ready(answer, str(fields["status"]), block.included, block.digest, text, rest)


def _kept(context: Context, key: TurnKey | None, request: wire.Retrieve) -> Answer | None:
    """What was found for this turn before, if it is new enough."""
    if key is None:
        return None
    least = generation_of(context.daemon.epoch, request.min_generation)
    return context.daemon.retriever.turns.get(key, least)


def _constant(answer: Answer, block: Injection) -> dict[str, Any]:
    """Fields of the reply that are the same however often and to whomever it is given."""
    status, reason = _outcome(answer, block.included)
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
    }


def _outcome(answer: Answer, included: int) -> tuple[str, str]:
    """Status and reason of what was found, of which so many had room."""
    if answer.ranked and not included:
        return "empty", answer.reason or "nothing fits the token budget"
    return answer.status, answer.reason


def _budget(request: wire.Retrieve, place: Workplace) -> int:
    """Tokens that an injection may have."""
    wanted = place.settings.injection_token_budget if request.token_budget is None else request.token_budget
    return min(wanted, _MOST_TOKENS) if wanted > 0 else _MOST_TOKENS


async def _ask(context: Context, request: wire.Retrieve, place: Workplace) -> Ask:
    settings = place.settings
    limit = settings.retrieval_timeout_s
    wanted = request.timeout_s or limit
    said = (await heard(request.messages, request.last_summary_index)).said
    window = without_echoes(said, context.daemon.retriever.turns.injected(request.session_id, place.tops))
    return Ask(
        window=window,
        message=last_user_text(window),
        before=before(window),
        goes_on=goes_on(window),
        hypotheses=tuple(text for each in request.hypotheses if (text := asked(each)).strip())[
            :_MOST_HYPOTHESES
        ],
        top_k=settings.retrieval_top_k,
        hop_depth=settings.retrieval_hop_depth,
        deadline=context.arrived + (limit if math.isnan(wanted) else min(wanted, limit)),
        min_generation=generation_of(context.daemon.epoch, request.min_generation),
    )


def _sources(place: Workplace, ask: Ask) -> Sources:
    return Sources(place.tops, partial(place.files.see, ask.min_generation))


def _count(metrics: Metrics, answer: Answer, status: str, *, cached: bool) -> None:
    metrics.retrieves += 1
    metrics.turn_cache_hits += cached
    metrics.retrieve_partial += bool(answer.partial) and not cached
    metrics.retrieve_hits += status == "ok"
    metrics.retrieve_empty += status == "empty"
    metrics.retrieve_timeouts += status == "timeout"
    metrics.retrieve_errors += status == "error"


async def search(
    context: Context, place: Workplace, request: wire.Search
) -> wire.Found | tuple[wire.Found, int]:
    """Ranked memories for a text."""
    if not (query := asked(request.query)).strip():
        raise InvalidRequest("the query is empty; say what to look for")
    if request.limit <= 0:  # as in a list of no memories: nobody is asked for them
        return wire.Found(status="empty", reason=f"the limit is {request.limit}")
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


def _question(context: Context, place: Workplace, text: str, *, top_k: int, token: str = "") -> Ask:
    settings = place.settings
    return Ask(
        message=text,
        top_k=min(top_k, _MOST_ASKED),
        hop_depth=settings.retrieval_hop_depth,
        deadline=time.monotonic() + settings.retrieval_timeout_s,
        min_generation=generation_of(context.daemon.epoch, token),
    )


async def why(
    context: Context, place: Workplace, request: wire.Why
) -> wire.Explained | tuple[wire.Explained, int]:
    """The last injection of a session, or what a query would find now."""
    notice = await in_reply(context, place)
    if (query := asked(request.query)).strip():
        ask = _question(context, place, query, top_k=place.settings.retrieval_top_k)
        answer = await context.daemon.retriever.search(ask, _sources(place, ask), inject=True)
        block = render(answer.ranked, place.settings.injection_token_budget)
        return _explained(answer, block.included, at=memory.utc_now(), notice=notice)
    found = context.daemon.retriever.turns.last(request.session_id, place.tops)
    if found is None:
        return wire.Explained(status="empty", reason="no injection is on record", notice=notice)
    reply, generation = _explained(found.answer, found.included, at=memory.utc(found.at), notice=notice)
    return replace(reply, session_id=found.session_id, turn_id=found.turn_id), generation


def _explained(answer: Answer, included: int, *, at: str, notice: str) -> tuple[wire.Explained, int]:
    status, reason = _outcome(answer, included)
    reply = wire.Explained(
        status=status,
        reason=reason,
        at=at,
        strategy=answer.strategy,
        legs=answer.legs,
        hypotheses=tuple(map(cleaned, answer.hypotheses)),
        memories=fitting([hit(ranked) for ranked in answer.ranked]),
        included=included,
        omitted_ids=tuple(ranked.memory.id for ranked in answer.ranked[included:]),
        far_ids=answer.far,
        partial=answer.partial,
        notice=notice,
    )
    return reply, answer.generation


def _elapsed_ms(context: Context) -> float:
    return round((time.monotonic() - context.arrived) * 1000, 3)
