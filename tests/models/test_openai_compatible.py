"""The OpenAI-compatible adapter with a real server: good replies, and faults with their reasons."""

from __future__ import annotations

import asyncio
import base64
import resource
import struct
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.errors import ConfigError, ProviderError
from forged.models import Completion, EgressGuard, Prompt, Vectors
from forged.models.endpoint import Endpoint
from forged.models.openai_compatible import OpenAICompatibleChat, OpenAICompatibleEmbedder
from forged.models.replies import item_places
from tests.faults.amount import times
from tests.models.calls import KEY, SCHEMA, chat, chatter, embed, embedder, refused, sizes, using
from tests.models.odd_answers import (
    base64_vectors,
    changed,
    gzip_bomb,
    gzipped,
    shuffled,
    without_first_index,
    without_index,
)
from tests.support.clock import PATIENCE_S
from tests.support.provider import (
    CLOSE,
    EMBEDDINGS,
    HTML,
    RESET,
    Answer,
    Request,
    Script,
    ScriptedProvider,
    completion,
    poisoned,
    streamed,
)
from tests.support.provider.embedders import QUERY

SECRET_TEXT = "my bank pin is 4711"
VECTORS = {"a": (1, 0, 0), "b": (0, 2, 0), "c": (0, 0, 3)}
UNIT = np.eye(3, dtype=np.float32)


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(vectors=VECTORS) as provider:
        yield provider


# --- requests ---


def test_a_query_of_the_base_url_is_kept_v1_is_never_guessed_and_what_is_no_url_is_a_config_error():
    endpoint = Endpoint("https://user:pw@host.example/openai/?api-version=3", KEY, egress=EgressGuard())

    assert endpoint.url("/embeddings") == "https://host.example/openai/embeddings?api-version=3"
    assert endpoint.display_url("/embeddings") == "https://host.example/openai/embeddings"
    for url in ("http://[bad", "http://host:99999999/", "http://a\x00b/", "http://\u200b/"):
        with pytest.raises(ConfigError):
            Endpoint(url, egress=EgressGuard())


def test_user_and_password_of_the_url_are_sent_but_never_shown(provider):
    provider.embeddings = Answer({"error": "no"}, status=404)
    url = provider.base_url.replace("http://", "http://joe:hush%21hush@")
    model = OpenAICompatibleEmbedder(url, "m", egress=EgressGuard())

    with pytest.raises(ProviderError) as caught:
        using(model, lambda m: m.embed(["a"], purpose=QUERY))

    assert provider.requests()[0].headers["authorization"] == "Basic am9lOmh1c2ghaHVzaA=="
    assert "hush" not in str(caught.value) + model.key


def test_one_connection_serves_one_call_after_the_other_past_the_proxies_of_the_environment(
    provider, monkeypatch
):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def three(model: OpenAICompatibleEmbedder) -> None:
        for text in "abc":
            assert (await model.embed([text], purpose=QUERY)).shape == (1, 3)

    using(embedder(provider), three)

    assert (len(provider.requests()), provider.connections) == (3, 1)


def test_redirects_are_not_followed(provider):
    with ScriptedProvider() as elsewhere:
        location = {"Location": f"{elsewhere.base_url}/embeddings"}
        provider.embeddings = Answer(status=307, headers=location)

        assert "307" in str(refused(provider))
        assert elsewhere.requests() == []


def test_nul_and_lone_surrogates_are_replaced_and_a_long_text_is_cut(provider):
    embed(provider, ["a\x00", "b\ud800", "c\ud83d\ude00"])
    embed(provider, ["a" * 50_000])
    embed(provider, ["ä" * 20_000])

    odd, ascii_, umlauts = (request.inputs for request in provider.wait_for(3))
    assert odd == ["a\ufffd", "b\ufffd", "c\U0001f600"]
    assert len(ascii_[0]) == 32_000
    assert umlauts[0] == "ä" * 16_000


def test_blank_texts_are_refused_without_a_request_and_no_texts_make_none(provider):
    reasons = {refused(provider, "a", blank).reason for blank in ("", "  \n\t")}

    assert reasons == {"bad_input"}
    assert embed(provider, []).shape == (0, 0)
    assert provider.requests() == []


