"""Folders of harnesses as they lie in a home directory, of fixtures that the real programs wrote."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from forged.transcripts import FORMATS

DATA = Path(__file__).parents[1] / "data" / "transcripts"
FIXTURES = sorted(path for path in DATA.glob("*/*") if path.is_file())
PLACES = {
    "claude": "projects/-home-user-shop/a.jsonl",
    "codex": "sessions/2026/11/23/rollout-2026-11-23T20-40-00-a.jsonl",
    "gemini": "tmp/shop/chats/session-2026-11-23T20-40-a.jsonl",
    "qwen": "projects/-home-user-shop/chats/a.jsonl",
    "opencode": "opencode.db",
}


def folder_of(agent: str, home: Path) -> Path:
    """The folder of a harness in a home directory where no variable says otherwise."""
    return Path(FORMATS[agent].home({}, str(home)))


def lay(agent: str, fixture: Path, home: Path) -> Path:
    """Put a recorded session where its harness would; the file."""
    path = folder_of(agent, home) / PLACES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    if agent == "opencode":
        with closing(sqlite3.connect(path)) as database:
            database.executescript(fixture.read_text())
    else:
        path.write_bytes(fixture.read_bytes())
    if agent == "gemini":
        (path.parents[1] / ".project_root").write_text("/home/user/shop")
    os.utime(path, (1_000_000, 1_000_000))
    return path
