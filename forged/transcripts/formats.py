"""Transcript formats: the folder of each harness and its reader."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import msgspec

from forged.transcripts import claude, codex, gemini, qwen
from forged.transcripts.past_session import SessionDraft


class TranscriptFormat(msgspec.Struct, frozen=True):
    """Folder, file patterns and reader of a harness's transcripts.

    Its folder is `below` the one that its `variable` names, or `folder` of the home directory. `places` are
    patterns of folders and files below that. A harness without `read` has a database.
    """

    variables: tuple[str, ...]
    folder: str
    places: tuple[tuple[str, ...], ...]
    read: Callable[[Iterable[bytes]], SessionDraft] | None = None
    below: str = ""

    def home(self, env: Mapping[str, str], home: str) -> str:
        """Return a harness's transcript folder, by an environment variable or below the home directory."""
        named = next((env[name] for name in self.variables if env.get(name)), "")
        return os.path.join(named, self.below) if named else os.path.join(home, self.folder)


FORMATS: dict[str, TranscriptFormat] = {
    "claude": TranscriptFormat(
        ("CLAUDE_CONFIG_DIR",), ".claude", (("projects", "*", "*.jsonl"),), claude.read
    ),
    "codex": TranscriptFormat(
        ("CODEX_HOME",),
        ".codex",
        (("sessions", "*", "*", "*", "rollout-*.jsonl"), ("archived_sessions", "rollout-*.jsonl")),
        codex.read,
    ),
    "gemini": TranscriptFormat(
        ("GEMINI_CLI_HOME",),
        ".gemini",
        (("tmp", "*", "chats", "session-*.json*"),),
        gemini.read,
        ".gemini",
    ),
    "qwen": TranscriptFormat(
        ("QWEN_RUNTIME_DIR", "QWEN_HOME"), ".qwen", (("projects", "*", "chats", "*.jsonl"),), qwen.read
    ),
    "opencode": TranscriptFormat(
        ("XDG_DATA_HOME",), ".local/share/opencode", (("opencode.db",),), below="opencode"
    ),
}