# --- vectors that must work ---


def scaled(data: list[dict]) -> None:
    for factor, item in enumerate(data, 2):
        item["embedding"] = [factor * number for number in item["embedding"]]


def all_index_zero(data: list[dict]) -> None:
    for item in data:
        item["index"] = 0


def counted_from_one(data: list[dict]) -> None:
    for item in data:
        item["index"] += 1


def first_index_dropped_and_moved(data: list[dict]) -> list[dict]:
    del data[0]["index"]
    return [data[2], data[0], data[1]]


def tiny(data: list[dict]) -> None:
    for item in data:
        item["embedding"] = [1e-30 * number for number in item["embedding"]]


def slow(provider: ScriptedProvider, request: object) -> Answer:
    return Answer({"data": [{"embedding": VECTORS[text]} for text in request.inputs]}, delay_s=0.05)


GEMINIS_DELAY = [{"x": 1}, {"retryDelay": "0.01s"}]
READ_WELL: dict[str, Script] = {
    "as OpenAI does": None,
    "in any order": shuffled,
    "without index": without_index,
    "Gemini: index 0 left out": without_first_index,
    "index 0 left out and not first": changed(first_index_dropped_and_moved),
    "LiteLLM: index 0 everywhere": changed(all_index_zero),
    "index from 1": changed(counted_from_one),
    "base64": base64_vectors,
    "not normalised": changed(scaled),
    "very short vectors": changed(tiny),
    "packed unasked": gzipped,
    "no other field": slow,
    "error is null": lambda p, r: Answer({"error": None, "data": changed(lambda d: d)(p, r).json["data"]}),
    "429 then well": [Answer({"error": {}}, status=429, headers={"Retry-After": "0"})],
    "429 with milliseconds": [Answer(status=429, headers={"retry-after-ms": "1", "Retry-After": "200"})],
    "429 with a date": [Answer(status=429, headers={"Retry-After": formatdate(0, usegmt=True)})],
    "429 with Gemini's delay": [Answer([{"error": {"code": 429, "details": GEMINIS_DELAY}}], status=429)],
    "503": [Answer(status=503)],
    "500": [Answer(status=500)],
    "408": [Answer(status=408)],
    "409": [Answer(status=409)],
    "told to retry": [Answer(status=400, headers={"x-should-retry": "true"})],
    "429 inside a 200": [Answer({"error": {"message": "slow down", "code": 429}})],
    "reset once": [RESET],
    "closed without an answer once": [CLOSE],
    "broken off once": [Answer({"data": []}, ending="short")],
}


@pytest.mark.parametrize("script", READ_WELL.values(), ids=READ_WELL.keys())
def test_a_reply_is_understood(provider, script):
    provider.embeddings = script

    vectors = embed(provider, ["a", "b", "c"])

    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, UNIT, atol=1e-6)


@given(st.permutations(range(7)), st.integers(0, 6))
def test_any_permutation_of_index_is_followed(indexes, missing):
    gapped = [None if at == missing else index for at, index in enumerate(indexes)]

    assert item_places(indexes) == indexes
    assert item_places(gapped) == indexes


# --- faults ---


def with_vectors(*vectors: object) -> Answer:
    return Answer({"data": [{"index": i, "embedding": vector} for i, vector in enumerate(vectors)]})


def raw(text: str) -> Answer:
    return Answer(body=text.encode())


def error_reply(status: int, message: str, **more: object) -> Answer:
    return Answer({"error": {"message": message, **more}}, status=status)


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


