"""Every provider of the table, replayed: what it sends is read, and what it refuses is understood.

`tests/data/providers/` has a file for each, with replies in the shape that its documentation, its source or
the reports named in `sources` show, and synthetic values: `embeddings` answers the inputs a, b and c with the
axes of a space of three dimensions, `most` refuses too many inputs, `longest` one input that is too long,
`chat` is a reply to be read, `schema` the answer to a structured output, `refusals` the rest with what is to
be made of it (`attempts` are requests while an agent waits, `smaller` says that half of it may pass).

What no single provider does (resets, drips, vectors that are none) stands in test_openai_compatible.py.
"""

from __future__ import annotations

import asyncio
import json
import time
import tomllib
import tracemalloc
import zlib
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from forged.errors import ProviderError, SizeRefused
from forged.models import Completion, Prompt, Vectors
from forged.models.openai_compatible import OpenAICompatibleChat, OpenAICompatibleEmbedder
from forged.text.tokens import estimate
from tests.support.provider import Answer, Behaviour, Request, ScriptedProvider, completion, embedded

M = TypeVar("M", OpenAICompatibleEmbedder, OpenAICompatibleChat)
KEY = "sk-verysecret-0123456789"
ABC = ["a", "b", "c"]
SCHEMA: dict[str, object] = {"type": "object", "properties": {"memories": {"type": "array"}}}
DATA = Path(__file__).parents[1] / "data" / "providers"


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    body: str
    status: int = 200
    headers: dict[str, str] = {}

    def answer(self) -> Answer:
        return Answer(status=self.status, headers=self.headers, body=self.body.encode())


class Most(Reply, frozen=True, forbid_unknown_fields=True, kw_only=True):
    inputs: int


class Chat(Reply, frozen=True, forbid_unknown_fields=True, kw_only=True):
    text: str
    tokens: tuple[int, int]


class Refusal(Reply, frozen=True, forbid_unknown_fields=True, kw_only=True):
    case: str
    reason: str
    attempts: int = 1
    retry_after_s: float | None = None
    smaller: bool = False
    says: str = ""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    sources: tuple[str, ...]
    embeddings: Reply
    refusals: tuple[Refusal, ...]
    most: Most | None = None
    longest: Reply | None = None
    chat: Chat | None = None
    schema: Reply | None = None


ROWS = {
    path.stem: msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Row)
    for path in sorted(DATA.glob("*.toml"))
}


def rows_with(part: str) -> pytest.MarkDecorator:
    found = {name: row for name, row in ROWS.items() if getattr(row, part)}
    return pytest.mark.parametrize("row", found.values(), ids=found.keys())


REFUSALS = {f"{name}: {refusal.case}": refusal for name, row in ROWS.items() for refusal in row.refusals}


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(dimension=4) as provider:
        yield provider


def using(model: M, use: Callable[[M], Coroutine[None, None, object]]) -> object:
    async def run() -> object:
        try:
            return await use(model)
        finally:
            await model.aclose()

    return asyncio.run(run())


def embedder(provider: ScriptedProvider) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(provider.base_url, "m", KEY, backoff_s=0.01)


def embed(provider: ScriptedProvider, texts: list[str], within: float = 30.0) -> Vectors:
    return using(embedder(provider), lambda model: model.embed(texts, deadline=time.monotonic() + within))


def chat(provider: ScriptedProvider, times: int = 1, schema: dict[str, object] | None = None) -> Completion:
    async def ask(model: OpenAICompatibleChat) -> Completion:
        for _ in range(times):
            reply = await model.complete(Prompt("sys", "user", schema), deadline=time.monotonic() + 10)
        return reply

    return using(OpenAICompatibleChat(provider.base_url, "m", KEY, backoff_s=0.01), ask)


def refused_if(too_much: Callable[[Request], bool], refusal: Reply) -> Behaviour:
    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        return refusal.answer() if too_much(request) else embedded(provider, request)

    return behave


