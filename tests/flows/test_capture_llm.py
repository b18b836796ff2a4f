"""What becomes of a classifier model's answers, whatever they look like: files that keep every rule.

End to end: turns go in at the client, memories are read from the disk. The forms that an answer may take
are in tests/capture/test_reply.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.data.secrets import ALNUM, Draw
from tests.support.daemon import Shell, Stage, contents, on_disk
from tests.support.provider import Answer, completion, proposal, reply

pytestmark = pytest.mark.long

NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _rebuilds(stage: Stage) -> int:
    return stage.client.status().counters["rebuilds"]


def _blocked(directory: Path) -> None:
    """Put a file where a directory should be: nobody can list it or write into it, root neither."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.write_text("in the way")


@pytest.mark.parametrize("text", ["[]", '{"memories": []}', "Nothing is worth remembering here.\n\n[]"])
def test_an_answer_of_nothing_writes_nothing_and_is_no_error(stage, repo, text):
    """Nor does it cost a rebuild."""
    stage.load(repo)
    before, built = stage.state, _rebuilds(stage)
    stage.provider.chat = completion(text)

    assert stage.captured(repo, "hello") == []
    after = stage.state
    assert (after.finished - before.finished, after.failures - before.failures) == (1, 0)
    assert (_rebuilds(stage), len(stage.chats), after.last_error) == (built, 1, "")


def _ending(finish: str, content: object = None, **message: object) -> Answer:
    return Answer({"choices": [{"finish_reason": finish, "message": {"content": content, **message}}]})


NO_ANSWERS = {
    "refused": (_ending("stop", refusal="I'm sorry, Ann."), "the model refused to answer"),
    "refused in prose": (_ending("stop", "I'm sorry, Ann, but I can't."), "holds no JSON"),
    "filtered": (_ending("content_filter"), "a filter of the endpoint held the answer back"),
    "empty": (_ending("stop"), "the reply is empty"),
    "a tool": (
        _ending("tool_calls", tool_calls=[{"id": "c"}]),
        "the model called a tool instead of answering",
    ),
    "an unclosed thought": (_ending("stop", "<think>Ann said []"), "did not come to an answer"),
    "cut": (_ending("length", '[{"content": "Ann'), "the reply was cut at its length limit"),
}


@pytest.mark.parametrize(
    "name",
    [
        "refused",
        "empty",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in NO_ANSWERS
            if name not in {"refused", "empty"}
        ),
    ],
)
def test_eight_compactions_that_a_model_does_not_answer_are_failures_in_status_and_wait(alone, repo, name):
    """None of them is lost: they are remembered once the model does what it is asked for."""
    alone.provider.chat, told = NO_ANSWERS[name]
    texts = [f"the harbour is closed on day {number}" for number in range(8)]
    for number, text in enumerate(texts):
        assert alone.capture(repo, text, session=f"s{number}", kind="compaction").outcome == "durable"
    state = alone.until(lambda now: now.failures >= 8 and now.state == "waiting")

    assert (state.state, state.spooled + state.dead, state.finished) == ("waiting", 8, 0)
    assert told in state.reason
    assert told in state.last_error
    assert "Ann" not in state.last_error
    assert told in Shell(alone.daemon.home, alone.daemon.socket, repo).run("status").out

    alone.provider.chat = lambda _, request: reply(
        *(proposal(text) for text in texts if text in request.json["messages"][-1]["content"])
    )
    assert alone.settle(60).dead == 0
    assert contents(on_disk(repo)) == sorted(texts)


def test_of_a_reply_that_is_always_cut_the_whole_memories_are_kept_and_the_event_is_among_the_dead(
    alone, repo
):
    whole = json.dumps(proposal("Kept."))
    alone.provider.chat = _ending("length", f'[{whole}, {{"content": "half')

    assert contents(alone.captured(repo, "hello", kind="compaction")) == ["Kept."]
    (dead,) = alone.client.dead().events
    assert "cut at its length limit; memories of it that were kept: 1" in dead.reason
    assert alone.state.dead == 1
    assert len(alone.chats) == 2

    alone.provider.chat = reply(proposal("Kept."), proposal("And this."))
    alone.client.dead("retry")
    alone.settle()
    assert contents(on_disk(repo)) == ["And this.", "Kept."]


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


