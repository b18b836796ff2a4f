"""Parse the replies of an OpenAI-compatible endpoint: vectors, or a text and its tokens.

Pure functions. `index` may be missing or wrong, numbers may be base64, JSON may have NaN, and reasoning may
be next to the answer. Only finite unit rows of one size are returned. Invalid token counts do not spoil an
answer. Raises ProviderError, bad_reply.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.models import Completion, Vectors
from forged.models.finish_reasons import ModelReply, failure_of, is_truncated, text_of
from forged.text.tokens import estimate
from forged_client.typed import resolved


class _VectorItem(msgspec.Struct, frozen=True):
    """One vector of a reply: numbers or base64, and its place."""

    embedding: list[float | None] | str
    index: int | None = None


class _UsageReply(msgspec.Struct, frozen=True):
    """The token counts of a reply, read apart from its vectors."""

    usage: object = None


class _VectorReply(msgspec.Struct, frozen=True):
    """Reply of `/embeddings`: the vectors of the texts, perhaps in another order."""

    data: list[_VectorItem]


class ChatMessage(msgspec.Struct, frozen=True):
    """A message of a model, or a part of it: text or parts of text, and reasoning under either name."""

    content: str | list[dict[str, object]] | None = None
    reasoning_content: object = None
    reasoning: object = None
    refusal: object = None
    tool_calls: object = None
    function_call: object = None

    @property
    def thoughts(self) -> str:
        """Return the message's reasoning, under either of its names, if it is text; else empty."""
        return next((each for each in (self.reasoning_content, self.reasoning) if isinstance(each, str)), "")

    @property
    def text(self) -> str:
        """Return the message's text, joined if it has parts."""
        if isinstance(self.content, list):
            return "".join(str(part.get("text") or "") for part in self.content)
        return self.content or ""

    @property
    def is_refusal(self) -> bool:
        """Return True if the message, or a part of it, marks a refusal of the model."""
        parts = self.content if isinstance(self.content, list) else []
        return bool(_stripped_text(self.refusal)) or any(part.get("type") == "refusal" for part in parts)

    @property
    def is_call(self) -> bool:
        """Return True if the message calls a tool."""
        return bool(self.tool_calls or self.function_call)


class _Choice(msgspec.Struct, frozen=True):
    """One choice of a reply of `/chat/completions`: a message and its finish reason."""

    message: ChatMessage | None = None
    finish_reason: object = None


class _ChatReply(msgspec.Struct, frozen=True):
    """Reply of `/chat/completions` that is not streamed: choices and token counts."""

    choices: list[_Choice]
    usage: object = None


_R = TypeVar("_R", _VectorReply, _ChatReply)
_VECTORS = msgspec.json.Decoder(resolved(_VectorReply))
_USAGE = msgspec.json.Decoder(resolved(_UsageReply))
_CHAT = msgspec.json.Decoder(resolved(_ChatReply))


def read_vectors(where: str, body: bytes, count: int) -> Vectors:
    """Parse a reply of vectors into float32 unit rows, shape (count, dimension), in order of the inputs.

    Raises ProviderError. bad_reply: the reply has another form. bad_input: some rows, or the only one, are
    zero or not finite, which is due to those texts and not to the endpoint.
    """
    items = _decode(where, body, _VECTORS).data
    if len(items) != count:
        raise _bad_reply(f"{where} sent {len(items)} vectors for {count} texts")
    rows: list[list[float | None] | Vectors] = [[]] * count
    for position, item in zip(item_places([item.index for item in items]), items, strict=True):
        rows[position] = _vector_numbers(where, item.embedding)
    sizes = sorted({len(row) for row in rows})
    if len(sizes) != 1 or sizes == [0]:
        raise _bad_reply(f"{where} sent vectors of {' and '.join(map(str, sizes))} numbers in one reply")
    return _unit_rows(where, rows)


def vector_tokens(body: bytes) -> int:
    """Return the token count in a reply of vectors, 0 if there is none."""
    try:
        return _token_count(_USAGE.decode(body).usage, _PROMPT)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return 0


def item_places(indexes: list[int | None]) -> list[int]:
    """Return the place of each vector in a reply: by `index` if these form exactly 0..n-1, else by order.

    A single missing index is the free place (Gemini leaves out 0); several are filled by position.
    """
    places = range(len(indexes))
    free = [place for place in places if place not in set(indexes)]
    lone = free[0] if indexes.count(None) == 1 and len(free) == 1 else None
    filled = [
        index if index is not None else (at if lone is None else lone) for at, index in enumerate(indexes)
    ]
    return filled if sorted(filled) == list(places) else list(places)


