"""`forgectl learn`: memories out of what agents and people said before forged was there.

Shown first is what there is and what judging it costs; then one session after the other is handed to the
daemon, oldest first, and what it comes to waits for `forgectl review`: nothing is written here. A session
that was judged is not judged again, so a run that ended early is gone on with by the next.
"""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

import click
import msgspec

from forged.cli.call import Invocation, check_done, daemon, show
from forged.cli.commands import asks
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import INTERRUPTED, Stop
from forged.cli.past_sessions import Past, calls, listed, requests, survey
from forged.cli.since import When
from forged.cli.tables import columns
from forged.cli.terminal import Bar, counted, escape_line, progress, tell
from forged.transcripts import FORMATS, TranscriptError
from forged_client.client import Client
from forged_client.protocol import Learn, Learned, ListPast, PastSessions

_LONG_S = 60.0
_HEAD = ("agent", "sessions", "messages", "tokens", "calls")
_LEFT_OUT = {
    "known": "learned from already",
    "empty": "in which nobody said anything",
    "ours": "of a classifier of forged",
    "unreadable": "that could not be read",
}


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What there was, what it would cost, and what came of it; what `--json` prints."""

    sessions: dict[str, int]
    left_out: dict[str, int]
    without_workspace: int
    messages: int
    tokens: int
    calls: int
    prompt_tokens: int
    classifier: str
    learned: int = 0
    to_review: int = 0


@click.command("learn")
@click.option(
    "--from",
    "agents",
    multiple=True,
    type=click.Choice([*FORMATS]),
    help="Only sessions of this agent. Repeatable; default: all.",
)
@click.option(
    "--since", type=When(), default="90d", show_default=True, metavar="WHEN", help="Only sessions since then."
)
@click.option("--here", is_flag=True, help="Only sessions of this workspace.")
@click.option("--dry-run", is_flag=True, help="Show what there is and what it costs, and end.")
@yes_option
@asks
def learn_command(
    call: Invocation, *, agents: tuple[str, ...], since: str, here: bool, dry_run: bool, yes: bool
) -> None:
    """Read past sessions of your agents and propose memories; nothing is kept before you review it."""
    if not (yes or dry_run):
        require_answer(call, "learn")
    chosen = agents or tuple(FORMATS)
    with daemon(call) as client:
        known = client.ask(ListPast(agents=chosen))
        check_done(known)
        past = _surveyed(call, known, chosen, since, here=here)
        new = sorted((each for each in past if each.kind == "new"), key=lambda each: each.said_at)
        report = _report(past, new, known)
        if dry_run or not new:
            show(call, report, _shown(report, new, known, call.width))
            return
        if not yes:
            shown = _shown(report, new, known, call.width)
            confirm(shown, "Learn from these?", "nothing was learned, and nothing was sent")
        learned, to_review = _learn(call, client, new)
    show(
        call,
        msgspec.structs.replace(report, learned=learned, to_review=to_review),
        _ended(learned, to_review),
    )


# --- what there is -------------------------------------------------------------------------------------


def _surveyed(
    call: Invocation, known: PastSessions, agents: Sequence[str], since: str, *, here: bool
) -> list[Past]:
    begins = datetime.fromisoformat(since).timestamp() if since else 0.0
    there = listed(call.environ, agents, begins)
    bar, past = Bar(call.redraws(sys.stderr) and not call.as_json), list[Past]()
    for number, (found, home) in enumerate(there):
        bar.draw("reading", number, len(there))
        past.append(survey(found, home, known, call.environ))
    bar.wipe()
    return [each for each in past if not here or each.workspace == call.workspace]


def _report(past: Sequence[Past], new: Sequence[Past], known: PastSessions) -> Report:
    needed = sum(calls(each, known) for each in new)
    tokens = sum(each.tokens for each in new)
    return Report(
        sessions=dict(Counter(each.found.agent for each in new)),
        left_out=dict(Counter(each.kind for each in past if each.kind != "new")),
        without_workspace=sum(each.is_homeless for each in new),
        messages=sum(each.messages for each in new),
        tokens=tokens,
        calls=needed,
        prompt_tokens=needed * known.call_tokens + tokens if needed else 0,
        classifier=known.classifier,
        to_review=known.to_review,
    )


def _shown(report: Report, new: Sequence[Past], known: PastSessions, width: int) -> Iterator[str]:
    if new:
        rows = [
            _row(agent, [each for each in new if each.found.agent == agent], known)
            for agent in report.sessions
        ]
        yield from columns([_HEAD, *rows], numbers_from=1, width=width)
    else:
        yield "there is nothing new to learn from"
    for kind, count in report.left_out.items():
        yield f"left out: {counted(count, 'session')} {_LEFT_OUT[kind]}"
    if report.without_workspace:
        gone = counted(report.without_workspace, "session")
        yield f"{gone} of folders that are gone: of these only what holds for you in all projects"
    if new:
        yield from _cost(report, known)
        yield "what they come to waits in `forgectl review`; until you keep it nothing is written"


def _row(agent: str, new: Sequence[Past], known: PastSessions) -> tuple[str, ...]:
    sums = (
        len(new),
        sum(each.messages for each in new),
        sum(each.tokens for each in new),
        sum(calls(each, known) for each in new),
    )
    return (agent, *(f"{number:,}" for number in sums))


def _cost(report: Report, known: PastSessions) -> Iterator[str]:
    if not known.classifier:
        yield "cost: nothing; the built-in classifier judges them on this machine"
        return
    model = escape_line(known.classifier)
    yield f"cost: about {report.calls:,} calls and {report.prompt_tokens:,} prompt tokens of {model}"
    beyond = report.prompt_tokens - known.tokens_left
    if known.token_limit and beyond > 0:
        days = math.ceil(beyond / known.token_limit)
        limit = f"{known.tokens_left:,} tokens are left today of {known.token_limit:,}"
        yield f"{limit} (`memory.daily_token_limit`): about {counted(days, 'day')} more"


# --- learning ------------------------------------------------------------------------------------------


def _learn(call: Invocation, client: Client, new: Sequence[Past]) -> tuple[int, int]:
    """Hand over one session after the other; how many, and how many proposals wait then."""
    bar, waiting = Bar(call.redraws(sys.stderr) and not call.as_json), 0
    try:
        for number, past in enumerate(new):
            told = f"{counted(waiting, 'proposal')} to review"
            bar.draw("learning", number, len(new), told)
            if not call.as_json:
                tenth = 10 * number // len(new)
                bar.tell_instead(progress("learning", number, len(new), told), once=tenth)
            waiting = _learned(call, client, past, waiting)
    except KeyboardInterrupt:
        bar.wipe()
        tell("ended early: the daemon finishes the session in hand, `forgectl learn` goes on with the others")
        sys.exit(INTERRUPTED)
    finally:
        bar.wipe()
    return len(new), waiting


def _learned(call: Invocation, client: Client, past: Past, waiting: int) -> int:
    """Have a session judged; how many proposals wait then. Raises Stop."""
    try:
        for request in requests(past, call.environ):
            waiting = _judged(client, request, waiting)
    except TranscriptError as error:
        tell(f"left out: {past.found.path}: {error}")
    return waiting


def _judged(client: Client, request: Learn, waiting: int) -> int:
    reply, since = client.ask(request), time.monotonic()
    if reply.status == "disabled":  # memory is off where the session was: that is no reason to end
        return waiting
    rest = msgspec.structs.replace(request, messages=(), said_at=(), mark="")
    while reply.outcome == "waiting":
        _check(reply)
        if reply.waits_for and time.monotonic() - since > _LONG_S:
            raise Stop(
                "busy", f"{_goes_on(reply.waits_for)}; what was handed over is judged when that is over"
            )
        reply = client.ask(rest)
    _check(reply)
    return reply.to_review


def _check(reply: Learned) -> None:
    check_done(reply)
    if reply.outcome == "rejected":
        raise Stop("not_ready", _goes_on(reply.reason))


def _goes_on(reason: str) -> str:
    return f"stopped: {reason}; `forgectl learn` goes on from here"


def _ended(learned: int, to_review: int) -> Iterator[str]:
    yield f"learned from {counted(learned, 'session')}: {counted(to_review, 'proposal')} to review"
    if to_review:
        yield "`forgectl review` shows them where they would be kept, --each asks about one after the other"
