"""Streamed chat replies over real HTTP: when a call ends, and its text so far."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from forged.errors import ProviderError, SizeRefused
from forged.models import Completion, Prompt
from forged.models.openai_compatible import OpenAICompatibleChat
from forged.retrieval import hyde
from tests.models.calls import chatter, using
from tests.support.clock import PATIENCE_S
from tests.support.provider import CHAT, Answer, ScriptedProvider, completion, streamed
from tests.support.provider.embedders import QUERY

HOLD = threading.Event()  # never set


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


LINES = "Tabs are used.\nCI runs on every push.\n"


def watch(
    provider: ScriptedProvider,
    enough: Callable[[str], bool],
    *,
    within: float = PATIENCE_S,
    **settings: object,
) -> Completion:
    """The second reply of a model, as the first is read to its end; what was asked first is forgotten."""

    async def ask(model: OpenAICompatibleChat) -> Completion:
        script = provider.script(CHAT, None)
        await model.complete(Prompt("s", "u", QUERY, enough=never), deadline=time.monotonic() + PATIENCE_S)
        provider.received.clear()
        provider.chat = script
        return await model.complete(
            Prompt("s", "u", QUERY, enough=enough), deadline=time.monotonic() + within
        )

    return using(chatter(provider, **settings), ask)


def never(_: str) -> bool:
    return False


def two_lines(text: str) -> bool:
    return text.count(".") == 2


READ_TO_ITS_END = {
    "never enough": streamed(LINES),
    "never closed": streamed(LINES, end=b"data: [DONE]\n\n: bye\n\n", at_once=b"[DONE]\n\n", hold=HOLD),
    "no stream": completion(LINES),
    "packed": Answer(body=gzip.compress(streamed(LINES).payload()), headers={"Content-Encoding": "gzip"}),
}


@pytest.mark.parametrize("answer", READ_TO_ITS_END.values(), ids=READ_TO_ITS_END.keys())
def test_a_watched_reply_is_read_to_its_end_if_nothing_ends_it(provider, answer):
    provider.chat = answer

    enough = two_lines if answer.json else never
    assert watch(provider, enough) == Completion(LINES.strip(), 1, 10)


def test_a_model_that_waits_is_not_waited_for_once_it_is_enough(provider):
    """Time alone can make it enough, with no word more."""
    provider.chat = streamed(LINES + "and so on", at_once=b'"used."}}]}\n\n', hold=HOLD)
    until = time.monotonic() + 0.3

    found = watch(provider, lambda text: bool(text) and time.monotonic() > until)

    assert (found.text, found.whole) == ("Tabs are used.", False)


THOUGHT = "Okay, the user wants facts. " * 3 + "\n" + LINES
THINKING = THOUGHT + "</think>\n" + LINES


def first_reply(
    provider: ScriptedProvider,
    answer: Answer,
    *,
    within: float = PATIENCE_S,
    times: int = 1,
    enough: Callable[[str], bool] = lambda text: "\n" in text,
) -> Completion:
    """Of a model that is not known yet, asked so often; it is enough as soon as there is a finished line."""

    async def ask(model: OpenAICompatibleChat) -> Completion:
        for _ in range(times):
            found = await model.complete(prompt, deadline=time.monotonic() + within)
        return found

    prompt = Prompt("s", "u", QUERY, enough=enough, clear=hyde.clear)
    provider.chat = answer
    return using(chatter(provider, retries=0), ask)


THOUGHT_APART = b'data: {"choices":[{"delta":{"reasoning_content":"Okay, the user wants facts."}}]}\n\n'


def standing_still(text: str) -> Answer:
    return streamed(text + "and so", at_once=b'"and"}}]}\n\n', hold=HOLD)


@pytest.mark.parametrize(
    "answer", [standing_still(THOUGHT), standing_still("<think>" + LINES)], ids=["begun unseen", "begun"]
)
def test_what_may_be_a_thought_is_waited_for_and_never_used(provider, answer):
    with pytest.raises(ProviderError) as caught:
        first_reply(provider, answer, within=0.6)

    assert caught.value.reason == "timeout"


def test_a_model_that_once_began_in_a_thought_is_never_taken_by_the_look_of_its_lines(provider):
    answers = [streamed(THINKING), standing_still(LINES)]

    with pytest.raises(ProviderError, match="no answer in time"):
        first_reply(provider, answers, times=2, within=0.6)


def reset_behind(text: str) -> Answer:
    """The server breaks off within an event, in the middle of the answer."""
    said = streamed(text + "and so on, without an end", end=b"")
    body = said.payload()
    return Answer(body=body + b" " * len(body), headers=said.headers, ending="short")


def test_of_a_broken_stream_the_finished_lines_are_the_answer(provider):
    found = first_reply(provider, reset_behind(LINES), enough=never)

    assert found.text.startswith(LINES)
    assert not found.whole


def test_of_a_thought_that_is_cut_nothing_is_an_answer(provider):
    """Neither one that the template began, nor one in a field of its own."""
    cut = b'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'

    for answer in (streamed(THOUGHT, end=cut), streamed("", end=THOUGHT_APART + cut)):
        with pytest.raises(ProviderError, match="cut at its length limit before an answer came") as caught:
            first_reply(provider, answer)
        assert caught.value.reason == "cut"


def test_thoughts_that_are_all_there_is_are_an_answer_only_where_they_look_like_one(provider):
    def aloud(text: str) -> Answer:
        return Answer({"choices": [{"message": {"content": "", "reasoning_content": text}}]})

    assert first_reply(provider, aloud(LINES.strip())).text == LINES.strip()
    assert first_reply(provider, aloud(THOUGHT)).text == ""


TOO_LONG = Answer({"error": {"message": "maximum context length is 2048 tokens"}}, status=400)


def test_a_stream_of_nothing_is_asked_about_without_one(provider):
    """llama_cpp.server, over a window too long for it."""
    nothing = Answer(body=b"", headers={"Content-Type": "text/event-stream"})
    provider.chat = lambda _, request: nothing if "stream" in request.json else TOO_LONG

    with pytest.raises(SizeRefused):
        watch(provider, never)

    assert "stream" not in provider.requests()[-1].json
