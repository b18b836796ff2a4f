"""Split the messages of a window into numbered captures that fit into frames, one at a time.

A frame has a size limit and a session's text has none. So a long window is several captures under one event
id, and a long message is several messages; all text is kept. One part exists at a time, so a compaction of
60 MB needs 2 MB. Private spans are cut first (private_spans.py). A lone surrogate becomes `?`, and is
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from forged_client.message_snapshot import Content, MessageSnapshot
from forged_client.private_spans import cut_private
from forged_client.protocol import CONTINUED_OVERLAP, Capture, ContentPart, Message

# Below the frame limit of a capture, with room for its other fields.
PART_BYTES = 1792 << 10

# Bytes that a message, or one text of several, takes besides its text, at most.
_FRAMING = 64
_CHARACTER = 4


class _MessagePiece(msgspec.Struct):
    """A message, or a part of a long one, that fits into a capture, with its size in bytes."""

    message: Message
    size: int
    begun: bool = False
    goes_on: bool = False


class SplitCapture:
    """Iterable of numbered `Capture` requests that fit into frames; each iteration splits a snapshot.

    `meanwhile` is called between messages, for a sender that shares the interpreter.
    """

    def __init__(
        self,
        request: Capture,
        snapshot: MessageSnapshot,
        *,
        meanwhile: Callable[[], object] = bool,
        limit_bytes: int = PART_BYTES,
    ) -> None:
        self._request = request
        self._snapshot = snapshot
        self._meanwhile = meanwhile
        self._limit = limit_bytes
        self.repaired = 0  # texts with a character that cannot be sent, in the last iteration

    def __iter__(self) -> Iterator[Capture]:
        """Yield the captures of the snapshot, one at a time, each with its number and the count of all."""
        parts = self._fill_captures()
        first = next(parts)
        count = 1 + sum(1 for _ in parts)
        for number, part in enumerate(self._fill_captures() if count > 1 else (first,)):
            yield msgspec.structs.replace(part, part=number, parts=count)

    def _fill_captures(self) -> Iterator[Capture]:
        """Yield captures filled with pieces up to the limit; an empty one for an empty window."""
        waiting: list[_MessagePiece] = []
        room = self._limit
        for piece in self._cut_messages():
            if waiting and (piece.size > room or waiting[-1].goes_on):
                yield self._make_capture(waiting)
                waiting, room = [], self._limit
            waiting.append(piece)
            room -= piece.size
        yield self._make_capture(waiting)

    def _make_capture(self, pieces: list[_MessagePiece]) -> Capture:
        """Return a copy of the request with these pieces' messages, and flags for a cut first or last one."""
        return msgspec.structs.replace(
            self._request,
            messages=tuple(piece.message for piece in pieces),
            begun=bool(pieces) and pieces[0].begun,
            goes_on=bool(pieces) and pieces[-1].goes_on,
        )

    def _cut_messages(self) -> Iterator[_MessagePiece]:
        """Yield the window's messages without private spans as pieces, several for a long message."""
        self.repaired = 0
        for role, content in self._public_messages():
            size = sum(_FRAMING + len(each) for each in content if isinstance(each, str))
            if size <= self._limit:
                ready = tuple(
                    self._repair_text(each) if isinstance(each, str) else (each, 0) for each in content
                )
                size = sum(_FRAMING + taken for _, taken in ready)
            if size <= self._limit:
                yield _MessagePiece(_make_message(role, tuple(each for each, _ in ready)), size)
            else:
                yield from self._cut_long_message(role, content)

    def _public_messages(self) -> Iterator[tuple[str, tuple[str | ContentPart, ...]]]:
        """Yield role and content, without private spans, of each message of the window that has any left."""
        depth = 0  # private spans that a user message has opened and not closed
        for role, given, in_window in self._snapshot:
            self._meanwhile()
            if role == "assistant" and (depth or not in_window):
                continue
            content, depth = _cut_private_spans(given, depth)
            if role == "assistant":
                depth = 0  # spans of an assistant message end with it
            if in_window and any(content):
                yield role, content

    def _cut_long_message(self, role: str, content: tuple[str | ContentPart, ...]) -> Iterator[_MessagePiece]:
        """Yield overlapping pieces of a long message's text, then one with its media."""
        text = "\n".join(each for each in content if isinstance(each, str))
        most = (self._limit - _FRAMING) // (1 if text.isascii() else _CHARACTER)
        starts = range(0, max(len(text) - CONTINUED_OVERLAP, 1), most - CONTINUED_OVERLAP)
        for start in starts:
            self._meanwhile()
            ready, size = self._repair_text(text[start : start + most])
            goes_on = start != starts[-1]
            yield _MessagePiece(Message(role, ready), size + _FRAMING, begun=start > 0, goes_on=goes_on)
        if media := tuple(each for each in content if isinstance(each, ContentPart)):
            yield _MessagePiece(Message(role, media), _FRAMING * len(media))

    def _repair_text(self, text: str) -> tuple[str, int]:
        """Return the text, made encodable, and its size in bytes; count it if it had to be repaired."""
        if text.isascii():
            return text, len(text)
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            self.repaired += 1
            encoded = text.encode("utf-8", "replace")
        return encoded.decode(), len(encoded)


def _cut_private_spans(given: Content, depth: int) -> tuple[tuple[str | ContentPart, ...], int]:
    """Return the content without private spans, and the number of spans that are open at its end."""
    content: list[str | ContentPart] = []
    for each in (given,) if isinstance(given, str) else given:
        if isinstance(each, str):
            public, depth = cut_private(each, depth)
            content.append(public)
        else:
            content.append(each)
    return tuple(content), depth


def _make_message(role: str, content: tuple[str | ContentPart, ...]) -> Message:
    """Return a message in its shortest form: with a single text, or else with a list of parts."""
    if len(content) == 1 and isinstance(content[0], str):
        return Message(role, content[0])
    return Message(role, tuple(ContentPart(text=each) if isinstance(each, str) else each for each in content))
