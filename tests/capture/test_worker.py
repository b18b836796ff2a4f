"""From an event to memory files: what the worker reports, and what it makes of each failure."""

import asyncio
import contextlib
import logging
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from forged.capture.classifier import CallFailed
from forged.capture.spool import Spool
from forged.capture.values import (
    Classified,
    Document,
    Done,
    Event,
    Failed,
    Head,
    Journalled,
    Linked,
    Proposal,
    Task,
    Usage,
)
from forged.capture.worker import Worker
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.files.roots import Root
from forged.files.scan import scan
from forged.memory import Memory, Scope
from forged.state.forgotten import Forgotten
from tests.support.loops import run
from tests.support.tasks import block, roots_in, settings_in, task_of

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

USAGE = Usage(1, 100, 10)
TABS = Proposal("Indent Go code with tabs.", "repo", "coding-preferences")
ZURICH = Proposal("The user lives in Zurich and works at night.", "user", "user-facts")


class Classifier:
    """Answers as told, one answer per call and the last for ever; an exception is raised."""

    def __init__(self, *answers: Classified | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, ...]] = []

    async def classify(self, event, heads, *, deadline, attempts):
        self.asked.append((event, heads, deadline, attempts))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def aclose(self) -> None:
        pass


class Scene:
    """A worker in this process, its two roots, and what it reports."""

    def __init__(self, tmp_path: Path, *answers: Classified | Exception, timeout_s: float = 5.0) -> None:
        self.settings = settings_in(tmp_path, timeout_s=timeout_s)
        self.repo, self.user = roots_in(tmp_path)
        self.spool = Spool(self.settings.spool, self.settings.dead)
        self.classifier = Classifier(*answers)
        self.reports: list[object] = []
        self.worker = Worker(self.settings, self.classifier, self.reports.append)

    def event(self, **fields: object) -> Event:
        window = (Utterance("user", "Indent with tabs. I live in Zurich."),)
        return Event(roots=(self.repo, self.user), window=window, session_id="s1", **fields)

    def handle(self, task: Task) -> object:
        """The last report about a task."""
        run(self.worker.handle(task))
        return self.reports[-1]

    def contents(self, root: Root) -> list[str]:
        return [memory.content.strip() for memory in scan(root).memories]


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may grow."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- from an answer to files ---


def test_what_is_kept_is_journalled_then_linked_then_done(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH), USAGE))
    event = scene.event()

    last = scene.handle(task_of(event))

    assert [type(report) for report in scene.reports] == [Journalled, Linked, Linked, Done]
    assert last.written == 2
    assert (scene.contents(scene.repo), scene.contents(scene.user)) == ([TABS.content], [ZURICH.content])
    assert [document.memory.id for document in scene.spool.journalled(event.id)] == [
        report.memory_id for report in scene.reports[1:3]
    ]
    assert all(Path(report.path).is_file() for report in scene.reports[1:3])


def test_cost_of_a_call_is_reported_once(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,), USAGE))

    scene.handle(task_of(scene.event()))

    assert [report.usage for report in scene.reports if hasattr(report, "usage")] == [USAGE, Usage()]


def test_nothing_to_keep_is_done_without_a_journal(tmp_path):
    scene = Scene(tmp_path, Classified((), USAGE))
    event = scene.event()

    assert scene.handle(task_of(event)) == Done(event.id, USAGE)
    assert len(scene.reports) == 1
    assert scene.spool.journalled(event.id) is None


def test_classifier_gets_the_heads_the_attempts_and_the_time_that_it_has(tmp_path):
    scene = Scene(tmp_path, Classified(), timeout_s=7)
    event, heads = scene.event(), (Head("mem_1", "repo", "patterns", 1, "A line."),)
    before = time.monotonic()

    scene.handle(Task(event.id, event, heads, 3))
    (asked,) = scene.classifier.asked

    assert (asked[0], asked[1], asked[3]) == (event, heads, 3)
    assert before + 7 <= asked[2] <= time.monotonic() + 7


def test_what_is_on_disk_already_is_not_written_again(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    scene.handle(task_of(scene.event()))

    last = scene.handle(task_of(scene.event()))

    assert last.written == 0
    assert last.tally.duplicates == 1
    assert scene.contents(scene.repo) == [TABS.content]


# --- an event that comes again ---


def test_journalled_event_is_linked_and_nobody_is_asked(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH), USAGE))
    event = scene.event()
    scene.handle(task_of(event))
    Path(scene.reports[1].path).unlink()  # as if the worker had been killed after the other file
    first, scene.reports[:] = list(scene.reports), []

    last = scene.handle(task_of(event))

    assert scene.reports == [*first[1:3], Done(event.id, written=2)]
    assert last.usage == Usage()
    assert len(scene.classifier.asked) == 1
    assert len(scene.contents(scene.repo)) == len(scene.contents(scene.user)) == 1


