"""The classifier over a real HTTP provider: what is sent, when it is asked again, and what it costs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence

import pytest

from forged.capture.llm import SCHEMA, SYSTEM, LlmClassifier, user_prompt
from forged.capture.values import CallFailed, Classified, Classifier, KnownMemory, Usage
from forged.conversation import Utterance
from forged.errors import ANSWERED
from forged.models import EgressGuard
from forged.models.openai_compatible import OpenAICompatibleChat
from forged.state import Event
from forged.text.tokens import estimate
from tests.support.clock import PATIENCE_S
from tests.support.provider import (
    CHAT,
    HTML,
    RESET,
    Answer,
    Behaviour,
    Request,
    ScriptedProvider,
    completion,
)

KEY = "sk-verysecret-0123456789"
WINDOW = (Utterance("user", "always use tabs"), Utterance("assistant", "done"))
HEADS = (KnownMemory("mem_1", "user", "coding-preferences", "Spaces are used."),)
PROMPT_TOKENS = estimate(SYSTEM, user_prompt(WINDOW, ()))
A = {"content": "Tabs are used.", "scope": "user", "category": "coding-preferences"}
B = {"content": "Migrations run with goose.", "scope": "repo", "category": "patterns"}
(EXAMPLE,) = json.loads(SYSTEM.partition("Example:")[2])
LENGTH = {"error": {"message": "maximum context length is 8192 tokens", "code": "context_length_exceeded"}}


@pytest.fixture
def provider():
    with ScriptedProvider(chat_lines=["[]"]) as provider:
        yield provider


def classify(
    provider: ScriptedProvider,
    window: Sequence[Utterance] = WINDOW,
    heads: Sequence[KnownMemory] = (),
    *,
    within: float = PATIENCE_S,
    attempts: int = 2,
    goes_on: bool = False,
) -> Classified:
    async def use() -> Classified:
        model = OpenAICompatibleChat(provider.base_url, "m", KEY, retries=0, egress=EgressGuard())
        classifier: Classifier = LlmClassifier(model, backoff_s=0.01)
        try:
            event = Event(window=tuple(window), goes_on=goes_on)
            return await classifier.classify(
                event, heads, deadline=time.monotonic() + within, attempts=attempts
            )
        finally:
            await model.aclose()

    return asyncio.run(use())


def failed(provider: ScriptedProvider, window: Sequence[Utterance] = WINDOW, **options) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        classify(provider, window, **options)
    return caught.value


def answering(*elements: object, **usage: int) -> Answer:
    return Answer({**completion(json.dumps({"memories": elements})).json, "usage": usage})


def contents(classified: Classified) -> list[str]:
    return [proposal.content for proposal in classified.proposals]


def said(request: Request) -> str:
    """The user prompt of a request."""
    return request.json["messages"][1]["content"]


# --- one call ---


def test_one_call_sends_the_prompt_the_window_the_list_and_the_schema(provider):
    classify(provider, heads=HEADS)

    (request,) = provider.requests(CHAT)
    assert request.json["messages"][0] == {"role": "system", "content": SYSTEM}
    assert "user: always use tabs\n---\nassistant: done" in said(request)
    assert "- [mem_1] (user/coding-preferences) Spaces are used." in said(request)
    assert request.json["response_format"]["json_schema"]["schema"] == SCHEMA


def test_an_empty_window_needs_no_call(provider):
    assert classify(provider, window=()) == Classified()
    assert provider.requests() == []


BROKEN = f'[{json.dumps(A)}, {{"content": oops}}, 7, {json.dumps(B)},]'
ANSWERS: dict[str, tuple[Answer, list[str], int]] = {
    "nothing, in prose": (completion("Nothing worth remembering here: []"), [], 0),
    "one bad element in fenced prose": (
        completion(f"<think>[] or so?</think>Here it is: ```json {BROKEN} ``` Bye [1]."),
        [A["content"], B["content"]],
        1,
    ),
    # Seen from a model of half a billion parameters: it came back, and nobody had said it.
    "the example of the prompt": (answering(EXAMPLE, A), [A["content"]], 1),
}


@pytest.mark.parametrize(("answer", "kept", "malformed"), ANSWERS.values(), ids=ANSWERS.keys())
def test_of_an_answer_what_is_no_memory_is_dropped_and_is_no_error(provider, answer, kept, malformed):
    provider.chat = answer

    found = classify(provider)

    assert (contents(found), found.malformed, found.usage.calls) == (kept, malformed, 1)


def ending(finish: str, content: object = None, **message: object) -> Answer:
    choice = {"finish_reason": finish, "message": {"content": content, **message}}
    return Answer({"choices": [choice], "usage": {"prompt_tokens": 900, "completion_tokens": 70}})


NO_ANSWERS: dict[str, tuple[Answer, str, str]] = {
    "a refusal": (ending("stop", refusal="I'm sorry, Ann."), "refused", "refused to answer"),
    "a refusal by its end": (ending("refusal", "I'm sorry, Ann."), "refused", "refused to answer"),
    "a refusal in prose": (ending("stop", "I'm sorry, Ann, I can't."), "unreadable", "contains no JSON"),
    "prose": (ending("stop", "Nothing worth remembering, Ann."), "unreadable", "contains no JSON"),
    "prose with brackets": (ending("stop", "I cannot help with [that], Ann."), "unreadable", "no JSON"),
    "half a wrapper": (ending("stop", '{"a":'), "unreadable", "contains no JSON"),
    "no memories": (ending("stop", '["Ann", "Bob"]'), "unreadable", "2 elements, none of them a memory"),
    "a filter": (ending("content_filter"), "filtered", "blocked the answer"),
    "a filter in mid-answer": (
        ending("content_filter", f"[{json.dumps(A)}, "),
        "filtered",
        "blocked the answer",
    ),
    "nothing": (ending("stop", ""), "empty", "is empty"),
    "null": (ending("stop"), "empty", "is empty"),
    "a call of a tool": (ending("tool_calls", tool_calls=[{"id": "Ann"}]), "empty", "called a tool"),
    "a thought that never ended": (
        ending("stop", "<think>Ann said []"),
        "empty",
        "used its whole reply for reasoning",
    ),
}


@pytest.mark.parametrize(("answer", "reason", "reported"), NO_ANSWERS.values(), ids=NO_ANSWERS.keys())
def test_a_reply_that_does_not_say_what_to_keep_is_a_failure_with_its_reason(
    provider, answer, reason, reported
):
    """It is asked about once, costs what the endpoint counted, and is not quoted."""
    provider.chat = answer

    error = failed(provider)

    assert (error.reason, error.usage) == (reason, Usage(1, 900, 70))
    assert reported in str(error)
    assert "Ann" not in str(error)
    assert reason in ANSWERED


CUT = ending("length", f'[{json.dumps(A)}, {{"content": "Migra')


def test_a_reply_that_was_cut_is_asked_for_once_more(provider):
    provider.chat = [CUT, answering(A, B, prompt_tokens=900, completion_tokens=90)]

    found = classify(provider)

    assert (contents(found), found.cut) == ([A["content"], B["content"]], "")
    assert found.usage == Usage(2, 1800, 160)


def test_of_a_reply_that_was_cut_twice_the_whole_memories_are_kept_and_it_is_said(provider):
    provider.chat = CUT

    found = classify(provider)

    assert contents(found) == [A["content"]]
    assert found.cut.endswith("the reply was cut at its length limit")
    assert (found.usage, len(provider.requests())) == (Usage(2, 1800, 140), 2)


@pytest.mark.parametrize(
    "text", ["", '[{"content": "Migra', f"Hm, [{json.dumps(A)}] or", f"<think>[{json.dumps(A)}]"]
)
def test_a_cut_reply_without_a_whole_memory_or_that_may_be_a_thought_is_a_failure(provider, text):
    provider.chat = ending("length", text)

    error = failed(provider)

    assert (error.reason, error.usage.calls) == ("cut", 2)


# --- asking again ---


PASSING: dict[str, Answer] = {
    "500": Answer(status=500),
    "503": Answer(status=503),
    "408": Answer(status=408),
    "reset": RESET,
    "429 with a wait": Answer(status=429, headers={"Retry-After": "0.01"}),
    "error inside a 200": Answer({"error": {"message": "upstream failed", "code": 502}}),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
def test_what_may_pass_is_tried_once_more_if_that_is_allowed(provider, fault):
    provider.chat = [fault, answering(A)]
    found = classify(provider)

    assert contents(found) == ["Tabs are used."]
    assert found.usage.calls == len(provider.requests()) == 2

    provider.chat = fault

    assert failed(provider, attempts=1).usage.calls == 1
    assert len(provider.requests()) == 3


def test_a_server_that_answers_500_to_a_schema_is_asked_without_from_then_on(provider):
    def plain_only(_: ScriptedProvider, request: Request) -> Answer:
        return Answer(status=500) if "response_format" in request.json else answering(A)

    async def twice() -> None:
        model = OpenAICompatibleChat(provider.base_url, "m", retries=0, egress=EgressGuard())
        classifier = LlmClassifier(model, backoff_s=0.01)
        for _ in range(2):
            found = await classifier.classify(
                Event(window=WINDOW), (), deadline=time.monotonic() + PATIENCE_S, attempts=2
            )
            assert contents(found) == ["Tabs are used."]
        await model.aclose()

    provider.chat = plain_only
    asyncio.run(twice())

    assert ["response_format" in request.json for request in provider.requests()] == [True, False, False]


FOR_LONG = {"Retry-After": "100"}
# What comes back, the reason, the wait that was asked for, and the tokens: who is turned away at the door
# has spent none.
HOPELESS: dict[str, tuple[Answer, str, float | None, int]] = {
    "401": (Answer(status=401), "auth", None, 0),
    "403": (Answer(status=403), "auth", None, 0),
    "404": (Answer(status=404), "bad_reply", None, PROMPT_TOKENS),
    "HTML": (HTML, "bad_reply", None, PROMPT_TOKENS),
    "429 without a wait": (Answer(status=429), "rate_limited", None, 0),
    "429 for longer than there is time": (Answer(status=429, headers=FOR_LONG), "rate_limited", 100.0, 0),
    "503 for longer than there is time": (
        Answer(status=503, headers=FOR_LONG),
        "server",
        100.0,
        PROMPT_TOKENS,
    ),
}


@pytest.mark.parametrize("name", HOPELESS)
def test_what_will_not_pass_is_not_tried_again(provider, name):
    provider.chat, reason, retry_after_s, tokens = HOPELESS[name]

    error = failed(provider)

    assert (error.reason, error.retry_after_s) == (reason, retry_after_s)
    assert error.status == HOPELESS[name][0].status
    assert error.usage == Usage(calls=1, prompt_tokens=tokens)
    assert len(provider.requests()) == 1
    assert KEY not in str(error)


def test_a_call_that_never_answers_ends_at_the_deadline(provider):
    provider.chat = Answer(json={}, delay_s=25)

    assert failed(provider, within=0.3).reason == "timeout"
    assert len(provider.requests()) == 1
    provider.wait_until(lambda: provider.received[0].closed_by_client)


def test_a_passed_deadline_makes_no_call_and_costs_nothing(provider):
    error = failed(provider, within=-1.0)

    assert (error.reason, error.usage) == ("timeout", Usage())
    assert provider.requests() == []


# --- a window that is too large ---


def at_most_characters(limit: int) -> Behaviour:
    def behave(_: ScriptedProvider, request: Request) -> Answer:
        return answering(A) if len(said(request)) <= limit else Answer(LENGTH, status=400)

    return behave


LONG = tuple(Utterance("user", f"message {number} " + "x" * 988) for number in range(10))


def test_of_a_window_that_is_refused_for_its_size_the_older_half_is_left_out(provider):
    provider.chat = at_most_characters(6_000)

    assert contents(classify(provider, LONG)) == ["Tabs are used."]

    last = said(provider.requests()[-1])
    assert [f"message {number} " in last for number in range(10)] == [False] * 5 + [True] * 5


def test_of_a_single_message_that_is_refused_for_its_size_the_end_is_kept(provider):
    provider.chat = at_most_characters(6_000)

    classify(provider, [Utterance("user", "old " * 1_250 + "new " * 1_250)])

    last = said(provider.requests()[-1])
    assert "user: > new new" in last, "the rest of a message is not where somebody typed"
    assert "old old" not in last


def test_a_model_is_shown_no_line_at_the_cut_of_a_message_as_typed(provider):
    page = "we use tofu here\n\nThe chapter goes on about the weather."
    for goes_on, shown in ((False, "\nThe chapter"), (True, "\n> The chapter")):
        classify(provider, [Utterance("user", page)], goes_on=goes_on)
        assert shown in said(provider.requests(CHAT)[-1])


# --- any chat model ---


async def test_no_second_attempt_is_made_of_an_event_that_may_not_be_sent_once_more(provider):
    event, asked = Event(window=WINDOW), list[str]()
    model = OpenAICompatibleChat(provider.base_url, "m", retries=0, egress=EgressGuard())
    classifier = LlmClassifier(model, backoff_s=0.01, may_go_on=asked.append)
    provider.chat = Answer(status=503)
    with pytest.raises(CallFailed) as caught:
        await classifier.classify(event, (), deadline=time.monotonic() + PATIENCE_S, attempts=2)
    await model.aclose()

    assert (len(provider.requests()), asked) == (1, [event.id])
    assert (caught.value.status, caught.value.usage.calls) == (503, 1)


def test_nothing_that_was_said_reaches_the_log(provider, caplog):
    caplog.set_level("DEBUG", logger="forged")
    provider.chat = [Answer(status=503), answering(A)]

    classify(provider, heads=HEADS)

    assert "classified event=ev_" in caplog.text
    for secret in (KEY, "always use tabs", "Spaces are used", "Tabs are used"):
        assert secret not in caplog.text
