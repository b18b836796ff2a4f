"""Commit of proposals: compared with the maps, written once, despite failures of the disk."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from forged.capture.committer import CommitResult, Committer
from forged.capture.values import Classified, KnownMemory, Proposal, Tally
from forged.conversation import Utterance
from forged.counters import Metrics
from forged.files import Root
from forged.files.scan import scan
from forged.maps.indexer import Indexer
from forged.memory import Memory, Origin
from forged.state import Event
from forged.trust import TrustRegistry
from forged.writing import RemovalTerms, Writer
from tests.data.memories import memory, put
from tests.state.conftest import opened as state_in
from tests.support.clock import PATIENCE_S
from tests.support.worker import block, roots_in

TABS = Proposal("Indent Go code with tabs.", "repo", "coding-preferences")
SPACES = Proposal("Go code is formatted by a script from now on.", "repo", "coding-preferences")
ZURICH = Proposal("The user lives in Zurich and works at night.", "user", "user-facts")


class Scene:
    """A committer with a real writer over two roots, and the state that both use."""

    def __init__(self, tmp_path: Path, state, *, lexical: bool) -> None:
        self.repo, self.user = roots_in(tmp_path)
        self.state = state
        self.trust = TrustRegistry(state)
        self.indexer = Indexer(embedder=None, lexical=lexical, metrics=Metrics(), trust=self.trust)
        self.trust.connect_maps(self.indexer.refresh, self.indexer.snapshot)
        self.writer = Writer(
            str(tmp_path / "state/trash"), self.trust, state.requests, state.intents, state.removal_marks
        )
        self.committer = Committer(self.indexer, self.writer, state)

    def event(self, *said: str, **fields) -> Event:
        window = tuple(Utterance("user", text) for text in said or ("Indent with tabs.",))
        return Event(**{"roots": (self.repo, self.user), "window": window, "session_id": "s1"} | fields)

    async def decided(self, *proposals: Proposal, event: Event | None = None):
        return await self.committer.decide(event or self.event(), Classified(proposals))

    async def kept(self, *proposals: Proposal, event: Event | None = None) -> CommitResult:
        event = event or self.event()
        documents, _ = await self.decided(*proposals, event=event)
        return await self.committer.put(documents, event.tops)

    async def forget(self, content: str) -> None:
        """As the daemon does it."""
        index = self.indexer.open(self.repo)
        await self.state.forgotten.add(self.repo.top, [content])
        ids = tuple(found.id for found in self.memories(self.repo) if found.content.strip() == content)
        await self.writer.remove(index, ids, RemovalTerms())
        await index.until_tried(index.mark(), time.monotonic() + PATIENCE_S)

    def memories(self, root: Root) -> tuple[Memory, ...]:
        return scan(root).memories

    def contents(self, root: Root) -> list[str]:
        return sorted(found.content.strip() for found in self.memories(root))


@contextlib.asynccontextmanager
async def scene_in(tmp_path: Path, *, lexical: bool = True) -> AsyncIterator[Scene]:
    async with state_in(tmp_path / "state") as state:
        scene = Scene(tmp_path, state, lexical=lexical)
        await scene.trust.trust(scene.repo.top)
        try:
            yield scene
        finally:
            await scene.indexer.close()


@pytest.fixture(params=[True, False], ids=["words", "no words"])
def either(tmp_path, request):
    """With an index of words, and without one."""
    return scene_in(tmp_path, lexical=request.param)


@pytest.fixture
def scene(tmp_path):
    return scene_in(tmp_path)


# --- deciding -------------------------------------------------------------------------------------------


async def test_what_is_kept_already_is_not_kept_again_in_like_words(either):
    """Among a thousand others that have some of its words."""
    scene, root = either, Path(either.repo.top)
    for number in range(1000):
        put(root, memory(f"mem_{number}", f"Prefer errors number {number} over assertions of type {number}."))
    put(root, memory("mem_tabs", "User prefers `errors.As` over type assertions."))
    documents, tally = await scene.decided(
        msgspec.structs.replace(TABS, content="Prefer errors.As over type assertions.")
    )

    assert (documents, tally) == ((), Tally(duplicates=1))


async def test_what_was_written_a_moment_ago_counts_though_no_map_shows_it(scene):
    await scene.kept(TABS)
    index = scene.indexer.open(scene.repo)
    shown = msgspec.structs.replace(index.map, memories=()) if index.map else None
    index.map, index.generations.visible = shown, 0
    scene.committer._fresh_view = lambda _: _seen(index.map)

    assert await scene.decided(TABS) == ((), Tally(duplicates=1))


async def _seen(*maps):
    from forged.stores import View

    return View(tuple(found for found in maps if found is not None))


async def test_what_does_not_count_is_neither_compared_with_nor_replaced_nor_a_head(scene):
    """A file that came with a repository nobody has trusted is in no map."""
    await scene.trust.revoke(scene.repo.top)
    put(Path(scene.repo.top), memory("mem_evil", TABS.content))
    documents, _ = await scene.decided(TABS, msgspec.structs.replace(SPACES, supersedes="mem_evil"))

    assert [(each.memory.content, each.memory.supersedes) for each in documents] == [
        (TABS.content, None),
        (SPACES.content, None),
    ]
    assert await scene.committer.heads(scene.event(), ["tabs"]) == ()


async def test_heads_that_name_something_are_found_however_many_others_there_are(scene):
    root = Path(scene.repo.top)
    for number in range(300):
        put(root, memory(f"mem_{number}", f"Step {number} takes a while."))
    put(root, memory("mem_old", "We use npm for all packages."))
    put(root, memory("mem_new", "We use NPM and nothing else.\nnpx", supersedes="mem_old", version=2))
    put(root, memory("mem_far", "Something else.\nnpm is in the second line."))

    found = await scene.committer.heads(scene.event(), ["npm", "no such thing"])
    assert found == (KnownMemory("mem_new", "repo", "patterns", "We use NPM and nothing else."),)


# --- what was forgotten -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [
        TABS.content,
        "Indent Go code, with tabs",
        "indent **Go code** with tabs!",
        "In\u00addent Go\u200b code with tabs",
    ],
)
async def test_what_was_forgotten_does_not_come_back_from_before_not_even_with_a_comma(scene, again):
    await scene.kept(TABS)
    event = scene.event(again)
    await scene.forget(TABS.content)

    documents, tally = await scene.decided(msgspec.structs.replace(TABS, content=again), event=event)
    assert (documents, tally) == ((), Tally(duplicates=1))


@pytest.mark.parametrize(
    ("said", "role", "kept"),
    [
        ("Again: indent Go code with tabs, please.", "user", 1),
        ("Indent with tabs, the Go code.", "user", 1),  # as a model puts it
        ("Indent Go code with tabs.", "assistant", 0),  # nobody said it
        ("Something else.", "user", 0),
    ],
)
async def test_a_statement_repeated_after_a_forget_is_kept_and_reported(scene, said, role, kept):
    """The message from before is in the window still."""
    await scene.kept(TABS)
    before = time.time()
    await scene.forget(TABS.content)
    window = (Utterance("user", TABS.content), Utterance(role, said))
    event = scene.event(window=window, said_at=(int(before), int(time.time()) + 2))

    documents, tally = await scene.decided(TABS, event=event)
    assert (len(documents), tally.said_again, tally.duplicates) == (kept, kept, 1 - kept)
    await scene.committer.put(documents, event.tops)
    assert scene.contents(scene.repo) == [TABS.content] * kept


async def test_what_is_forgotten_between_decision_and_file_is_not_written(scene):
    event = scene.event()
    documents, _ = await scene.decided(TABS, ZURICH, event=event)
    await scene.state.forgotten.add(scene.repo.top, ["indent Go code, with tabs"])

    assert await scene.committer.put(documents, event.tops) == CommitResult(1)
    assert (scene.contents(scene.repo), scene.contents(scene.user)) == ([], [ZURICH.content])


# --- versions ---------------------------------------------------------------------------------------------


async def test_a_version_is_based_on_the_head_that_is_there_when_it_is_written(scene):
    """Somebody else has written one since it was decided upon."""
    await scene.kept(TABS)
    (tabs,) = scene.memories(scene.repo)
    documents, _ = await scene.decided(msgspec.structs.replace(SPACES, supersedes=tabs.id))
    await scene.writer.add(
        scene.indexer.open(scene.repo), memory("mem_b", "Tabs are out.", supersedes=tabs.id, version=2)
    )
    await scene.committer.put(documents, ())

    links = {found.id: (found.version, found.supersedes) for found in scene.memories(scene.repo)}
    assert links == {tabs.id: (1, None), "mem_b": (2, tabs.id), documents[0].memory.id: (3, "mem_b")}


async def test_what_was_to_be_replaced_and_is_gone_leaves_the_new_one_alone(scene):
    await scene.kept(TABS)
    (tabs,) = scene.memories(scene.repo)
    documents, _ = await scene.decided(msgspec.structs.replace(SPACES, supersedes=tabs.id))
    await scene.forget(TABS.content)

    assert await scene.committer.put(documents, ()) == CommitResult(1)
    (found,) = scene.memories(scene.repo)
    assert (found.content.strip(), found.version, found.supersedes) == (SPACES.content, 1, None)


# --- documents that come again, and disks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposals", "reason"), [((ZURICH, TABS), "unwritten"), ((ZURICH,), "storage")], ids=["one", "all"]
)
async def test_a_memory_that_cannot_be_written_stops_no_other_and_is_complained_of_once(
    scene, caplog, proposals, reason
):
    obstacle = block(scene.user)
    documents, _ = await scene.decided(*proposals)
    for _ in range(3):
        assert (await scene.committer.put(documents, ())).reason == reason
    assert scene.contents(scene.repo) == [TABS.content] * (TABS in proposals)
    assert caplog.text.count("memory not written memory=mem_") == 1
    assert "Zurich" not in caplog.text

    obstacle.unlink()
    assert await scene.committer.put(documents, ()) == CommitResult(len(proposals))
    assert scene.contents(scene.user) == [ZURICH.content]


async def test_a_disk_that_is_full_is_waited_for_though_another_document_went_through(scene, monkeypatch):
    documents, _ = await scene.decided(TABS, SPACES)
    real, calls = os.link, []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **kwargs)

    monkeypatch.setattr(os, "link", full)
    assert (await scene.committer.put(documents, ())).reason == "storage"
    assert await scene.committer.put(documents, ()) == CommitResult(2)


async def test_event_of_which_no_root_is_there_any_more_says_so(scene):
    documents, _ = await scene.decided(TABS)
    Path(scene.repo.top).rmdir()
    assert (await scene.committer.put(documents, ())).reason == "gone"

    Path(scene.repo.top).mkdir()
    assert (await scene.committer.put(documents, ())).written == 1


# --- a chain that two write at once -------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(10))
async def test_a_remembered_and_a_captured_version_of_one_memory_line_up(scene, number):
    await scene.kept(TABS)
    (tabs,) = scene.memories(scene.repo)
    index = scene.indexer.open(scene.repo)

    async def remembered() -> None:
        await asyncio.sleep(number / 2000)
        new = memory("mem_b", "Tabs are out.", supersedes=tabs.id, version=2)
        written = await scene.writer.add(index, new)
        assert written.replaced == (scene.memories(scene.repo) and written.memory.supersedes)

    await asyncio.gather(remembered(), scene.kept(msgspec.structs.replace(SPACES, supersedes=tabs.id)))
    links = [found.supersedes for found in scene.memories(scene.repo)]
    assert len(links) == len(set(links)) == 3


# --- rows of the local model ----------------------------------------------------------------------------


class Model:
    """Stands in for the local model: remembers what it is asked, and answers with rows, nothing, or never."""

    def __init__(self, answers: str = "rows") -> None:
        self.answers = answers
        self.asked: list[list[str]] = []

    async def __call__(self, texts) -> tuple[bytes, ...]:
        self.asked.append(list(texts))
        if self.answers == "never":
            await asyncio.Event().wait()
        row = np.ones(3 * 384, np.float32).tobytes()
        return (row,) * len(texts) if self.answers == "rows" else ()


async def test_rows_are_asked_for_of_proposals_and_of_what_comes_nearest_to_them(scene):
    root = Path(scene.repo.top)
    for number in range(60):
        put(root, memory(f"mem_{number}", f"Errors of kind {number} go to team {number}."))
    model = scene.committer._vectors = Model()
    errors = Proposal("Errors of kind 7 go to team 8 now.", "repo", "project-conventions")
    await scene.decided(errors)

    proposals, near = model.asked
    assert proposals == [errors.content]
    assert len(near) == 24
    assert "Errors of kind 7 go to team 7." in near


@pytest.mark.parametrize("size", [3_000, 200_000])
async def test_of_a_long_memory_the_row_is_of_its_beginning(scene, size):
    rest = "The walrus sings of the seven seas. " * (size // 36)
    put(Path(scene.repo.top), memory("mem_1", f"\n\n We use npm in this repo.\n\n{rest}"))
    put(Path(scene.repo.top), memory("mem_2", "9" * size))
    model = scene.committer._vectors = Model()
    pnpm = Proposal("We use pnpm in this repo now, npm is out.", "repo", "project-conventions")
    typed = Classified((pnpm,), author=Origin.TYPED)
    documents, _ = await scene.committer.decide(scene.event(pnpm.content), typed)

    _, near = model.asked
    assert any(each.startswith("We use npm in this repo.") for each in near)
    assert max(map(len, near)) <= 600
    assert [len(document.memory.content) for document in documents] == [len(pnpm.content)]


@pytest.mark.parametrize("answers", ["none", "never"])
async def test_without_rows_or_in_want_of_time_words_decide(scene, monkeypatch, answers):
    monkeypatch.setattr("forged.capture.existing._ROWS_S", 0.05)
    put(Path(scene.repo.top), memory("mem_1", "We use npm in this repo."))
    scene.committer._vectors = Model(answers)
    pnpm = Proposal("We use pnpm in this repo now, npm is out.", "repo", "project-conventions")
    typed = Classified((pnpm,), author=Origin.TYPED)
    documents, _ = await scene.committer.decide(scene.event(pnpm.content), typed)

    assert [document.memory.supersedes for document in documents] == ["mem_1"]
