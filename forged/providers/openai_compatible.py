"""Both seams over any OpenAI-compatible endpoint; the only module that knows httpx (design.md D19).

One client per endpoint, kept connected. A call has one deadline over connecting, every attempt and the last
byte, because httpx's own time-out is per read: a server that drips bytes never meets it. Replies are read as
a stream under a cap and inflated under the same cap: 194 KB of gzip were seen to become 200 MB. Redirects
are not followed and proxies not taken from the environment, so a key goes where the user sent it.

Importing this module costs the import of httpx (80-100 ms); `factory` does so only when an endpoint is used.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
import zlib
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import msgspec
import numpy as np

from forged.config import is_usable_url, shown_url
from forged.errors import ConfigError, ProviderError
from forged.providers import Completion, Kind, Vectors
from forged.providers.failures import Fault, SizeRefused, fault_of, quotable
from forged.providers.replies import read_completion, read_vectors
from forged.providers.texts import clipped, estimated_tokens, fitting, sendable

logger = logging.getLogger(__name__)
# httpx logs every URL, with its query, at info; a query may hold a key.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)

_EMBEDDINGS = "/embeddings"
_CHAT = "/chat/completions"
_VECTOR_BYTES = 128 << 10  # of one vector as text: 4,096 numbers take 90 kB
_CHAT_REPLY_BYTES = 4 << 20
_ERROR_REPLY_BYTES = 64 << 10
_DEFAULT_TIME_S = 60.0
_CONNECT_S = 5.0
_KEEP_ALIVE_S = 50.0  # a TLS handshake is a large part of a 2 s budget
_HURRY_S = 20.0  # with less time than this an agent waits: 2 s, and 15 s that a late retrieval runs on
_LONGEST_PAUSE_S = 8.0
_MAX_TEXT_TOKENS = 8_000
_SMALLEST_LEARNED = 4
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


class Call(msgspec.Struct, frozen=True):
    """One request and its limits.

    `sent` are the texts that no error message may repeat, `deadline` is `time.monotonic()` seconds over
    everything, `cap` the most bytes of a reply, `never_retried` a status with a better answer than a retry.
    """

    path: str
    body: bytes
    sent: tuple[str, ...]
    deadline: float
    cap: int
    never_retried: int | None = None


class Endpoint:
    """One base URL with its key: a connection that retries what may pass and never outstays a deadline.

    `retries` is how often at most, for a caller that counts its attempts; None goes by the time there is.
    """

    def __init__(
        self, base_url: str, key: str = "", *, backoff_s: float = 0.5, retries: int | None = None
    ) -> None:
        """Take the URL as it is, without a guess at `/v1`. Raises ConfigError if it is not one."""
        if not is_usable_url(base_url):
            raise ConfigError(f"{shown_url(base_url)} is not an http or https URL")
        try:
            self.host = httpx.URL(base_url).host
        except httpx.InvalidURL as error:  # such as a host name that IDNA refuses
            raise ConfigError(f"{shown_url(base_url)} is not a URL that can be called") from error
        parts = urlsplit(base_url)
        user, _, host = parts.netloc.rpartition("@")
        self._parts = parts._replace(netloc=host, path=parts.path.rstrip("/"), fragment="")
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        basic = base64.b64encode(unquote(user).encode()).decode()
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        elif user:
            self._headers["authorization"] = f"Basic {basic}"
        self._secrets = tuple(filter(None, (key, unquote(user), basic, parts.query)))
        self._backoff_s = backoff_s
        self._retries = retries
        self._client: httpx.AsyncClient | None = None

    def url(self, path: str) -> str:
        """Return the URL of a path like `/embeddings`; a query of the base URL stays."""
        return urlunsplit(self._parts._replace(path=self._parts.path + path))

    def shown(self, path: str = "") -> str:
        return shown_url(self.url(path))

    async def post(self, call: Call) -> bytes:
        """Return the body of a successful reply. Raises ProviderError; SizeRefused if less may pass."""
        where, left = self.shown(call.path), call.deadline - time.monotonic()
        if left <= 0:
            raise ProviderError(f"no time left for {where}", reason="timeout")
        fitting_retries = 1 if left < _HURRY_S else 2
        try:
            async with asyncio.timeout(left):
                return await self._retrying(call, fitting_retries if self._retries is None else self._retries)
        except TimeoutError as error:
            raise ProviderError(f"{where} gave no answer in time", reason="timeout") from error

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _retrying(self, call: Call, retries: int) -> bytes:
        attempt = 0
        while True:
            reply = await self._once(call)
            if isinstance(reply, bytes):
                return reply
            pause = self._pause(reply, attempt)
            in_time = time.monotonic() + pause < call.deadline
            if attempt == retries or not in_time or not reply.retry or reply.status == call.never_retried:
                raise reply.error()
            logger.debug("retry host=%s status=%d pause_s=%.2f", self.host, reply.status, pause)
            await asyncio.sleep(pause)
            attempt += 1

    def _pause(self, fault: Fault, attempt: int) -> float:
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        jitter = random.uniform(0.75, 1.0)  # noqa: S311 - spreads callers out, hides nothing
        return min(_LONGEST_PAUSE_S, self._backoff_s * 2.0**attempt) * jitter

    async def _once(self, call: Call) -> bytes | Fault:
        where, sent = self.shown(call.path), (*call.sent, *self._secrets)
        request = self._connected().stream(
            "POST", self.url(call.path), content=call.body, headers=self._headers
        )
        try:
            async with request as response:
                status, headers = response.status_code, response.headers
                body = await _read(response, call.cap if status == 200 else _ERROR_REPLY_BYTES)
        except httpx.HTTPError as error:
            return _transport_fault(where, error, sent)
        if body is None and status == 200:
            return Fault("bad_reply", f"{where} sent over {call.cap} bytes or an unknown encoding", 200)
        fault = fault_of(where, status, headers, body or b"", sent, now=time.time())
        return (body or b"") if fault is None else fault

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            # Loading certificates takes 20 ms; without TLS nothing is ever verified with them.
            secure = self._parts.scheme == "https"
            context = httpx.create_ssl_context(trust_env=False) if secure else False
            if not isinstance(context, bool):
                context.load_default_certs()  # a company's own authority is in the system's store
            self._client = httpx.AsyncClient(
                verify=context,
                trust_env=False,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
                limits=httpx.Limits(max_connections=16, keepalive_expiry=_KEEP_ALIVE_S),
            )
        return self._client


async def _read(response: httpx.Response, cap: int) -> bytes | None:
    """Return the body, inflated if the server packed it all the same; None if it is over the cap."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "", "gzip", "deflate"):
        return None
    inflate = zlib.decompressobj(47).decompress if encoding in ("gzip", "deflate") else None
    content, received = bytearray(), 0
    try:
        async for chunk in response.aiter_raw():
            # Counted on both sides of zlib, which keeps all that follows the end of what was packed.
            received += len(chunk)
            content += chunk if inflate is None else inflate(chunk, cap + 1 - len(content))
            if max(received, len(content)) > cap:
                return None
    except zlib.error:
        return None
    return bytes(content)