def assert_vectors_of(provider: ScriptedProvider, texts: list[str], vectors: Vectors) -> None:
    expected = np.array([provider.vector(text) for text in texts], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_every_provider_of_the_table_has_its_row() -> None:
    assert len(ROWS) == 12
    assert all(row.sources for row in ROWS.values())


# --- what is sent ------------------------------------------------------------------------------------


@rows_with("embeddings")
def test_vectors_are_read_in_the_order_of_the_inputs(provider: ScriptedProvider, row: Row) -> None:
    provider.embeddings = row.embeddings.answer()

    vectors = embed(provider, ABC)

    np.testing.assert_allclose(vectors, np.eye(3), atol=1e-6)
    # Rule 2: half of the table refuses `encoding_format` or `dimensions` in one way or another.
    assert provider.wait_for(1)[0].json == {"model": "m", "input": ABC}


@rows_with("chat")
def test_the_text_and_the_tokens_of_a_chat_reply_are_read(provider: ScriptedProvider, row: Row) -> None:
    assert row.chat is not None
    provider.chat = row.chat.answer()

    assert chat(provider) == Completion(row.chat.text, *row.chat.tokens)


@rows_with("schema")
def test_a_refused_schema_is_left_out_for_good(provider: ScriptedProvider, row: Row) -> None:
    assert row.schema is not None
    refusal = row.schema.answer()
    provider.chat = lambda p, request: (
        refusal if "response_format" in request.json else completion('{"memories": []}')
    )

    assert chat(provider, times=2, schema=SCHEMA).text == '{"memories": []}'

    assert ["response_format" in request.json for request in provider.requests()] == [True, False, False]


def test_json_object_is_never_asked_for(provider: ScriptedProvider) -> None:
    provider.chat = [ROWS["lm_studio"].schema.answer()]

    chat(provider, schema=SCHEMA)

    assert all(b"json_object" not in request.body for request in provider.requests())


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_understood(provider: ScriptedProvider, refusal: Refusal) -> None:
    provider.embeddings = refusal.answer()

    with pytest.raises(ProviderError) as caught:
        embed(provider, ["walrus harbor"], within=5.0)

    error = caught.value
    assert error.reason == refusal.reason
    assert isinstance(error, SizeRefused) is refusal.smaller
    assert error.retry_after_s == refusal.retry_after_s
    assert len(provider.requests()) == refusal.attempts
    assert refusal.says in str(error)
    assert "verys" not in str(error)


@rows_with("most")
def test_a_refused_number_of_inputs_is_halved_until_it_passes_and_remembered(
    provider: ScriptedProvider, row: Row
) -> None:
    assert row.most is not None
    texts = [f"text {number}" for number in range(30)]
    provider.embeddings = refused_if(lambda request: len(request.inputs) > 10, row.most)

    async def twice(model: OpenAICompatibleEmbedder) -> Vectors:
        await model.embed(texts)
        return await model.embed(texts)

    vectors = using(embedder(provider), twice)

    sizes = [len(request.inputs) for request in provider.requests()]
    assert sizes == [30, 15, 7, 7, 7, 7, 2, 7, 7, 7, 7, 2]
    assert_vectors_of(provider, texts, vectors)


@rows_with("most")
def test_as_it_comes_no_provider_but_dashscope_is_sent_too_many_inputs(
    provider: ScriptedProvider, row: Row
) -> None:
    assert row.most is not None
    most = row.most.inputs
    provider.embeddings = refused_if(lambda request: len(request.inputs) > most, row.most)

    embed(provider, [f"text {number}" for number in range(200)])

    refused = [request for request in provider.requests() if len(request.inputs) > most]
    assert len(refused) == (4 if row.name.startswith("DashScope") else 0)  # 96, 48, 24 and 12 of 10


LIMIT = 512  # tokens, llama.cpp's batch unless it was started with another


def too_long(request: Request) -> bool:
    return any(estimate(text) > LIMIT for text in request.inputs)


@rows_with("longest")
def test_a_text_that_is_too_long_is_cut_and_its_neighbours_are_whole(
    provider: ScriptedProvider, row: Row
) -> None:
    assert row.longest is not None
    long = "harbor " * 600  # 1,050 tokens
    texts = ["first", "second", long, "fourth", "fifth"]
    provider.embeddings = refused_if(too_long, row.longest)

    vectors = embed(provider, texts)

    cut = long[: 4 * 262]
    assert_vectors_of(provider, ["first", "second", cut, "fourth", "fifth"], vectors)


def test_a_text_that_is_too_long_does_not_shrink_later_batches(provider: ScriptedProvider) -> None:
    short = [f"text {number}" for number in range(60)]
    provider.embeddings = refused_if(too_long, ROWS["llama_cpp"].longest)

    async def long_then_short(model: OpenAICompatibleEmbedder) -> None:
        await model.embed(["harbor " * 600, *short])
        provider.received.clear()
        await model.embed(short)

    using(embedder(provider), long_then_short)

    assert [len(request.inputs) for request in provider.requests()] == [60]


def test_texts_that_are_all_too_long_cost_few_requests_each(provider: ScriptedProvider) -> None:
    provider.embeddings = refused_if(too_long, ROWS["llama_cpp"].longest)

    vectors = embed(provider, [f"{number} " + "harbor " * 500 for number in range(20)])

    assert vectors.shape == (20, 4)
    assert len(provider.requests()) < 20 * 5


def test_a_text_that_is_refused_however_short_is_the_callers(provider: ScriptedProvider) -> None:
    provider.embeddings = ROWS["llama_cpp"].longest.answer()

    with pytest.raises(SizeRefused):
        embed(provider, ["harbor " * 600])

    tokens = [estimate(request.inputs[0]) for request in provider.requests()]
    assert tokens == [1050, 525, 262, 131, 65]


# --- an error inside a 200, in every form ------------------------------------------------------------

INSIDE: dict[str, tuple[str, str]] = {
    "object": ('{"error": {"message": "no", "code": 403}}', "auth"),
    "object with the status as text": ('{"error": {"message": "no", "code": "403"}}', "auth"),
    "text": ('{"error": "something broke"}', "server"),
    "in a list": ('[{"error": {"message": "no", "code": 403, "status": "PERMISSION_DENIED"}}]', "auth"),
    "top level": ('{"object": "error", "message": "no", "code": 403}', "auth"),
    "detail": ('{"detail": "something broke"}', "server"),
    "detail in a list": ('{"detail": [{"msg": "something broke", "loc": ["body"]}]}', "server"),
    "beside empty data": ('{"data": [], "error": {"message": "no", "code": 403}}', "auth"),
    "after blanks that kept the connection alive": ("\n" * 2_000 + '{"error": {"code": 403}}', "auth"),
    "in the choice": (
        '{"choices": [{"error": {"message": "no", "code": 403}, "message": {"content": "ha"}}]}',
        "auth",
    ),
}


@pytest.mark.parametrize(("body", "reason"), INSIDE.values(), ids=INSIDE.keys())
@pytest.mark.parametrize("call", [chat, lambda provider: embed(provider, ["a"])], ids=["chat", "embeddings"])
def test_an_error_inside_a_200_has_its_reason(
    provider: ScriptedProvider, call: Callable[[ScriptedProvider], object], body: str, reason: str
) -> None:
    provider.chat = provider.embeddings = Answer(body=body.encode())

    with pytest.raises(ProviderError) as caught:
        call(provider)

    assert caught.value.reason == reason
    assert "something broke" in str(caught.value) or reason == "auth"


def test_words_of_an_error_in_an_answer_are_an_answer(provider: ScriptedProvider) -> None:
    provider.chat = completion('{"error": "x", "detail": "y"}', detail="z", error=None)

    assert chat(provider).text == '{"error": "x", "detail": "y"}'


# --- replies that are too large ----------------------------------------------------------------------

CAP = 5 * (128 << 10)  # of a reply to one text


def peak_of(provider: ScriptedProvider) -> int:
    """Return the most bytes that Python held at once while one refused reply came in."""
    tracemalloc.start()
    try:
        with pytest.raises(ProviderError) as caught:
            embed(provider, ["a"])
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert caught.value.reason == "bad_reply"
        assert "sent over" in str(caught.value)


def packed(*pieces: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def test_200_mb_of_gzip_are_never_in_memory(provider: ScriptedProvider) -> None:
    bomb = packed(*[bytes(1 << 20)] * 200)
    assert len(bomb) < CAP  # it is what comes out that has to be counted
    provider.embeddings = Answer(body=bomb, headers={"Content-Encoding": "gzip"})

    assert peak_of(provider) < 3 * CAP


def test_what_follows_the_end_of_gzip_is_counted_too(provider: ScriptedProvider) -> None:
    tail = packed(b"{}") + bytes(40 << 20)
    provider.embeddings = Answer(body=tail, headers={"Content-Encoding": "gzip"})

    assert peak_of(provider) < 3 * CAP


def test_a_reply_as_large_as_vectors_may_be_is_read(provider: ScriptedProvider) -> None:
    vector = [0.123456789012345] * 4_096
    body = json.dumps({"data": [{"index": 0, "embedding": vector}]}).encode()
    provider.embeddings = Answer(body=packed(body), headers={"Content-Encoding": "gzip"})

    assert embed(provider, ["a"]).shape == (1, 4_096)
