"""Repositories with real git, and a daemon's judgement over them without a daemon."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from forged.files import MemoryStore, Root, scan
from forged.memory import Memory, Scope
from forged.state import OwnFile
from forged.trust import TrustRegistry
from tests.data.memories import memory, put
from tests.state.conftest import opened
from tests.support.git import git


def commit(top: Path, *memories: Memory, folder: str = ".forge/memory") -> None:
    """A commit with these memories, or with whatever lies there."""
    put(top, *memories, folder=folder)
    git(top, "add", "--all", "--force")
    git(top, "commit", "--quiet", "--allow-empty", "--message", "more")


def upstream(directory: Path, *options: str) -> Path:
    """A repository with one memory, `of_theirs`, on `main`."""
    directory.mkdir(parents=True)
    git(directory, "init", "--quiet", *options)
    commit(directory, memory("of_theirs", "as it was when we cloned"))
    return directory


def clone(source: Path, target: Path, *options: str) -> Path:
    git(source, "clone", "--quiet", *options, f"file://{source}", str(target))
    return target


def own_file(root: Root, one: Memory, *, insisted: bool = False) -> OwnFile:
    """The record of the file that a memory of ours is written to."""
    data = MemoryStore(root).file_bytes(one)
    return OwnFile(one.id, hashlib.sha256(data).hexdigest(), one.origin, insisted)


class Person:
    """A daemon's trust over real directories; what a test says, a person says."""

    def __init__(self, trust: TrustRegistry) -> None:
        self.trust = trust

    def look(self, top: Path) -> tuple[set[str], dict[str, str]]:
        """Ids that count in a root, and why others do not; looked at until nothing passes."""
        root = Root(os.path.realpath(top), Scope.REPO)
        for _ in range(5):
            admitted = self.trust.admit(root, scan(root))
            if not admitted.may_change:
                break
        return {each.id for each in admitted.memories}, {each.id: each.why for each in admitted.withheld}

    def counting(self, top: Path) -> set[str]:
        return self.look(top)[0]

    def withheld(self, top: Path) -> set[str]:
        return set(self.look(top)[1])


@contextlib.asynccontextmanager
async def person(directory: Path) -> AsyncIterator[Person]:
    async with opened(directory) as state:
        yield Person(TrustRegistry(state))
