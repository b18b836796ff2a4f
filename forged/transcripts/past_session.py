"""A past session of an agent: what a person and the model said, in its order, and nothing else.

A format reads the lines of a file, or rows of a database, into a `SessionDraft`: it leaves out what is no
prose of the two (calls and output of tools, thoughts, what the harness wrote itself). `finished` makes a
`PastSession` of it as every conversation is read: private spans, blocks of our own injections, tool content
in a text and what harnesses put around a message are cut out. Nothing is raised.
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
    """What was said in one session, and when (Unix seconds; 0 where the file does not say).

    `messages[since_summary:]` is the window: what was said since the newest summary. `skipped` counts lines
    that could not be read, and `is_whole` is false where the file's beginning was not looked at.
    `hides_prompt` is true where all of the newest prompt is private, `headless` where a script ran the agent.
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
        """About how many it is."""
        return estimate(*(each.text for each in self.messages))

    @property
    def mark(self) -> str:
        """A word for all that was said; who says more has another."""
        said = hashlib.blake2b(digest_size=12)
        for each in self.messages:
            said.update(f"{each.role}\n{each.text}\0".encode("utf-8", "surrogatepass"))
        return said.hexdigest()


class TranscriptMessage(msgspec.Struct):
    """A message as a file has it. `is_new`: it stands behind the newest summary."""

    role: Speaker
    text: str
    at: float = 0.0
    is_new: bool = True


class SessionDraft(msgspec.Struct):
    """What a format has found so far. A session that `is_other` is none between a person and the model."""

    session_id: str = ""
    workspace: str = ""
    version: str = ""
    started_at: float = 0.0
    messages: list[TranscriptMessage] = []
    skipped: int = 0
    is_other: bool = False
    headless: bool = False

    def about(self, session_id: object, workspace: object, version: object, at: float) -> None:
        """Take down what a line says of its session; the first word counts."""
        self.session_id = self.session_id or _short(session_id)
        self.workspace = self.workspace or _short(workspace)
        self.version = self.version or _short(version)
        self.started_at = self.started_at or at

    def decoded(self, lines: Iterable[bytes], decode: Callable[[bytes], _Line]) -> Iterator[_Line]:
        """The lines that are of a form; what is none is counted and passed over."""
        for raw in lines:
            try:
                line = decode(raw)
            except NO_LINE:
                self.skipped += 1
            else:
                yield line

    def summarised(self) -> None:
        """What was told until now stands before a summary."""
        for each in self.messages:
            each.is_new = False


_SHORT = 4_096


def _short(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _SHORT and "\0" not in value else ""


def seconds(written: object) -> float:
    """A time as harnesses write it, RFC 3339 or milliseconds, in Unix seconds; 0 if it is none."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        return written / 1000 if 0 < written < 1e14 else 0.0
    try:
        return max(0.0, datetime.fromisoformat(written).timestamp()) if isinstance(written, str) else 0.0
    except (ValueError, OverflowError):
        return 0.0


# Words with which forged itself begins to speak to a model; nobody else's session begins so.
_OURS = tuple(prompts.text(name).partition("\n")[0] for name in ("classifier", "classifier.ask", "hyde"))


def finished(agent: str, draft: SessionDraft, *, is_whole: bool = True) -> PastSession:
    """The session with what of its messages was said; those of which nothing is left are left out."""
    is_ours = bool(draft.messages) and draft.messages[0].text.lstrip().startswith(_OURS)
    messages = [] if draft.is_other or is_ours else draft.messages
    spans = tuple(open_spans_before((each.role, (each.text,)) for each in messages))
    kept = [
        (Utterance(each.role, text), each)
        for each, open_spans in zip(messages, spans, strict=True)
        if (text := _said(each, open_spans))
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
    for each, open_spans in zip(reversed(messages), reversed(spans), strict=True):
        if each.role == "user":
            if not without_private(each.text, open_spans).strip():
                return True
            if _said(each, open_spans):
                return False
    return False


def _said(each: TranscriptMessage, open_spans: int) -> str:
    if open_spans and each.role == "assistant":
        return ""
    text, _ = without_blocks(without_private(each.text, open_spans))
    return without_tool_text(text, each.role).strip()
