"""Capture for agents: every turn is classified, and a fact becomes one memory.

A scripted model or the built-in rules classify. How events wait is in test_capture_queue, what people decide
in test_capture_control, and what a model may answer in tests/capture/test_reply. No content of a tool is in a
prompt: test_marked_text, and tests/daemon/handlers/test_wire_types.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.forms import HIDDEN
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Shell, Stage, capturing, contents, on_disk
from tests.support.provider import CHAT, Answer, completion, poisoned, proposal, reply

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


# --- what a classifier is told ------------------------------------------------------------------------


def _listed(prompt: str) -> list[str]:
    _, _, rest = prompt.partition("EXISTING MEMORIES\n")
    return [line for line in rest.splitlines() if line.startswith("- [")]


def test_what_is_empty_without_tool_content_is_no_turn_at_all(stage, repo):
    """Nothing is left to classify, so nobody is asked."""
    answer = stage.capture(repo, f"<tool>{HIDDEN}</tool>", session="s")

    assert (answer.outcome, answer.reason) == ("rejected", "nothing_to_capture")
    assert stage.provider.received == []


def test_the_prompt_lists_the_heads_of_both_scopes(stage, repo):
    """Id, scope and category, first line; with nothing to list there is no such part."""
    stage.captured(repo, "hello")
    first, second = (
        stage.client.remember(str(repo), text, scope=scope, category="patterns")
        for text, scope in (("In the repo.\nA second line.", "repo"), ("Of the user.", "user"))
    )
    stage.captured(repo, "hello again")

    without, with_both = stage.prompts
    assert "EXISTING MEMORIES" not in without
    assert sorted(_listed(with_both)) == sorted(
        [
            f"- [{first.memory_id}] (repo/patterns) In the repo.",
            f"- [{second.memory_id}] (user/patterns) Of the user.",
        ]
    )


def test_the_list_has_an_end_and_no_superseded_memory(stage, repo):
    """2,000 memories, of which half are older versions; the nearest comes first."""
    for at in range(1000):
        text = f"Fact {at} about subject{at}: {'many words ' * 30}"
        put(repo, memory(f"a{at}", text), memory(f"b{at}", text, supersedes=f"a{at}", version=2))
    stage.load(repo)
    stage.captured(repo, "What about subject777, then?")

    listed = _listed(stage.prompts[0])
    assert 8 < len(listed) <= 60  # with lines as long as they may be
    assert "[b777]" in listed[0]
    assert not any("[a" in line for line in listed)
    assert len(stage.chats[0].body) < 24_000


# --- at once ------------------------------------------------------------------------------------------

# The batch of turns would wait for a minute.
SOONER_S, MODEL_S = 40.0, 0.5
SAID = {
    "explicit": (
        "Remember that our releases go out on Tuesdays.",
        "when do our releases go out?",
        "Tuesdays",
    ),
    "correction": ("No, wrong. We always deploy with ansible here.", "how do we deploy?", "ansible"),
}


@pytest.fixture(params=["rules", "model"])
def batching(request, home) -> Iterator[tuple[Stage, float]]:
    model = {"classifier_model": "m"} if request.param == "model" else {}
    env = {"FORGED_CAPTURE__BATCH_TURNS": "4"}
    with capturing(home, env=env, **model) as stage:
        yield stage, MODEL_S if model else 0.0


@pytest.mark.parametrize("kind", SAID)
def test_another_session_is_given_it_before_the_batch_is_full(batching, repo: Path, kind: str):
    stage, model_s = batching
    said, asked, word = SAID[kind]
    stage.load(repo)
    stage.provider.chat = replace(reply(proposal(said)), delay_s=model_s)
    with stage.daemon.client() as other:
        stage.capture(repo, said, "I see.", session="one")
        message = [{"role": "user", "content": asked}]
        eventually(lambda: word in other.retrieve(str(repo), message, session_id="other").text, SOONER_S)

    assert bool(stage.chats) == bool(model_s)


# --- what a model answers -----------------------------------------------------------------------------

NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _rebuilds(stage: Stage) -> int:
    return stage.client.status().counters["rebuilds"]


@pytest.mark.long
def test_an_answer_of_nothing_writes_nothing_and_is_no_error(stage, repo):
    """Nor does it cost a rebuild."""
    stage.load(repo)
    before, built = stage.state, _rebuilds(stage)
    stage.provider.chat = completion("[]")

    assert stage.captured(repo, "hello") == []
    after = stage.state
    assert (after.finished - before.finished, after.failures - before.failures) == (1, 0)
    assert (_rebuilds(stage), len(stage.chats), after.last_error) == (built, 1, "")


def _ending(finish: str, content: object = None, **message: object) -> Answer:
    return Answer({"choices": [{"finish_reason": finish, "message": {"content": content, **message}}]})


# What else is no answer is in tests/models/test_finish_reasons and tests/capture/test_reply.
NO_ANSWERS = {
    "refused": (_ending("stop", refusal="I'm sorry, Ann."), "the model refused to answer"),
    "cut": (_ending("length", '[{"content": "Ann'), "the reply was cut at its length limit"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", NO_ANSWERS)
def test_eight_compactions_that_a_model_does_not_answer_are_failures_in_status_and_wait(alone, repo, name):
    """None of them is lost: they are remembered once the model does what it is asked for."""
    alone.provider.chat, reported = NO_ANSWERS[name]
    texts = [f"the harbour is closed on day {number}" for number in range(8)]
    for number, text in enumerate(texts):
        assert alone.capture(repo, text, session=f"s{number}", kind="compaction").outcome == "durable"
    state = alone.until(lambda now: now.failures >= 8 and now.state == "waiting")

    assert (state.state, state.spooled + state.dead, state.finished) == ("waiting", 8, 0)
    assert reported in state.reason
    assert reported in state.last_error
    assert "Ann" not in state.last_error
    assert reported in Shell(alone.daemon.home, alone.daemon.socket, repo).run("status").out

    alone.provider.chat = lambda _, request: reply(
        *(proposal(text) for text in texts if text in request.json["messages"][-1]["content"])
    )
    assert alone.settle(60).dead == 0
    assert contents(on_disk(repo)) == sorted(texts)


@pytest.mark.long
def test_a_file_says_whence_it_comes(stage, repo):
    """New id, created = updated = now in UTC, session and trigger; the folder by scope."""
    stage.provider.chat = reply(
        proposal("Of the repo.", category="corrections"), proposal("Of the user.", "user", "user-facts")
    )
    for kind, trigger in [("compaction", "compaction"), ("turn", "cadence")]:
        place = repo if kind == "turn" else repo.parent
        stage.captured(place, "hello", session=f"session-{kind}", kind=kind)
        (found,) = on_disk(place)
        assert re.fullmatch(r"mem_[A-Za-z0-9_-]{1,64}", found.id)
        assert NOW.fullmatch(found.created_at)
        assert (found.updated_at, found.version) == (found.created_at, 1)
        whence = (found.session_id, found.trigger, found.category)
        assert whence == (f"session-{kind}", trigger, "corrections")
        assert f"\ntrigger: {trigger}\n" in (place / f".forge/memory/{found.id}.md").read_text()

    (of_user,) = on_disk(stage.daemon.home, "user")
    assert (of_user.content, of_user.scope, of_user.category) == ("Of the user.", "user", "user-facts")
