"""`Embedder` and `ChatModel` over any OpenAI-compatible endpoint: builds requests that it accepts.

`endpoint` makes the call; `replies` and `streams` read the reply. Raises ProviderError alone.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection
from functools import partial

import msgspec
import numpy as np

from forged.errors import ProviderError, SizeRefused
from forged.models import (
    Completion,
    EgressGuard,
    EndpointHealth,
    Enough,
    Kind,
    Prompt,
    Purpose,
    Vectors,
    streams,
)
from forged.models.endpoint import Call, Endpoint
from forged.models.finish_reasons import without_possible_reasoning
from forged.models.replies import completion_of, read_vectors, vector_tokens
from forged.models.texts import exceeds, fitting, ready, sendable
from forged.text.tokens import estimate

logger = logging.getLogger(__name__)

_EMBEDDINGS = "/embeddings"
_CHAT = "/chat/completions"
_VECTOR_BYTES = 128 << 10  # of one vector as text: 4,096 numbers take 90 kB
_CHAT_REPLY_BYTES = 4 << 20
_DEFAULT_TIME_S = 60.0
_MAX_TEXT_TOKENS = 8_000
_SMALLEST_LEARNED = 4  # because a few long texts lower the number too
_REFUSED = (400, 422)  # statuses of a request with a part that the server does not know
# Codes of a prompt that a filter refused (Azure, OpenAI, DashScope).
_SPEAKS_OF_FILTER = re.compile(r"(?i)content_?filter|content_policy|data_?inspection")
_SYSTEM = "system"
_SPEAKS_OF_PART = {
    "stream_options": re.compile(r"(?i)stream_?options|include_usage"),
    "stream": re.compile(r"(?i)\bstream(?:ing|ed)?\b"),
    "response_format": re.compile(r"(?i)response_?format|json_?schema|structured.?output|guided"),
    _SYSTEM: re.compile(
        r"(?i)system[ _](?:role|prompt|message|instruction)|developer (?:role|message|instruction)"
        r"|\broles?\b|['\"]system['\"]|'user' (?:or|and) '"
    ),
}
_GOES_WITH = {"stream": ("stream_options",)}
_SMALLEST_CUT = 64  # tokens; every model accepts so many
# Texts and estimated tokens in one request: the endpoint's limit, where it is known to differ.
_BATCH = (96, 8_000)
_DASHSCOPE = (10, 8_000)
_BATCH_BY_HOST = {
    "api.openai.com": (128, 64_000),
    "dashscope.aliyuncs.com": _DASHSCOPE,
    "dashscope-intl.aliyuncs.com": _DASHSCOPE,
    "dashscope-us.aliyuncs.com": _DASHSCOPE,
}


class OpenAICompatibleEmbedder:
    """`Embedder` over `POST {base_url}/embeddings`; halves batches and cuts texts refused for size.

    A call is sent in batches. A refusal for size halves them, and the smaller number stays for the process.
    A single text that is refused for size is cut to a half, a quarter and so on: llama.cpp takes 512 tokens
    by default. A call succeeds as a whole or raises at the first batch that fails.
    """

    chunk = 64
    replaceable = True
    gives_layers = False
    engine = engine_note = ""
    renamed: Callable[[], None]  # never called

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        egress: EgressGuard,
        health: EndpointHealth | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        backoff_s: float = 0.5,
    ) -> None:
        self.health = health
        self._endpoint = Endpoint(base_url, key, egress=egress, health=health, backoff_s=backoff_s)
        self._model = model
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}
        self.key = f"{self._endpoint.display_url()}\n{model}\n{passage_prefix}\n{query_prefix}"
        self._batch, self._batch_tokens = _BATCH_BY_HOST.get(self._endpoint.host, _BATCH)
        self._cut: set[int] = set()  # hashes of texts that were cut

    async def prepare(self) -> None:
        """Return at once: the key does not depend on the endpoint's answer."""

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, purpose: Purpose, deadline: float | None = None
    ) -> Vectors:
        """Return unit vectors, in batches halved if refused for size, within 60 s by default."""
        until = time.monotonic() + _DEFAULT_TIME_S if deadline is None else deadline
        if not all(text.strip() for text in texts):
            raise ProviderError("a text to embed is blank", reason="bad_input")
        left, done = texts, list[Vectors]()
        most, growth = self._batch, 1
        while left:
            batch = left[: fitting(left, most, self._batch_tokens)]
            try:
                done.append(await self._embed_batch(batch, kind, purpose, until))
            except SizeRefused as refusal:
                if len(batch) > 1:
                    most, growth = len(batch) // 2, 1
                    logger.debug("batch halved host=%s texts=%d", self._endpoint.host, most)
                    continue
                done.append(await self._embed_cut(batch[0], kind, purpose, until, refusal))
                most, growth = 1, 2  # the cause was this text
            left = left[len(batch) :]
            most = min(most * growth, self._batch)
        # Learned only from a call that succeeded, because a faulty text also lowers the number.
        if growth == 1:
            self._batch = min(self._batch, max(most, _SMALLEST_LEARNED))
        if len({rows.shape[1] for rows in done}) > 1:
            message = f"{self._endpoint.display_url()} sent vectors of several lengths"
            raise ProviderError(message, reason="bad_reply")
        return np.concatenate(done) if done else np.zeros((0, 0), dtype=np.float32)

    def is_cut(self, text: str) -> bool:
        return hash(text) in self._cut or exceeds(text, self._prefixes["passage"], _MAX_TEXT_TOKENS)

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _embed_batch(
        self,
        batch: list[str],
        kind: Kind,
        purpose: Purpose,
        deadline: float,
        tokens: int = _MAX_TEXT_TOKENS,
    ) -> Vectors:
        """Return vectors of a batch by one request, texts cut to `tokens`. Raises SizeRefused."""

        def read(content: bytes) -> Vectors:
            rows = read_vectors(where, content, len(batch))
            self._endpoint.record_tokens(purpose, vector_tokens(content) or estimate(*batch))
            return rows

        where = self._endpoint.display_url(_EMBEDDINGS)
        call = Call(
            _EMBEDDINGS,
            tuple(batch),
            lambda sent: msgspec.json.encode({"model": self._model, "input": sent}),
            purpose,
            deadline,
            cap=_VECTOR_BYTES * (len(batch) + 4),
            fit=partial(ready, prefix=self._prefixes[kind], tokens=tokens),
        )
        return await self._endpoint.post(call, read)

    async def _embed_cut(
        self, text: str, kind: Kind, purpose: Purpose, deadline: float, refusal: SizeRefused
    ) -> Vectors:
        """Embed a text refused for size, cut to a half, a quarter, ...; raise below 64 tokens."""
        tokens = estimate(ready(text, self._prefixes[kind], _MAX_TEXT_TOKENS)) // 2
        while tokens >= _SMALLEST_CUT:
            try:
                row = await self._embed_batch([text], kind, purpose, deadline, tokens)
            except SizeRefused as error:
                refusal, tokens = error, tokens // 2
            else:
                logger.info("text cut host=%s tokens=%d", self._endpoint.host, tokens)
                self._cut.add(hash(text))
                return row
        raise refusal


