"""Answers when a model, an endpoint or a build fails, or is late: each case, from outside.

Explicit `hyde` with plain cosine answers a failure with nothing and a reason; `auto` as forged comes falls
back to the direct strategy, then to words, and says so. No failure is an exception for the agent, none
outlives its cause, and an answer is there in time.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from forged_client.protocol import Retrieved
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Scene, ids, renewed, shared_scene
from tests.support.provider import CLOSE, HTML, RESET, Answer, completion, embedded

# What an answer may take beyond its time limit on a busy machine.
NEVER = Answer(delay_s=25)
REFUSED = Answer({"error": {"message": "no"}}, status=401)

CHAT_FAILURES = {
    "server": Answer({"error": {"message": "boom"}}, status=500),
    "unreachable": RESET,
    "bad_reply": HTML,
    "auth": REFUSED,
    "no_hypotheses": completion(" \n"),
}


# ADR-0047 to the letter: explicit hyde, plain cosine. And as forged comes, with a model for each purpose.
hyde_scene = shared_scene(
    clocked=True, retrieval_strategy="hyde", retrieval_model="chat", retrieval_lexical_weight=0
)
auto_scene = shared_scene(clocked=True, retrieval_model="chat")
hyde, auto = renewed("hyde_scene"), renewed("auto_scene")


def _walrus(scene: Scene, repo: Path) -> None:
    put(repo, memory("m0", "walrus facts"), memory("m1", "something else"))
    scene.provider.vectors.update({"walrus": (1, 0, 0), "something": (0, 1, 0), "a hypothesis": (1, 0, 0)})
    scene.load(repo)
    scene.provider.received.clear()


# --- HyDE fails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", CHAT_FAILURES)
def test_hyde_that_fails_gives_nothing_but_a_reason(hyde, repo, reason):
    _walrus(hyde, repo)
    hyde.provider.chat = CHAT_FAILURES[reason]

    reply = hyde.ask(repo, "the walrus")

    failed = ("empty", reason) if reason == "no_hypotheses" else ("error", f"provider: {reason}")
    assert (reply.status, reply.reason, reply.text, reply.memories) == (*failed, "", ())
    assert hyde.embeds == []
    assert len(hyde.chats) <= 2  # while an agent waits, at most one retry


@pytest.mark.parametrize("mode", ["block", "append"])
def test_hyde_has_no_sessions_and_nothing_that_is_pinned(hyde, repo, mode):
    """ADR-0047 to the letter: what is found and no more, each time, as text of the one form; else nothing."""
    _walrus(hyde, repo)
    put(repo, memory("m2", "a rule of the repository"))
    hyde.provider.vectors["rule"] = (0, 0, 1)
    hyde.load(repo)

    plain = hyde.ask(repo, "the walrus", mode="plain")
    replies = [hyde.ask(repo, "the walrus", turn, mode=mode) for turn in ("t1", "t2", "t1")]
    hyde.provider.chat = REFUSED
    failed = hyde.ask(repo, "the walrus", mode=mode)

    assert "walrus facts\n" in plain.text
    assert {(reply.text, reply.already_injected) for reply in replies} == {(plain.text, 0)}
    assert {hit.found.found_by for reply in replies for hit in reply.memories} == {"search"}
    assert (failed.status, failed.text, failed.memories) == ("error", "", ())


@pytest.mark.parametrize("mode", ["block", "append"])
def test_auto_that_fails_keeps_what_is_pinned_and_what_was_injected_and_says_so(auto, repo, mode):
    _walrus(auto, repo)
    auto.provider.chat = auto.provider.embeddings = REFUSED
    first = auto.ask(repo, "Whose ships float?", mode=mode)
    second = auto.ask(repo, "Which trains are late?", mode=mode)

    assert (sorted(ids(first)), {hit.found.found_by for hit in first.memories}) == (["m0", "m1"], {"pinned"})
    assert (first.status, "provider: auth" in first.reason) == ("ok", True)
    assert second.text == (first.text if mode == "block" else "")
    assert "provider: auth" in second.reason


@pytest.mark.parametrize("reason", CHAT_FAILURES)
def test_auto_without_hyde_asks_directly_and_says_and_counts_it(auto, repo, reason):
    _walrus(auto, repo)
    auto.provider.chat = CHAT_FAILURES[reason]
    before = auto.client.status().counters["retrieve_fallbacks"]

    reply = auto.ask(repo, "the walrus")

    assert (reply.status, reply.strategy, reply.reason) == ("ok", "direct", f"hyde: {reason}")
    assert reply.indexes == ("lexical", "dense")
    assert ids(reply)[0] == "m0"
    assert auto.embedded == ["the walrus"]
    assert auto.client.status().counters["retrieve_fallbacks"] == before + 1


def test_a_failure_is_not_asked_for_again_at_once_and_the_next_turn_is_normal(hyde, repo):
    _walrus(hyde, repo)
    hyde.provider.chat = REFUSED
    assert hyde.ask(repo, "the walrus", "t1").status == "error"

    again = hyde.ask(repo, "the walrus", "t1")
    asked = len(hyde.chats)
    hyde.provider.chat = None
    other = hyde.ask(repo, "the walrus", "t2")

    assert (again.status, again.cached, asked) == ("error", True, 1)
    assert (other.status, other.strategy, ids(other)[0]) == ("ok", "hyde", "m0")


# --- nobody answers: the time limit ------------------------------------------------------------------


def test_hyde_that_never_answers_is_a_timeout_after_a_limit_that_a_request_may_only_shorten(hyde, repo):
    _walrus(hyde, repo)
    hyde.provider.chat = NEVER

    def limited(limit: dict[str, float]) -> Retrieved:
        with hyde.daemon.client() as client:
            return replace(hyde, client=client).ask(repo, "the walrus", f"t{limit}", **limit)

    with ThreadPoolExecutor(3) as threads:
        replies = list(threads.map(limited, [{"timeout_s": 0.3}, {}, {"timeout_s": 3600.0}]))

    assert [(reply.status, reply.text) for reply in replies] == [("timeout", "")] * 3


@pytest.mark.parametrize(
    ("embeddings", "fallback"),
    [
        (None, ("hyde: timeout", ("lexical", "dense"), ["m0", "m1"])),
        (NEVER, ("provider: timeout", ("lexical",), ["m0"])),
    ],
    ids=["by query", "by words"],
)
def test_auto_whose_hyde_never_answers_falls_back_in_time(auto, repo, embeddings, fallback):
    _walrus(auto, repo)
    auto.provider.chat, auto.provider.embeddings = NEVER, embeddings

    reply = auto.ask(repo, "the walrus", timeout_s=1.5)

    assert (reply.status, reply.strategy) == ("ok", "direct")
    assert (reply.reason, reply.indexes, ids(reply)) == fallback


def test_embeddings_that_are_slow_for_the_query_are_a_timeout_and_then_an_answer(hyde, repo):
    _walrus(hyde, repo)
    written = threading.Event()
    hyde.provider.embeddings = [lambda provider, request: embedded(provider, request, hold=written)]

    late = hyde.ask(repo, "the walrus", "t1", timeout_s=0.1)
    written.set()
    reply = eventually(lambda: _ok(hyde.ask(repo, "the walrus", "t1", timeout_s=0.1)))

    assert late.status == "timeout"
    assert ids(reply)[0] == "m0"
    assert (len(hyde.chats), len(hyde.embeds)) == (1, 1)


def _ok(reply):
    return reply if reply.status == "ok" else None


# --- the query's embedding fails ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 500])
def test_auto_answers_with_words_when_no_query_can_be_embedded(auto, repo, status):
    _walrus(auto, repo)
    auto.provider.embeddings = Answer({"error": {"message": "no"}}, status=status)

    reply = auto.ask(repo, "the walrus")

    assert (reply.status, reply.strategy) == ("ok", "direct")
    assert reply.reason in {"provider: auth", "provider: server", "provider: timeout"}
    assert (reply.indexes, ids(reply)) == (("lexical",), ["m0"])
    # No other vectors are asked for, and a turn has one retry at most.
    assert {tuple(one.inputs) for one in auto.embeds} == {("a hypothesis", "the walrus")}
    assert len(auto.embeds) <= (2 if status == 500 else 1)


# --- builds fail -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason"), [(REFUSED, "auth"), (CLOSE, "unreachable"), (HTML, "bad_reply")]
)
def test_a_first_build_that_fails_is_an_error_and_heals_by_itself(hyde, repo, answer, reason):
    hyde.provider.embeddings = lambda provider, request: (
        embedded(provider, request) if "a hypothesis" in request.inputs else answer
    )
    put(repo, memory("m0", f"walrus {reason}"))

    built = hyde.client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
    broken = hyde.ask(repo, "what")
    seen = hyde.report(repo)
    hyde.provider.embeddings = None

    assert (built.status, reason in built.reason) == ("error", True)
    assert (broken.status, broken.text, reason in broken.reason) == ("error", "", True)
    assert reason in seen.last_error
    assert hyde.daemon.within_minutes(lambda: ids(hyde.ask(repo, "what")) == ["m0"])


# --- odds ---------------------------------------------------------------------------------------------


def test_no_failure_writes_a_line_per_turn_into_the_log(hyde, repo):
    _walrus(hyde, repo)
    hyde.provider.chat = REFUSED
    before = hyde.daemon.log().count("\n")

    for turn in range(5):
        assert hyde.ask(repo, "the walrus", f"t{turn}").status == "error"

    assert hyde.daemon.log().count("\n") == before
