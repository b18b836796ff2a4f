"""Read a chat reply while it is being written: from server-sent events to the text so far.

A caller with a time limit uses the lines that have arrived. Each `data:` line is mostly a JSON event by
itself, so a line that cannot be read costs nothing but itself; an event over several lines is one, too. A
server that knows no streams answers in one piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec

from forged.fair_queue import retrieved
from forged.models import Completion, Enough
from forged.models.finish_reasons import ModelReply
from forged.models.replies import ChatMessage, completion_of, read_said

_DATA, _DONE = b"data:", b"[DONE]"
# How llama.cpp gave up until the end of 2025, over a window that is too long for one.
_ERROR = b"error:"
_FIELDS = (_DATA, _ERROR, b"event:", b"id:", b"retry:", b":")
_BOM = b"\xef\xbb\xbf"


class _Choice(msgspec.Struct, frozen=True):
    delta: ChatMessage | None = None
    finish_reason: object = None
    error: object = None


class _Event(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    usage: object = None
    error: object = None
    kind: object = msgspec.field(name="object", default=None)


_EVENT, _NOTHING = msgspec.json.Decoder(_Event), _Event()


class Stream:
    """One reply as far as it has come; `feed` it chunk by chunk.

    `over` says whether nothing more is to come, `error` holds the event in which the server gave up.
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
        self._parts: list[bytes] = []  # of an event that no line so far holds

    def feed(self, chunk: bytes) -> None:
        """Read on. A line counts when it is complete; it ends with LF, CR or both, also over two chunks."""
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
    def said(self) -> ModelReply:
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
        if not self._begun:
            self._begun, line = True, line.removeprefix(_BOM)
        if line.startswith(_DATA):
            self._read(line.removeprefix(_DATA).strip())
        elif line.startswith(_ERROR):
            self._read(b'{"error":%b}' % line.removeprefix(_ERROR).strip())
        elif not line and self._parts:
            parts, self._parts = self._parts, []
            self._take(b"\n".join(parts))

    def _read(self, data: bytes) -> None:
        if data == _DONE:
            self.over = True
        elif self._take(data):
            self._parts = []
        else:
            self._parts.append(data)

    def _take(self, data: bytes) -> bool:
        """Add what an event says; false if this is none, or an object with nothing of one."""
        try:
            event = _EVENT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        if event == _NOTHING:
            return False
        self.events += 1
        self._usage = event.usage or self._usage
        choice = event.choices[0] if event.choices else _Choice()
        if event.error or event.kind == "error" or choice.error:
            self.error = data
        said = choice.delta or ChatMessage()
        self._content += said.text
        self._thoughts += said.thoughts
        self._refused |= said.is_refusal
        self._called |= said.is_call
        if choice.finish_reason:
            self._finish = str(choice.finish_reason)
        return True


class Watch:
    """Looks at one reply while it comes in: called with each chunk, it tells whether the text is enough.

    An empty chunk says that none came for a while: time went by, and a stream that is over may not be closed.
    A text that may be a thought, because the chat template began one, is never enough; `clear` is asked about
    each whether it can be none.
    """

    def __init__(self, enough: Enough, clear: Enough) -> None:
        self._stream = Stream()
        self._enough, self._clear = enough, clear

    def __call__(self, chunk: bytes) -> bool:
        stream, before = self._stream, self._stream.events
        stream.feed(chunk)
        if not chunk and stream.over:
            return True
        if stream.events == (before if chunk else 0):
            return False
        said = stream.said
        return self._is_answer(said) and self._enough(said.answer)

    @property
    def has_answer(self) -> bool:
        """Whether there are finished lines of an answer that could do if nothing more comes."""
        said = self._stream.said
        return bool(said.answer) and "\n" in said.lines and self._is_answer(said)

    def _is_answer(self, said: ModelReply) -> bool:
        return said.has_separate_reasoning or self._clear(said.lines)


def is_stream(body: bytes) -> bool:
    """Whether a reply's beginning is one of events, and not of JSON."""
    return body.removeprefix(_BOM).lstrip().startswith(_FIELDS)


def error_in(body: bytes) -> bytes:
    """Return the event in which a server gave up, as an error body; empty if there is none."""
    return _read_whole(body).error if b"error" in body and is_stream(body) else b""


def said(where: str, body: bytes) -> ModelReply:
    """Return what a reply says, streamed or not. Raises ProviderError: bad_reply."""
    return _read_whole(body).said if is_stream(body) else read_said(where, body)


def completion(where: str, body: bytes, sent: Sequence[str]) -> Completion:
    """Return the completion that a reply is; see `completion_of`. Raises ProviderError: bad_reply."""
    return completion_of(where, said(where, body), sent)


def _read_whole(body: bytes) -> Stream:
    stream = Stream()
    stream.feed(body + b"\n\n")
    return stream


@asynccontextmanager
async def ended_by(seen: Callable[[bytes], bool] | None) -> AsyncIterator[None]:
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
        await asyncio.sleep(0.05)
        if seen(b""):
            limit.reschedule(asyncio.get_running_loop().time())
            return
