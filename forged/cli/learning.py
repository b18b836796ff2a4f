"""`forgectl learn`: propose memories from past sessions of agents.

It first shows the sessions and the cost. Then it hands them to the daemon one by one, oldest first. The
proposals wait in `forgectl review`: no memory is written here. A session is judged once, so the next run
goes on after an interruption.
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

from forged.cli.call import Invocation, check_done, open_client, show, status_sentence
from forged.cli.commands import with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import INTERRUPTED, Stop
from forged.cli.past_sessions import (
    SurveyedSession,
    changed_sessions,
    learn_requests,
    least_model_calls,
    survey,
)
from forged.cli.since import TimeParam
from forged.cli.tables import columns
from forged.cli.terminal import ProgressBar, counted, escape_line, progress, tell
from forged.transcripts import FORMATS, TranscriptError
from forged_client.client import Client
from forged_client.protocol import Learn, ListPast, PastSessions

_LONG_S = 60.0
_ENDED_EARLY = "interrupted: the daemon finishes the current session, `forgectl learn` goes on with the rest"
_GOES_ON = "`forgectl learn` goes on from here"
_HEAD = ("agent", "sessions", "messages", "tokens", "calls")
_LEFT_OUT = {
    "known": "already used",
    "empty": "without a message of a person",
    "ours": "that forged's classifier made",
    "unreadable": "that could not be read",
}


class LearningReport(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions, cost and result of `learn`, as `--json` prints them; also the plan of a run."""

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
    "--since",
    type=TimeParam(),
    default="90d",
    show_default=True,
    metavar="WHEN",
    help="Only sessions since WHEN.",
)
@click.option("--here", is_flag=True, help="Only sessions of this workspace.")
@click.option("--dry-run", is_flag=True, help="Only show the sessions and the cost.")
@yes_option
@with_daemon_options
def learn_command(
    call: Invocation, *, agents: tuple[str, ...], since: str, here: bool, dry_run: bool, yes: bool
) -> None:
    """Propose memories from past sessions of your agents; nothing is saved before you approve it."""
    if not (yes or dry_run):
        require_answer(call, "learn")
    chosen = agents or tuple(FORMATS)
    with open_client(call) as client:
        known = client.ask(ListPast(agents=chosen))
        check_done(known)
        past = _survey_all(call, known, chosen, since, here=here)
        new = sorted((each for each in past if each.kind == "new"), key=lambda each: each.said_at)
        report = _report_of(past, new, known)
        if dry_run or not new:
            show(call, report, _plan_lines(report, new, known, call.width))
            return
        if not yes:
            shown = _plan_lines(report, new, known, call.width)
            confirm(shown, "Learn from these?", "nothing was learned, and nothing was sent")
        learning = _LearningRun(call, client, known)
        learning.run(new)
    report = msgspec.structs.replace(report, learned=learning.learned, to_review=learning.to_review)
    show(call, report, _result_lines(report))


# --- what there is -------------------------------------------------------------------------------------


def _survey_all(
    call: Invocation, known: PastSessions, agents: Sequence[str], since: str, *, here: bool
) -> list[SurveyedSession]:
    """Read and classify sessions since a time, with a progress bar; `here`: of this workspace."""
    begins = datetime.fromisoformat(since).timestamp() if since else 0.0
    there = changed_sessions(call.environ, agents, begins)
    bar, past = ProgressBar(call.can_redraw(sys.stderr) and not call.as_json), list[SurveyedSession]()
    for number, (found, home) in enumerate(there):
        bar.draw("reading", number, len(there))
        past.append(survey(found, home, known, call.environ))
    bar.wipe()
    return [each for each in past if not here or each.workspace == call.workspace]


def _report_of(
    past: Sequence[SurveyedSession], new: Sequence[SurveyedSession], known: PastSessions
) -> LearningReport:
    """Sum up sessions, messages, tokens and calls that a run of `learn` will need, for its plan."""
    needed = sum(least_model_calls(each, known) for each in new)
    tokens, agents = sum(each.tokens for each in new), Counter(each.found.agent for each in new)
    return LearningReport(
        sessions={agent: count for agent in FORMATS if (count := agents[agent])},
        left_out=dict(Counter(each.kind for each in past if each.kind != "new")),
        without_workspace=sum(each.is_homeless for each in new),
        messages=sum(each.messages for each in new),
        tokens=tokens,
        calls=needed,
        prompt_tokens=needed * known.call_tokens + tokens if needed else 0,
        classifier=known.classifier,
        to_review=known.to_review,
    )


