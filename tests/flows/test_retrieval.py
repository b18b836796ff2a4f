"""Retrieval for agents: turn cache, window, generations, first builds, scopes and switches.

All of it through the real daemon; the provider's log tells what a retrieval costs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Scene, ids, renewed, running, shared_scene, staged
from tests.support.provider import Answer, ScriptedProvider, poisoned

# Explicit hyde with plain cosine, and both indexes without a chat model: the direct strategy. Every test has
# a repo of its own and no user memories.
hyde_scene = shared_scene(
    retrieval_strategy="hyde", retrieval_model="chat", retrieval_lexical_weight=0, query_prefix="ask: "
)
direct_scene = shared_scene(dimension=4)
scene, plain = renewed("hyde_scene"), renewed("direct_scene")


@pytest.fixture
def alone(home) -> Iterator[Scene]:
    """Direct with plain cosine, for a test that changes the user's memories or the model."""
    with staged(home, retrieval_strategy="direct", retrieval_lexical_weight=0) as scene:
        yield scene


def _two(scene: Scene, repo: Path) -> None:
    put(repo, memory("m0", "walrus"), memory("m1", "something"))
    scene.provider.vectors.update({"walrus": (1, 0, 0), "something": (0, 1, 0), "a hypothesis": (1, 0, 0)})
    scene.load(repo)
    scene.provider.received.clear()


# --- the turn cache ----------------------------------------------------------------------------------


def test_an_empty_store_costs_no_call_and_its_answer_is_kept_for_the_turn(scene, repo):
    scene.load(repo)
    scene.provider.received.clear()

    replies = [scene.ask(repo, "q", "t") for _ in range(3)]

    assert [(reply.status, reply.cached) for reply in replies] == [
        ("empty", False),
        ("empty", True),
        ("empty", True),
    ]
    assert scene.provider.received == []


def test_sessions_with_equal_turn_ids_do_not_share_and_do_not_evict_each_other(scene, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    _two(scene, repo)
    put(other, memory("n0", "walrus elsewhere"))
    scene.load(other)
    scene.provider.received.clear()

    first = scene.ask(repo, "q", "t", session_id="a")
    second = scene.ask(other, "q", "t", session_id="b")
    again = scene.ask(repo, "q", "t", session_id="a")

    assert (ids(first), ids(second), ids(again)) == (["m0", "m1"], ["n0"], ["m0", "m1"])
    assert again.cached
    assert len(scene.chats) == 2
    assert ids(scene.ask(other, "q", "t", session_id="a")) == ["n0"]  # nor does a session in two repositories


def test_a_caller_that_hangs_up_does_not_spoil_its_turn(scene, repo):
    _two(scene, repo)
    go = threading.Event()
    said = {"choices": [{"message": {"content": "a hypothesis"}}]}
    scene.provider.chat = [Answer(said, hold=go), Answer(said)]
    with scene.daemon.client(timeout_s=0.2) as client:
        left = client.retrieve(str(repo), [{"role": "user", "content": "q"}], turn_id="t", session_id="s")

    scene.provider.wait_until(lambda: scene.chats[0].closed_by_client)
    reply = scene.ask(repo, "q", "t")
    go.set()

    assert left.status == "timeout"
    assert (reply.status, ids(reply)) == ("ok", ["m0", "m1"])
    assert len(scene.chats) == 2, "the call that only it waited for ended with it"


def test_a_cached_answer_older_than_the_generation_asked_for_is_a_miss(scene, repo):
    _two(scene, repo)
    scene.ask(repo, "q", "t")
    written = scene.client.remember(str(repo), "walrus again")

    old = scene.ask(repo, "q", "t")
    new = scene.ask(repo, "q", "t", min_generation=written.generation)

    assert (old.cached, len(old.memories)) == (True, 2)
    assert (new.cached, len(new.memories)) == (False, 3)


def test_a_root_that_lags_behind_does_not_pass_for_a_generation_of_another_root(alone, repo):
    """The user's memory is written later and visible sooner; the repo's must not be missed for it."""
    put(repo, memory("m0", "walrus"))
    alone.load(repo)
    go = threading.Event()
    alone.provider.embeddings = poisoned("slow", _held(alone.provider, go))
    slow = alone.client.remember(str(repo), "slow to embed")
    fast = alone.client.remember(str(repo), "soon there", scope="user")
    eventually(lambda: len(alone.client.list(str(repo), scope="user").memories) == 1)
    early = alone.ask(repo, "q", "t")

    go.set()
    late = alone.ask(repo, "q", "t", min_generation=slow.generation)

    assert _number(fast.generation) > _number(slow.generation)
    assert slow.memory_id not in ids(early)
    assert slow.memory_id in ids(late)


def _held(provider: ScriptedProvider, event: threading.Event) -> Answer:
    data = [{"index": 0, "embedding": [0, 0, 1]}]
    return Answer({"data": data}, hold=event)


def _number(generation: str) -> int:
    return int(generation.partition(":")[2])


# --- the window and the hypotheses -------------------------------------------------------------------


def _window(scene: Scene) -> str:
    return scene.chats[-1].json["messages"][1]["content"]


def test_the_window_starts_after_the_summary_and_holds_no_tool_content(scene, repo):
    _two(scene, repo)

    scene.client.retrieve(
        str(repo),
        [
            {"role": "user", "content": "before the summary"},
            {"role": "assistant", "content": "summary itself"},
            {"role": "user", "content": "after it"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "thinking aloud"},
                    {"type": "tool_use", "name": "sh", "input": {"x": "secret-argument"}, "text": "secret-x"},
                ],
            },
            {"role": "tool", "content": "secret-output"},
            {"role": "user", "content": [{"type": "tool_result", "text": "secret-result"}]},
            {"role": "system", "content": "secret-system"},
            {"role": "user", "content": "  \n"},
            {"role": "user", "content": [{"type": "text", "text": "and now"}]},
        ],
        last_summary_index=2,
    )

    assert "user: after it\n---\nassistant: thinking aloud\n---\nuser: and now" in _window(scene)
    assert not [word for word in ("before", "summary itself", "secret") if word in _window(scene)]