def test_journal_without_its_event_is_linked(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    event = scene.event()
    scene.handle(task_of(event))
    Path(scene.reports[1].path).unlink()

    assert scene.handle(Task(event.id)) == Done(event.id, written=1)
    assert scene.contents(scene.repo) == [TABS.content]


def test_neither_event_nor_journal_is_done(tmp_path):
    scene = Scene(tmp_path, Classified())

    assert scene.handle(Task("ev_1")) == Done("ev_1")
    assert scene.classifier.asked == []


def test_what_was_forgotten_since_it_was_decided_is_not_linked(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH)))
    event = scene.event()
    scene.handle(task_of(event))
    for report in scene.reports[1:3]:
        Path(report.path).unlink()
    Forgotten(scene.settings.forgotten).add(scene.repo.top, [TABS.content])

    assert scene.handle(Task(event.id)) == Done(event.id, written=1)
    assert (scene.contents(scene.repo), scene.contents(scene.user)) == ([], [ZURICH.content])


# --- failures ---


def test_failed_calls_are_reported_with_their_cost_and_when_to_come_again(tmp_path):
    error = ProviderError("http://x gave 429", reason="rate_limited", status=429, retry_after_s=30)
    scene = Scene(tmp_path, CallFailed(error, USAGE))
    event = scene.event()

    assert scene.handle(task_of(event)) == Failed(event.id, "rate_limited", "http://x gave 429", USAGE, 30)
    assert scene.spool.journalled(event.id) is None


def test_classifier_that_does_not_keep_to_its_time_is_cut_off(tmp_path, monkeypatch):
    scene = Scene(tmp_path, Classified(), timeout_s=0.01)

    async def never(*_: object, **__: object) -> Classified:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(scene.classifier, "classify", never)

    last = scene.handle(task_of(scene.event()))

    assert (last.reason, type(last)) == ("timeout", Failed)


def test_unforeseen_failure_costs_one_event_and_is_logged_whole(tmp_path, caplog):
    scene = Scene(tmp_path, RuntimeError("broken"), Classified())
    event = scene.event()

    assert scene.handle(task_of(event)).reason == "internal"
    assert "RuntimeError: broken" in caplog.text
    assert isinstance(scene.handle(task_of(scene.event())), Done)


def test_one_memory_that_cannot_be_written_does_not_stop_the_others(tmp_path, caplog):
    scene = Scene(tmp_path, Classified((ZURICH, TABS)))
    block(scene.user)
    event = scene.event()

    with caplog.at_level(logging.WARNING):
        last = scene.handle(task_of(event))

    assert last.reason == "unwritten"
    assert scene.contents(scene.repo) == [TABS.content]
    assert f"memory not written event={event.id} memory=mem_" in caplog.text
    assert "Zurich" not in caplog.text


def test_a_memory_that_could_not_be_written_is_when_it_can_and_complained_of_once(tmp_path, caplog):
    scene = Scene(tmp_path, Classified((ZURICH, TABS)))
    obstacle = block(scene.user)
    event = scene.event()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert scene.handle(task_of(event)).reason == "unwritten"
    assert caplog.text.count("memory not written") == 1

    obstacle.unlink()

    assert scene.handle(task_of(event)).written == 2
    assert scene.contents(scene.user) == [ZURICH.content]


def test_nothing_that_can_be_written_is_tried_again_until_it_can(tmp_path):
    scene = Scene(tmp_path, Classified((ZURICH,), USAGE))
    obstacle = block(scene.user)
    event = scene.event()

    first = scene.handle(task_of(event))
    obstacle.unlink()
    second = scene.handle(task_of(event))

    assert (first.reason, first.usage) == ("storage", Usage())  # paid with the journal
    assert second == Done(event.id, written=1)
    assert len(scene.classifier.asked) == 1
    assert scene.contents(scene.user) == [ZURICH.content]


def test_event_of_which_no_root_is_there_any_more_says_so(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    event = scene.event()
    Path(scene.repo.top).rmdir()

    assert scene.handle(task_of(event)).reason == "gone"

    Path(scene.repo.top).mkdir()

    assert scene.handle(task_of(event)).written == 1


@linux
def test_answer_that_cannot_be_journalled_is_not_paid_for_twice(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,), USAGE))
    event = scene.event()

    with full_disk():
        first, second = scene.handle(task_of(event)), scene.handle(task_of(event))
    third = scene.handle(task_of(event))

    assert [(one.reason, one.usage) for one in (first, second)] == [("storage", USAGE), ("storage", Usage())]
    assert third.written == 1
    assert len(scene.classifier.asked) == 1
    assert scene.contents(scene.repo) == [TABS.content]


def test_document_that_no_disk_could_take_is_given_up(tmp_path):
    scene = Scene(tmp_path, Classified())
    memory = Memory("not/an/id", "text", "", "", 1, "repo", "patterns", "s1", "cadence")
    scene.spool.journal("ev_1", (Document(scene.repo, memory),))

    assert scene.handle(Task("ev_1")) == Done("ev_1", failed=("not/an/id",))


def test_root_that_cannot_be_listed_counts_as_empty(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    block(scene.user)

    assert scene.handle(task_of(scene.event())).written == 1


def test_many_roots_do_not_pile_up(tmp_path):
    scene = Scene(tmp_path, Classified())

    for number in range(20):
        root = Root(str(tmp_path / f"repo{number}"), Scope.REPO)
        scene.handle(task_of(msgspec.structs.replace(scene.event(), roots=(root,))))

    assert len(scene.worker._snapshots) == 16
