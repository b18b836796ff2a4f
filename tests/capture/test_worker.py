"""From an event to memory files: what the worker reports, and what it makes of each failure."""

import asyncio
import logging
import time
from pathlib import Path

import msgspec
import pytest

from forged.capture.classifier import CallFailed
from forged.capture.values import (
    Classified,
    Classify,
    Decided,
    Done,
    Failed,
    KnownMemory,
    Link,
    Linked,
    Proposal,
    Usage,
    WorkerSettings,
)
from forged.capture.worker import Existing, Worker
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.files.roots import Root
from forged.files.scan import scan
from forged.memory import Memory, Scope
from forged.state import Document, Event, digest
from tests.support.clock import run
from tests.support.worker import block, roots_in

USAGE = Usage(1, 100, 10)
TABS = Proposal("Indent Go code with tabs.", "repo", "coding-preferences")
SPACES = Proposal("Go code is formatted by a script from now on.", "repo", "coding-preferences")
ZURICH = Proposal("The user lives in Zurich and works at night.", "user", "user-facts")


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
    """A worker in this process, its two roots, and what it reports."""

    def __init__(self, tmp_path: Path, *answers: Classified | Exception, timeout_s: float = 5.0) -> None:
        self.repo, self.user = roots_in(tmp_path)
        self.classifier = Classifier(*answers)
        self.reports: list[object] = []
        self.existing = Existing()
        settings = WorkerSettings(timeout_s=timeout_s)
        self.worker = Worker(settings, self.classifier, self.existing, self.reports.append)

    def event(self, **fields: object) -> Event:
        window = (Utterance("user", "Indent with tabs. I live in Zurich."),)
        return Event(roots=(self.repo, self.user), window=window, session_id="s1", **fields)

    def decided(self, event: Event, **fields: object) -> Decided | Failed:
        """What an event comes to."""
        run(self.worker.handle(Classify(event, **fields)))
        return self.reports[-1]

    def linked(self, event_id: str, documents: tuple[Document, ...]) -> Done | Failed:
        run(self.worker.handle(Link(event_id, documents)))
        return self.reports[-1]

    def kept(self, event: Event) -> Done | Failed:
        """Both, one after the other."""
        return self.linked(event.id, self.decided(event).documents)

    def contents(self, root: Root) -> list[str]:
        return [memory.content.strip() for memory in scan(root).memories]


# --- from an answer to files ---


def test_what_is_decided_is_told_and_then_linked(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH), USAGE))
    event = scene.event()

    decided = scene.decided(event)
    before = scene.contents(scene.repo)
    last = scene.linked(event.id, decided.documents)

    assert [type(report) for report in scene.reports] == [Decided, Linked, Linked, Done]
    assert (decided.usage, before, last.written) == (USAGE, [], 2)
    assert (scene.contents(scene.repo), scene.contents(scene.user)) == ([TABS.content], [ZURICH.content])
    assert [document.memory.id for document in decided.documents] == [
        Path(report.path).stem for report in scene.reports[1:3]
    ]
    assert all(Path(report.path).is_file() for report in scene.reports[1:3])


def test_nothing_to_keep_is_nothing_decided_and_its_cost_is_told(tmp_path):
    scene = Scene(tmp_path, Classified((), USAGE))
    event = scene.event()

    assert scene.decided(event) == Decided(event.id, (), USAGE)
    assert len(scene.reports) == 1
    assert scene.linked(event.id, ()) == Done(event.id)
    assert len(scene.classifier.asked) == 1


def test_classifier_gets_what_is_known_the_attempts_and_the_time_that_it_has(tmp_path):
    scene = Scene(tmp_path, Classified(), timeout_s=7)
    event, known = scene.event(), (KnownMemory("mem_1", "repo", "patterns", "A line."),)
    before = time.monotonic()

    scene.decided(event, known=known, attempts=3)
    (asked,) = scene.classifier.asked

    assert (asked[0], asked[1], asked[3]) == (event, known, 3)
    assert before + 7 <= asked[2] <= time.monotonic() + 7


def test_heads_are_the_newest_versions_of_all_memories_of_the_roots(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH)))
    scene.kept(scene.event())
    (tabs,) = scene.existing.heads([scene.repo])
    scene.classifier.answers = [Classified((msgspec.structs.replace(SPACES, supersedes=tabs.id),))]
    scene.kept(scene.event())

    spaces, zurich = scene.existing.heads([scene.repo, scene.user])

    assert (tabs.first_line, tabs.version) == (TABS.content, 1)
    assert (spaces.scope, spaces.version, spaces.first_line) == ("repo", 2, SPACES.content)
    assert (zurich.scope, zurich.version, zurich.first_line) == ("user", 1, ZURICH.content)


