"""Proposals are saved if they are important enough, and name their source."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from forged.attributes import Facts
from forged.capture.committer import Committer, Promotion
from forged.capture.intake import response_of
from forged.capture.model_reply import read
from forged.capture.values import Proposal
from forged.conversation import Utterance
from forged.files import agent_root
from forged.stores import SessionMemories, SessionMemory, new_session_memory
from tests.capture.test_committer import TABS, ZURICH, Scene
from tests.state.conftest import opened as state_in

PERSONA = Proposal("Answers in rhymes when nobody is in a hurry.", "agent", "user-facts")


class Promoting(Scene):
    """A committer that promotes what is worth 0.5, with the memories of sessions."""

    def __init__(self, tmp_path, state) -> None:
        super().__init__(tmp_path, state, lexical=False)
        self.sessions = SessionMemories()
        promotion = Promotion(self.user.top, 0.5, self.sessions)
        self.committer = Committer(self.indexer, self.writer, state, promotion=promotion)

    def details_of(self, documents):
        return [self.state.attributes.of(each.root.top, each.memory.id) for each in documents]

    def answers(self, text: str, session: str = "s1", agent: str = "") -> str:
        kept = new_session_memory(response_of(text), session, self.sessions.clock())
        row = SessionMemory(kept, Facts(agent_id=agent), self.sessions.clock())
        return self.sessions.add(row).id


@contextlib.asynccontextmanager
async def promoting_in(tmp_path: Path) -> AsyncIterator[Promoting]:
    async with state_in(tmp_path / "state") as state:
        scene = Promoting(tmp_path, state)
        await scene.trust.trust(scene.repo.top)
        try:
            yield scene
        finally:
            await scene.indexer.close()


@pytest.fixture
def scene(tmp_path):
    return promoting_in(tmp_path)


def worth(proposal: Proposal, importance: float | None) -> Proposal:
    return msgspec.structs.replace(proposal, importance=importance)


@pytest.mark.parametrize(("importance", "is_kept"), [("0.49", False), ("0.5", True), ("0.51", True)])
async def test_what_a_model_says_matters_less_than_the_least_is_not_promoted(scene, importance, is_kept):
    said = f'"content": "{TABS.content}", "scope": "repo", "category": "patterns"'
    reply = f'[{{{said}, "importance": {importance}}}]'

    documents, tally = await scene.decided(*read(reply).proposals)

    assert [each.memory.content for each in documents] == ([TABS.content] if is_kept else [])
    assert (tally.invalid, tally.duplicates) == (0, 0)


async def test_what_a_person_asked_to_keep_is_kept_whatever_a_model_thinks_of_it(scene):
    documents, _ = await scene.decided(worth(TABS, 0.1), event=scene.event(kind="explicit"))

    assert (await scene.committer.put(documents, ())).written == 1
    assert [each.importance for each in scene.details_of(documents)] == [1.0]


async def test_what_is_promoted_knows_its_importance_and_the_response_it_comes_from(scene):
    event = scene.event()
    answer = "Well then, tabs it is. " * 200
    event = msgspec.structs.replace(event, window=(*event.window, Utterance("assistant", answer)))
    source = scene.answers(answer)
    scene.answers("Something else.")

    documents, _ = await scene.decided(worth(ZURICH, 0.75), event=event)
    await scene.committer.put(documents, event.tops)

    (detail,) = scene.details_of(documents)
    assert (detail.importance, detail.metadata) == (0.75, {"source": source})


async def test_without_a_response_that_is_still_there_the_source_is_the_session(scene):
    documents, _ = await scene.decided(TABS)

    await scene.committer.put(documents, ())

    assert [each.metadata for each in scene.details_of(documents)] == [{"source": "s1"}]


async def test_what_a_model_says_of_the_agent_goes_to_the_agent_of_the_event_alone(scene):
    event = scene.event("Be a poet.", agent="claude")

    documents, _ = await scene.decided(PERSONA, TABS, event=event)
    assert (await scene.committer.put(documents, event.tops)).written == 2

    theirs = agent_root(scene.user.top, "claude")
    assert [each.root for each in documents] == [theirs, scene.repo]
    assert [path.read_text().count(PERSONA.content) for path in Path(theirs.top).rglob("*.md")] == [1]


@pytest.mark.parametrize("agent", ["", "../..", ".hidden"])
async def test_a_memory_of_an_unknown_agent_goes_to_the_repository(scene, agent):
    documents, _ = await scene.decided(PERSONA, event=scene.event("Be a poet.", agent=agent))

    assert [each.root for each in documents] == [scene.repo]


def test_a_response_that_is_long_is_kept_up_to_whole_words():
    long = response_of("schön " * 1_000)

    assert response_of("  All done.\n") == "All done."
    assert len(long.encode()) <= 2_048 + len("…".encode())
    assert long.endswith("schön…")
