"""Read a streamed chat reply: from server-sent events to the text so far.

A caller with a time limit uses the lines that have arrived. Most `data:` lines are one JSON event, so an
unreadable line loses only itself. An event over several lines is read too. A server without streams answers
in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from forged.fair_queue import ignore_failure
from forged.models import Completion, Enough
from forged.models.finish_reasons import ModelReply
from forged.models.replies import ChatMessage, completion_of, read_reply
from forged_client.typed import resolved

_DATA, _DONE = b"data:", b"[DONE]"
# Prefix of llama.cpp's error in a stream until the end of 2025, for a too long window.
_ERROR = b"error:"
_FIELDS = (_DATA, _ERROR, b"event:", b"id:", b"retry:", b":")
_BOM = b"\xef\xbb\xbf"


class _StreamChoice(msgspec.Struct, frozen=True):
    """One choice in an event of a streamed reply: a piece of the message, a finish reason or an error."""

    delta: ChatMessage | None = None
    finish_reason: object = None
    error: object = None


class _StreamEvent(msgspec.Struct, frozen=True):
    """One event of a streamed reply: choices, token counts (`usage`) or an error."""

    choices: list[_StreamChoice] | None = None
    usage: object = None
    error: object = None
    kind: object = msgspec.field(name="object", default=None)


_EVENT, _NOTHING = msgspec.json.Decoder(resolved(_StreamEvent)), _StreamEvent()


class StreamParser:
    """Parser of one streamed chat reply; `feed` it chunk by chunk.

    `over`: the stream is complete. `error` holds the event with which the server broke off.
    """

    def __init__(self) -> None:
        self.over = False
        self.events = 0
        self.error = b""
        self._content, self._thoughts = "", ""
        self._finish = ""
        self._refused = self._called = False
        self._usage: object = None
        self._rest = bytearray()
        self._begun = self._after_return = False
        self._parts: list[bytes] = []  # lines of an incomplete event

    def feed(self, chunk: bytes) -> None:
        """Parse a chunk. A line counts when it is complete; it ends with LF, CR or both."""
        if self._after_return and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        for piece in chunk.splitlines(keepends=True):
            self._rest += piece
            if piece.endswith((b"\n", b"\r")):
                line, self._rest = bytes(self._rest).rstrip(b"\r\n"), bytearray()
                self._read_line(line)
        self._after_return = chunk.endswith(b"\r") or (self._after_return and not chunk)

    @property
    def reply(self) -> ModelReply:
        """Return the reply as far as it has arrived."""
        return ModelReply(
            content=self._content,
            thoughts=self._thoughts,
            finish=self._finish,
            refused=self._refused,
            called=self._called,
            whole=(self.over or bool(self._finish)) and not self.error,
            usage=self._usage,
        )

    def _read_line(self, line: bytes) -> None:
        """Parse one line: data, an error, or the blank line that ends an event."""
        if not self._begun:
            self._begun, line = True, line.removeprefix(_BOM)
        if line.startswith(_DATA):
            self._read_data(line.removeprefix(_DATA).strip())
        elif line.startswith(_ERROR):
            self._read_data(b'{"error":%b}' % line.removeprefix(_ERROR).strip())
        elif not line and self._parts:
            parts, self._parts = self._parts, []
            self._add_event(b"\n".join(parts))

    def _read_data(self, data: bytes) -> None:
        """Parse the data of a line: the end mark, an event, or a part of a longer event."""
        if data == _DONE:
            self.over = True
        elif self._add_event(data):
            self._parts = []
        else:
            self._parts.append(data)

    def _add_event(self, data: bytes) -> bool:
        """Add an event's text, finish, usage and error to the reply; return False if the data is no event."""
        try:
            event = _EVENT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if event == _NOTHING:
            return False
        self.events += 1
        self._usage = event.usage or self._usage
        choice = event.choices[0] if event.choices else _StreamChoice()
        if event.error or event.kind == "error" or choice.error:
            self.error = data
        reply = choice.delta or ChatMessage()
        self._content += reply.text
        self._thoughts += reply.thoughts
        self._refused |= reply.is_refusal
        self._called |= reply.is_call
        if choice.finish_reason:
            self._finish = str(choice.finish_reason)
        return True


class StreamWatch:
    """Callback for the chunks of one streamed reply; parses them, and returns True when to stop reading.

    An empty chunk means that none came for a while: time has passed, and a finished stream may still be
    open. A text that may be reasoning, because the chat template opened it, is never enough. `clear` returns
    True for a text that cannot be reasoning.
    """

    def __init__(self, enough: Enough, clear: Enough) -> None:
        self._stream = StreamParser()
        self._enough, self._clear = enough, clear

    def __call__(self, chunk: bytes) -> bool:
        """Parse a chunk; return True if the text is enough, or the finished stream is still open."""
        stream, before = self._stream, self._stream.events
        stream.feed(chunk)
        if not chunk and stream.over:
            return True
        if stream.events == (before if chunk else 0):
            return False
        reply = stream.reply
        return self._is_answer(reply) and self._enough(reply.answer)

    @property
    def has_answer(self) -> bool:
        """Return True if the complete lines so far are a usable answer, in case the stream breaks off."""
        reply = self._stream.reply
        return bool(reply.answer) and "\n" in reply.lines and self._is_answer(reply)

    def _is_answer(self, reply: ModelReply) -> bool:
        """Return True if a reply's text so far cannot be reasoning, by its form or by `clear`."""
        return reply.has_separate_reasoning or self._clear(reply.lines)


def is_stream(body: bytes) -> bool:
    """Return True if the body of a reply begins with server-sent events, and not with JSON."""
    return body.removeprefix(_BOM).lstrip().startswith(_FIELDS)


def error_in(body: bytes) -> bytes:
    """Return the error event in the body of a streamed reply; empty without one or for JSON."""
    return _parse_all(body).error if b"error" in body and is_stream(body) else b""


def parse_reply(where: str, body: bytes) -> ModelReply:
    """Return the parsed chat reply in a body, streamed or not. Raises ProviderError: bad_reply."""
    return _parse_all(body).reply if is_stream(body) else read_reply(where, body)


def completion(where: str, body: bytes, sent: Sequence[str]) -> Completion:
    """Parse a chat reply, streamed or not, into a completion. Raises ProviderError: bad_reply."""
    return completion_of(where, parse_reply(where, body), sent)


def _parse_all(body: bytes) -> StreamParser:
    """Return the parser of a stream after it has read a whole body."""
    stream = StreamParser()
    stream.feed(body + b"\n\n")
    return stream


@asynccontextmanager
async def stop_when(seen: Callable[[bytes], bool] | None) -> AsyncIterator[None]:
    """End the `with` body as soon as `seen`, called with an empty chunk every 50 ms, returns True."""
    if seen is None:
        yield
        return
    try:
        async with asyncio.timeout(None) as limit:
            looking = asyncio.create_task(_expire_when(seen, limit))
            looking.add_done_callback(ignore_failure)
            try:
                yield
            finally:
                looking.cancel()
    except TimeoutError:
        if not limit.expired():
            raise


async def _expire_when(seen: Callable[[bytes], bool], limit: asyncio.Timeout) -> None:
    """Let the limit expire when `seen`, called with an empty chunk every 50 ms, returns True."""
    while True:
        await asyncio.sleep(0.05)
        if seen(b""):
            limit.reschedule(asyncio.get_running_loop().time())
            return