def test_what_is_wrong_in_an_answer_costs_only_itself(stage, repo):
    """Unknown scopes and categories, blank contents, links to nowhere, another scope's memory to replace."""
    mine = stage.client.remember(str(repo), "Editing is done in emacs.", scope="user").memory_id
    put(
        repo,
        memory("v3", "Builds run on make.", version=3),
        memory("m1", "Queues need redis."),
        memory("m2", "Tests need docker."),
    )
    stage.load(repo)
    before = stage.state.invalid
    refined = ("m1", "m1", "unknown", "", "../../x")
    edges = [*((each, "refines") for each in refined), ("m2", "causes"), ("m2", "contradicts")]
    stage.provider.chat = reply(
        proposal("Lives on the moon.", scope="moon"),
        proposal("Is a recipe.", category="recipes"),
        proposal("  \n"),
        proposal("Builds run on bazel.", supersedes="v3"),
        proposal("Releases are on Fridays.", supersedes="gone"),
        proposal("Both run nightly.", related=[{"id": at, "relationship": name} for at, name in edges]),
        proposal("Here one edits in vi.", supersedes=mine),
    )

    found = [each for each in stage.captured(repo, "hello") if each.id.startswith("mem_")]
    written = {
        each.content: (each.version, each.supersedes, [(edge.id, edge.relationship) for edge in each.related])
        for each in found
    }
    assert written == {
        "Builds run on bazel.": (4, "v3", []),
        "Releases are on Fridays.": (1, None, []),
        "Both run nightly.": (1, None, [("m1", "refines"), ("m2", "contradicts")]),
        # It would replace the user's in every other repository as well, and no link leaves its root.
        "Here one edits in vi.": (1, None, []),
    }
    assert stage.state.invalid - before == 3


def test_no_secret_reaches_a_file_the_spool_or_the_model(stage, repo):
    """Said by the user, or made up by the model; counted, never shown."""
    draw = Draw("end to end")
    told, made_up = (f"ghp_{draw.of(ALNUM, 36)}" for _ in "ab")
    before = stage.state.redacted
    stage.provider.chat = reply(
        proposal(f"Releases are tagged by the bot, whose login is {made_up}, every Friday at noon."),
        proposal(f"The token is {made_up}."),
    )
    written = stage.captured(repo, f"Use {told} to release, every Friday.", kind="compaction")

    assert [found.content for found in written] == [
        "Releases are tagged by the bot, whose login is [redacted], every Friday at noon."
    ]
    assert stage.state.redacted - before == 3
    assert told not in stage.chats[0].body.decode()
    assert "to release, every Friday." in stage.prompts[0]
    files = [path for top in (stage.daemon.home, repo) for path in top.rglob("*") if path.is_file()]
    held = b"".join([*(path.read_bytes() for path in files), stage.daemon.log_path.read_bytes()])
    assert told.encode() not in held
    assert made_up.encode() not in held


def test_an_endpoint_without_structured_output_is_asked_again_without(stage, repo):
    """What it says about `response_format` is no failure of the event."""

    def plain(provider, request) -> Answer:
        if "response_format" in request.json:
            message = "response_format is not supported by this model"
            return Answer({"error": {"message": message, "param": "response_format"}}, status=400)
        return reply(proposal("Kept."))

    stage.provider.chat = plain

    assert contents(stage.captured(repo, "hello")) == ["Kept."]


@pytest.mark.long
@pytest.mark.parametrize("broken", ["repo", "user", "both"])
def test_a_scope_that_cannot_be_listed_does_not_stop_the_other(stage, repo, broken):
    """The rest of the batch is written, and what could not be is when it can."""
    home = stage.daemon.home / ".forge/memory"
    folders = {"repo": [repo / ".forge/memory"], "user": [home], "both": [repo / ".forge/memory", home]}[
        broken
    ]
    for folder in folders:
        if folder.exists():
            folder.rmdir()
        _blocked(folder)
    stage.provider.chat = reply(proposal("Kept in the repo."), proposal("Kept by the user.", scope="user"))
    stage.load(repo)
    before, built = stage.state.failures, _rebuilds(stage)
    try:
        stage.capture(repo, "hello")
        stage.until(lambda now: now.failures > before)
        if broken == "both":
            assert _rebuilds(stage) == built  # nothing is written, so nothing is rebuilt
        else:
            kept = on_disk(repo) if broken == "user" else on_disk(stage.daemon.home, "user")
            assert len(kept) == 1
        assert "cannot write" in stage.state.last_error
    finally:
        for folder in folders:
            folder.unlink()
    stage.settle()

    assert contents(on_disk(repo)) == ["Kept in the repo."]
    assert contents(on_disk(stage.daemon.home, "user")) == ["Kept by the user."]
    assert len(stage.chats) == 1
