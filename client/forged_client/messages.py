"""Read an agent's own message objects and keep the text that may leave the agent.

Reads dicts in OpenAI, Anthropic or Gemini form, SDK objects and `protocol.Message`. An unreadable message
becomes empty. The list keeps its length for `last_summary_index`, but only the texts of the window stay:
user and assistant, after the last summary, the newest that fit. Private spans are cut here
(private_spans.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from forged_client.private_spans import cut_private, open_spans_before, without_private
from forged_client.protocol import ContentPart, Message

# Below the frame limit of a retrieve, with room for the other fields.
RETRIEVE_BYTES = 896 << 10

# Characters. If so many have no blank, all of them are dropped at a cut.
_LONGEST_SECRET = 16_000

READ_ROLES = ("user", "assistant")
GEMINI_ROLES = {"model": "assistant"}
# Classes of the Claude Agent SDK, whose messages have no role.
_SPEAKING = {"UserMessage": "user", "AssistantMessage": "assistant"}
TEXT_TYPES = ("text", "input_text", "output_text")


def window(
    messages: Iterable[object] | None, last_summary_index: int, limit_bytes: int
) -> tuple[Message, ...]:
    """Return one message per given one; only the newest that fit, after the summary, keep public text."""
    given = listed(messages)
    start = window_start(given, last_summary_index)
    room, open_spans = limit_bytes, _open_spans_of(given)
    newest_first: list[Message] = []
    for position in range(len(given) - 1, -1, -1):
        readable = position >= start and room > 0
        message, size = _read_message(given[position], open_spans[position]) if readable else (None, 0)
        if message is None:
            message = Message(role=role_of(given[position]))
        elif size > room:
            # The newest message is cut to fit; an older one is left out whole.
            message = _shortened(message, room) if room == limit_bytes else Message(role=message.role)
            room = 0
        room -= size
        newest_first.append(message)
    return tuple(reversed(newest_first))


def public_text(text: str) -> str:
    """Return a query or hypothesis without private spans; a value of another type unchanged."""
    return without_private(text) if isinstance(text, str) else text


def _open_spans_of(given: tuple[object, ...]) -> list[int]:
    """Return how many private spans are open before each message."""
    messages = ((role_of(each), each) for each in given)
    return open_spans_before(
        (role, (text for _, text in texts_of(each)) if role == "user" else ()) for role, each in messages
    )


def window_start(given: tuple[object, ...], last_summary_index: int) -> int:
    """Return where the window begins: after the summary, or 0 if the index is outside of the list."""
    return last_summary_index if last_summary_index in range(len(given) + 1) else 0


def listed(messages: Iterable[object] | None) -> tuple[object, ...]:
    """Return the messages as a tuple; empty for a value that is no list of messages. Never raises."""
    if isinstance(messages, (str, bytes, Mapping)):
        return ()
    try:
        return tuple(messages or ())
    except Exception:  # noqa: BLE001 - the agent's objects run their own code here
        return ()


def role_of(given: object) -> str:
    """Return the role of a message, such as `user`; empty if it cannot be read. Never raises."""
    try:
        role = field_of(given, "role") or _role_of_class(given)
    except Exception:  # noqa: BLE001 - as above
        return ""
    return GEMINI_ROLES.get(role, role) if isinstance(role, str) and role.isascii() else ""


def _role_of_class(given: object) -> str:
    """Return the role of a Claude Agent SDK message by its class; empty for a subagent's message."""
    role = _SPEAKING.get(type(given).__name__, "")
    return role if role and not field_of(given, "parent_tool_use_id") else ""


def _read_message(given: object, open_spans: int) -> tuple[Message | None, int]:
    """Return a message without private spans, and its size; None if not of the user or assistant."""
    role, parts, size = role_of(given), list[ContentPart](), 0
    if role not in READ_ROLES:
        return None, 0
    if role == "assistant" and open_spans:
        return Message(role=role), 0
    for kind, text in texts_of(given):
        public, open_spans = cut_private(text, open_spans)
        sendable, taken = _repair_text(public)
        parts.append(ContentPart(type=kind, text=sendable))
        size += taken
    return Message(role=role, content=parts[0].text if len(parts) == 1 else tuple(parts) or None), size


def texts_of(given: object) -> tuple[tuple[str, str], ...]:
    """Return kind and text of each text part of a message; none if it cannot be read."""
    try:
        return tuple(_text_parts(content_of(given)))
    except Exception:  # noqa: BLE001 - as above
        return ()


def content_of(given: object) -> object:
    """Return the content of a message, which Gemini calls `parts`."""
    content = field_of(given, "content")
    return field_of(given, "parts") if content is None else content


def _text_parts(content: object) -> Iterable[tuple[str, str]]:
    """Yield kind and text of each text part of a content, without reasoning."""
    for part in content if isinstance(content, (list, tuple)) else (content,):
        if isinstance(part, str):
            yield "text", part
            continue
        kind, text = field_of(part, "type") or "text", field_of(part, "text")
        if isinstance(text, str) and kind in TEXT_TYPES and not field_of(part, "thought"):
            yield str(kind), text


def field_of(given: object, name: str) -> object:
    """Return a key of a mapping or an attribute of an object; None if it is missing."""
    return given.get(name) if isinstance(given, Mapping) else getattr(given, name, None)


def _repair_text(text: str) -> tuple[str, int]:
    """Return the text with `?` for lone surrogates, which are not valid UTF-8, and its size in bytes."""
    if text.isascii():
        return text, len(text)
    try:
        return text, len(text.encode())
    except UnicodeEncodeError:
        repaired = text.encode("utf-8", "replace")
        return repaired.decode(), len(repaired)


def _shortened(message: Message, limit_bytes: int) -> Message:
    """Return a message with its text cut to `limit_bytes` at a blank, as half a secret is not recognized."""
    content = message.content
    text = content if isinstance(content, str) else "\n".join(part.text for part in content or ())
    cut = text.encode()[:limit_bytes].decode(errors="ignore")
    end = max(cut.rfind(" ", -_LONGEST_SECRET), cut.rfind("\n", -_LONGEST_SECRET))
    return Message(role=message.role, content=cut[: end if end > 0 else -_LONGEST_SECRET] or cut)