def test_what_is_on_disk_already_is_not_written_again(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    scene.kept(scene.event())

    again = scene.decided(scene.event())

    assert again.documents == ()
    assert again.tally.duplicates == 1
    assert scene.contents(scene.repo) == [TABS.content]


def test_what_does_not_count_is_neither_compared_with_nor_replaced_nor_a_head(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    scene.kept(scene.event())
    (tabs,) = scene.existing.heads([scene.repo])
    withheld = frozenset({f"{scene.repo.directories[0]}/{tabs.id}.md"})
    scene.classifier.answers = [Classified((TABS, msgspec.structs.replace(SPACES, supersedes=tabs.id)))]

    again = scene.decided(scene.event(), withheld=withheld)

    found = [(each.memory.content, each.memory.supersedes, each.memory.version) for each in again.documents]
    assert found == [(TABS.content, None, 1), (SPACES.content, None, 1)]
    assert scene.existing.heads([scene.repo]) == []
    assert scene.decided(scene.event()).documents[0].memory.supersedes == tabs.id  # the next event is another


def test_what_was_forgotten_is_not_decided_upon(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH)))

    decided = scene.decided(scene.event(), forgotten=frozenset({digest(scene.repo.top, TABS.content)}))

    assert [document.memory.content for document in decided.documents] == [ZURICH.content]


# --- documents that come again ---


def test_what_was_linked_is_linked_again_to_no_effect_and_nobody_is_asked(tmp_path):
    scene = Scene(tmp_path, Classified((TABS, ZURICH), USAGE))
    event = scene.event()
    documents = scene.decided(event).documents
    scene.linked(event.id, documents)
    Path(scene.reports[1].path).unlink()  # as if the worker had been killed after the other file
    first, scene.reports[:] = list(scene.reports), []

    last = scene.linked(event.id, documents)

    assert scene.reports == [*first[1:3], Done(event.id, written=2)]
    assert last == Done(event.id, written=2)
    assert len(scene.classifier.asked) == 1
    assert len(scene.contents(scene.repo)) == len(scene.contents(scene.user)) == 1


# --- failures ---


def test_failed_calls_are_reported_with_their_cost_and_when_to_come_again(tmp_path):
    error = ProviderError("http://x gave 429", reason="rate_limited", status=429, retry_after_s=30)
    scene = Scene(tmp_path, CallFailed(error, USAGE))
    event = scene.event()

    assert scene.decided(event) == Failed(event.id, "rate_limited", "http://x gave 429", USAGE, 30)


def test_classifier_that_does_not_keep_to_its_time_is_cut_off(tmp_path, monkeypatch):
    scene = Scene(tmp_path, Classified(), timeout_s=0.01)
    monkeypatch.setattr(scene.classifier, "classify", lambda *_, **__: asyncio.Event().wait())

    last = scene.decided(scene.event())

    assert (last.reason, type(last)) == ("timeout", Failed)


def test_unforeseen_failure_costs_one_event_and_is_logged_whole(tmp_path, caplog):
    scene = Scene(tmp_path, RuntimeError("broken"), Classified())
    event = scene.event()

    assert scene.decided(event).reason == "internal"
    assert "RuntimeError: broken" in caplog.text
    assert isinstance(scene.decided(scene.event()), Decided)


@pytest.mark.parametrize(
    ("proposals", "reason"), [((ZURICH, TABS), "unwritten"), ((ZURICH,), "storage")], ids=["one", "all"]
)
def test_a_memory_that_cannot_be_written_stops_no_other_and_is_complained_of_once(
    tmp_path, caplog, proposals, reason
):
    scene = Scene(tmp_path, Classified(proposals))
    obstacle = block(scene.user)
    event = scene.event()
    documents = scene.decided(event).documents
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert scene.linked(event.id, documents).reason == reason
    assert scene.contents(scene.repo) == [TABS.content] * (TABS in proposals)
    assert caplog.text.count(f"memory not written event={event.id} memory=mem_") == 1
    assert "Zurich" not in caplog.text

    obstacle.unlink()

    assert scene.linked(event.id, documents) == Done(event.id, written=len(proposals))
    assert scene.contents(scene.user) == [ZURICH.content]


def test_event_of_which_no_root_is_there_any_more_says_so(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    event = scene.event()
    documents = scene.decided(event).documents
    Path(scene.repo.top).rmdir()

    assert scene.linked(event.id, documents).reason == "gone"

    Path(scene.repo.top).mkdir()

    assert scene.linked(event.id, documents).written == 1


def test_document_that_no_disk_could_take_is_given_up(tmp_path):
    scene = Scene(tmp_path, Classified())
    memory = Memory("not/an/id", "text", "", "", 1, "repo", "patterns", "s1", "cadence")

    assert scene.linked("ev_1", (Document(scene.repo, memory),)) == Done("ev_1", failed=("not/an/id",))


def test_root_that_cannot_be_listed_counts_as_empty(tmp_path):
    scene = Scene(tmp_path, Classified((TABS,)))
    block(scene.user)

    assert scene.kept(scene.event()).written == 1


def test_many_roots_do_not_pile_up(tmp_path):
    scene = Scene(tmp_path, Classified())

    for number in range(20):
        root = Root(str(tmp_path / f"repo{number}"), Scope.REPO)
        scene.decided(msgspec.structs.replace(scene.event(), roots=(root,)))

    assert len(scene.existing._snapshots) == 16
