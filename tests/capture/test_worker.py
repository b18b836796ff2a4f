"""The worker's reports about an event, and its handling of each failure."""

import asyncio

from forged.capture.values import (
    AskHeads,
    CallFailed,
    Classified,
    Classify,
    HeadsAnswer,
    KnownMemory,
    Proposal,
    TaskFailed,
    Usage,
    WorkerSettings,
)
from forged.capture.worker import DaemonLink, Worker
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.state import Event
from tests.support.clock import run

USAGE = Usage(1, 100, 10)
TABS = Proposal("Indent Go code with tabs.", "repo", "coding-preferences")


class Classifier:
    """Answers as told, one answer per call and the last for ever; an exception is raised."""

    def __init__(self, *answers: Classified | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, ...]] = []

    async def classify(self, event, known, *, deadline, attempts):
        self.asked.append((event, known, deadline, attempts))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Scene:
    """A worker in this process, and what it reports."""

    def __init__(self, *answers: Classified | Exception, timeout_s: float = 5.0) -> None:
        self.classifier = Classifier(*answers)
        self.reports: list[object] = []
        self.worker = Worker(WorkerSettings(timeout_s=timeout_s), self.classifier, self.reports.append)

    def event(self) -> Event:
        return Event(window=(Utterance("user", "Indent with tabs. I live in Zurich."),), session_id="s1")

    def decided(self, event: Event, **fields: object) -> Classified | TaskFailed:
        """What an event comes to."""
        run(self.worker.handle(Classify(event, **fields)))
        return self.reports[-1]


# --- failures ---


def test_failed_calls_are_reported_with_their_cost_and_when_to_come_again():
    error = ProviderError("http://x gave 429", reason="rate_limited", status=429, retry_after_s=30)
    scene = Scene(CallFailed(error, USAGE))
    event = scene.event()

    assert scene.decided(event) == TaskFailed(event.id, "rate_limited", "http://x gave 429", USAGE, 30)


def test_classifier_that_does_not_keep_to_its_time_is_cut_off(monkeypatch):
    scene = Scene(Classified(), timeout_s=0.01)
    monkeypatch.setattr(scene.classifier, "classify", lambda *_, **__: asyncio.Event().wait())

    last = scene.decided(scene.event())

    assert (last.reason, type(last)) == ("timeout", TaskFailed)


def test_unforeseen_failure_costs_one_event_and_is_logged_whole(caplog):
    scene = Scene(RuntimeError("broken"), Classified())
    event = scene.event()

    assert scene.decided(event).reason == "internal"
    assert "RuntimeError: broken" in caplog.text
    assert isinstance(scene.decided(scene.event()), Classified)


def test_heads_are_asked_for_and_waited_for():
    reported, heads = [], (KnownMemory("mem_1", "repo", "patterns", "We use npm."),)
    daemon = DaemonLink(lambda: HeadsAnswer("ev_1", heads), reported.append)

    assert daemon.heads("ev_1", ["npm"]) == heads
    assert reported == [AskHeads("ev_1", ("npm",))]
