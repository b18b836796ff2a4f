"""Chat replies that are watched while they are written, over real HTTP: when a call ends, and what it had."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TypeVar

import pytest

from forged.errors import ProviderError, SizeRefused
from forged.models import Completion, Prompt
from forged.models.openai_compatible import OpenAICompatibleChat
from tests.support.provider import CHAT, Answer, Behaviour, ScriptedProvider, completion, streamed

R = TypeVar("R")
KEY = "sk-verysecret-0123456789"
HOLD = threading.Event()  # never set


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


def using(
    provider: ScriptedProvider,
    use: Callable[[OpenAICompatibleChat], Coroutine[None, None, R]],
    **settings: object,
) -> R:
    async def run() -> R:
        model = OpenAICompatibleChat(provider.base_url, "m", KEY, backoff_s=0.01, **settings)
        try:
            return await use(model)
        finally:
            await model.aclose()

    return asyncio.run(run())


def asked_again(provider: ScriptedProvider, times: int, enough: Callable[[str], bool]) -> list[str]:
    """What one model says to the same question, so many times."""

    async def ask(model: OpenAICompatibleChat) -> list[str]:
        prompt, deadline = Prompt("s", "u", enough=enough), time.monotonic() + 10
        return [(await model.complete(prompt, deadline=deadline)).text for _ in range(times)]

    return using(provider, ask)


def wishes(provider: ScriptedProvider) -> list[tuple[object, bool]]:
    """Of each request whether it wants a stream, and an account of tokens with it."""
    return [(each.json.get("stream"), "stream_options" in each.json) for each in provider.requests()]


LINES = "Tabs are used.\nCI runs on every push.\n"
BABBLE = streamed(LINES + "and so on " * 5_000, at_once=b"push.", drip_s=0.0005)


def watch(
    provider: ScriptedProvider, enough: Callable[[str], bool], *, within: float = 10.0, **settings: object
) -> Completion:
    """The second reply of a model, as the first is read to its end; what was asked first is forgotten."""

    async def ask(model: OpenAICompatibleChat) -> Completion:
        script = provider.script(CHAT, None)
        await model.complete(Prompt("s", "u", enough=never), deadline=time.monotonic() + 10)
        provider.received.clear()
        provider.chat = script
        return await model.complete(Prompt("s", "u", enough=enough), deadline=time.monotonic() + within)

    return using(provider, ask, **settings)


def never(_: str) -> bool:
    return False


def two_lines(text: str) -> bool:
    return text.count(".") == 2


def test_only_a_reply_that_is_watched_is_asked_for_as_a_stream(provider: ScriptedProvider) -> None:
    watch(provider, never)
    using(provider, lambda model: model.complete(Prompt("s", "u"), deadline=time.monotonic() + 10))

    assert wishes(provider) == [(True, True), (None, False)]


def test_a_watched_reply_is_read_to_its_end_if_it_is_never_enough(provider: ScriptedProvider) -> None:
    provider.chat = streamed(LINES)

    assert watch(provider, never) == Completion(LINES.strip(), 1, 10)


def test_a_model_that_does_not_stop_is_hung_up_on_when_it_is_enough(provider: ScriptedProvider) -> None:
    provider.chat = BABBLE

    found = watch(provider, two_lines)

    assert (found.text, found.whole) == (LINES.strip(), False)
    provider.wait_until(lambda: provider.received[0].closed_by_client)


def test_a_model_that_stands_still_is_not_waited_for_once_it_is_enough(provider: ScriptedProvider) -> None:
    """Time alone can make it enough, with no word more."""
    provider.chat = streamed(LINES + "and so on", at_once=b'"used."}}]}\n\n', hold=HOLD)
    until = time.monotonic() + 0.3

    found = watch(provider, lambda text: bool(text) and time.monotonic() > until)

    assert (found.text, found.whole) == ("Tabs are used.", False)


def test_a_stream_that_is_over_need_not_be_closed(provider: ScriptedProvider) -> None:
    provider.chat = streamed(LINES, end=b"data: [DONE]\n\n: bye\n\n", at_once=b"[DONE]\n\n", hold=HOLD)

    assert watch(provider, never) == Completion(LINES.strip(), 1, 10)


THOUGHT = "Okay, the user wants facts. " * 3 + "\n" + LINES
THINKING = THOUGHT + "</think>\n" + LINES


def test_the_first_reply_is_read_to_its_end_as_it_may_begin_in_a_thought(provider: ScriptedProvider) -> None:
    """R1 and Qwen3 behind a server that does not tell thoughts apart: their template begins the thought."""
    provider.chat = streamed(THINKING)

    assert asked_again(provider, 3, two_lines) == [LINES.strip()] * 3


def test_a_server_that_streams_nothing_is_read_in_one_piece(provider: ScriptedProvider) -> None:
    provider.chat = completion(LINES)

    assert watch(provider, two_lines) == Completion(LINES.strip(), 1, 10)


def test_a_packed_stream_is_watched_as_well(provider: ScriptedProvider) -> None:
    packed = gzip.compress(streamed(LINES).payload())
    provider.chat = Answer(body=packed, headers={"Content-Encoding": "gzip"})

    assert watch(provider, never).text == LINES.strip()


def without_stream_only(status: int) -> Behaviour:
    def behave(provider: ScriptedProvider, request: object) -> Answer:
        return Answer(status=status) if "stream" in request.json else completion("answer")

    return behave


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_that_refuses_to_stream_is_asked_without_and_not_again(
    provider: ScriptedProvider, status: int
) -> None:
    provider.chat = without_stream_only(status)

    assert asked_again(provider, 2, never) == ["answer", "answer"]
    assert wishes(provider) == [(True, True), (True, False), (None, False), (None, False)]


def test_a_server_that_streams_but_counts_no_tokens_is_streamed_on(provider: ScriptedProvider) -> None:
    """Mistral."""

    def behave(provider: ScriptedProvider, request: object) -> Answer:
        return Answer(status=422) if "stream_options" in request.json else streamed("answer")

    provider.chat = behave

    assert asked_again(provider, 2, never) == ["answer", "answer"]
    assert wishes(provider) == [(True, True), (True, False), (True, False)]


def test_a_server_error_is_no_refusal_to_stream(provider: ScriptedProvider) -> None:
    provider.chat = [Answer(status=500), streamed("answer")]

    assert watch(provider, never).text == "answer"
    assert wishes(provider) == [(True, True), (True, True)]


def test_a_window_too_long_is_not_asked_about_again_without_a_stream(provider: ScriptedProvider) -> None:
    provider.chat = Answer({"error": {"message": "maximum context length is 2048 tokens"}}, status=400)

    with pytest.raises(SizeRefused):
        watch(provider, never)

    assert len(provider.requests()) == 1


def test_a_window_too_long_is_refused_in_a_stream_by_llama_cpp(provider: ScriptedProvider) -> None:
    refusal = b'error: {"code":400,"message":"the request exceeds the available context size"}\n\n'
    provider.chat = streamed("", end=refusal + b"data: [DONE]\n\n")

    with pytest.raises(SizeRefused):
        watch(provider, never)

    assert len(provider.requests()) == 1


def test_a_stream_of_nothing_is_asked_about_without_one(provider: ScriptedProvider) -> None:
    """llama_cpp.server, over a window too long for it."""

    def behave(provider: ScriptedProvider, request: object) -> Answer:
        if "stream" in request.json:
            return Answer(body=b"", headers={"Content-Type": "text/event-stream"})
        return Answer({"error": {"message": "maximum context length is 2048 tokens"}}, status=400)

    provider.chat = behave

    with pytest.raises(SizeRefused):
        watch(provider, never)

    assert "stream" not in provider.requests()[-1].json


def test_a_stream_in_which_the_server_gives_up_is_its_error(provider: ScriptedProvider) -> None:
    gave_up = b'data: {"error":{"message":"engine overloaded","code":503}}\n\n'
    provider.chat = streamed("Tabs are", end=gave_up)

    with pytest.raises(ProviderError, match="engine overloaded") as caught:
        watch(provider, never, retries=0)

    assert caught.value.reason == "server"


def test_a_stream_that_stands_still_meets_the_deadline(provider: ScriptedProvider) -> None:
    provider.chat = streamed(LINES, at_once=b"used.", hold=HOLD)

    with pytest.raises(ProviderError) as caught:
        watch(provider, never, within=0.5)

    assert caught.value.reason == "timeout"
