"""`search` and `why`: how a person looks for memories, and checks the injections of an agent."""

from __future__ import annotations

import math
import time
from pathlib import PurePath

from msgspec.structs import replace

from forged import memory
from forged.daemon.handlers.request_context import Context
from forged.daemon.handlers.retrieve import elapsed_ms, outcome
from forged.daemon.handlers.trust import notice_for_reply
from forged.daemon.handlers.wire_types import fitting, found_record, generation_of, with_entities
from forged.errors import InvalidRequest
from forged.memory import Scope
from forged.models import cleaned
from forged.retrieval import Answer, Ask
from forged.sessions import clean_hypotheses, clean_query, render
from forged.stores import Ranked, Workplace, root_of_session
from forged_client import protocol as wire

_MOST_ASKED = 100


async def search(
    context: Context, place: Workplace, request: wire.Search
) -> wire.Found | tuple[wire.Found, int]:
    """Return ranked memories for a query text, for sentences that they may hold, or for both."""
    query, hypotheses = clean_query(request.query), clean_hypotheses(request.hypotheses)
    if not (query.strip() or hypotheses):
        raise InvalidRequest("the query is empty; say what to look for")
    if request.limit <= 0:  # an empty list needs no search
        return wire.Found(status="empty", reason=f"the limit is {request.limit}")
    place = await context.daemon.resolver.with_others(
        place, agent=request.agent, session_id=request.session_id
    )
    ask = _make_ask(context, place, query, top_k=request.limit, token=request.min_generation)
    ask = replace(ask, rated=request.rated, hypotheses=hypotheses)
    answer = await context.daemon.retriever.search(ask, place)
    reply = wire.Found(
        status=answer.status,
        reason=answer.reason,
        memories=fitting(
            [
                with_entities(found_record(each), each.memory)
                for each in answer.ranked
                if each.found_by == "search"
            ]
        ),
        indexes=answer.indexes,
        elapsed_ms=elapsed_ms(context),
        notice=await notice_for_reply(context, place),
    )
    return reply, answer.generation


def _make_ask(context: Context, place: Workplace, text: str, *, top_k: int, token: str = "") -> Ask:
    """Build a search request to the retriever for a query text in a workplace."""
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
    """Explain the last injection of a session, or what would be injected for a query now."""
    notice = await notice_for_reply(context, place)
    if (query := clean_query(request.query)).strip():
        place = await context.daemon.resolver.with_others(
            place, agent=request.agent, session_id=request.session_id
        )
        ask = _make_ask(context, place, query, top_k=place.settings.retrieval_top_k)
        ask = replace(ask, explains=True)
        answer = await context.daemon.retriever.search(ask, place, inject=True)
        block = render(answer.ranked, place.settings.injection_token_budget)
        return _explanation(answer, block.included, at=memory.utc_now(), notice=notice)
    found = context.daemon.sessions.last(request.session_id, place.tops)
    if found is None or found.reply is None:
        return wire.Explained(status="empty", reason="no record: this session got no memory", notice=notice)
    answer, included = _visible_to_caller(found.reply.answer, found.reply.block.included, request)
    reply, generation = _explanation(answer, included, at=memory.utc(found.at), notice=notice)
    if found.cleared:
        reply = replace(
            reply, reason="; ".join(filter(None, (reply.reason, _cleared_sentence(found.cleared))))
        )
        if not reply.memories:
            reply = replace(reply, status="empty")
    return replace(reply, session_id=found.session_id, turn_id=found.name), generation


def _cleared_sentence(count: int) -> str:
    """Return a sentence on memories of an answer that were removed since."""
    were = "memory of it was" if count == 1 else "memories of it were"
    return f"{count} {were} removed since (forgotten, undone or moved)"


def _visible_to_caller(answer: Answer, included: int, request: wire.Why) -> tuple[Answer, int]:
    """Return an answer without memories of other agents and sessions, and how many shown are included."""

    def shows(scope: str, root: str) -> bool:
        if scope == Scope.AGENT:
            return bool(request.agent) and PurePath(root).name == request.agent
        return scope != Scope.SESSION or (bool(request.session_id) and root == session)

    session = root_of_session(request.session_id)

    shown = [shows(each.memory.scope, each.root) for each in answer.ranked]
    ranked = tuple(each for each, is_shown in zip(answer.ranked, shown, strict=True) if is_shown)
    stay = tuple(each for each in answer.rejected if shows(each.memory.scope, each.root))
    hidden = len(shown) - len(ranked)
    reason = answer.reason
    if hidden:
        reason = "; ".join(
            filter(None, (reason, (f"{hidden} private memories of an agent or session are not shown")))
        )
    return replace(answer, ranked=ranked, rejected=stay, reason=reason), sum(shown[:included])


def _explanation(answer: Answer, included: int, *, at: str, notice: str) -> tuple[wire.Explained, int]:
    """Return an answer as an explanation, with omitted and rejected memories, and its generation."""
    status, reason = outcome(answer, included)
    reply = wire.Explained(
        status=status,
        reason=reason,
        at=at,
        strategy=answer.strategy,
        indexes=answer.indexes,
        hypotheses=tuple(map(cleaned, answer.hypotheses)),
        memories=fitting([found_record(ranked) for ranked in answer.ranked]),
        included=included,
        omitted_ids=tuple(ranked.memory.id for ranked in answer.ranked[included:]),
        rejected_ids=tuple(each.memory.id for each in answer.rejected),
        rejected=tuple(map(_rejected_record, answer.rejected)),
        partial=answer.partial,
        notice=notice,
    )
    return reply, answer.generation


def _rejected_record(out: Ranked) -> wire.Rejected:
    """Return a memory that was rejected, with reason and evidence, as a wire record."""
    evidence = out.evidence if math.isfinite(out.evidence) else None
    return wire.Rejected(out.memory.id, out.root, out.memory.first_line, out.rejected, evidence)
