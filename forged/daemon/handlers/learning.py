"""`learn`: a past session of an agent, judged like any other; what it comes to waits for a person.

The request's messages go the way of every conversation, so whatever a reader of transcripts may have left in
them is cut out here. What of them is new is on disk before the reply, which waits a moment for it to be
judged; who asks again without messages learns how far it is. Raised is InvalidRequest.
"""

from __future__ import annotations

from forged.capture import PROMPT_TOKENS, WINDOW_LIMIT, Submission
from forged.daemon.handlers.context import Context
from forged.daemon.handlers.heard import heard
from forged.daemon.handlers.refusals import InvalidRequest
from forged.scopes import Workplace
from forged.state import MOST_LEARNED
from forged_client import protocol as wire

_WITHIN_S = 2.0
_MOST_NAME = 256
_BUILT_IN = "builtin:"


async def learn(context: Context, place: Workplace, request: wire.Learn) -> wire.Learned:
    """Take a past session, or a part of it, and say how far it is."""
    session_id = request.session_id[:_MOST_NAME]
    if not session_id.strip():
        raise InvalidRequest("a past session has an id; this one says none")
    state, pipeline = context.daemon.state, context.daemon.capture
    await state.opened()
    if request.messages and (reason := await _refusal(context, place, request)):
        return wire.Learned(reason=reason, to_review=state.to_review.learned)
    is_done = await pipeline.judged(session_id, place.roots, _WITHIN_S)
    return wire.Learned(
        outcome="judged" if is_done else "waiting",
        waits_for="" if is_done else pipeline.state().reason,
        to_review=state.to_review.learned,
    )


async def _refusal(context: Context, place: Workplace, request: wire.Learn) -> str:
    """Hand over what was said; why it was not taken, or nothing."""
    daemon = context.daemon
    if daemon.state.to_review.learned >= MOST_LEARNED:
        return f"{MOST_LEARNED:,} proposals wait already; decide about some of them in `forgectl review`"
    found = await heard(request.messages, 0)
    daemon.metrics.echoes_removed += found.echoes
    if not found.said:
        return ""
    times = request.said_at if len(request.said_at) == len(request.messages) else ()
    spoken = Submission(
        kind="learned",
        session_id=request.session_id[:_MOST_NAME],
        roots=place.roots,
        said=found.said,
        agent=request.agent[:_MOST_NAME],
        said_at=tuple(times[at] for at in found.places) if times else (),
        mark=request.mark[:_MOST_NAME],
        headless=request.headless,
    )
    outcome = await daemon.capture.hear(spoken)
    return outcome.reason if outcome.word == "rejected" else ""


async def list_past(context: Context, request: wire.ListPast) -> wire.PastSessions:
    """What was learned from, and what the rest would cost."""
    daemon = context.daemon
    await daemon.state.opened()
    limit = daemon.config.memory.daily_token_limit
    return wire.PastSessions(
        marks={agent: daemon.state.learned.marks(agent) for agent in request.agents},
        classifier="" if daemon.about.classifier.startswith(_BUILT_IN) else daemon.about.classifier,
        call_characters=WINDOW_LIMIT,
        call_tokens=PROMPT_TOKENS,
        tokens_left=max(0, limit - daemon.governor.tokens_today),
        token_limit=limit,
        to_review=daemon.state.to_review.learned,
        most_to_review=MOST_LEARNED,
    )
