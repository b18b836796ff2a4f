"""What the classifier model is told: what was said and what is known, and nothing that a tool was given.

Messages go in at the client, prompts are read from the provider's log. All
shapes of tool markup are in tests/text/test_tool_markup.
"""

from __future__ import annotations

import msgspec
import pytest

from forged_client.protocol import Capture, Message
from tests.data.forms import FORMS, HIDDEN, SAID
from tests.data.memories import memory, put


def _listed(prompt: str) -> list[str]:
    _, _, rest = prompt.partition("EXISTING MEMORIES\n")
    return [line for line in rest.splitlines() if line.startswith("- [")]


@pytest.mark.parametrize("form", FORMS)
def test_tool_content_never_reaches_a_prompt(stage, repo, form):
    """Only what user and assistant said: from our client, and from one that is not ours and cuts nothing."""
    stage.captured(repo, *FORMS[form])
    if form != "private-in-json":
        messages = msgspec.convert(FORMS[form], tuple[Message, ...])
        sent = Capture(workspace=str(repo), session_id="foreign", messages=messages)
        assert stage.client.ask(sent).outcome == "accepted"
        stage.settle()

    assert len(stage.prompts) == 1 + (form != "private-in-json")
    assert all(SAID in prompt for prompt in stage.prompts)
    assert not any(HIDDEN in request.body.decode() for request in stage.chats)


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