GOOD, OK = [1, 0, 0], b"HTTP/1.1 200 OK\r\n"
HOLD = threading.Event()  # never set
FAULTS: dict[str, tuple[Script, str]] = {
    "401": (error_reply(401, "bad key", code="invalid_api_key"), "auth"),
    "402": (Answer({"error": "pay"}, status=402), "auth"),
    "403": (Answer(status=403), "auth"),
    "Gemini's 400 for a key": (Answer([{"error": {"message": "API key not valid"}}], status=400), "auth"),
    "404": (Answer({"error": "model 'm' not found"}, status=404), "bad_reply"),
    "400 for the model": (Answer({"error": "model 'm' does not exist"}, status=400), "bad_reply"),
    "400": (Answer({"object": "error", "message": "no", "code": 400}, status=400), "bad_input"),
    "413": (Answer(body=b"<html>", status=413), "bad_input"),
    "422 with detail": (Answer({"detail": [{"msg": "string too short"}]}, status=422), "bad_input"),
    "llama.cpp's 500 for size": (error_reply(500, "input is too large to process", code=500), "bad_input"),
    "Ollama's 500 for NaN": (Answer({"error": "json: unsupported value: NaN"}, status=500), "bad_input"),
    "408": (Answer(status=408), "timeout"),
    "409": (Answer(status=409), "server"),
    "429": (Answer({"error": {"code": "quota"}}, status=429), "rate_limited"),
    "429 for an hour": (Answer(status=429, headers={"Retry-After": "3600"}), "rate_limited"),
    "500": (Answer({"error": "oops"}, status=500), "server"),
    "502 as HTML": (Answer(body=b"<html>bad gateway", status=502), "server"),
    "503": (Answer(status=503), "server"),
    "error inside a 200": (Answer({"error": {"message": "upstream failed", "code": "x"}}), "server"),
    "refusal inside a 200": (Answer({"error": {"message": "no", "code": 403}}), "auth"),
    "HTML 200": (HTML, "bad_reply"),
    "empty 200": (raw(""), "bad_reply"),
    "204": (Answer(status=204, body=b""), "bad_reply"),
    "half a JSON": (raw('{"data": [{"embed'), "bad_reply"),
    "deep JSON": (raw("[" * 100_000), "bad_reply"),
    "not UTF-8": (Answer(body=b'{"data": "\xff\xfe"}'), "bad_reply"),
    "bad UTF-8 beside a good vector": (
        Answer(body=b'{"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}], "model": "\xff\xfe"}'),
        "bad_reply",
    ),
    "a bare list": (raw('[{"index": 0, "embedding": [[1, 0]]}]'), "bad_reply"),
    "Ollama's own form": (raw('{"embeddings": [[1, 0, 0]]}'), "bad_reply"),
    "OpenRouter: no data": (Answer({"data": []}), "bad_reply"),
    "one vector short": (changed(lambda data: data[:1]), "bad_reply"),
    "one vector more": (changed(lambda data: [*data, data[0]]), "bad_reply"),
    "3 and 4 numbers": (with_vectors(GOOD, [1, 0, 0, 0]), "bad_reply"),
    "no numbers": (with_vectors([], []), "bad_reply"),
    "text in a vector": (with_vectors(GOOD, ["1", "0", "0"]), "bad_reply"),
    "a vector of vectors": (with_vectors([GOOD], [GOOD]), "bad_reply"),
    "bad base64": (with_vectors("????", "????"), "bad_reply"),
    "base64 of odd length": (with_vectors("AAAAAAA=", "AAAAAAA="), "bad_reply"),
    "all zero": (with_vectors([0, 0, 0], [0, 0, 0]), "bad_reply"),
    "one zero": (with_vectors(GOOD, [0, 0, 0]), "bad_input"),
    "one null": (with_vectors(GOOD, [1, None, 0]), "bad_input"),
    "one NaN": (with_vectors(GOOD, [1, float("nan"), 0]), "bad_input"),
    "one infinity": (with_vectors(GOOD, [1, float("inf"), 0]), "bad_input"),
    "1e400": (raw('{"data":[{"embedding":[1,0,0]},{"embedding":[1e400,0,0]}]}'), "bad_input"),
    "1e39": (with_vectors(GOOD, [1e39, 0, 0]), "bad_input"),
    "base64 NaN": (with_vectors(packed(1, 0, 0), packed(float("nan"), 0, 0)), "bad_input"),
    "reset": (RESET, "unreachable"),
    "closed without an answer": (CLOSE, "unreachable"),
    "broken off": (Answer({"data": []}, ending="short"), "bad_reply"),
    "not HTTP": (Answer(wire=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "bad_reply"),
    "chunk garbage": (Answer(wire=OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "bad_reply"),
    "endless headers": (Answer(wire=OK + b"X-A: b\r\n" * 300_000), "bad_reply"),
    "brotli": (Answer(body=b"\x0b", headers={"Content-Encoding": "br"}), "bad_reply"),
    "broken gzip": (Answer(body=b"no gzip", headers={"Content-Encoding": "gzip"}), "bad_reply"),
    "gzip bomb": (gzip_bomb(64), "bad_reply"),
    "too many bytes": (Answer(body=b" " * (2 << 20)), "bad_reply"),
    "silent": (Answer(hold=HOLD), "timeout"),
    "dripping body": (Answer({"data": [], "padding": "x" * 99}, drip_s=0.05), "timeout"),
    "dripping headers": (Answer({}, drip_s=0.05, drip_headers=True), "timeout"),
}


@pytest.mark.parametrize(("script", "reason"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_has_its_reason_and_never_outlasts_the_deadline(provider, script, reason):
    """A per-read limit would let a drip go on for ever."""
    provider.embeddings = script

    error = refused(provider, SECRET_TEXT, "b", within=0.8)

    assert error.reason == reason
    assert KEY not in str(error)
    assert SECRET_TEXT not in str(error)
    assert str(error).isprintable()


def test_a_passed_deadline_makes_no_request_and_at_the_deadline_the_connection_is_closed(provider):
    assert refused(provider, within=-1).reason == "timeout"
    assert provider.requests() == []

    provider.embeddings = Answer(hold=HOLD)
    refused(provider, within=0.2)
    provider.wait_until(lambda: provider.received[0].closed_by_client)


def test_cancelling_a_call_closes_the_connection_and_the_next_call_works(provider):
    provider.embeddings = [Answer(hold=HOLD)]

    async def cancel_then_embed(model: OpenAICompatibleEmbedder) -> Vectors:
        call = asyncio.create_task(model.embed(["a"], purpose=QUERY))
        await asyncio.to_thread(provider.wait_for, 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await model.embed(["a"], purpose=QUERY)

    np.testing.assert_allclose(using(embedder(provider), cancel_then_embed), UNIT[:1])
    provider.wait_until(lambda: provider.received[0].closed_by_client)


def test_a_gzip_bomb_stays_small_in_memory(provider):
    provider.embeddings = gzip_bomb(400)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    assert "sent over" in str(refused(provider))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10  # KiB


ECHOES = {
    "the input": {"error": {"message": f"cannot embed '{SECRET_TEXT}'", "code": "bad"}},
    "part of the input": {"error": {"message": "offending: bank pin is 47...", "code": "bad"}},
    "the input in capitals": {"error": f"CANNOT EMBED {SECRET_TEXT.upper()}"},
    "the key": {"error": {"message": f"key {KEY} is unknown", "code": KEY}},
    "part of the key": {"error": {"message": "Incorrect key sk-verys*******6789"}},
}


@pytest.mark.parametrize("status", [400, 401, 404, 500])
@pytest.mark.parametrize("body", ECHOES.values(), ids=ECHOES.keys())
def test_a_provider_that_echoes_is_not_quoted(provider, body, status):
    provider.embeddings = Answer(body, status=status)

    message = str(refused(provider, SECRET_TEXT)).casefold()

    assert f"answered {status}" in message
    assert "bank" not in message
    assert "verys" not in message


# --- retries ---


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=400),
        Answer({"error": {"message": "unsupported parameter"}}, status=400),  # not halved either
        Answer(status=401),
        Answer(status=404),
        Answer(status=503, headers={"x-should-retry": "false"}),
        HTML,
    ],
)
def test_what_cannot_pass_is_not_retried(provider, answer):
    provider.embeddings = answer

    refused(provider, "a", "b", "c")

    assert len(provider.requests()) == 1


# --- batches ---


def test_many_texts_go_out_in_batches_and_come_back_in_order():
    texts = [f"text {number}" for number in range(250)]
    with ScriptedProvider(dimension=4) as provider:
        vectors = embed(provider, texts)

        assert sizes(provider) == [96, 96, 58]
        expected = np.array([provider.vector(text) for text in texts], dtype=np.float32)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_a_poisoned_text_raises_and_does_not_shrink_later_batches():
    refusal = Answer({"error": "input is invalid"}, status=400)
    texts = [f"text {number}" for number in range(64)]

    async def fail_then_go_on(model: OpenAICompatibleEmbedder) -> None:
        with pytest.raises(ProviderError) as caught:
            await model.embed([*texts, "poison"], purpose=QUERY)
        assert caught.value.reason == "bad_input"
        provider.script(EMBEDDINGS, None)
        await model.embed(texts, purpose=QUERY)

    with ScriptedProvider(dimension=4) as provider:
        provider.embeddings = poisoned("poison", refusal)
        using(embedder(provider), fail_then_go_on)

        assert sizes(provider)[-1] == 64
        assert len(provider.requests()) <= 16


@pytest.mark.parametrize("said", ["invalid input", "text has a disallowed special token <|endoftext|>"])
def test_a_refusal_of_what_a_text_holds_is_no_word_about_size(provider, said):
    provider.embeddings = error_reply(400, said)

    assert refused(provider, "a", "b", "c", "d").reason == "bad_input"

    assert sizes(provider) == [4]


# --- dimension, concurrency ---


def test_vectors_of_several_lengths_in_one_call_are_a_bad_reply_and_of_two_calls_are_not(provider):
    async def two(model: OpenAICompatibleEmbedder) -> None:
        await model.embed(["a"], purpose=QUERY)
        provider.embeddings = with_vectors([1, 0, 0, 0, 0])
        assert (await model.embed(["a"], purpose=QUERY)).shape == (1, 5)
        provider.embeddings = [with_vectors(*[[1, 0, 0]] * 96), with_vectors([1, 0])]
        with pytest.raises(ProviderError, match="several lengths") as caught:
            await model.embed(["a"] * 97, purpose=QUERY)
        assert caught.value.reason == "bad_reply"

    using(embedder(provider), two)


def test_concurrent_calls_do_not_mix():
    texts = [f"text {number}" for number in range(20)]

    async def together(model: OpenAICompatibleEmbedder) -> list[Vectors]:
        return await asyncio.gather(*(model.embed([text], purpose=QUERY) for text in texts))

    with ScriptedProvider(dimension=4) as provider:
        vectors = using(embedder(provider), together)

        for text, row in zip(texts, vectors, strict=True):
            np.testing.assert_allclose(row[0], provider.vector(text), atol=1e-6)


# --- chat ---


PARTS = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
TEXTS: dict[str, tuple[Answer, str]] = {
    "plain": (completion(" one\ntwo "), "one\ntwo"),
    "empty": (completion(""), ""),
    "null": (completion(None), ""),
    "parts": (completion(PARTS), "ab"),
    "thoughts": (completion("<think>hm\nhm</think>\n\nanswer"), "answer"),
    "thoughts in capitals": (completion("<THINKING>hm</THINKING>answer"), "answer"),
    "thoughts without opener": (completion("hm hm</think>answer"), "answer"),
    "thoughts never closed": (completion("<think>hm hm"), ""),
    "fences stay": (completion("```json\n[]\n```"), "```json\n[]\n```"),
    "reasoning only": (completion("", reasoning_content="answer"), "answer"),
    "reasoning beside": (completion("answer", reasoning_content="hm"), "answer"),
    "only thoughts, then reasoning": (completion("<think>a</think>", reasoning="answer"), "answer"),
    "the word error": (completion('{"error": "in the answer"}'), '{"error": "in the answer"}'),
}


@pytest.mark.parametrize(("answer", "text"), TEXTS.values(), ids=TEXTS.keys())
def test_a_completion_is_read(provider, answer, text):
    provider.chat = answer

    assert chat(provider).text == text


def counting(usage: object) -> Answer:
    return Answer({**completion("twelve bytes").json, "usage": usage})


ESTIMATED = (2, 3)  # "sys" and "user" are 7 bytes, the answer is 12
NAN = float("nan")
USAGES: dict[str, tuple[Answer, tuple[int, int]]] = {
    "as OpenAI does": (counting({"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}), (7, 5)),
    "as Anthropic does": (counting({"input_tokens": 7, "output_tokens": 5}), (7, 5)),
    "as text": (counting({"prompt_tokens": "7", "completion_tokens": " 5 "}), (7, 5)),
    "as floats": (counting({"prompt_tokens": 7.0, "completion_tokens": 5.9}), (7, 5)),
    "as many as is believed": (
        counting({"prompt_tokens": 10**9, "completion_tokens": 10**9 + 1}),
        (10**9, 3),
    ),
    "one is missing": (counting({"prompt_tokens": 7}), (7, 3)),
    "missing": (completion("twelve bytes"), ESTIMATED),
    "null": (counting(None), ESTIMATED),
    "nulls": (counting({"prompt_tokens": None, "completion_tokens": None}), ESTIMATED),
    "zero": (counting({"prompt_tokens": 0, "completion_tokens": 0}), ESTIMATED),
    "negative": (counting({"prompt_tokens": -7, "completion_tokens": -5}), ESTIMATED),
    "NaN and infinity": (counting({"prompt_tokens": NAN, "completion_tokens": float("inf")}), ESTIMATED),
    "too many to be true": (counting({"prompt_tokens": 10**30, "completion_tokens": 10**12}), ESTIMATED),
    "words": (counting({"prompt_tokens": "many", "completion_tokens": ""}), ESTIMATED),
    "truth": (counting({"prompt_tokens": True, "completion_tokens": False}), ESTIMATED),
    "lists": (counting({"prompt_tokens": [7], "completion_tokens": {"n": 5}}), ESTIMATED),
    "no object": (counting([7, 5]), ESTIMATED),
    "a word": (counting("none"), ESTIMATED),
}


@pytest.mark.parametrize(("answer", "tokens"), USAGES.values(), ids=USAGES.keys())
def test_tokens_are_the_endpoints_or_estimated(provider, answer, tokens):
    provider.chat = answer

    assert chat(provider) == Completion("twelve bytes", *tokens)


CHAT_FAULTS: dict[str, tuple[Script, str]] = {
    "401": (Answer(status=401), "auth"),
    "429": (Answer(status=429), "rate_limited"),
    "500": (Answer(status=500), "server"),
    "error inside a 200": (Answer({"error": {"message": "provider returned error", "code": 502}}), "server"),
    "no choice": (Answer({"choices": []}), "bad_reply"),
    "no message": (Answer({"choices": [{"text": "old API"}]}), "bad_reply"),
    "HTML": (HTML, "bad_reply"),
    "too many bytes": (Answer(body=b" " * (5 << 20)), "bad_reply"),
    "silent": (Answer(hold=HOLD), "timeout"),
    "dripping": (Answer(completion("x").json, drip_s=0.05), "timeout"),
    "reset": (RESET, "unreachable"),
}


@pytest.mark.parametrize(("script", "reason"), CHAT_FAULTS.values(), ids=CHAT_FAULTS.keys())
def test_a_chat_fault_has_its_reason(provider, script, reason):
    provider.chat = script

    with pytest.raises(ProviderError) as caught:
        chat(provider, within=0.8)

    assert caught.value.reason == reason


def test_a_schema_goes_nested(provider):
    chat(provider, schema=SCHEMA)

    assert provider.wait_for(1)[0].json["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    }


@pytest.mark.parametrize("script", [Answer(status=500), Answer(status=503), Answer(status=429), RESET])
def test_without_retries_a_request_is_made_exactly_once(provider, script):
    provider.chat = script

    with pytest.raises(ProviderError):
        chat(provider, within=30.0, schema=SCHEMA, retries=0)

    assert len(provider.requests()) == 1


# --- every part of a chat request that a server may refuse ---


def roles(request: Request) -> list[str]:
    return [each["role"] for each in request.json["messages"]]


REFUSED_WITH = {
    "system": [
        "System role not supported",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Input should be 'user' or 'assistant'",
    ],
    "response_format": [
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
        "'response_format.type' must be 'text'",
        "guided decoding is not available",
    ],
    "stream": ["Streaming is not supported", "Unrecognized request argument supplied: stream"],
    "stream_options": [
        "Unrecognized request argument supplied: stream_options",
        "unknown field include_usage",
    ],
}
WORDLESS = ["", "Extra inputs are not permitted", "Bad Request"]
BODIES = [
    lambda message: {"error": {"message": message, "code": "x"}},
    lambda message: {"detail": [{"type": "x", "msg": message}]},
    lambda message: {"message": message},
]


def parts_of(request: Request) -> set[str]:
    parts = {name for name in ("response_format", "stream", "stream_options") if name in request.json}
    return parts | ({"system"} if "system" in roles(request) else set())


REFUSALS = st.fixed_dictionaries(
    {name: st.sampled_from([*message, *WORDLESS]) for name, message in REFUSED_WITH.items()}
)


def test_a_server_that_refuses_any_parts_of_a_chat_request_is_asked_without_these_and_no_others(provider):
    @settings(max_examples=times(100, 15))
    @given(
        st.sets(st.sampled_from(sorted(REFUSED_WITH))),
        REFUSALS,
        st.sampled_from([400, 422]),
        st.sampled_from(BODIES),
        st.sampled_from([0, 1]),
    )
    def holds(
        refuses: set[str], message: dict[str, str], status: int, body: Callable[[str], object], retries: int
    ) -> None:
        def behave(_: ScriptedProvider, request: Request) -> Answer:
            if refused := sorted(parts_of(request) & refuses):
                return Answer(body(message[refused[0]]), status=status)
            return streamed("answer") if "stream" in request.json else completion("answer")

        async def ask(model: OpenAICompatibleChat) -> list[int]:
            prompt, made = Prompt("sys", "user", QUERY, SCHEMA, enough=lambda _: False), []
            for _ in range(len(refuses) + 1):
                before = len(provider.requests())
                answer = await model.complete(prompt, deadline=time.monotonic() + PATIENCE_S)
                assert answer.text == "answer"
                made.append(len(provider.requests()) - before)
            return made

        provider.received.clear()
        provider.chat = behave
        made = using(chatter(provider, retries=retries), ask)

        assert made[-1] == 1
        assert max(made) <= len(REFUSED_WITH) + 1
        if all(message[each] not in WORDLESS for each in refuses):
            assert made[1:] == [1] * (len(made) - 1)
        kept = set(REFUSED_WITH) - refuses - ({"stream_options"} if "stream" in refuses else set())
        assert parts_of(provider.requests()[-1]) == kept
        for request in provider.requests():
            texts = [each["content"] for each in request.json["messages"]]
            assert texts == (["sys", "user"] if "system" in parts_of(request) else ["sys\n\nuser"])

    holds()


def test_a_template_of_llama_cpp_that_has_no_system_is_asked_without(provider):
    """Its server calls what a template says an error of its own."""
    refusal = Answer({"error": {"message": "Jinja Exception: System role not supported"}}, status=500)
    provider.chat = lambda _, request: refusal if "system" in roles(request) else completion("answer")

    assert chat(provider, times=2, retries=0).text == "answer"
    assert list(map(roles, provider.requests())) == [["system", "user"], ["user"], ["user"]]


def test_a_text_that_is_refused_costs_no_second_request_where_the_role_was_taken_before(provider):
    async def twice(model: OpenAICompatibleChat) -> None:
        asked, deadline = Prompt("s", "u", QUERY), time.monotonic() + PATIENCE_S
        await model.complete(asked, deadline=deadline)
        provider.chat = Answer(status=400)
        with pytest.raises(ProviderError):
            await model.complete(asked, deadline=deadline)

    using(chatter(provider), twice)

    assert len(provider.requests()) == 2
