"""Memories with unimportant fields filled in, and how they come to lie on a disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forged.files.frontmatter import render
from forged.memory import Memory, Related

CREATED = "2025-03-04T05:06:07Z"


def memory(
    memory_id: str,
    content: str,
    *,
    related: Sequence[str] = (),
    supersedes: str | None = None,
    version: int = 1,
    scope: str = "repo",
    created_at: str = CREATED,
) -> Memory:
    """Return a memory with unimportant fields filled in."""
    return Memory(
        id=memory_id,
        content=content,
        created_at=created_at,
        updated_at=created_at,
        version=version,
        scope=scope,
        category="patterns",
        session_id="s",
        trigger="explicit",
        supersedes=supersedes,
        related=tuple(Related(other, "relates-to") for other in related),
    )


def put(top: Path, *memories: Memory, folder: str = ".forge/memory") -> None:
    """Write memories as an editor does that renames; existing files are replaced."""
    directory = top / folder
    directory.mkdir(parents=True, exist_ok=True)
    for each in memories:
        fresh = directory / f".{each.id}.fresh"
        fresh.write_bytes(render(each))
        fresh.rename(directory / f"{each.id}.md")