def _vector_numbers(where: str, embedding: list[float | None] | str) -> list[float | None] | Vectors:
    """Return the numbers of a vector, decoded if they are base64."""
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    except ValueError as error:
        raise _bad_reply(f"{where} sent a vector that is neither numbers nor base64 floats") from error


def _unit_rows(where: str, rows: list[list[float | None] | Vectors]) -> Vectors:
    """Return the rows as float32 of unit length. Raises ProviderError for unusable rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        matrix = np.array(rows, dtype=np.float32)  # None becomes NaN, 1e39 infinity
    norms = np.linalg.norm(matrix.astype(np.float64), axis=1, keepdims=True)
    bad = ~(np.isfinite(norms) & (norms > 0))[:, 0]
    if bad.any():
        everywhere = bad.all() and len(rows) > 1
        raise ProviderError(
            f"{where} sent {int(bad.sum())} of {len(rows)} vectors with no length or not finite",
            reason="bad_reply" if everywhere else "bad_input",
        )
    unit: Vectors = (matrix / norms).astype(np.float32)
    return unit


def _decode(where: str, body: bytes, decoder: msgspec.json.Decoder[_R]) -> _R:
    """Return a decoded reply, also one with NaN. Raises ProviderError, bad_reply, with the defect."""
    try:
        body.decode()  # the decoder does not check the fields that it skips
    except UnicodeDecodeError as error:
        raise _bad_reply(f"{where} sent bytes that are no UTF-8") from error
    try:
        return decoder.decode(body)
    except RecursionError as error:
        raise _bad_reply(f"{where} sent JSON that is too deep") from error
    except msgspec.DecodeError:
        pass
    # Python servers write NaN and Infinity, which are not JSON; one such row must not hide the others.
    try:
        return msgspec.convert(json.loads(body), resolved(decoder.type))
    except msgspec.ValidationError as error:
        hint = "; is /v1 missing in the base URL?"
        raise _bad_reply(f"{where} sent JSON of another shape ({error}){hint}") from error
    except (ValueError, RecursionError) as error:
        kind = "nothing" if not body.strip() else "no JSON"
        raise _bad_reply(f"{where} sent {kind}; is the base URL right?") from error


def _bad_reply(message: str) -> ProviderError:
    """Return the `bad_reply` error, with this message, for an endpoint's reply in another form."""
    return ProviderError(message, reason="bad_reply", status=200)


# --- chat --------------------------------------------------------------------------------------------

# Names of the two counts: first those of OpenAI, then those of proxies for Anthropic.
_PROMPT = ("prompt_tokens", "input_tokens")
_COMPLETION = ("completion_tokens", "output_tokens")
_MOST_TOKENS = 1_000_000_000


def read_reply(where: str, body: bytes) -> ModelReply:
    """Return the first choice of a reply that is not streamed. Raises ProviderError, bad_reply."""
    reply = _decode(where, body, _CHAT)
    if not reply.choices:
        raise _bad_reply(f"{where} sent no choice")
    choice = reply.choices[0]
    message, finish = choice.message or ChatMessage(), _stripped_text(choice.finish_reason)
    parsed = ModelReply(
        content=message.text,
        thoughts=message.thoughts,
        finish=finish,
        refused=message.is_refusal,
        called=message.is_call,
        usage=reply.usage,
    )
    failure = failure_of(parsed)
    if choice.message is None and (failure is None or failure.reason == "empty"):
        raise _bad_reply(f"{where} sent a choice without a message")
    return parsed


def completion_of(where: str, parsed: ModelReply, sent: Sequence[str]) -> Completion:
    """Return a parsed reply as a completion: text without reasoning, tokens, and a failure if any.

    Tokens that the endpoint does not count are estimated from `sent`, the prompts, and from the reply with
    its reasoning.
    """
    failure = failure_of(parsed)
    return Completion(
        text_of(parsed),
        _token_count(parsed.usage, _PROMPT) or estimate(*sent),
        _token_count(parsed.usage, _COMPLETION) or estimate(parsed.content, parsed.thoughts),
        not is_truncated(parsed),
        failure.reason if failure else "",
        f"{where}: {failure.message}" if failure else "",
    )


def _token_count(usage: object, names: Sequence[str]) -> int:
    """Return the first valid count in `usage` under one of these names, perhaps given as text; else 0."""
    found = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    for value in found:
        try:
            number = int(value) if isinstance(value, (int, float, str)) else 0
        except (ValueError, OverflowError):
            continue
        if 0 < number <= _MOST_TOKENS and not isinstance(value, bool):
            return number
    return 0


def _stripped_text(value: object) -> str:
    """Return a text without outer blanks; empty for another type."""
    return value.strip() if isinstance(value, str) else ""
