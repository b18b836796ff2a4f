"""References to the texts in an agent's messages, to be read later.

An agent changes its list and its dicts, but a text never changes. Storing the references costs a fraction of
a microsecond a message; the sender reads the texts afterwards. A part without text that the model has seen,
such as an image, leaves its type, so that the daemon can count it. Never raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from forged_client.messages import (
    GEMINI_ROLES,
    READ_ROLES,
    TEXT_TYPES,
    content_of,
    field_of,
    listed,
    role_of,
    texts_of,
    window_start,
)
from forged_client.protocol import ContentPart

# Parts that the model has seen and forged cannot read. Gemini's have such a field and no type.
_GEMINI_MEDIA = ("inline_data", "file_data", "inlineData", "fileData")
_MEDIA_TYPES = (
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "video_url",
    "document",
    "file",
    "input_file",
    *_GEMINI_MEDIA,
)
_UNREADABLE = "unreadable"
_MEDIA = {name: ContentPart(type=name) for name in (*_MEDIA_TYPES, _UNREADABLE)}

# One text, or several with the types of the parts between them.
Content = str | tuple[str | ContentPart, ...]


class MessageSnapshot:
    """References to role and content of the user and assistant messages at one time, to be read later.

    Messages before `start` are before the summary; they are kept for the private spans that they may open.
    """

    __slots__ = ("_flat", "start")

    def __init__(self, messages: Iterable[object] | None, last_summary_index: int) -> None:
        self._flat: list[object] = []  # no pair for each message, which the garbage collector would visit
        given = listed(messages)
        first = window_start(given, last_summary_index)
        _append_messages(given[:first], self._flat)
        self.start = len(self._flat)
        _append_messages(given[first:], self._flat)

    def __iter__(self) -> Iterator[tuple[str, Content, bool]]:
        """Yield role and content of each message, and True if it belongs to the window."""
        for at in range(0, len(self._flat), 2):
            role, content = self._flat[at : at + 2]
            yield role, content, at >= self.start  # type: ignore[misc]

    @property
    def characters(self) -> int:
        """Return the number of characters in the snapshot, roles and earlier messages included."""
        return sum(map(_count_characters, self._flat))

    def begins_with(self, other: MessageSnapshot) -> bool:
        """Return True if this snapshot begins with the other's messages and has the same `start`."""
        return self.start == other.start and self._flat[: len(other._flat)] == other._flat


def _count_characters(content: object) -> int:
    """Return the number of characters in a content; 0 for other values."""
    if isinstance(content, str):
        return len(content)
    return sum(len(each) for each in content if isinstance(each, str)) if isinstance(content, tuple) else 0


def _append_messages(given: tuple[object, ...], flat: list[object]) -> None:
    """Append role and content of each user and assistant message to `flat`; plain ones take a fast path."""
    for each in given:
        if type(each) is dict and type(content := each.get("content")) is str:
            role = each.get("role")
            if type(role) is str and role in READ_ROLES:
                flat += (role, content)
                continue
        if not _append_plain(each, flat):
            _append_any(each, flat)


def _append_plain(each: object, flat: list[object]) -> bool:
    """Append a plain dict's text or parts, or skip it; return False if it needs the general path."""
    if type(each) is not dict or type(role := each.get("role")) is not str:
        return False
    role = GEMINI_ROLES.get(role, role)
    if role not in READ_ROLES:
        return True
    content = each.get("content")
    if content is None and (content := each.get("parts")) is None:
        return True  # an assistant message with tool calls only
    found = content if type(content) is str else _plain_parts(content)
    if found:
        flat += (role, found)
    return found is not None


def _plain_parts(content: object) -> Content | None:
    """Return the texts and media types of a list of plain parts; None if it needs the general path."""
    if type(content) is not list:
        return None
    if len(content) == 1 and type(part := content[0]) is dict and part.get("type") == "text":
        text = part.get("text")
        if type(text) is str and "thought" not in part:
            return text
    found: list[str | ContentPart] = []
    for part in content:
        if type(part) is not dict:
            return None
        kind, text = part.get("type"), part.get("text")
        if type(kind) is not str and (kind is not None or type(text) is not str):
            return None
        if kind in _MEDIA:
            found.append(_MEDIA[kind])
        elif (kind is None or kind in TEXT_TYPES) and type(text) is str and not part.get("thought"):
            found.append(text)
    return tuple(found)


def _append_any(each: object, flat: list[object]) -> None:
    """Append role, media types and texts of a user or assistant message of any form."""
    role = role_of(each)
    if role not in READ_ROLES:
        return
    texts = (text for _, text in texts_of(each))
    if found := (*(_MEDIA[kind] for kind in _media_of(each)), *texts):
        flat += (role, found)


def _media_of(given: object) -> tuple[str, ...]:
    """Return the media types of a message; _UNREADABLE for one that cannot be read."""
    try:
        return tuple(_media_types(content_of(given)))
    except Exception:  # noqa: BLE001 - the agent's objects run their own code here
        return (_UNREADABLE,)


def _media_types(content: object) -> Iterable[str]:
    """Yield the types of a content's parts that forged cannot read, such as images."""
    for part in content if isinstance(content, (list, tuple)) else ():
        kind = field_of(part, "type")
        if isinstance(kind, str) and kind in _MEDIA_TYPES:
            yield kind
        elif kind is None:
            yield from (name for name in _GEMINI_MEDIA if field_of(part, name) is not None)