class EmptyStream(ProviderError):  # noqa: N818 - reads as the event it names
    """Raised if a stream holds nothing, as llama_cpp.server answers a prompt that is too long."""


class OpenAICompatibleChat:
    """`ChatModel` over `POST {base_url}/chat/completions`; drops optional parts that a server refuses.

    A schema goes as nested `json_schema`. A watched reply comes as a stream that ends with its token counts.
    The instruction has the role `system`. If a server refuses one of these, the request is repeated without
    it, and never sent with it again if that helped. The part that a refusal names goes first, else the least
    common one. With `retries` 0 each request is made once, and a 500, which some servers answer to a schema,
    is raised.

    Some chat templates open the reasoning themselves. So a text is used before it is whole only if it cannot
    be reasoning. That is so if reasoning came before it, if `Prompt.clear` accepts it, or if this model has
    answered as a whole without any.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        egress: EgressGuard,
        health: EndpointHealth | None = None,
        backoff_s: float = 0.5,
        retries: int = 1,
    ) -> None:
        made = Endpoint(base_url, key, egress=egress, health=health, backoff_s=backoff_s, retries=retries)
        self._endpoint, self.health, self._model = made, health, model
        self._refused, self._takes_system = frozenset[str](), False
        self._starts_in_reasoning: bool | None = None
        self._schema_refused = _REFUSED if retries == 0 else (*_REFUSED, 500)

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Complete the prompt; leave out parts that the server refuses, also later if that helped."""
        wishes = {name: value for name, value in _optional_parts(prompt).items() if name not in self._refused}
        named, last = set[str](), ""
        while True:
            try:
                completion = await self._complete_once(prompt, wishes, deadline)
            except ProviderError as error:
                if error.status in _REFUSED and _SPEAKS_OF_FILTER.search(str(error)):
                    raise ProviderError(str(error), reason="filtered", status=error.status) from error
                name = _named_part(error, wishes)
                if not name and not self._is_refusal(error, wishes):
                    raise
                last = name or next(reversed(wishes))
                named |= {name} - {""}
                for each in (last, *_GOES_WITH.get(last, ())):
                    wishes.pop(each, None)
            else:
                found = named | ({last} - {""})
                self._refused |= found.union(*(_GOES_WITH.get(each, ()) for each in found))
                self._takes_system = self._takes_system or _SYSTEM in wishes
                return completion

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _complete_once(self, prompt: Prompt, wishes: dict[str, object], deadline: float) -> Completion:
        """Make one request with these optional parts, and return the completion."""
        texts, clear = (prompt.system, prompt.user), self._reasoning_check(prompt)
        where = self._endpoint.display_url(_CHAT)

        def read(reply: bytes) -> Completion:
            if "stream" in wishes and not reply.strip():
                raise EmptyStream(f"{where} sent a stream of nothing", reason="empty", status=200)
            parsed = streams.parse_reply(where, reply)
            if parsed.whole and parsed.content:
                self._starts_in_reasoning = bool(self._starts_in_reasoning) or parsed.starts_in_reasoning
            is_watched = prompt.enough is not None
            parsed = without_possible_reasoning(parsed, clear) if is_watched else parsed
            done = completion_of(where, parsed, tuple(map(sendable, texts)))
            if is_watched and done.failure not in {"", "empty"} and not done.text:
                raise done.error()  # raised here, so that the model's health records it
            return done

        call = Call(
            _CHAT,
            texts,
            partial(self._encode_body, wishes),
            prompt.purpose,
            deadline,
            cap=_CHAT_REPLY_BYTES,
            never_retried=500 if "response_format" in wishes else None,
            watch=partial(streams.StreamWatch, prompt.enough, clear) if prompt.enough else None,
        )
        return await self._endpoint.post(call, read)

    def _reasoning_check(self, prompt: Prompt) -> Enough:
        """Return the function that returns True for a partial text that cannot be reasoning."""
        if self._starts_in_reasoning is None:
            return prompt.clear or (lambda _: False)
        clear = not self._starts_in_reasoning
        return lambda _: clear

    def _is_refusal(self, error: ProviderError, wishes: dict[str, object]) -> bool:
        """Return True if an error may be the server's refusal of an optional part of the request."""
        if "response_format" in wishes:
            return error.status in self._schema_refused
        takes = self._takes_system and wishes.keys() == {_SYSTEM}
        if not wishes or takes or isinstance(error, SizeRefused):
            return False
        return error.status in _REFUSED or isinstance(error, EmptyStream)

    def _encode_body(self, wishes: dict[str, object], sent: tuple[str, ...]) -> bytes:
        """Return the request's JSON with these texts and optional parts."""
        joined = [("user", "\n\n".join(sent).strip())]
        roles = zip((_SYSTEM, "user"), sent, strict=True) if _SYSTEM in wishes else joined
        messages = [{"role": role, "content": text} for role, text in roles]
        parts = {name: value for name, value in wishes.items() if name != _SYSTEM}
        return msgspec.json.encode({"model": self._model, "messages": messages, **parts})


def _named_part(error: ProviderError, wishes: Collection[str]) -> str:
    """Return the part of a request that a refusal names, or "". llama.cpp's templates refuse with 500."""
    if isinstance(error, SizeRefused) or error.status not in (*_REFUSED, 500):
        return ""
    names = _SPEAKS_OF_PART if error.status in _REFUSED else (_SYSTEM,)
    return next((each for each in names if each in wishes and _SPEAKS_OF_PART[each].search(str(error))), "")


def _optional_parts(prompt: Prompt) -> dict[str, object]:
    """Return the optional parts of a request that a server may refuse, the least common last."""
    wishes: dict[str, object] = {_SYSTEM: True}
    if prompt.enough is not None:
        wishes |= {"stream": True, "stream_options": {"include_usage": True}}
    if prompt.schema is not None:
        wrapped = {"name": "reply", "strict": True, "schema": prompt.schema}
        wishes["response_format"] = {"type": "json_schema", "json_schema": wrapped}
    return wishes
