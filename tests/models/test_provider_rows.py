"""Every provider of the table, replayed: what it sends is read, and what it refuses is understood.

`tests/data/providers/` has a file for each, with replies in the shape that its documentation, its source or
the reports named in `sources` show, and synthetic values: `embeddings` answers the inputs a, b and c with the
axes of a space of three dimensions, `most` refuses too many inputs, `longest` one input that is too long,
`chat` is a reply to be read, `schema` the answer to a structured output, `refusals` the rest with what is to
be made of it (`attempts` are requests while an agent waits, `smaller` says that half of it may pass).

What no single provider does (resets, drips, vectors that are none) stands in test_openai_compatible.py.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from forged.errors import SizeRefused
from forged.models import Vectors
from forged.models.openai_compatible import OpenAICompatibleEmbedder
from forged.text.tokens import estimate
from tests.models.calls import SCHEMA, chat, embed, embedder, refused, sizes, using
from tests.support.provider import Answer, Behaviour, Request, ScriptedProvider, completion, embedded
from tests.support.provider.embedders import QUERY

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


def refused_if(too_much: Callable[[Request], bool], refusal: Reply) -> Behaviour:
    def behave(provider: ScriptedProvider, request: Request) -> Answer:
        return refusal.answer() if too_much(request) else embedded(provider, request)

    return behave


def assert_vectors_of(provider: ScriptedProvider, texts: list[str], vectors: Vectors) -> None:
    expected = np.array([provider.vector(text) for text in texts], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_every_provider_of_the_table_has_its_row():
    assert len(ROWS) == 12
    assert all(row.sources for row in ROWS.values())


# --- what is sent ------------------------------------------------------------------------------------


@rows_with("schema")
def test_a_refused_schema_is_left_out_for_good_and_json_object_is_never_asked_for(provider, row):
    refusal = row.schema.answer()
    provider.chat = lambda p, request: (
        refusal if "response_format" in request.json else completion('{"memories": []}')
    )

    assert chat(provider, times=2, schema=SCHEMA).text == '{"memories": []}'

    assert ["response_format" in request.json for request in provider.requests()] == [True, False, False]
    assert all(b"json_object" not in request.body for request in provider.requests())


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_is_understood(provider, refusal):
    provider.embeddings = refusal.answer()

    error = refused(provider, "walrus harbor", within=5.0)

    assert error.reason == refusal.reason
    assert isinstance(error, SizeRefused) is refusal.smaller
    assert error.retry_after_s == refusal.retry_after_s
    assert len(provider.requests()) == refusal.attempts
    assert refusal.says in str(error)
    assert "verys" not in str(error)


MOST = {name: row.most for name, row in ROWS.items() if row.most} | {
    "413": Reply("", status=413),
    "500": Reply('{"error": {"message": "input too large", "type": "invalid"}}', status=500),
}


@pytest.mark.parametrize("refusal", MOST.values(), ids=MOST.keys())
def test_a_refused_number_of_inputs_is_halved_until_it_passes_and_remembered(provider, refusal):
    texts = [f"text {number}" for number in range(30)]
    provider.embeddings = refused_if(lambda request: len(request.inputs) > 10, refusal)

    async def twice(model: OpenAICompatibleEmbedder) -> Vectors:
        await model.embed(texts, purpose=QUERY)
        return await model.embed(texts, purpose=QUERY)

    vectors = using(embedder(provider), twice)

    assert sizes(provider) == [30, 15, 7, 7, 7, 7, 2, 7, 7, 7, 7, 2]
    assert_vectors_of(provider, texts, vectors)


LIMIT = 512  # tokens, llama.cpp's batch unless it was started with another


def too_long(request: Request) -> bool:
    return any(estimate(text) > LIMIT for text in request.inputs)


@rows_with("longest")
def test_a_text_that_is_too_long_is_cut_and_its_neighbours_are_whole(provider, row):
    long = "harbor " * 600  # 1,050 tokens
    provider.embeddings = refused_if(too_long, row.longest)

    vectors = embed(provider, ["first", "second", long, "fourth", "fifth"])

    assert_vectors_of(provider, ["first", "second", long[: 4 * 262], "fourth", "fifth"], vectors)