def _plan_lines(
    report: LearningReport, new: Sequence[SurveyedSession], known: PastSessions, width: int
) -> Iterator[str]:
    """Yield the plan of `learn`: sessions by agent, those left out and why, and the cost."""
    if new:
        rows = [
            _agent_row(agent, [each for each in new if each.found.agent == agent], known)
            for agent in report.sessions
        ]
        yield from columns([_HEAD, *rows], numbers_from=1, width=width)
    else:
        yield "there is nothing new to learn from"
    for kind, count in report.left_out.items():
        yield f"left out: {counted(count, 'session')} {_LEFT_OUT[kind]}"
    if report.without_workspace:
        gone = counted(report.without_workspace, "session")
        yield f"{gone} of deleted folders: only memories for all your repositories are proposed from them"
    if new:
        yield from _cost_lines(report, known)
        yield "proposals wait in `forgectl review`; nothing is saved until you approve it"


def _agent_row(agent: str, new: Sequence[SurveyedSession], known: PastSessions) -> tuple[str, ...]:
    """Return an agent's sums of sessions, messages, tokens and calls as cells of the plan's table."""
    sums = (
        len(new),
        sum(each.messages for each in new),
        sum(each.tokens for each in new),
        sum(least_model_calls(each, known) for each in new),
    )
    return (agent, *(f"{number:,}" for number in sums))


def _cost_lines(report: LearningReport, known: PastSessions) -> Iterator[str]:
    """Yield the cost of `learn` in calls and tokens, and the days it takes if above the daily limit."""
    if not known.classifier:
        yield "cost: none; the built-in classifier reads them on this machine"
        return
    model = escape_line(known.classifier)
    yield f"cost: about {report.calls:,} calls and {report.prompt_tokens:,} prompt tokens of {model}"
    beyond = report.prompt_tokens - known.tokens_left
    if known.token_limit and beyond > 0:
        days = math.ceil(beyond / known.token_limit)
        limit = f"{known.tokens_left:,} tokens are left today of {known.token_limit:,}"
        yield f"{limit} (`memory.daily_token_limit`): about {counted(days, 'day')} more"


# --- learning ------------------------------------------------------------------------------------------


class _LearningRun:
    """Hands past sessions to the daemon one by one; counts those `learned` from, refusals, proposals.

    A session of a place where memory is paused or off is left for the next run.
    """

    def __init__(self, call: Invocation, client: Client, known: PastSessions) -> None:
        self._call = call
        self._client = client
        self._most = known.most_to_review
        self._bar = ProgressBar(call.can_redraw(sys.stderr) and not call.as_json)
        self._reasons = Counter[str]()
        self.learned = 0
        self.to_review = known.to_review

    def run(self, new: Sequence[SurveyedSession]) -> None:
        """Hand over past sessions; print why some were refused. Raises Stop if it cannot go on."""
        try:
            for number, past in enumerate(new):
                self._draw(number, len(new))
                self._learn_from(past)
        except KeyboardInterrupt:
            self._bar.wipe()
            tell(_ENDED_EARLY)
            sys.exit(INTERRUPTED)
        finally:
            self._bar.wipe()
        for reason, count in self._reasons.items():
            tell(f"{counted(count, 'session')} not learned from: {reason}")

    def _draw(self, number: int, total: int) -> None:
        """Draw the progress of learning, with the number of proposals; in a log a line for each tenth."""
        waiting = f"{counted(self.to_review, 'proposal')} to review"
        self._bar.draw("learning", number, total, waiting)
        if not self._call.as_json:
            self._bar.tell_instead(progress("learning", number, total, waiting), once=10 * number // total)

    def _learn_from(self, past: SurveyedSession) -> None:
        """Send a past session in parts; count it as learned from, or the reason of a refusal."""
        try:
            for request in learn_requests(past, self._call.environ):
                if reason := self._submit(request):
                    self._reasons[reason] += 1
                    return
        except TranscriptError as error:
            self._reasons[str(error)] += 1
        else:
            self.learned += 1

    def _submit(self, request: Learn) -> str:
        """Send a part of a session and wait until it is judged; return why it was refused, or ""."""
        reply, since = self._client.ask(request), time.monotonic()
        rest = msgspec.structs.replace(request, messages=(), said_at=(), mark="")
        while reply.status == "ok" and reply.outcome == "waiting":
            if reply.waits_for and time.monotonic() - since > _LONG_S:
                raise Stop("busy", f"stopped: {reply.waits_for}; {_GOES_ON}")
            reply = self._client.ask(rest)
        if reply.status == "disabled":
            return status_sentence(reply)
        check_done(reply)
        self.to_review = reply.to_review
        if reply.outcome == "rejected" and reply.to_review >= self._most:
            raise Stop("not_ready", f"stopped: {reply.reason}; {_GOES_ON}")
        return reply.reason if reply.outcome == "rejected" else ""


def _result_lines(report: LearningReport) -> Iterator[str]:
    """Yield the number of sessions that `learn` used, and of proposals, with the command to review them."""
    sessions, proposals = counted(report.learned, "session"), counted(report.to_review, "proposal")
    yield f"learned from {sessions}: {proposals} to review"
    if report.to_review:
        yield "`forgectl review` shows them and asks which to save"