@pytest.mark.parametrize(
    "messages", [[], [{"role": "tool", "content": "x"}], [{"role": "user", "content": " "}]]
)
def test_an_empty_window_costs_no_call(scene, repo, messages):
    _two(scene, repo)

    reply = scene.client.retrieve(str(repo), messages, turn_id="t")

    assert (reply.status, reply.reason) == ("empty", "empty_window")
    assert scene.provider.received == []


def test_the_model_is_asked_for_five_and_no_more_are_embedded(scene, repo):
    _two(scene, repo)
    scene.provider.chat_lines = [f" {n}. fact {n}  " if n % 2 else "" for n in range(1, 40)]

    scene.ask(repo, "q")

    assert "Write 5 " in _window(scene)
    assert scene.embeds[0].inputs == [f"ask: fact {n}" for n in (1, 3, 5, 7, 9)]
    assert len(scene.embeds) == 1


def test_without_a_chat_model_the_last_user_message_is_the_query(plain, repo):
    put(repo, memory("m0", "walrus"))
    plain.load(repo)
    plain.provider.received.clear()

    reply = plain.client.retrieve(
        str(repo),
        [
            {"role": "user", "content": "first"},
            {"role": "user", "content": "please tell me about the walrus"},
            {"role": "assistant", "content": "hm"},
        ],
    )

    assert (reply.strategy, reply.indexes, ids(reply)) == ("direct", ("lexical", "dense"), ["m0"])
    assert plain.embedded == ["please tell me about the walrus"]


# --- ranking as it shows -----------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, -1])
def test_a_search_for_no_memories_finds_none_and_costs_nothing(plain, repo, limit):
    _two(plain, repo)

    found = plain.client.search(str(repo), "walrus", limit=limit)

    assert (found.status, found.memories) == ("empty", ())
    assert str(limit) in found.reason
    assert plain.provider.received == []


