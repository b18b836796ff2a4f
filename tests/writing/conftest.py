"""A writer in a daemon that trusts its repository, and what it left on disk."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from forged.counters import Metrics
from forged.files import Root, scan
from forged.maps import Indexer, RootIndex
from forged.memory import Memory, Scope
from forged.state import State
from forged.trust import TrustRegistry
from forged.writing import Writer
from tests.data.memories import memory
from tests.state.conftest import opened as state_in
from tests.support.clock import PATIENCE_S


class Bench(msgspec.Struct):
    """A writer, the index of a repository, and the state that both rely on."""

    writer: Writer
    index: RootIndex
    state: State
    trust: TrustRegistry
    repo: Path

    def versions(self) -> dict[str, tuple[int, str | None]]:
        """(version, supersedes) of every file, by id."""
        return {each.id: (each.version, each.supersedes) for each in self.on_disk()}

    def on_disk(self) -> tuple[Memory, ...]:
        return scan(Root(str(self.repo), Scope.REPO)).memories

    def contents(self) -> list[str]:
        return sorted(each.content.strip() for each in self.on_disk())


@contextlib.asynccontextmanager
async def bench_at(repo: Path, directory: Path) -> AsyncIterator[Bench]:
    """A daemon's writer; what it needs of a daemon ends with the context."""
    async with state_in(directory) as state:
        trust = TrustRegistry(state)
        await trust.trust(str(repo))
        indexer = Indexer(embedder=None, lexical=True, metrics=Metrics(), trust=trust)
        trust.connect_maps(indexer.refresh, indexer.snapshot)
        try:
            index = indexer.open(Root(str(repo), Scope.REPO))
            await index.until_ended(index.generations.wanted, time.monotonic() + PATIENCE_S)
            yield Bench(
                Writer(str(directory / "trash"), trust, state.requests, state.intents, state.removal_marks),
                index,
                state,
                trust,
                repo,
            )
        finally:
            await indexer.close()


@pytest.fixture
def bench(repo: Path, tmp_path: Path) -> contextlib.AbstractAsyncContextManager[Bench]:
    return bench_at(repo, tmp_path / "state")


def draft(memory_id: str, supersedes: str | None = None, content: str = "") -> Memory:
    return memory(memory_id, content or f"text of {memory_id}", supersedes=supersedes)
