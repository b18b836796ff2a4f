"""HTTP client for one base URL, with a deadline; the only module that imports httpx.

A `Call` returns the content of a good reply. Anything else raises ProviderError, and an invalid URL raises
ConfigError. The body holds only text that the egress guard returned. The model's `EndpointHealth` is asked
before each call and gets the result of each attempt. One deadline covers connecting, every attempt and the
last byte, because httpx's own time-out is per read. The size cap also holds for inflated replies: 194 KB of
gzip became 200 MB. Redirects are not followed, and no proxy comes from the environment. Importing httpx
takes 80-100 ms.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import msgspec

from forged.config import is_usable_url, shown_url
from forged.counters import EgressRecord
from forged.errors import ConfigError, ProviderError
from forged.models import Purpose, streams
from forged.models.egress import EgressAttempt, EgressGuard
from forged.models.error_sanitizing import SensitiveTexts, sanitized
from forged.models.failures import Fault, fault_of
from forged.models.health import Attempt, EndpointHealth
from forged.models.texts import sendable

logger = logging.getLogger(__name__)
for _name in ("httpx", "httpcore"):  # at info they log every URL with its query, which may hold a key
    logging.getLogger(_name).setLevel(logging.WARNING)

_ERROR_REPLY_BYTES = 64 << 10
_CONNECT_S = 5.0
_KEEP_ALIVE_S = 50.0  # a TLS handshake is a large part of a 2 s budget
_LONGEST_PAUSE_S = 8.0
_CONNECTIONS = 32  # enough for a new turn next to builds and late pipelines
# Purposes for which an agent waits.
_TIMED = frozenset({"query", "hyde"})
# Purposes whose caller retries.
_TRIED_ONCE = frozenset({"build", "identity"})

R = TypeVar("R")


class Call(msgspec.Struct, frozen=True):
    """One POST request to an endpoint: texts, deadline, and size limit of the reply.

    `texts` come from a person, uncut. `fit` cuts each text that the egress guard returns, and `body` builds
    the request from them. `deadline` is `time.monotonic()` seconds, `cap` bytes of a reply, `never_retried`
    a status. With `watch` a reply is read until it is enough, and a broken-off reply counts if it is usable.
    """

    path: str
    texts: tuple[str, ...]
    body: Callable[[tuple[str, ...]], bytes]
    purpose: Purpose
    deadline: float
    cap: int
    never_retried: int | None = None
    watch: Callable[[], streams.StreamWatch] | None = None
    fit: Callable[[str], str] = sendable


class _Request(msgspec.Struct, frozen=True):
    """A call, its body, and `sent`, its redacted texts, which no error message may repeat."""

    call: Call
    body: bytes
    sent: tuple[str, ...]


class Endpoint:
    """HTTP client for one base URL and key: redacts texts, retries failed calls, and records health.

    Without the `health` of its model every call is made, for a process whose calls another one admits.
    """

    def __init__(
        self,
        base_url: str,
        key: str = "",
        *,
        egress: EgressGuard,
        health: EndpointHealth | None = None,
        backoff_s: float = 0.5,
        retries: int = 1,
    ) -> None:
        """Set up the client for a URL as it is, without adding `/v1`. Raises ConfigError."""
        if not is_usable_url(base_url):
            raise ConfigError(f"{shown_url(base_url)} is not an http or https URL")
        try:
            self.host = httpx.URL(base_url).host
        except httpx.InvalidURL as error:  # such as a host name that IDNA refuses
            raise ConfigError(f"{shown_url(base_url)} is not a URL that can be called") from error
        parts = urlsplit(base_url)
        user, _, host = parts.netloc.rpartition("@")
        self._proxy = egress.proxy_for(base_url, key)
        self._parts = parts._replace(netloc=host, path=parts.path.rstrip("/"), fragment="")
        self._headers = {"content-type": "application/json", "accept-encoding": "identity"}
        basic = base64.b64encode(unquote(user).encode()).decode()
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        elif user:
            self._headers["authorization"] = f"Basic {basic}"
        self._secrets = tuple(filter(None, (key, unquote(user), basic, parts.query)))
        self._egress = egress
        self._place = host
        self._health = health or EndpointHealth(self.host)
        self._is_watched = health is not None
        self._backoff_s = backoff_s
        self._retries = retries
        self._client: httpx.AsyncClient | None = None

    def record_tokens(self, purpose: Purpose, tokens: int) -> None:
        self._egress.record(EgressRecord(self._place, purpose.name, tokens=tokens))

    def url(self, path: str) -> str:
        return urlunsplit(self._parts._replace(path=self._parts.path + path))

    def display_url(self, path: str = "") -> str:
        return shown_url(self.url(path))

    async def post(self, call: Call, read: Callable[[bytes], R]) -> R:
        """Make a call and return the result of `read` on a good reply. Raises ProviderError, SizeRefused."""
        where, left = self.display_url(call.path), call.deadline - time.monotonic()
        if left <= 0:
            raise ProviderError(f"no time left for {where}", reason="timeout")
        if self._is_watched and not (call.purpose.suspect or call.purpose.name == "doctor"):
            self._health.admit(call.purpose.waiting)
        try:
            async with asyncio.timeout(left):
                sent = tuple(map(call.fit, await self._egress.cleared(call.texts)))
                request = _Request(call, call.body(sent), sent)
                return await self._post_with_retries(request, read)
        except TimeoutError as error:
            raise _timeout_error(where) from error

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _post_with_retries(self, request: _Request, read: Callable[[bytes], R]) -> R:
        """Make attempts until one succeeds or no retry may help; record each in the model's health."""
        call, attempt = request.call, 0
        while True:
            with self._record_attempt(call) as counted:
                reply = await self._attempt_once(request, read)
                if not isinstance(reply, Fault):
                    counted.record_success()
                    return reply
                if not call.purpose.suspect:
                    counted.record_failure(reply.error())
            pause = self._retry_pause_s(reply, attempt)
            if attempt == self._retries or not self._may_retry(call, reply, time.monotonic() + pause):
                raise reply.error()
            logger.debug("retry host=%s status=%d pause_s=%.2f", self.host, reply.status, pause)
            await asyncio.sleep(pause)
            attempt += 1

    def _may_retry(self, call: Call, fault: Fault, at: float) -> bool:
        waiting = call.purpose.waiting
        if not fault.retry or fault.status == call.never_retried or call.purpose.name in _TRIED_ONCE:
            return False
        if at >= call.deadline or (self._is_watched and self._health.is_open):
            return False
        return waiting is None or waiting.take_retry(at)

    @contextmanager
    def _record_attempt(self, call: Call) -> Iterator[Attempt]:
        """Yield an attempt for the `with` body; record its failure or lateness in the health."""
        waiting = call.purpose.waiting
        attempt, late = self._health.begin(waiting, timed=call.purpose.name in _TIMED), None
        if waiting is not None:
            left = waiting.until - time.monotonic()
            late = asyncio.get_running_loop().call_later(max(left, 0.0), attempt.record_caller_left)
        try:
            yield attempt
        except ProviderError as error:
            if not call.purpose.suspect:
                attempt.record_failure(error)
            raise
        except asyncio.CancelledError:
            now = time.monotonic()
            if waiting is not None and now >= waiting.until:
                attempt.record_caller_left()
            if now >= call.deadline and not call.purpose.suspect:
                attempt.record_failure(_timeout_error(self.display_url(call.path)))
            raise
        finally:
            if late is not None:
                late.cancel()
            attempt.abandon()

    def _retry_pause_s(self, fault: Fault, attempt: int) -> float:
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        jitter = random.uniform(0.75, 1.0)  # noqa: S311 - spreads callers out, hides nothing
        return min(_LONGEST_PAUSE_S, self._backoff_s * 2.0**attempt) * jitter

    async def _attempt_once(self, request: _Request, read: Callable[[bytes], R]) -> R | Fault:
        """Send a request unless the egress guard refuses it; return the answer or the fault."""
        purpose = request.call.purpose
        await self._egress.check(purpose, request.sent)
        with EgressAttempt(self._egress.record, self._place, purpose, request.sent) as leaving:
            reply = await self._send(request, leaving)
            answer = reply if isinstance(reply, Fault) else read(reply)
            leaving.answered = not isinstance(reply, Fault)
            return answer

    async def _send(self, request: _Request, leaving: EgressAttempt) -> bytes | Fault:
        """Send the request; return the body of a good reply, or the fault."""
        call, unsaid = request.call, SensitiveTexts(request.sent, self._secrets)
        where, url, traced = self.display_url(call.path), self.url(call.path), {"trace": leaving.trace}
        options: dict[str, Any] = {"content": request.body, "headers": self._headers, "extensions": traced}
        seen = call.watch() if call.watch is not None else None
        try:
            async with self._http_client().stream("POST", url, **options) as response:
                status, headers = response.status_code, response.headers
                limits = (call.cap, seen) if status == 200 else (_ERROR_REPLY_BYTES, None)
                body = await _read(response, *limits)
        except httpx.HTTPError as error:
            return _transport_fault(where, error, unsaid)
        if body is None and status == 200:
            return Fault("bad_reply", f"{where} sent over {call.cap} bytes or an unknown encoding", 200)
        body = body or b""
        if status == 200 and seen is not None and seen.has_answer:
            return body
        message = streams.error_in(body) or body
        return fault_of(where, status, headers, message, unsaid, now=time.time()) or body

    def _http_client(self) -> httpx.AsyncClient:
        if self._client is None:
            # Loading certificates takes 20 ms; without TLS they are not needed.
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


