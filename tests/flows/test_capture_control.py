"""A person's hold on capture: pause, bypass, undo, forget, what was given up, and what it may cost.

forgectl is a process of its own, as it is at a shell.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from forged_client.observer import Observer
from tests.support.daemon import Shell, Stage, capturing, contents, on_disk, said
from tests.support.provider import CHAT, proposal, reply

pytestmark = pytest.mark.long


def _shell(stage: Stage, repo: Path) -> Shell:
    return Shell(stage.daemon.home, stage.daemon.socket, repo)


def _another(repo: Path, name: str = "another") -> Path:
    (repo.parent / name / ".git").mkdir(parents=True)
    return repo.parent / name


# --- pause, bypass, undo, forget-------------------------------------------------------------------------


def test_a_paused_repo_captures_and_injects_nothing_until_it_is_resumed(home, repo):
    """Also by a daemon that was started anew; other repos are served."""
    other = _another(repo)
    with capturing(home) as stage:
        shell = _shell(stage, repo)
        stage.captured(repo, "We use make here.")
        assert shell.run("pause").out == f"paused: {repo}\n"
        stage.daemon.stop()
        stage.daemon.start()

        answer = stage.capture(repo, "We use bazel for builds here.")
        assert (answer.outcome, answer.reason) == ("rejected", "paused; `forgectl resume` ends it")
        assert stage.ask(repo, "make").status == "disabled"
        assert stage.capture(other, "We use npm here.").outcome == "accepted"
        assert f"PAUSED in {repo}" in shell.run("status").out
        assert shell.run("resume").out == f"resumed: {repo}\n"
        stage.settle()

        assert contents(stage.captured(repo, "We use cargo for tests here.")) == [
            "We use cargo for tests here.",
            "We use make here.",
        ]
        assert contents(on_disk(other)) == ["We use npm here."]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("option", [(), ("--all",)])
def test_what_is_said_under_a_pause_is_not_brought_along_by_a_later_window(rules, repo, option, restarts):
    """An agent hands over all that was said, again and again."""
    talk = ["We use scons here.", "noted"]
    _shell(rules, repo).run("pause", *option)
    assert rules.capture(repo, *talk, session="s").outcome == "rejected"
    if restarts:
        rules.daemon.stop()
        rules.daemon.start()
    _shell(rules, repo).run("resume", *option)

    talk += ["What next?", "tests"]
    assert rules.captured(repo, *talk, session="s") == []
    again = rules.captured(repo, *talk, "We use cargo for tests here.", "fine", session="s")
    assert contents(again) == ["We use cargo for tests here."]


def test_a_pause_of_everything_holds_what_waits_already(home, repo):
    """What was acknowledged is kept and classified afterwards; nothing new is taken."""
    with capturing(home, classifier_model="m") as stage:
        shell = _shell(stage, repo)
        with stage.hanging():
            stage.capture(repo, "in hand", session="other")
            stage.provider.wait_for(1, path=CHAT)
            assert stage.capture(repo, "before the pause", kind="compaction").outcome == "durable"
            assert shell.run("pause", "--all").out == "paused: everywhere\n"
        paused = stage.until(lambda now: now.finished == 1 and not now.in_hand)
        assert stage.capture(repo, "meanwhile").outcome == "rejected"
        assert stage.ask(repo).status == "disabled"
        assert (paused.state, paused.spooled, len(stage.chats)) == ("paused", 1, 1)

        stage.daemon.stop()
        stage.daemon.start()
        stage.until(lambda now: now.spooled == 1 and now.worker_pid)
        assert stage.state.state == "paused"
        assert shell.run("resume", "--all").code == 0
        stage.until(lambda now: now.finished == 1)
        assert "before the pause" in stage.prompts[1]


def test_a_bypassed_process_neither_captures_nor_is_given_anything(stage, repo, monkeypatch):
    """FORGED_BYPASS, for the blocking client and the observer: the daemon does not even hear of it."""
    before = stage.client.status().counters["requests"]
    monkeypatch.setenv("FORGED_BYPASS", "1")
    taken, given = stage.capture(repo, "hello"), stage.ask(repo)
    observer = Observer(str(repo), "s", address=stage.daemon.socket)
    observer.on_turn_complete(said("hello"))
    assert observer.close(5)
    monkeypatch.delenv("FORGED_BYPASS")

    shell = Shell(stage.daemon.home, stage.daemon.socket, repo, {"FORGED_BYPASS": "1"})
    for words in (("search", "hello"), ("why", "hello"), ("remember", "hello"), ("retrieve", "hello")):
        reported = shell.run(*words)
        assert (reported.out, "FORGED_BYPASS is set" in reported.err) == ("", True)
    assert (taken.status, taken.outcome, given.status, given.text) == ("disabled", "rejected", "disabled", "")
    assert observer.counts == {"disabled": 1}
    assert (stage.client.status().counters["requests"], stage.provider.received) == (before + 1, [])


def test_undo_takes_the_last_batch_back_and_the_next_turn_does_not_bring_it_again(stage, repo):
    talk = ["Migrations run on goose, queues need redis.", "noted"]
    stage.provider.chat = reply(proposal("We write Go."))
    stage.captured(repo, "We write Go.", session="earlier")
    stage.provider.chat = reply(proposal("Migrations run on goose."), proposal("Queues need redis."))
    assert len(stage.captured(repo, *talk)) == 3

    done = _shell(stage, repo).run("undo", "--yes")
    assert (done.code, contents(on_disk(repo))) == (0, ["We write Go."])
    assert done.out.startswith("undone: mem_")
    assert contents(stage.captured(repo, *talk, "go on")) == ["We write Go."]

    stage.provider.chat = reply(proposal("Migrations run on goose."), proposal("We release on Fridays."))
    assert contents(stage.captured(repo, *talk, "and releases?")) == [
        "We release on Fridays.",
        "We write Go.",
    ]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", ["undone", "forgotten", "erased"])
def test_an_old_window_of_a_new_session_does_not_bring_back_what_was_taken_away(rules, repo, how, restarts):
    """As where an agent takes up or forks a conversation from before, and goes on with it."""
    talk = ["We use scons here.", "noted", "thanks", "you are welcome"]
    (kept,) = rules.captured(repo, *talk, session="before")
    if how == "undone":
        rules.client.undo(str(repo))
    else:
        rules.client.forget(str(repo), kept.id, erase_now=how == "erased")
    if restarts:
        rules.daemon.stop()
        rules.daemon.start()

    for session, window in (("fork", talk), ("again", talk[:2]), ("goes on", [*talk, "what next?", "tests"])):
        assert rules.captured(repo, *window, session=session) == []
        assert rules.captured(repo, *window, "done", "fine", session=session, kind="compaction") == []
    again = rules.captured(repo, *talk, "Remember that we use scons here.", "I do", session="fork")
    assert contents(again) == ["We use scons here."]


def test_undo_takes_back_what_was_asked_for_in_a_conversation_and_leaves_what_a_person_wrote(rules, repo):
    rules.client.remember(str(repo), "Written by hand.", category="patterns")
    assert len(rules.captured(repo, "We use meson here.", session="asked", kind="explicit")) == 2
    (gone,) = rules.client.undo(str(repo)).memories

    assert (gone.content, contents(on_disk(repo))) == ("We use meson here.", ["Written by hand."])


# --- what is told of it -------------------------------------------------------------------------------

ASKED = "remember that our API speaks REST on port 8080"
RULE = "We always run the tests with nose2 here."


def _reported(stage: Stage, top: Path, session: str) -> tuple[str, ...]:
    return stage.ask(top, "what now", mode="append", session_id=session).captured


def test_what_was_asked_for_is_kept_or_refused_aloud_and_is_in_captured(home, repo):
    """Also after a restart before anybody was told, and without a secret anywhere."""
    key = "sk-proj-" + "a1B2c3D4" * 6
    with capturing(home) as stage:
        shell = _shell(stage, repo)
        stage.captured(
            repo, "Remember this, please.", "ok", RULE, "ok", ASKED, agent="claude", kind="session_end"
        )
        stage.captured(repo, f"my key is {key}", session="keys", agent="codex", kind="explicit")
        stage.daemon.stop()
        stage.daemon.start()

        sentences = _reported(stage, repo, "s")
        assert [each.split(":")[0] for each in sentences].count("not saved") == 1
        assert any(each.startswith('not saved: "Remember this, please."') for each in sentences)
        assert any("port 8080" in each and "undo: " in each for each in sentences)
        assert _reported(stage, repo, "s") == ()
        (secret,) = _reported(stage, repo, "keys")
        assert secret.startswith("not saved: ")

        found = shell.run("captured", "--json").json["captured"]
        (kept,) = [each for each in found if "8080" in each["text"]]
        assert (kept["why"], kept["agent"], kept["session_id"], kept["kind"]) == (
            "request",
            "claude",
            "s",
            "session_end",
        )
        assert (kept["classifier"], kept["is_there"]) == ("builtin:rules", True)
        assert {each["why"] for each in found if "nose2" in each["text"]} == {"rule"}
        (refused,) = [each for each in found if each["session_id"] == "keys"]
        assert (refused["agent"], refused["reason"] != "", refused["memory_id"]) == ("codex", True, "")
        assert key not in str(found)
        assert key not in str(sentences) + secret

        assert shell.run("captured", "--session", "keys").out.startswith("refused  ")
        assert shell.run("captured", "--today", "--session", "s").out.count("kept  ") == 2
        assert "nothing matches: no statement" in shell.run("captured", "--session", "nobody").err


# --- what it costs ------------------------------------------------------------------------------------


def test_tokens_are_counted_and_a_spent_day_stops_calls_and_is_reported(home, repo):
    """What was promised is kept; a person sees why it waits."""
    with capturing(home, classifier_model="m", daily_token_limit=6000) as stage:
        shell = _shell(stage, repo)
        stage.provider.chat = reply(usage={"prompt_tokens": 4321, "completion_tokens": 1111})
        stage.captured(repo, "hello")
        assert stage.capture(repo, "hello again", kind="compaction").outcome == "durable"
        waiting = stage.until(lambda now: "daily_token_limit" in now.reason)
        usage = shell.run("usage")
        stage.daemon.stop()
        stage.daemon.start()  # the count outlives a restart
        again = stage.until(lambda now: "daily_token_limit" in now.reason)

        assert (waiting.state, waiting.spooled) == ("waiting", 1)
        assert (waiting.tokens_today, waiting.token_limit) == (5432, 6000)
        assert "capture  " in usage.out
        assert "4,321" in usage.out
        assert "today 5,432 of 6,000 tokens" in usage.out
        assert (again.tokens_today, len(stage.chats)) == (5432, 1)
        assert "capture waits: 5,432 of today's 6,000 tokens are used" in shell.run("status").out
