"""Rows and vectors for tests of the shared engine, and a `SharedServer` that runs while a test does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from forged.attributes import Facts
from forged.memory import Scope, utc
from forged.models import EgressGuard, Kind, Vectors
from forged.postgres import SharedServer, Stored
from forged.state import State
from tests.state.conftest import a_governor
from tests.support.clock import PATIENCE_S
from tests.support.postgres import Database
from tests.support.provider import FakeEmbedder

DIMENSION = 8
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def vector(*numbers: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A unit vector whose first numbers are in these proportions."""
    whole = np.zeros(DIMENSION, np.float32)
    whole[: len(numbers)] = numbers
    return whole / np.linalg.norm(whole)


def at_angle(cosine: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A vector that has this cosine with `vector(1)`."""
    return vector(cosine, float(np.sqrt(1 - cosine**2)))


def row(scope: Scope, owner: str, name: str, **fields: Any) -> Stored:
    """A memory of somebody."""
    given: dict[str, Any] = {
        "content": f"{name} of {owner}",
        "agent_id": owner if scope == Scope.AGENT else "agent",
        "vector": vector(1),
        "created_at": NOW,
        "updated_at": NOW,
    }
    if scope == Scope.SESSION:
        given["expires_at"] = text(NOW + timedelta(minutes=60))
    if scope == Scope.ORG:
        given["document_id"] = "doc_1"
    given |= fields
    facts = Facts(**{name: given.pop(name) for name in Facts.__struct_fields__ if name in given})
    owner = "" if scope == Scope.ORG else owner
    return Stored(scope=scope, owner=owner, id=f"mem_{name}", facts=facts, **given)


def text(at: datetime) -> str:
    """A time as attributes have it."""
    return utc(at.timestamp())


class Clock:
    """Tells the time that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class ScriptedEmbedder(FakeEmbedder):
    """Vectors by the text's length."""

    key = "scripted"

    async def embed(self, texts: list[str], kind: Kind = "passage", **how: Any) -> Vectors:
        await super().embed(texts, kind, **how)
        return np.stack([at_angle(len(text) % 10 / 10) for text in texts])


@contextlib.asynccontextmanager
async def running(
    database: Database, directory: Path, scopes: Sequence[Scope] = tuple(Scope), **given: Any
) -> AsyncIterator[SharedServer]:
    """A daemon's shared object, with a state of its own, from its start to its end."""
    model = given.pop("model", database.model)
    settings = msgspec.structs.replace(database.settings(), scopes=frozenset(scopes), model=model)
    settings = given.pop("settings", settings)
    state = State(str(directory), a_governor())
    shared = SharedServer(
        settings, state=state, **{"egress": EgressGuard(), "daemon": "here", "clock": Clock()} | given
    )
    tasks = [asyncio.create_task(state.run()), asyncio.create_task(shared.run())]
    try:
        await state.wait_until_open()
        yield shared
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await state.close()


def soon(seconds: float = PATIENCE_S) -> float:
    """A deadline."""
    return time.monotonic() + seconds


async def until(holds: Any, seconds: float = PATIENCE_S) -> None:
    """Wait until something holds that no event tells of."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.01)


def ids(rows: Sequence[Stored]) -> list[str]:
    return [each.id.removeprefix("mem_") for each in rows]
