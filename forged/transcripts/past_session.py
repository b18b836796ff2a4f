"""Past session of an agent: the prose of the person and the model, in order.

A format reads file lines or database rows into a `SessionDraft` and leaves out other content: tool calls and
output, thoughts, harness text. `past_session_of` makes a `PastSession` of it. It removes private spans, own
injections, tool content in texts, and insertions of harnesses. Nothing is raised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from forged.conversation import Speaker, Utterance
from forged.text import prompts
from forged.text.injected_text import without_blocks
from forged.text.tokens import estimate
from forged.text.tool_markup import without_tool_text
from forged.transcripts.texts import NO_LINE
from forged_client.private_spans import open_spans_before, without_private

_Line = TypeVar("_Line")


class PastSession(msgspec.Struct, frozen=True, kw_only=True):
    """Prose of one session's messages with Unix times (0: unknown), and data about the session.

    `messages[since_summary:]` is the window after the newest summary. `skipped` counts unreadable lines.
    `is_whole` is false if the file's beginning was not read. `hides_prompt`: the newest prompt is entirely
    private. `headless`: a script ran the agent.
    """

    agent: str
    session_id: str = ""
    workspace: str = ""
    version: str = ""
    started_at: float = 0.0
    messages: tuple[Utterance, ...] = ()
    times: tuple[float, ...] = ()
    since_summary: int = 0
    skipped: int = 0
    is_whole: bool = True
    hides_prompt: bool = False
    headless: bool = False

    @property
    def tokens(self) -> int:
        """Return the estimated tokens of all messages."""
        return estimate(*(each.text for each in self.messages))

    @property
    def mark(self) -> str:
        """Return a digest of all messages, which changes as the session grows."""
        said = hashlib.blake2b(digest_size=12)
        for each in self.messages:
            said.update(f"{each.role}\n{each.text}\0".encode("utf-8", "surrogatepass"))
        return said.hexdigest()


class TranscriptMessage(msgspec.Struct):
    """Message of a transcript; `is_new`: it comes after the newest summary."""

    role: Speaker
    text: str
    at: float = 0.0
    is_new: bool = True


class SessionDraft(msgspec.Struct):
    """Session while it is read; `is_other`: it is not between a person and the model."""

    session_id: str = ""
    workspace: str = ""
    version: str = ""
    started_at: float = 0.0
    messages: list[TranscriptMessage] = []
    skipped: int = 0
    is_other: bool = False
    headless: bool = False

    def set_once(self, session_id: object, workspace: object, version: object, at: float) -> None:
        """Store id, workspace, version and start of the session; the first value of each counts."""
        self.session_id = self.session_id or _short_text(session_id)
        self.workspace = self.workspace or _short_text(workspace)
        self.version = self.version or _short_text(version)
        self.started_at = self.started_at or at

    def decoded(self, lines: Iterable[bytes], decode: Callable[[bytes], _Line]) -> Iterator[_Line]:
        """Yield the lines that can be decoded; count the others as skipped."""
        for raw in lines:
            try:
                line = decode(raw)
            except NO_LINE:
                self.skipped += 1
            else:
                yield line

    def mark_summarised(self) -> None:
        """Mark all messages so far as before a summary."""
        for each in self.messages:
            each.is_new = False


_SHORT = 4_096


def _short_text(value: object) -> str:
    """Return the value if it is a text of at most 4,096 characters without NUL, else ""."""
    return value if isinstance(value, str) and len(value) <= _SHORT and "\0" not in value else ""


def seconds(written: object) -> float:
    """Return a time, in RFC 3339 or milliseconds, as Unix seconds; 0 if it is none."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        return written / 1000 if 0 < written < 1e14 else 0.0
    try:
        return max(0.0, datetime.fromisoformat(written).timestamp()) if isinstance(written, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


# First lines of forged's own prompts, which begin no other session.
_OURS = tuple(prompts.text(name).partition("\n")[0] for name in ("classifier", "classifier.ask", "hyde"))


def past_session_of(agent: str, draft: SessionDraft, *, is_whole: bool = True) -> PastSession:
    """Make a PastSession of a draft: its prose only, no messages if forged or agents began it."""
    is_ours = bool(draft.messages) and draft.messages[0].text.lstrip().startswith(_OURS)
    messages = [] if draft.is_other or is_ours else draft.messages
    spans = tuple(open_spans_before((each.role, (each.text,)) for each in messages))
    kept = [
        (Utterance(each.role, text), each)
        for each, open_spans in zip(messages, spans, strict=True)
        if (text := _prose_of(each, open_spans))
    ]
    return PastSession(
        agent=agent,
        session_id=draft.session_id,
        workspace=draft.workspace,
        headless=draft.headless,
        version=draft.version,
        started_at=draft.started_at,
        messages=tuple(message for message, _ in kept),
        times=tuple(each.at for _, each in kept),
        since_summary=next((at for at, (_, each) in enumerate(kept) if each.is_new), len(kept)),
        skipped=draft.skipped,
        is_whole=is_whole,
        hides_prompt=_hides_prompt(messages, spans),
    )


def _hides_prompt(messages: Sequence[TranscriptMessage], spans: Sequence[int]) -> bool:
    """Return True if the newest prompt is entirely private."""
    for each, open_spans in zip(reversed(messages), reversed(spans), strict=True):
        if each.role == "user":
            if not without_private(each.text, open_spans).strip():
                return True
            if _prose_of(each, open_spans):
                return False
    return False


def _prose_of(each: TranscriptMessage, open_spans: int) -> str:
    """Return a message's text without private spans, injections and tool content."""
    if open_spans and each.role == "assistant":
        return ""
    text, _ = without_blocks(without_private(each.text, open_spans))
    return without_tool_text(text, each.role).strip()
