"""Refusals to be remembered and requests to forget: a real daemon, its state, log and model."""

from __future__ import annotations

from pathlib import Path

from forged_client.protocol import ListCaptured
from tests.support.clock import eventually
from tests.support.daemon import Stage, capturing, on_disk
from tests.support.provider import proposal, reply

SECRET = "Quixotia"
REFUSED = f"Please do not store this: I am looking for another job at {SECRET}."
ECHO = f"Understood, I will not keep that you look for a job at {SECRET}."


def answers(stage: Stage, top: Path, session: str = "s") -> tuple[str, ...]:
    return stage.ask(top, "How do the tests run?", mode="append", session_id=session).captured


def places(stage: Stage, *tops: Path) -> list[str]:
    """Names of the files under the state directory, the log and some roots that hold the secret's bytes."""
    state = stage.daemon.home / ".local/state"
    files = [path for top in (state, *tops) for path in top.rglob("*") if path.is_file()]
    return [str(path) for path in (*files, stage.daemon.log_path) if SECRET.encode() in path.read_bytes()]


def said_to_model(stage: Stage) -> list[str]:
    return [prompt for prompt in stage.prompts if SECRET in prompt]


def test_what_is_refused_is_in_no_file_no_log_and_no_request_and_is_answered_once(alone, repo):
    """A model that would keep it never sees it; it comes again live, by a window, and by compaction."""
    alone.provider.chat = reply(proposal(f"The user looks for a job at {SECRET}."))
    for kind in ("turn", "compaction", "session_end", "explicit"):
        assert alone.capture(repo, REFUSED, ECHO, kind=kind).outcome != "rejected"
    alone.capture(repo, REFUSED, ECHO, "And the tests?", f"They pass. Good luck at {SECRET}.")
    alone.settle()

    assert on_disk(repo) == on_disk(alone.daemon.home, "user") == []
    assert said_to_model(alone) == []
    assert answers(alone, repo) == ("not saved, as you asked",)
    assert answers(alone, repo) == ()
    listed = alone.client.ask(ListCaptured(workspace=str(repo))).captured
    assert [(each.text, each.session_id, each.why) for each in listed] == [("", "s", "refusal")]
    alone.daemon.stop()
    assert places(alone, repo) == []


def test_what_is_refused_is_in_no_dead_event_and_waits_in_no_review(alone, repo):
    dead = alone.buried(repo, f"{REFUSED}\n\nWhat about the parser?", ECHO)
    alone.provider.chat = reply(proposal("The parser of the page is slow."))
    alone.captured(repo, f"fix this:\n```\nThe parser of the page\n```\n\n{REFUSED}", ECHO, session="pasted")

    assert dead
    assert SECRET not in str(alone.client.dead("show")) + str(alone.client.review(str(repo)))
    alone.daemon.stop()
    assert places(alone, repo) == []


def test_it_is_answered_once_also_after_a_restart(home, repo):
    with capturing(home) as stage:
        stage.captured(repo, REFUSED, ECHO, kind="session_end")
        stage.daemon.stop()
        stage.daemon.start()
        assert answers(stage, repo) == ("not saved, as you asked",)
        stage.captured(repo, REFUSED, ECHO, kind="compaction")
        assert answers(stage, repo) == ()


def test_a_message_that_refuses_the_one_before_names_what_that_left(rules, repo):
    (kept,) = rules.captured(repo, "Remember that we indent with tabs.", "Noted.", session="two")
    answers(rules, repo, "two")
    talk = ("Remember that we indent with tabs.", "Noted.", "Please don't remember that.", "Fine.")
    rules.captured(repo, *talk, session="two")

    (sentence,) = answers(rules, repo, "two")
    assert f"`forgectl forget {kept.id}` forgets it" in sentence


def test_a_request_to_forget_names_the_memory_and_keeps_nothing(rules, repo):
    (kept,) = rules.captured(repo, "Remember that the staging database is called orion.", "ok")
    answers(rules, repo)
    for number, said in enumerate(
        (
            "Forget that the staging database is called orion.",
            "Please forget what I said about the orion staging database.",
            "delete the memory about the staging database orion",
            "Vergiss, dass die staging database orion heißt.",
            "Olvida que la staging database se llama orion.",
        )
    ):
        session = f"later-{number}"
        rules.captured(repo, said, "ok", session=session)
        (sentence,) = eventually(lambda session=session: answers(rules, repo, session))
        command = f"`forgectl forget {kept.id}` forgets it"
        assert sentence == f'not forgotten yet: "The staging database is called orion."; {command}'
    assert [each.id for each in on_disk(repo)] == [kept.id]


def test_a_request_to_forget_what_no_one_kept_says_so(rules, repo):
    rules.captured(repo, "Remember that the zebra crossing is on Main Street.", "ok")
    rules.captured(repo, "Forget that the zebra is striped and lives in Kenya.", "ok", session="zebra")

    reported = eventually(lambda: answers(rules, repo, "zebra"))
    assert reported == ("no memory here matches what you asked to forget",)


def test_a_sentence_is_not_kept_when_its_memory_was_forgotten_in_the_turn(rules, repo):
    (kept,) = rules.captured(repo, "Remember that the staging database is called orion.", "ok")
    rules.client.forget(str(repo), kept.id)
    rules.captured(repo, "Forget that the staging database is called orion.", "Done.", session="later")

    assert on_disk(repo) == []