def _timeout_error(where: str) -> ProviderError:
    return ProviderError(f"{where} gave no answer in time", reason="timeout")


async def _read(response: httpx.Response, cap: int, seen: streams.StreamWatch | None = None) -> bytes | None:
    """Return the inflated body; None if over the cap or not decodable. `seen` returns True to stop early."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "", "gzip", "deflate"):
        return None
    inflate = zlib.decompressobj(47).decompress if encoding in ("gzip", "deflate") else None
    content, received = bytearray(), 0
    try:
        async with streams.stop_when(seen):
            async for chunk in response.aiter_raw():
                # Counted on both sides of zlib, which keeps all data after the end of the compressed stream.
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
        if seen is None or not seen.has_answer:
            raise
    return bytes(content)


def _transport_fault(where: str, error: httpx.HTTPError, unsaid: SensitiveTexts) -> Fault:
    """Return the fault of a failed exchange: `bad_reply` for invalid HTTP, else `unreachable`."""
    garbled = isinstance(error, httpx.RemoteProtocolError) and any(
        type(each).__module__.partition(".")[0] == "h11" for each in _error_chain(error)
    )
    message = sanitized(str(error), unsaid) or type(error).__name__
    return Fault("bad_reply" if garbled else "unreachable", f"{where}: {message}", retry=True)


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
