"""A retrieval by hypotheses in ten steps (ADR-0047), from outside: once with plain cosine, as the record has
it, and once as forged comes, with both indexes. The texts share no words, so the numbers are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forged_client.protocol import Rebuilt, Retrieved
from tests.data.memories import memory, put
from tests.support.daemon import Scene, ids, staged

H1, H2, MESSAGE = "alpha bravo", "charlie delta", "echo foxtrot"
BODIES = {
    "m0": "golf " + "hotel " * 45,
    "m1": "india " + "juliett " * 45,
    "m2": "kilo " + "lima " * 45,
}
VECTORS = {
    "golf": (1, 0, 0),
    "india": (0.8, 0.6, 0),
    "kilo": (0, 0, 1),
    H1: (1, 0, 0),
    H2: (0.9, 0.436, 0),
    # With HyDE the last user message is one more query; it asks what h1 asks.
    MESSAGE: (1, 0, 0),
}
BUDGET = 200


@dataclass
class Story:
    """What the steps answered, and how often each path of the provider had been called after them."""

    built: Rebuilt
    rebuilt: Rebuilt
    queries: list[str]
    replies: dict[str, Retrieved] = field(default_factory=dict)
    calls: dict[str, tuple[int, int]] = field(default_factory=dict)
    query_inputs: list[str] = field(default_factory=list)


@pytest.fixture(scope="module", params=[0, None], ids=["weight 0", "default weight"])
def story(request, tmp_path_factory) -> Iterator[Story]:
    repo = tmp_path_factory.mktemp("scenario") / "repo"
    (repo / ".git").mkdir(parents=True)
    settings = {"retrieval_lexical_weight": request.param, "retrieval_top_k": 2, "retrieval_hop_depth": 1}
    with staged(
        tmp_path_factory.mktemp("home"), retrieval_strategy="hyde", retrieval_model="chat", **settings
    ) as scene:
        scene.provider.vectors.update(VECTORS)
        scene.provider.chat_lines = (H1, H2)
        # To the letter it is hypotheses alone; where words count, the message is one more query.
        yield _reported(scene, repo, [H1, H2] if request.param == 0 else [H1, H2, MESSAGE])


def _reported(scene: Scene, repo: Path, queries: list[str]) -> Story:
    put(repo, *(memory(name, body) for name, body in BODIES.items()))
    built = scene.load(repo)
    put(repo, memory("m0", BODIES["m0"], related=["m2"]))
    story = Story(built, scene.load(repo), queries)

    def step(name: str, turn: str, **options: object) -> None:
        story.replies[name] = scene.ask(repo, MESSAGE, turn, **options)
        story.calls[name] = (len(scene.chats), len(scene.embeds))

    story.calls["before"] = (len(scene.chats), len(scene.embeds))
    step("turn 1", "turn-1")
    story.query_inputs = scene.embeds[-1].inputs
    step("turn 1 again", "turn-1")
    step("turn 2", "turn-2")
    step("budget", "turn-3", token_budget=BUDGET)
    step("no budget", "turn-4", token_budget=0)
    return story


def _spent(story: Story, before: str, after: str) -> tuple[int, int]:
    (chats, embeds), (chats_after, embeds_after) = story.calls[before], story.calls[after]
    return chats_after - chats, embeds_after - embeds


def test_a_build_covers_the_three_memories(story):
    repo = next(root for root in story.built.roots if root.scope == "repo")

    assert (story.built.status, repo.memories, repo.problems) == ("ok", 3, ())


def test_an_edited_file_is_a_new_generation(story):
    before, after = (int(built.generation.partition(":")[2]) for built in (story.built, story.rebuilt))

    assert after > before


def test_an_edge_that_was_added_costs_no_embedding(story):
    assert story.calls["before"] == (0, 1)


def test_the_first_turn_finds_two_by_cosine_and_the_third_by_a_hop(story):
    reply = story.replies["turn 1"]

    assert (reply.status, reply.reason, reply.strategy) == ("ok", "", "hyde")
    assert [(hit.id, hit.found.found_by) for hit in reply.memories] == [
        ("m0", "search"),
        ("m1", "search"),
        ("m2", "link"),
    ]
    assert [hit.found.cosine for hit in reply.memories] == [
        pytest.approx(1),
        pytest.approx(0.9817, abs=1e-3),
        None,
    ]


def test_the_first_turn_costs_one_chat_call_and_one_embeddings_call(story):
    assert _spent(story, "before", "turn 1") == (1, 1)
    assert story.query_inputs == story.queries


def test_the_same_turn_is_answered_equally_without_a_call(story):
    first, again = story.replies["turn 1"], story.replies["turn 1 again"]

    assert _spent(story, "turn 1", "turn 1 again") == (0, 0)
    assert (again.text, again.memories, again.digest) == (first.text, first.memories, first.digest)
    assert (first.cached, again.cached) == (False, True)


def test_a_new_turn_costs_new_calls(story):
    assert _spent(story, "turn 1 again", "turn 2") == (1, 1)
    assert not story.replies["turn 2"].cached
    assert story.replies["turn 2"].text == story.replies["turn 1"].text


def test_a_budget_of_200_takes_whole_memories_only_and_says_how_many_are_left_out(story):
    reply = story.replies["budget"]

    assert (reply.included, reply.omitted) == (1, 2)
    assert len(reply.text.encode()) <= 4 * BUDGET
    assert BODIES["m0"].strip() in reply.text
    assert "india" not in reply.text
    assert "\n2 left out\n" in reply.text


def test_budget_0_takes_all(story):
    reply = story.replies["no budget"]

    assert ids(reply) == ["m0", "m1", "m2"]
    assert all(body.strip() in reply.text for body in BODIES.values())
    assert "left out" not in reply.text