def _transport_fault(where: str, error: httpx.HTTPError, sent: tuple[str, ...]) -> Fault:
    # Something answered, but not in HTTP; a server that went away in between is unreachable.
    garbled = isinstance(error, httpx.RemoteProtocolError) and "disconnected" not in str(error)
    told = quotable(str(error), sent) or type(error).__name__
    return Fault("bad_reply" if garbled else "unreachable", f"{where}: {told}", retry=True)


class OpenAICompatibleEmbedder:
    """`Embedder` over `POST {base_url}/embeddings`; sends `model` and `input` and nothing else.

    A call goes out in batches, by number and by estimated tokens; a refusal that speaks of size halves them
    and the smaller number is remembered while the process lives. A single text that is refused for its size
    is cut to the longest beginning, of a half, a quarter and so on, that is taken: llama.cpp takes 512 tokens
    as it comes. A call succeeds as a whole or raises on the first batch that cannot be done: whoever embeds
    a store bisects (bad_input is the fault of a text).
    A reply of another dimension than the one before is a bad_reply, once: the model was replaced behind its
    name, and whoever holds vectors has to get them anew.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        max_text_tokens: int = _MAX_TEXT_TOKENS,
        backoff_s: float = 0.5,
    ) -> None:
        self._endpoint = Endpoint(base_url, key, backoff_s=backoff_s)
        self._model = model
        self._prefixes: dict[Kind, str] = {"query": query_prefix, "passage": passage_prefix}
        self._max_text_tokens = max_text_tokens
        self._batch, self._batch_tokens = _BATCH_BY_HOST.get(self._endpoint.host, _BATCH)
        self._dimension = 0

    @property
    def chunk(self) -> int:
        return 64

    @property
    def key(self) -> str:
        return "\n".join((self._endpoint.shown(), self._model, self._prefixes["passage"]))

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, deadline: float | None = None
    ) -> Vectors:
        """Return float32 unit rows of shape (len(texts), dimension); see `Embedder`.

        Without a deadline the whole call may take 60 s. A blank text is refused without a request.
        """
        until = time.monotonic() + _DEFAULT_TIME_S if deadline is None else deadline
        ready = [self._ready(text, kind) for text in texts]
        done: list[Vectors] = []
        at, most, growth = 0, self._batch, 1
        while at < len(ready):
            batch = ready[at : at + fitting(ready[at:], most, self._batch_tokens)]
            try:
                done.append(await self._embed_batch(batch, until))
            except SizeRefused as refusal:
                if len(batch) > 1:
                    most, growth = len(batch) // 2, 1
                    logger.debug("batch halved host=%s texts=%d", self._endpoint.host, most)
                    continue
                done.append(await self._embed_cut(batch[0], until, refusal))
                most, growth = 1, 2  # it was this text; how many are too many is an open question again
            at += len(batch)
            most = min(most * growth, self._batch)
        # Learned only from a call that went through: a poisoned text also drives the number down. A few
        # long texts do too, hence the floor.
        if growth == 1:
            self._batch = min(self._batch, max(most, _SMALLEST_LEARNED))
        return np.concatenate(done) if done else np.zeros((0, self._dimension), dtype=np.float32)

    def forget(self) -> None:
        self._dimension = 0

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    async def _embed_batch(self, batch: list[str], deadline: float) -> Vectors:
        body = msgspec.json.encode({"model": self._model, "input": batch})
        content = await self._endpoint.post(
            Call(_EMBEDDINGS, body, tuple(batch), deadline, cap=_VECTOR_BYTES * (len(batch) + 4))
        )
        rows = read_vectors(self._endpoint.shown(_EMBEDDINGS), content, len(batch))
        before, self._dimension = self._dimension, rows.shape[1]
        if before not in (0, self._dimension):
            raise ProviderError(
                f"{self._endpoint.shown()} sent vectors of {self._dimension} numbers after {before}",
                reason="bad_reply",
            )
        return rows

    async def _embed_cut(self, text: str, deadline: float, refusal: SizeRefused) -> Vectors:
        """Embed the beginning of a text that was refused as a whole; raises the last refusal."""
        tokens = estimated_tokens(text) // 2
        while tokens >= _SMALLEST_CUT:
            try:
                row = await self._embed_batch([clipped(text, tokens)], deadline)
            except SizeRefused as error:
                refusal, tokens = error, tokens // 2
            else:
                logger.info("text cut host=%s tokens=%d", self._endpoint.host, tokens)
                return row
        raise refusal

    def _ready(self, text: str, kind: Kind) -> str:
        text = sendable(text).strip()  # to some servers the line end of a file is one more token
        if not text:
            raise ProviderError("a text to embed is blank", reason="bad_input")
        return clipped(f"{self._prefixes[kind]}{text}", self._max_text_tokens)


class OpenAICompatibleChat:
    """`ChatModel` over `POST {base_url}/chat/completions`; sends `model` and `messages`.

    A schema goes as nested `json_schema`, the one form that all servers read; a server that refuses it is
    asked again without, and never again with it if that helped. Code fences stay for the caller's parser.
    With `retries` 0 each of these requests is made exactly once, and a 500, which some servers answer to a
    schema and all to anything else, is left to the caller.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        key: str = "",
        *,
        reasoning_effort: str = "",
        backoff_s: float = 0.5,
        retries: int | None = None,
    ) -> None:
        self._endpoint = Endpoint(base_url, key, backoff_s=backoff_s, retries=retries)
        self._model = model
        self._reasoning_effort = reasoning_effort
        self._takes_schema = True
        self._refusals = (400, 422) if retries == 0 else (400, 422, 500)

    async def complete(
        self, system: str, user: str, *, deadline: float, schema: dict[str, object] | None = None
    ) -> Completion:
        """Return the reply's text and its tokens; see `ChatModel`."""
        sent = (sendable(system), sendable(user))

        async def ask(wanted: dict[str, object] | None, never_retried: int | None = None) -> Completion:
            body = self._body(*sent, wanted)
            call = Call(_CHAT, body, sent, deadline, _CHAT_REPLY_BYTES, never_retried)
            return read_completion(self._endpoint.shown(_CHAT), await self._endpoint.post(call), sent)

        if schema is None or not self._takes_schema:
            return await ask(None)
        try:
            return await ask(schema, never_retried=500)
        except ProviderError as error:
            if error.status not in self._refusals:
                raise
        completion = await ask(None)
        self._takes_schema = False
        return completion

    async def aclose(self) -> None:
        await self._endpoint.aclose()

    def _body(self, system: str, user: str, schema: dict[str, object] | None) -> bytes:
        request: dict[str, object] = {
            "model": self._model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        }
        if schema is not None:
            wrapped = {"name": "reply", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": wrapped}
        if self._reasoning_effort:
            request["reasoning_effort"] = self._reasoning_effort
        return msgspec.json.encode(request)
