"""Clean transcript of a conversation: the only form in which any part of the daemon reads one.

Input: messages of any client, and the index after the newest summary. Output: user and assistant text that
may be remembered or sent to a model, without private spans, own injections, tool content, thoughts and text
of the harness. They are cut in this order, so that none can hide another. Nothing is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import msgspec

from forged import conversation
from forged.conversation import Speaker, Utterance
from forged.text import harnesses
from forged.text.injected_text import InjectedText, without_blocks
from forged.text.tool_markup import without_tool_text
from forged_client import protocol as wire
from forged_client.private_spans import open_spans_before, without_private

_TEXT_PARTS = {"text", "input_text", "output_text"}
# Parts without text of user or assistant, by the beginning of their type.
_SILENT = (
    *("tool", "function", "server_tool", "mcp", "web_search"),
    *("thinking", "redacted_thinking", "reasoning"),
)
_SPEAKERS: dict[str, Speaker] = {"user": "user", "assistant": "assistant", **harnesses.ROLES}
# Characters that are read on the event loop, a few milliseconds at most; more go to a thread.
_INLINE_LENGTH = 64_000
# Characters of a query or hypothesis that are read.
_MOST_ASKED = 16_000
_MOST_HYPOTHESES = 32


class CleanTranscript(msgspec.Struct, frozen=True):
    """Cleaned utterances, the places of their messages, and the number of own injections cut out."""

    said: tuple[Utterance, ...]
    echoes: int
    places: tuple[int, ...] = ()


async def clean_transcript(messages: Sequence[wire.Message], start: int = 0) -> CleanTranscript:
    """Return the cleaned utterances of messages from `start` on; an invalid `start` means all.

    A long conversation is read in a thread, so that the event loop stays free.
    """
    texts = [text_of(message) for message in messages]
    if sum(map(len, texts)) < _INLINE_LENGTH:
        return _clean(messages, texts, start)
    return await asyncio.to_thread(_clean, messages, texts, start)


def _clean(messages: Sequence[wire.Message], texts: Sequence[str], start: int) -> CleanTranscript:
    """Return what user and assistant said in messages from `start` on, with everything else cut out."""
    spans = open_spans_before(
        [(message.role, (text,)) for message, text in zip(messages, texts, strict=True)]
    )
    found, kept, echoes = [], [], 0
    for place in range(window_start(messages, start), len(messages)):
        speaker, open_spans = _SPEAKERS.get(messages[place].role), spans[place]
        if speaker is None or (open_spans and speaker == "assistant"):
            continue
        text, blocks = without_blocks(without_private(texts[place], open_spans))
        echoes += blocks
        if (text := without_tool_text(text, speaker)).strip():
            found.append(Utterance(speaker, text))
            kept.append(place)
    return CleanTranscript(tuple(found), echoes, tuple(kept))


def newest_typed(messages: Sequence[wire.Message], since: int) -> tuple[int, str] | None:
    """Return place and text of the newest message that a person typed, from `since` on, or None."""
    for place in range(len(messages) - 1, since - 1, -1):
        if _SPEAKERS.get(messages[place].role) == "user" and (text := text_of(messages[place])):
            typed = without_tool_text(without_blocks(without_private(text))[0]).strip()
            if typed:
                return place, typed
    return None


def is_said(message: wire.Message) -> bool:
    """Return True for a message of a person or the model, not of a tool or the system."""
    return message.role in _SPEAKERS


def window_start(messages: Sequence[wire.Message], start: int) -> int:
    """Return the beginning of the window: `start`, or 0 if it is no index of `messages`."""
    return start if 0 <= start <= len(messages) else 0


def count_unreadable(messages: Sequence[wire.Message], start: int) -> int:
    """Count the messages of user and assistant since the summary with content that is no text."""
    return sum(map(_has_unread, messages[window_start(messages, start) :]))


def _has_unread(message: wire.Message) -> bool:
    """Return True if a message has content of a type that is no text and is not known."""
    if message.role not in _SPEAKERS or not isinstance(message.content, tuple):
        return False
    return any(part.type not in _TEXT_PARTS and not part.type.startswith(_SILENT) for part in message.content)


def without_echoes(said: Sequence[Utterance], injected: Collection[str]) -> tuple[Utterance, ...]:
    """Remove injected memories that the assistant repeats; a person who repeats one asks about it."""
    if not injected or all(utterance.role != "assistant" for utterance in said):
        return tuple(said)
    ours, room = InjectedText(injected), conversation.WINDOW_LIMIT
    newest_first: list[Utterance] = []
    for utterance in reversed(said):
        text = utterance.text
        if room > 0 and utterance.role == "assistant":
            text, _ = ours.cut(text, inline=True)
        room -= len(utterance.text)
        if text.strip():
            newest_first.append(Utterance(utterance.role, text))
    return tuple(reversed(newest_first))


def clean_query(text: str) -> str:
    """Return the start of a query without private, injected and tool text; pure markup is kept."""
    public = without_private(text[:_MOST_ASKED])
    said = without_tool_text(without_blocks(public)[0])
    return said if said.strip() else public


def clean_hypotheses(hypotheses: Iterable[str]) -> tuple[str, ...]:
    """Return the non-blank hypotheses of a caller, cleaned as queries are; at most 32."""
    return tuple(
        islice((text for each in hypotheses if (text := clean_query(each)).strip()), _MOST_HYPOTHESES)
    )


def size_of(messages: Iterable[wire.Message]) -> int:
    """Return the number of characters of all messages."""
    return sum([len(text_of(each)) for each in messages])


def text_of(message: wire.Message) -> str:
    """Return a message's text without thoughts, from `content` or, in Gemini's form, `parts`."""
    if isinstance(message.content, str):
        return message.content
    parts = message.parts if message.content is None else message.content
    return "\n".join(part.text for part in parts if part.type in _TEXT_PARTS and not part.thought)
