"""One base URL that is called under a deadline; the only module that knows httpx.

Goes in: a `Call`, which is texts, how a body is made of them, how the reply is read, and limits. Comes out:
what was read of a reply that is no failure; everything else raises ProviderError, and a URL that cannot be
called ConfigError. The body is made of what the door (`outbound`) has let through, and of nothing else.

How each attempt went is told to the model's `Health`, which is asked before each call: one that is not worth
a call is not called, and nothing is made once more that an agent would wait for past its deadline.

One client per endpoint, kept connected. A call has one deadline over connecting, every attempt and the last
byte, because httpx's own time-out is per read: a server that drips bytes never meets it. Replies are read as
a stream under a cap and inflated under the same cap: 194 KB of gzip were seen to become 200 MB. Redirects
are not followed and no proxy is taken from the environment: a key goes where the user sent it, through a
proxy of the configuration by CONNECT alone.

Importing this module costs the import of httpx (80-100 ms); `factory` does so only when an endpoint is used.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import msgspec

from forged.config import is_usable_url, shown_url
from forged.counters import Departure
from forged.errors import ConfigError, ProviderError
from forged.fair_queue import retrieved
from forged.models import Purpose, streams
from forged.models.failures import Fault, fault_of
from forged.models.health import Attempt, Health
from forged.models.outbound import Door, Leaving
from forged.models.quoting import Unsaid, quotable
from forged.models.texts import sendable

logger = logging.getLogger(__name__)
# httpx logs every URL, with its query, at info; a query may hold a key.
logging.getLogger("httpx").setLevel(logging.WARNING)
logging.getLogger("httpcore").setLevel(logging.WARNING)

_ERROR_REPLY_BYTES = 64 << 10
_CONNECT_S = 5.0
_KEEP_ALIVE_S = 50.0  # a TLS handshake is a large part of a 2 s budget
_LONGEST_PAUSE_S = 8.0
_LOOK_S = 0.05
# More than the calls of late pipelines and of builds together: a new turn finds one that is free.
_CONNECTIONS = 32
# What agents ask: how long it takes tells whether the model is fast enough for them.
_TIMED = frozenset({"query", "hyde"})
# Tried again by whoever builds, after a look whether the endpoint or a text is at fault.
_TRIED_ONCE = frozenset({"build", "identity"})

R = TypeVar("R")


class Call(msgspec.Struct, frozen=True):
    """One request and its limits.

    `texts` is all in it that comes from a person, whole and uncut; `fit` cuts what the door leaves of each to
    what is sent, and `body` makes the request of these, in their order. `deadline` is `time.monotonic()`
    seconds over everything, `cap` the most bytes of a reply, `never_retried` a status with a better answer
    than a retry. With `watch`, which makes one for each attempt, the reply is read no further than is
    enough, and one that breaks off is an answer if what came of it can stand.
    """

    path: str
    texts: tuple[str, ...]
    body: Callable[[tuple[str, ...]], bytes]
    purpose: Purpose
    deadline: float
    cap: int
    never_retried: int | None = None
    watch: Callable[[], streams.Watch] | None = None
    fit: Callable[[str], str] = sendable


class _Request(msgspec.Struct, frozen=True):
    """A call behind the door: `sent` are the texts as they leave, which no error message may repeat."""

    call: Call
    body: bytes
    sent: tuple[str, ...]


class Endpoint:
    """One base URL with its key: a connection that retries what may pass and never outstays a deadline.

    `retries` is how often at most; a caller that counts its attempts wants none.
    `health` is that of the one model that is asked here, shared with whoever else asks it; without one every
    call is made, for a process whose calls are let through by another.
    """

    def __init__(
        self,
        base_url: str,
        key: str = "",
        *,
        door: Door,
        health: Health | None = None,
        backoff_s: float = 0.5,
        retries: int = 1,
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
        self._proxy = door.proxy_for(base_url, key)
        self._parts = parts._replace(netloc=host, path=parts.path.rstrip("/"), fragment="")
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        basic = base64.b64encode(unquote(user).encode()).decode()
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        elif user:
            self._headers["authorization"] = f"Basic {basic}"
        self._secrets = tuple(filter(None, (key, unquote(user), basic, parts.query)))
        self._door = door
        self._place = host
        self._health = health or Health(self.host)
        self._is_watched = health is not None
        self._backoff_s = backoff_s
        self._retries = retries
        self._client: httpx.AsyncClient | None = None

    def used(self, purpose: Purpose, tokens: int) -> None:
        """Count what an answer took, where its caller does not."""
        self._door.record(Departure(self._place, purpose.name, tokens=tokens))

    def url(self, path: str) -> str:
        """Return the URL of a path like `/embeddings`; a query of the base URL stays."""
        return urlunsplit(self._parts._replace(path=self._parts.path + path))

    def shown(self, path: str = "") -> str:
        return shown_url(self.url(path))

    async def post(self, call: Call, read: Callable[[bytes], R]) -> R:
        """Return what `read` makes of a good reply. Raises ProviderError; SizeRefused if less may pass."""
        where, left = self.shown(call.path), call.deadline - time.monotonic()
        if left <= 0:
            raise ProviderError(f"no time left for {where}", reason="timeout")
        if self._is_watched and not (call.purpose.suspect or call.purpose.name == "doctor"):
            self._health.admit(call.purpose.waiting)
        try:
            async with asyncio.timeout(left):
                sent = tuple(map(call.fit, await self._door.cleared(call.texts)))
                request = _Request(call, call.body(sent), sent)
                return await self._retrying(request, read)
        except TimeoutError as error:
            raise _late(where) from error

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _retrying(self, request: _Request, read: Callable[[bytes], R]) -> R:
        call, attempt = request.call, 0
        while True:
            with self._counted(call) as counted:
                reply = await self._once(request, read)
                if not isinstance(reply, Fault):
                    counted.succeeded()
                    return reply
                if not call.purpose.suspect:
                    counted.failed(reply.error())
            pause = self._pause(reply, attempt)
            if attempt == self._retries or not self._may_retry(call, reply, time.monotonic() + pause):
                raise reply.error()
            logger.debug("retry host=%s status=%d pause_s=%.2f", self.host, reply.status, pause)
            await asyncio.sleep(pause)
            attempt += 1

    def _may_retry(self, call: Call, fault: Fault, at: float) -> bool:
        """Whether the same once more, at that time, may help and is not too late."""
        waiting = call.purpose.waiting
        if not fault.retry or fault.status == call.never_retried or call.purpose.name in _TRIED_ONCE:
            return False
        if at >= call.deadline or (self._is_watched and self._health.is_open):
            return False
        return waiting is None or waiting.take_retry(at)

    @contextmanager
    def _counted(self, call: Call) -> Iterator[Attempt]:
        """One attempt, as its model's health hears of it; what it did not come to is made out here."""
        waiting = call.purpose.waiting
        attempt, late = self._health.begin(waiting, timed=call.purpose.name in _TIMED), None
        if waiting is not None:
            left = waiting.until - time.monotonic()
            late = asyncio.get_running_loop().call_later(max(left, 0.0), attempt.outlived)
        try:
            yield attempt
        except ProviderError as error:
            if not call.purpose.suspect:
                attempt.failed(error)
            raise
        except asyncio.CancelledError:
            now = time.monotonic()
            if waiting is not None and now >= waiting.until:
                attempt.outlived()
            if now >= call.deadline and not call.purpose.suspect:
                attempt.failed(_late(self.shown(call.path)))
            raise
        finally:
            if late is not None:
                late.cancel()
            attempt.abandoned()

    def _pause(self, fault: Fault, attempt: int) -> float:
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        jitter = random.uniform(0.75, 1.0)  # noqa: S311 - spreads callers out, hides nothing
        return min(_LONGEST_PAUSE_S, self._backoff_s * 2.0**attempt) * jitter

    async def _once(self, request: _Request, read: Callable[[bytes], R]) -> R | Fault:
        """One attempt through the door: a pause that came meanwhile holds, and what leaves is counted."""
        purpose = request.call.purpose
        await self._door.check(purpose, request.sent)
        with Leaving(self._door.record, self._place, purpose, request.sent) as leaving:
            reply = await self._exchange(request, leaving)
            if isinstance(reply, Fault):
                return reply
            answer = read(reply)
            leaving.answered = True
            return answer

    async def _exchange(self, request: _Request, leaving: Leaving) -> bytes | Fault:
        call, unsaid = request.call, Unsaid(request.sent, self._secrets)
        where = self.shown(call.path)
        exchange = self._connected().stream(
            "POST",
            self.url(call.path),
            content=request.body,
            headers=self._headers,
            extensions={"trace": leaving.trace},
        )
        seen = call.watch() if call.watch is not None else None
        try:
            async with exchange as response:
                status, headers = response.status_code, response.headers
                if status == 200:
                    body = await _read(response, call.cap, seen)
                else:
                    body = await _read(response, _ERROR_REPLY_BYTES)
        except httpx.HTTPError as error:
            return _transport_fault(where, error, unsaid)
        if body is None and status == 200:
            return Fault("bad_reply", f"{where} sent over {call.cap} bytes or an unknown encoding", 200)
        body = body or b""
        if status == 200 and seen is not None and seen.stands:
            return body
        told = streams.error_in(body) or body
        fault = fault_of(where, status, headers, told, unsaid, now=time.time())
        return body if fault is None else fault

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
                proxy=self._proxy or None,
                follow_redirects=False,
                timeout=httpx.Timeout(None, connect=_CONNECT_S),
                limits=httpx.Limits(max_connections=_CONNECTIONS, keepalive_expiry=_KEEP_ALIVE_S),
            )
        return self._client


