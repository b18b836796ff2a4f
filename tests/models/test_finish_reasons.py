"""Finish reasons of chat replies in any provider's words, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forged.errors import ANSWERED, ProviderError
from tests.models.calls import SCHEMA, chat
from tests.support.provider import Answer, ScriptedProvider

NOTE = "Tabs are used."


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def ended(finish: object, content: object = NOTE, **message: object) -> Answer:
    """A reply whose choice names its end so."""
    choice = {"index": 0, "finish_reason": finish, "message": {"content": content, **message}}
    return Answer({"choices": [choice]})


CALL = [{"id": "c1", "type": "function", "function": {"name": "remember", "arguments": "{}"}}]
REFUSAL_PART = [{"type": "refusal", "refusal": "I can't."}]
ENDS = {
    "": [
        "stop",
        "STOP",
        "eos",
        "end_turn",
        "stop_sequence",
        "COMPLETE",
        "FINISH_REASON_UNSPECIFIED",
        None,
        7,
    ],
    "cut": [
        "length",
        "max_tokens",
        "MAX_TOKENS",
        "model_length",
        "model_context_window_exceeded",
        "ERROR_LIMIT",
    ],
    "filtered": [
        "content_filter",
        "SAFETY",
        "content_filter: PROHIBITED_CONTENT",
        "sensitive",
        "ERROR_TOXIC",
    ],
    "refused": ["refusal"],
    "server": ["error", "abort", "insufficient_system_resource", "network_error"],
}


@pytest.mark.parametrize(
    ("failure", "finish"), [(failure, each) for failure, words in ENDS.items() for each in words]
)
def test_the_end_of_a_reply_is_known_in_any_providers_words(provider, failure, finish):
    provider.chat = ended(finish)

    found = chat(provider)

    assert (found.failure, found.text) == (failure, NOTE)
    assert found.whole == (failure in ("", "refused"))
    assert bool(found.message) == bool(failure)


NO_ANSWER = {
    "nothing": (ended("stop", ""), "empty", "the reply is empty"),
    "null": (ended("stop", None), "empty", "the reply is empty"),
    "blanks": (ended("stop", " \n"), "empty", "the reply is empty"),
    "a call of a tool": (ended("tool_calls", None, tool_calls=CALL), "empty", "called a tool"),
    "a call of old": (ended("function_call", None, function_call=CALL[0]), "empty", "called a tool"),
    "a thought that never ended": (ended("stop", "<think>hm"), "empty", "used its whole reply for reasoning"),
    "a thought and no answer": (
        ended("stop", "<think>hm</think>"),
        "empty",
        "used its whole reply for reasoning",
    ),
    "a thought that was cut": (ended("length", "<think>hm"), "cut", "before an answer came"),
    "a thought apart that was cut": (
        ended("length", None, reasoning_content=NOTE),
        "cut",
        "before an answer",
    ),
    "a refusal": (ended("stop", None, refusal="I'm sorry."), "refused", "refused to answer"),
    "a refusal as a part": (ended("stop", REFUSAL_PART), "refused", "refused to answer"),
    "no message behind a filter": (
        Answer({"choices": [{"finish_reason": "content_filter"}]}),
        "filtered",
        "blocked the answer",
    ),
}


@pytest.mark.parametrize(("answer", "failure", "message"), NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_a_reply_without_an_answer_has_its_word_and_its_sentence(provider, answer, failure, message):
    provider.chat = answer

    found = chat(provider)

    assert (found.failure, found.text) == (failure, "")
    assert message in found.message
    assert found.message.startswith(f"{provider.base_url}/chat/completions: ")
    assert (str(found.error()), found.error().reason) == (found.message, failure)
    assert failure in ANSWERED


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation", "DataInspectionFailed"])
def test_a_prompt_that_a_filter_refuses_is_filtered_and_not_asked_about_again(provider, code):
    provider.chat = Answer({"error": {"message": "The response was filtered.", "code": code}}, status=400)

    with pytest.raises(ProviderError, match="The response was filtered") as caught:
        chat(provider, schema=SCHEMA)

    assert (caught.value.reason, caught.value.status) == ("filtered", 400)
    assert len(provider.requests()) == 1


def test_the_words_of_a_refusal_are_not_reported(provider):
    provider.chat = ended("stop", None, refusal="I will not keep the walrus.")

    assert "walrus" not in chat(provider).message
