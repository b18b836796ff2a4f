"""`retrieve`: the memories for a turn. The session has the turn, the retriever finds its answer."""

from __future__ import annotations

import math
import time
from typing import Any

from forged.counters import Metrics
from forged.daemon.handlers.request_context import Context, Daemon
from forged.daemon.handlers.trust import notice_for_reply
from forged.daemon.handlers.wire_types import found_record, generation_of
from forged.errors import InvalidRequest
from forged.retrieval import Answer
from forged.sessions import MODES, Turn
from forged.stores import Workplace
from forged_client import protocol as wire


async def retrieve(context: Context, place: Workplace, request: wire.Retrieve) -> tuple[wire.Retrieved, int]:
    """Return the memories for one turn of a session, as records and as a text block for the prompt."""
    if request.mode not in MODES:
        raise InvalidRequest(f"unknown mode {request.mode[:64]!r}; use one of {', '.join(MODES)}")
    stores = context.daemon.resolver
    place = await stores.with_others(place, agent=request.agent, session_id=request.session_id)
    turn = Turn(
        context.daemon.sessions.open(request.agent, request.session_id),
        place,
        turn_id=request.turn_id,
        messages=request.messages,
        summary=request.last_summary_index,
        hypotheses=request.hypotheses,
        mode=request.mode,
        compacts=request.compacts,
        deadline=deadline_of(context, request.timeout_s, place),
        min_generation=generation_of(context.daemon.epoch, request.min_generation),
    )
    notice = await answer_turn(context, request, turn, turn.budget(request.token_budget))
    reply = turn.composed
    block, is_known = reply.block, bool(reply.block.digest) and reply.block.digest == request.known_digest
    status, reason = outcome(reply.answer, block.included)
    retrieved = wire.Retrieved(
        status=status,
        reason=reason,
        text="" if is_known else block.text,
        memories=tuple(map(found_record, reply.answer.ranked[: block.included])),
        included=block.included,
        omitted=block.omitted,
        digest=block.digest,
        unchanged=is_known,
        strategy=reply.answer.strategy,
        indexes=reply.answer.indexes,
        cached=turn.is_cached,
        elapsed_ms=elapsed_ms(context),
        partial=reply.answer.partial,
        notice=notice,
        already_injected=reply.known,
        captured=turn.sentences,
    )
    return retrieved, reply.found.generation


async def answer_turn(context: Context, by: wire.Request[Any], turn: Turn, budget: int) -> str:
    """Retrieve for a turn unless cached, compose its reply, count it, and return a due notice or ""."""
    daemon = context.daemon
    if (answer := turn.answer) is None:
        ask = await turn.ask(budget)
        answer, turn.is_cached = await daemon.retriever.retrieve(ask, turn.place, turn.kept)
    notice = (
        await notice_for_reply(context, turn.place, turn.session)
        if _may_have_notice(daemon, turn.place)
        else ""
    )
    reply = turn.compose_reply(answer, budget)
    daemon.sessions.expect_delivery(by, turn)
    _count_outcome(daemon.metrics, turn)
    if not turn.is_cached and turn.mode != "plain" and (new := reply.new):
        for store in turn.place.stores:
            store.use(new)
    return notice


def _may_have_notice(daemon: Daemon, place: Workplace) -> bool:
    """Return False if no notice can be due: nothing is withheld, and no exclude line was added."""
    indexes = place.files.indexes
    some_withheld = not indexes or any(index.builder.withheld for index in indexes)
    return some_withheld or bool(daemon.trust.excluding.unreported)


def _count_outcome(metrics: Metrics, turn: Turn) -> None:
    """Count a turn's retrieval in the metrics, by its status, cache hit and missing hypotheses."""
    reply, is_cached = turn.composed, turn.is_cached
    status, _ = outcome(reply.answer, reply.block.included)
    metrics.retrieves += 1
    metrics.turn_cache_hits += is_cached
    metrics.retrieve_partial += bool(reply.answer.partial) and not is_cached
    metrics.retrieve_hits += status == "ok"
    metrics.retrieve_empty += status == "empty"
    metrics.retrieve_timeouts += status == "timeout"
    metrics.retrieve_errors += status == "error"


def outcome(answer: Answer, included: int) -> tuple[str, str]:
    """Return an answer's status and reason; `empty` if memories were found but none is included."""
    if answer.ranked and not included:
        return "empty", answer.reason or "nothing fits the token budget"
    return answer.status, answer.reason


def deadline_of(context: Context, timeout_s: float | None, place: Workplace) -> float:
    """Return the time (monotonic clock) of an answer's deadline: as asked, within the configured limit."""
    limit = place.settings.retrieval_timeout_s
    wanted = timeout_s or limit
    return context.arrived + (limit if math.isnan(wanted) else min(wanted, limit))


def elapsed_ms(context: Context) -> float:
    """Return the milliseconds since the request arrived."""
    return round((time.monotonic() - context.arrived) * 1000, 3)