def _late(where: str) -> ProviderError:
    return ProviderError(f"{where} gave no answer in time", reason="timeout")


async def _read(response: httpx.Response, cap: int, seen: streams.Watch | None = None) -> bytes | None:
    """Return the body, inflated if the server packed it all the same; None if it is over the cap.

    Or its beginning: `seen` gets each chunk, and an empty one now and then; where it returns True no more is
    read, and what breaks off is left at that if it can stand.
    """
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "", "gzip", "deflate"):
        return None
    inflate = zlib.decompressobj(47).decompress if encoding in ("gzip", "deflate") else None
    content, received = bytearray(), 0
    try:
        async with _ended_by(seen):
            async for chunk in response.aiter_raw():
                # Counted on both sides of zlib, which keeps all that follows the end of what was packed.
                received += len(chunk)
                plain = chunk if inflate is None else inflate(chunk, cap + 1 - len(content))
                content += plain
                if max(received, len(content)) > cap:
                    return None
                if seen is not None and seen(plain):
                    break
    except zlib.error:
        return None
    except httpx.HTTPError:
        if seen is None or not seen.stands:
            raise
    return bytes(content)


@asynccontextmanager
async def _ended_by(seen: Callable[[bytes], bool] | None) -> AsyncIterator[None]:
    """End what is done inside as soon as `seen`, asked every 50 ms whether chunks come or not, says so."""
    if seen is None:
        yield
        return
    try:
        async with asyncio.timeout(None) as limit:
            looking = asyncio.create_task(_end_when(seen, limit))
            looking.add_done_callback(retrieved)
            try:
                yield
            finally:
                looking.cancel()
    except TimeoutError:
        if not limit.expired():
            raise


async def _end_when(seen: Callable[[bytes], bool], limit: asyncio.Timeout) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        if seen(b""):
            limit.reschedule(asyncio.get_running_loop().time())
            return


def _transport_fault(where: str, error: httpx.HTTPError, unsaid: Unsaid) -> Fault:
    # Something answered, but not in HTTP. Where a server went away before it answered, it is unreachable, and
    # the parser has read nothing, so no error of its own is behind that of the transport.
    garbled = isinstance(error, httpx.RemoteProtocolError) and any(map(_is_parser_s, _causes(error)))
    told = quotable(str(error), unsaid) or type(error).__name__
    return Fault("bad_reply" if garbled else "unreachable", f"{where}: {told}", retry=True)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_parser_s(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] == "h11"