# --- builds ------------------------------------------------------------------------------------------


def test_nothing_but_memory_files_is_ever_written_next_to_them(scene, repo):
    _two(scene, repo)
    for number in range(3):
        scene.client.remember(str(repo), f"fact {number}")
    scene.load(repo)
    scene.ask(repo)

    written = [path for path in (repo / ".forge").rglob("*") if path.is_file()]
    assert len(written) == 5
    assert all(path.parent.name == "memory" and path.suffix == ".md" for path in written)
    assert not [path for path in written if "embedding" in path.read_text()]


def test_the_old_map_serves_while_a_new_one_is_built(scene, repo):
    _two(scene, repo)
    go = threading.Event()
    scene.provider.embeddings = poisoned("newest", _held(scene.provider, go))
    put(repo, memory("m2", "newest"))

    started = scene.client.rebuild(str(repo))
    during = scene.ask(repo)
    go.set()

    assert started.status == "not_ready"
    assert ids(during) == ["m0", "m1"]
    assert eventually(lambda: sorted(ids(scene.ask(repo))) == ["m0", "m1", "m2"])


# --- rebuild --full ----------------------------------------------------------------------------------


def test_a_full_rebuild_embeds_everything_anew_and_a_plain_one_only_what_changed(scene, repo):
    _two(scene, repo)
    put(repo, memory("m1", "something else"))
    scene.load(repo)
    assert scene.embedded == ["something else"]

    scene.client.rebuild(str(repo), full=True, wait=True)

    assert sorted(scene.embedded) == ["something else", "something else", "walrus"]


# --- switches ----------------------------------------------------------------------------------------

SWITCHED_OFF = {
    "memory.enabled is false": {"enabled": False, "retrieval_model": "chat"},
    "memory.embedding_model is empty": {"embedding_model": "", "retrieval_model": "chat"},
    "memory.retrieval_strategy is hyde and there is no retrieval_model": {"retrieval_strategy": "hyde"},
    "memory.retrieval_lexical_weight is 0 and there is no embedding model": {
        "embedding_model": "builtin:lexical",
        "retrieval_lexical_weight": 0,
    },
}


@pytest.mark.parametrize("reason", SWITCHED_OFF)
def test_what_is_switched_off_calls_no_one_and_touches_nothing(tmp_path_factory, repo, reason):
    home = tmp_path_factory.mktemp("home")
    put(home, memory("u0", "walrus", scope="user"))
    with staged(home, **SWITCHED_OFF[reason]) as scene:
        lines = scene.daemon.log().count("\n")
        replies = [scene.ask(repo, "walrus") for _ in range(3)]
        searched = scene.client.search(str(repo), "walrus")
        status = scene.client.status(str(repo))
        quiet = scene.daemon.log().count("\n") == lines
        scene.client.rebuild(str(repo), wait=True)
        scene.client.list(str(repo))

        assert {(r.status, r.reason, r.text) for r in replies} == {("disabled", reason, "")}
        assert (searched.status, status.state, status.status) == ("disabled", "disabled", "ok")
        assert quiet
        assert scene.provider.received == []
    assert os.listdir(repo) == [".git"]
    assert os.listdir(home / ".forge") == ["memory"]


def test_memories_that_do_not_fit_into_one_reply_are_left_out_and_counted(home, repo):
    """Fourteen memories of 200 KB are more than a reply may have; what fits is answered all the same."""
    for number in range(14):
        put(repo, memory(f"m{number:02d}", f"walrus {number} " + "x" * 200_000))

    ungated = {"FORGED_MEMORY__RETRIEVAL_MIN_SCORE": "0"}  # one word is no evidence in 200 KB of others
    with running(home, env=ungated) as daemon, daemon.client(strict=True) as client:
        asked = client.retrieve(str(repo), [{"role": "user", "content": "walrus"}])
        found = client.search(str(repo), "walrus", limit=20)

    assert asked.status == "ok"
    assert 0 < asked.included < asked.included + asked.omitted
    assert 0 < len(found.memories) < 14
