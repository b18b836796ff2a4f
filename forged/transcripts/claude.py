"""Transcripts of Claude Code: `projects/FOLDER/SESSION.jsonl`, a tree of lines with parents.

The branch that ends in the newest line of the main conversation counts. A person who goes back and rephrases
leaves the other branch behind. A compaction starts a new branch, which names the old one as its logical
parent or appends to preserved lines. So everything after the newest boundary in the file came after the
summary. Side conversations, harness lines and synthetic replies are no prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from forged.transcripts.past_session import SessionDraft, TranscriptMessage, seconds
from forged.transcripts.texts import text_of
from forged_client.typed import resolved


class _ClaudeMessage(msgspec.Struct):
    """Content and model of the message in a transcript line of Claude Code."""

    content: object = ""
    model: object = ""


class _ClaudeLine(msgspec.Struct, rename="camel"):
    """Line of a transcript of Claude Code: its place in the tree, kind, message and session."""

    type: str = ""
    subtype: object = ""
    uuid: str = ""
    parent_uuid: str | None = ""
    logical_parent_uuid: str | None = None
    message: _ClaudeMessage = msgspec.field(default_factory=_ClaudeMessage)
    timestamp: object = ""
    session_id: object = ""
    cwd: object = ""
    version: object = ""
    is_meta: bool = False
    is_sidechain: bool = False
    is_compact_summary: bool = False
    is_api_error_message: bool = False
    team_name: object = None
    entrypoint: object = ""


class _TreeLine(msgspec.Struct):
    """Line in the tree of a transcript: its parent's id, its number in the file, and its message."""

    parent: str
    at: int
    messages: TranscriptMessage | None = None


_decode = msgspec.json.Decoder(resolved(_ClaudeLine)).decode
_SUMMARY = "compact_boundary"
# Values of `CLAUDE_CODE_ENTRYPOINT` that mean a script.
_SCRIPTED = ("sdk-cli", "claude-code-github-action")
_BY_HARNESS = ("[Request interrupted by user", "Caveat: The messages below were generated")


def read(lines: Iterable[bytes]) -> SessionDraft:
    """Read a Claude Code transcript into a draft, by the branch that ends in the newest line."""
    draft, tree, boundary, leaf = SessionDraft(), dict[str, _TreeLine](), -1, ""
    scripted = set[bool]()
    for at, line in enumerate(draft.decoded(lines, _decode)):
        if not line.uuid or line.is_sidechain:
            continue
        draft.set_once(line.session_id, line.cwd, line.version, seconds(line.timestamp))
        if line.type == "user":
            scripted.add(line.entrypoint in _SCRIPTED)
        if line.is_compact_summary or line.subtype == _SUMMARY:
            boundary = at
        parent = line.logical_parent_uuid if line.parent_uuid is None else line.parent_uuid
        # If its parent was skipped, a line continues the line before.
        known = parent if parent is None or parent in tree else leaf
        tree[line.uuid] = _TreeLine(known or "", at, _message_of(line))
        leaf = line.uuid
    draft.headless = scripted == {True}  # a person may continue what a script began
    for place in reversed([*_branch_up(tree, leaf)]):
        if place.messages is not None:
            place.messages.is_new = place.at > boundary
            draft.messages.append(place.messages)
    return draft


def _branch_up(tree: dict[str, _TreeLine], leaf: str) -> Iterator[_TreeLine]:
    """Yield the lines from a leaf up to the root, each once."""
    seen = set[str]()
    while leaf in tree and leaf not in seen:
        seen.add(leaf)
        yield tree[leaf]
        leaf = tree[leaf].parent


def _message_of(line: _ClaudeLine) -> TranscriptMessage | None:
    """Return the message of the person or the model in a line, or None."""
    if line.type not in ("user", "assistant") or line.message.model == "<synthetic>":
        return None
    if line.is_meta or line.is_compact_summary or line.is_api_error_message or line.team_name:
        return None
    text = text_of(line.message.content)
    if not text.strip() or text.startswith(_BY_HARNESS):
        return None
    return TranscriptMessage("user" if line.type == "user" else "assistant", text, seconds(line.timestamp))
