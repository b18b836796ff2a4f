"""A chat reply while it is being written: from server-sent events to the text so far.

A caller with a time limit can use the lines that have arrived, and hangs up on a model that does not come to
an end. Each `data:` line of an OpenAI-compatible stream is a JSON event by itself, so a line that cannot be
read (a comment, a sign of life, half of the last one) costs nothing but itself. A server that knows no
streams answers in one piece, which is read as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from forged.models import Completion
from forged.models.replies import (
    Message,
    completion_of,
    plain,
    read_completion,
)
from forged.text.thoughts import ends_a_thought, without_thoughts

_DATA, _DONE = b"data:", b"[DONE]"
# How llama.cpp gave up until the end of 2025, over a window that is too long for one.
_ERROR = b"error:"
_FIELDS = (_DATA, _ERROR, b"event:", b"id:", b"retry:", b":")


class _Choice(msgspec.Struct, frozen=True):
    delta: Message | None = None
    finish_reason: object = None
    error: object = None


class _Event(msgspec.Struct, frozen=True):
    choices: list[_Choice] | None = None
    usage: object = None
    error: object = None
    kind: object = msgspec.field(name="object", default=None)


_EVENT = msgspec.json.Decoder(_Event)


class Stream:
    """One reply as far as it has come; `feed` it chunk by chunk.

    `whole` says whether all of the text was seen, `over` whether nothing more is to come, `error` holds the
    event in which the server gave up.
    """

    def __init__(self) -> None:
        self.content, self.thoughts = "", ""
        self.usage: object = None
        self.whole = self.over = False
        self.events = 0
        self.error = b""
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Read on. A line counts when it is complete."""
        rest, *lines = chunk.split(b"\n")
        self._rest += rest
        for following in lines:
            self._read_line(bytes(self._rest))
            self._rest = bytearray(following)

    @property
    def answer(self) -> str:
        """The text so far without thoughts, of which one may not be over."""
        return without_thoughts(self.content)

    def _read_line(self, line: bytes) -> None:
        if line.startswith(_DATA):
            self._read(line.removeprefix(_DATA).strip())
        elif line.startswith(_ERROR):
            self._read(b'{"error":%b}' % line.removeprefix(_ERROR).strip())

    def _read(self, data: bytes) -> None:
        if data == _DONE:
            self.whole = self.over = True
            return
        try:
            event = _EVENT.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self.events += 1
        self.usage = event.usage or self.usage
        choice = event.choices[0] if event.choices else _Choice()
        if event.error or event.kind == "error" or choice.error:
            self.error = data
        said = choice.delta or Message()
        self.content += plain(said.content)
        self.thoughts += said.thoughts
        self.whole = self.whole or bool(choice.finish_reason)


def is_stream(body: bytes) -> bool:
    """Whether a reply's beginning is one of events, and not of JSON."""
    return body.lstrip().startswith(_FIELDS)


def error_in(body: bytes) -> bytes:
    """Return the event in which a server gave up, as an error body; empty if there is none."""
    return _read_whole(body).error if b"error" in body and is_stream(body) else b""


def watch(enough: Callable[[str], bool]) -> Callable[[bytes], bool]:
    """Return what takes each chunk of one reply and tells whether the text so far is enough.

    An empty chunk says that none came for a while: time went by, and a stream that is over may not be closed.
    """
    stream = Stream()

    def seen(chunk: bytes) -> bool:
        before = stream.events
        stream.feed(chunk)
        if not chunk:
            return stream.over or (stream.events > 0 and enough(stream.answer))
        return stream.events > before and enough(stream.answer)

    return seen


def opens_in_thought(body: bytes) -> bool:
    """Whether a reply's text holds the end of a thought whose beginning the chat template wrote.

    Only its end tells such a thought from an answer.
    """
    return is_stream(body) and ends_a_thought(_read_whole(body).content)


def completion(where: str, body: bytes, sent: Sequence[str]) -> Completion:
    """Return what a reply says, streamed or not; see `read_completion`. Raises ProviderError: bad_reply."""
    if not is_stream(body):
        return read_completion(where, body, sent)
    stream = _read_whole(body)
    return completion_of(stream.content, stream.thoughts, stream.usage, sent, whole=stream.whole)


def _read_whole(body: bytes) -> Stream:
    stream = Stream()
    stream.feed(body + b"\n")
    return stream
