"""What becomes of a classifier model's answers, whatever they look like: files that keep every rule.

End to end: turns go in at the client, memories are read from the disk. The forms that an answer may take
are in tests/capture/test_reply.
"""

from __future__ import annotations

import re

import pytest

from tests.support.daemon import Shell, Stage, contents, on_disk
from tests.support.provider import Answer, completion, proposal, reply

pytestmark = pytest.mark.long

NOW = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def _rebuilds(stage: Stage) -> int:
    return stage.client.status().counters["rebuilds"]


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


# What else is no answer is in tests/models/test_endings and tests/capture/test_reply.
NO_ANSWERS = {
    "refused": (_ending("stop", refusal="I'm sorry, Ann."), "the model refused to answer"),
    "cut": (_ending("length", '[{"content": "Ann'), "the reply was cut at its length limit"),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
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
