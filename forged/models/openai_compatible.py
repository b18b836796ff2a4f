"""`Embedder` and `ChatModel` over any OpenAI-compatible endpoint.

What a request holds, and how it is cut to what the other side takes. The call itself is `endpoint`'s; what
comes back is read by `replies` and `streams`. Raises ProviderError alone.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection
from functools import partial

import msgspec
import numpy as np

from forged.errors import ProviderError, SizeRefused
from forged.models import Completion, Door, Enough, Health, Kind, Prompt, Purpose, Vectors, streams
from forged.models.endings import without_doubt
from forged.models.endpoint import Call, Endpoint
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
_SMALLEST_LEARNED = 4
_REFUSED = (400, 422)  # statuses of a request that holds what the server does not know
# Codes of a prompt that a filter refused (Azure, OpenAI, DashScope).
_SPEAKS_OF_FILTER = re.compile(r"(?i)content_?filter|content_policy|data_?inspection")
_SYSTEM = "system"
# How servers name the parts of a chat request that they refuse.
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
_SMALLEST_CUT = 64  # tokens; no model takes less, so what is refused then is not refused for its length
# Texts and estimated tokens in one request: what the endpoint allows, where it is known to differ.
_BATCH = (96, 8_000)
_DASHSCOPE = (10, 8_000)
_BATCH_BY_HOST = {
    "api.openai.com": (128, 64_000),
    "dashscope.aliyuncs.com": _DASHSCOPE,
    "dashscope-intl.aliyuncs.com": _DASHSCOPE,
    "dashscope-us.aliyuncs.com": _DASHSCOPE,
}


class OpenAICompatibleEmbedder:
    """`Embedder` over `POST {base_url}/embeddings`; sends `model` and `input` and nothing else.

    A call goes out in batches, by number and by estimated tokens; a refusal that speaks of size halves them
    and the smaller number is remembered while the process lives. A single text that is refused for its size
    is cut to the longest beginning, of a half, a quarter and so on, that is taken: llama.cpp takes 512 tokens
    as it comes. A call succeeds as a whole or raises on the first batch that cannot be done: whoever embeds
    a store bisects (bad_input is the fault of a text).
    """

    chunk = 64
    replaceable = True
    engine = told = ""

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        door: Door,
        health: Health | None = None,
        query_prefix: str = "",
        passage_prefix: str = "",
        backoff_s: float = 0.5,
    ) -> None:
        self._endpoint = Endpoint(base_url, key, door=door, health=health, backoff_s=backoff_s)
        self._model = model
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}
        self.key = f"{self._endpoint.shown()}\n{model}\n{passage_prefix}\n{query_prefix}"
        self._batch, self._batch_tokens = _BATCH_BY_HOST.get(self._endpoint.host, _BATCH)
        self._cut: set[int] = set()  # hashes of texts of which only a beginning was taken

    async def prepare(self) -> None:
        """The key does not depend on who answers."""

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, purpose: Purpose, deadline: float | None = None
    ) -> Vectors:
        """Return float32 unit rows of shape (len(texts), dimension); see `Embedder`.

        Without a deadline the whole call may take 60 s. A blank text is refused without a request.
        """
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
                most, growth = 1, 2  # it was this text; how many are too many is an open question again
            left = left[len(batch) :]
            most = min(most * growth, self._batch)
        # Learned only from a call that went through: a poisoned text also drives the number down. A few
        # long texts do too, hence the floor.
        if growth == 1:
            self._batch = min(self._batch, max(most, _SMALLEST_LEARNED))
        if len({rows.shape[1] for rows in done}) > 1:
            where = self._endpoint.shown()
            raise ProviderError(f"{where} sent vectors of several lengths", reason="bad_reply")
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
        def read(content: bytes) -> Vectors:
            rows = read_vectors(where, content, len(batch))
            self._endpoint.used(purpose, vector_tokens(content) or estimate(*batch))
            return rows

        where = self._endpoint.shown(_EMBEDDINGS)
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
        """Embed the beginning of a text that was refused as a whole; raises the last refusal."""
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


class EmptyStream(ProviderError):  # noqa: N818 - reads as what happened
    """A reply was asked for as a stream, and there was nothing in it.

    So llama_cpp.server says that a window is too long; asked without a stream, it says it in words.
    """


class OpenAICompatibleChat:
    """`ChatModel` over `POST {base_url}/chat/completions`; sends `model` and `messages`.

    A schema goes as nested `json_schema`, the one form that all servers read, a reply that is to be watched
    is asked for as a stream that ends with its account of tokens, and the instruction has the role `system`.
    A server that refuses one of these is asked again without, the instruction then before the text of the
    user, and never again with it if that helped. The part that a refusal names goes first, else what is
    least known. Code fences stay for the caller's parser. With `retries` 0 each of these requests is made
    exactly once, and a 500, which some servers answer to a schema and all to anything else, is left to the
    caller.

    Some chat templates begin a thought themselves; what looks like an answer is one until its end is seen. So
    a text is used before it is whole only if it can be no thought: one was seen beside or before it, or
    the prompt knows (`Prompt.clear`), or this model has answered as a whole before without any. Of a model
    that begins so nothing is used before the thought's end.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        door: Door,
        health: Health | None = None,
        backoff_s: float = 0.5,
        retries: int = 1,
    ) -> None:
        self._endpoint = Endpoint(
            base_url, key, door=door, health=health, backoff_s=backoff_s, retries=retries
        )
        self._model = model
        self._refused = frozenset[str]()
        self._takes_system = False
        self._begins_in_thought: bool | None = None
        self._schema_refused = _REFUSED if retries == 0 else (*_REFUSED, 500)

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Return the reply's text and its tokens; see `ChatModel`."""
        wishes = {name: value for name, value in _wishes(prompt).items() if name not in self._refused}
        named, last = set[str](), ""
        while True:
            try:
                completion = await self._ask(prompt, wishes, deadline)
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
                # What went before the last one without being named may well be taken: the next call tells.
                found = named | ({last} - {""})
                self._refused |= found.union(*(_GOES_WITH.get(each, ()) for each in found))
                self._takes_system = self._takes_system or _SYSTEM in wishes
                return completion

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _ask(self, prompt: Prompt, wishes: dict[str, object], deadline: float) -> Completion:
        texts, clear = (prompt.system, prompt.user), self._clear(prompt)
        where = self._endpoint.shown(_CHAT)

        def read(reply: bytes) -> Completion:
            if "stream" in wishes and not reply.strip():
                raise EmptyStream(f"{where} sent a stream of nothing", reason="empty", status=200)
            said = streams.said(where, reply)
            if said.whole and said.content:
                self._begins_in_thought = bool(self._begins_in_thought) or said.begins_in_thought
            if prompt.enough is None:
                return completion_of(where, said, tuple(map(sendable, texts)))
            done = completion_of(where, without_doubt(said, clear), tuple(map(sendable, texts)))
            if done.flaw and not done.text and done.flaw != "empty":
                raise done.error()  # here, so that the model's health hears of it
            return done

        call = Call(
            _CHAT,
            texts,
            partial(self._body, wishes),
            prompt.purpose,
            deadline,
            cap=_CHAT_REPLY_BYTES,
            never_retried=500 if "response_format" in wishes else None,
            watch=partial(streams.Watch, prompt.enough, clear) if prompt.enough else None,
        )
        return await self._endpoint.post(call, read)

    def _clear(self, prompt: Prompt) -> Enough:
        """What tells whether a text that is not whole can be no thought."""
        if self._begins_in_thought is None:
            return prompt.clear or _never
        return _never if self._begins_in_thought else _always

    def _is_refusal(self, error: ProviderError, wishes: dict[str, object]) -> bool:
        """Whether the server may have refused the last of the wishes, and not the request."""
        if "response_format" in wishes:
            return error.status in self._schema_refused
        if (
            not wishes
            or isinstance(error, SizeRefused)
            or (self._takes_system and wishes.keys() == {_SYSTEM})
        ):
            return False
        return error.status in _REFUSED or isinstance(error, EmptyStream)

    def _body(self, wishes: dict[str, object], sent: tuple[str, ...]) -> bytes:
        system, user = sent
        if _SYSTEM in wishes:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        else:
            messages = [{"role": "user", "content": f"{system}\n\n{user}".strip()}]
        parts = {name: value for name, value in wishes.items() if name != _SYSTEM}
        return msgspec.json.encode({"model": self._model, "messages": messages, **parts})


def _named_part(error: ProviderError, wishes: Collection[str]) -> str:
    """The part of a request that a refusal names, or nothing. llama.cpp's templates refuse with a 500."""
    if isinstance(error, SizeRefused) or error.status not in (*_REFUSED, 500):
        return ""
    names = _SPEAKS_OF_PART if error.status in _REFUSED else (_SYSTEM,)
    return next((each for each in names if each in wishes and _SPEAKS_OF_PART[each].search(str(error))), "")


def _never(_: str) -> bool:
    return False


def _always(_: str) -> bool:
    return True


def _wishes(prompt: Prompt) -> dict[str, object]:
    """What a request may hold and a server may refuse, what is least known last."""
    wishes: dict[str, object] = {_SYSTEM: True}
    if prompt.enough is not None:
        wishes |= {"stream": True, "stream_options": {"include_usage": True}}
    if prompt.schema is not None:
        wrapped = {"name": "reply", "strict": True, "schema": prompt.schema}
        wishes["response_format"] = {"type": "json_schema", "json_schema": wrapped}
    return wishes
