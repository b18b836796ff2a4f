"""Capture as agents meet it: every turn is classified, a fact becomes one memory, and our own words none.

A scripted model or the built-in rules classify. What a classifier is told and may answer is in
test_capture_prompt and test_capture_llm, how events wait in test_capture_queue, and what people decide in
test_capture_control.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Stage, capturing, contents, on_disk
from tests.support.provider import CHAT, Answer, poisoned, proposal, reply

ERRORS_AS = "I always use errors.As for error checks in Go."


# --- every turn ---------------------------------------------------------------------------------------


def test_every_completed_turn_is_classified_and_every_message_once(stage, repo):
    """The window comes whole each time; a model is told what is new of it."""
    talk: list[str] = []
    for turn in range(3):
        talk += [f"question {turn}", f"answer {turn}"]
        stage.captured(repo, *talk)

    assert len(stage.prompts) == 3
    for turn, prompt in enumerate(stage.prompts):
        assert [f"question {at}" in prompt for at in range(3)] == [at == turn for at in range(3)]


@pytest.mark.parametrize(("kind", "trigger"), [("compaction", "compaction"), ("session_end", "cadence")])
def test_a_compaction_is_classified_whatever_the_state_of_the_turn(stage, repo, kind, trigger):
    """While a turn is in hand and another waits; its own window is not lost in theirs."""
    with stage.hanging(proposal("Builds run on bazel.")):
        stage.capture(repo, "a turn in hand")
        stage.provider.wait_for(1, path=CHAT)
        stage.capture(repo, "another window")
        assert stage.capture(repo, f"the {kind}", kind=kind).outcome == "durable"
        stage.provider.chat = [reply(), reply(proposal("Tests need docker."))]
    stage.settle()

    assert [f"the {kind}" in prompt for prompt in stage.prompts] == [False, False, True]
    assert {(found.content, found.trigger) for found in on_disk(repo)} == {
        ("Builds run on bazel.", "cadence"),
        ("Tests need docker.", trigger),
    }


def test_the_next_event_knows_what_the_last_one_left(rules, repo):
    """Both wait in the queue; the second statement replaces the first, which was on disk for milliseconds."""
    rules.capture(repo, "We use make for all builds here.", session="a", kind="compaction")
    rules.capture(repo, "We use bazel instead of make for all builds here.", session="b", kind="compaction")
    rules.settle()

    old, new = on_disk(repo)
    assert (new.version, new.supersedes) == (2, old.id)


# --- what was captured is found -----------------------------------------------------------------------


def test_the_first_capture_makes_its_folders_and_another_agent_finds_the_memory(home, repo):
    """HOME is empty, nothing is configured, nobody says when to rebuild."""
    with capturing(home) as stage:
        assert not (repo / ".forge").exists()
        assert not (home / ".forge").exists()
        (written,) = stage.captured(repo, "We always check errors with errors.As here.")
        stage.captured(repo, ERRORS_AS)
        with stage.daemon.client() as other:
            asked = [{"role": "user", "content": "errors.As or a cast?"}]
            eventually(lambda: written.content in other.retrieve(str(repo), asked, session_id="other").text)

        assert contents(on_disk(home, "user")) == [ERRORS_AS]
        assert stage.state.classifier == "builtin:rules"


def test_a_rebuild_that_hangs_holds_up_no_capture(home, repo):
    """The embeddings endpoint gives no answer; the next turn is classified and written."""
    with capturing(home, classifier_model="m", embedding_model="m") as stage:
        never = threading.Event()
        stage.load(repo)
        stage.provider.embeddings = poisoned("bazel", Answer(hold=never))
        try:
            for fact in ("Builds run on bazel.", "Tests need docker."):
                stage.provider.chat = reply(proposal(fact))
                stage.captured(repo, "hello", session=fact)
            assert contents(on_disk(repo)) == ["Builds run on bazel.", "Tests need docker."]
            hanging = [r for r in stage.embeds if b"bazel" in r.body and r.answered_at is None]
            assert hanging
        finally:
            never.set()


# --- nothing twice ------------------------------------------------------------------------------------


def test_a_fact_that_ten_sessions_tell_is_one_memory(stage, rules, repo):
    """By a model, which says it of the repo, and by the rules, by which it is the user's."""
    stage.provider.chat = reply(proposal("Builds run on bazel."))
    for session in range(10):
        stage.capture(repo, "Builds run on bazel.", session=f"s{session}")
        rules.capture(repo, f"Hello {session}.\n\n{ERRORS_AS}", session=f"s{session}")
    stage.settle()
    rules.settle()

    assert (contents(on_disk(repo)), len(stage.chats)) == (["Builds run on bazel."], 10)
    assert contents(on_disk(rules.daemon.home, "user")) == [ERRORS_AS]


# --- our own words (echo) -----------------------------------------------------------------------------

MEMORY = (
    "Walruses live on ice.\n\nWe always deploy with ansible here, not WORDS-INJECTED.\n\nSo much for that."
)


def _injected(stage: Stage, repo: Path) -> str:
    put(repo, memory("m1", MEMORY))
    stage.load(repo)
    injection = stage.ask(repo, "where do walruses live?", session_id="s").text
    assert "WORDS-INJECTED" in injection
    return injection


def test_an_injection_that_comes_back_never_reaches_the_model(stage, repo):
    """Between its markers, or as plain paragraphs; what stands around it does."""
    injection = _injected(stage, repo)
    before = stage.client.status().counters["echoes_removed"]
    stage.captured(repo, f"{injection}\n\nWhat about seals?", f"You told me:\n\n{MEMORY}\n\nSeals swim.")

    (prompt,) = stage.prompts
    said_now, _, listed = prompt.partition("EXISTING MEMORIES")
    assert "What about seals?" in said_now
    assert "Seals swim." in said_now
    assert "WORDS-INJECTED" not in prompt
    assert "Walruses live on ice." not in said_now
    assert "Walruses live on ice." in listed
    assert stage.client.status().counters["echoes_removed"] - before == 2


@pytest.mark.parametrize("form", ["with its markers", "as plain paragraphs"])
def test_an_injection_that_comes_back_is_not_captured_again_by_the_rules(rules, repo, form):
    """The file is gone by hand meanwhile, so that nothing else would stop it."""
    injection = _injected(rules, repo)
    (repo / ".forge/memory/m1.md").unlink()
    rules.load(repo)

    assert rules.captured(repo, injection if form == "with its markers" else MEMORY, "noted") == []
    assert len(rules.captured(repo, MEMORY, session="of somebody else")) == 1


# --- who may be asked ---------------------------------------------------------------------------------


def test_an_address_and_a_key_alone_send_nothing(rules, repo):
    """Turns, compactions and retrieves; the classifier is the built-in one."""
    rules.captured(repo, "We always deploy with ansible here.")
    rules.captured(repo, "hello", kind="compaction")
    rules.ask(repo, "how do we deploy?")

    assert contents(on_disk(repo)) == ["We always deploy with ansible here."]
    assert (rules.state.classifier, rules.provider.received) == ("builtin:rules", [])
