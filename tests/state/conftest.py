"""Events and documents to store, and a state to store them in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from forged.conversation import Utterance
from forged.files.roots import Root
from forged.memory import Memory, Related, Scope
from forged.models.budget import Governor
from forged.state import DecidedMemory, Event, State

ROOTS = (Root("/srv/repo", Scope.REPO), Root("/home/me", Scope.USER))


def event(number: int = 1, text: str = "use errors.As, not a type switch", **fields: object) -> Event:
    given = {
        "kind": "compaction",
        "session_id": "s",
        "roots": ROOTS,
        "received_at": "",
    } | fields
    return Event(
        id=f"ev_{number:020}_0000abcd",
        window=(Utterance("user", text), Utterance("assistant", "noted")),
        **given,
    )


def documents(content: str = "errors.As") -> tuple[DecidedMemory, ...]:
    now = "2026-01-01T00:00:00Z"
    memory = Memory("mem_1", content, now, now, 1, "repo", "patterns", "s", "cadence")
    related = msgspec.structs.replace(memory, id="mem_2", related=(Related("mem_1", "refines"),))
    return (DecidedMemory(ROOTS[0], memory), DecidedMemory(ROOTS[1], related))


def a_governor() -> Governor:
    return Governor(daily_token_limit=0, calls_per_minute=0)


@contextlib.asynccontextmanager
async def opened(directory: Path, governor: Governor | None = None) -> AsyncIterator[State]:
    """A daemon's state, open, from its start to its end."""
    state = State(str(directory), governor or a_governor())
    keeping = asyncio.create_task(state.run())
    try:
        await state.wait_until_open()
        yield state
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await state.close()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def state(directory: Path) -> contextlib.AbstractAsyncContextManager[State]:
    """The state of one daemon, which is open while an async test runs."""
    return opened(directory)


def names() -> list[str]:
    """All tables of a daemon's state."""
    return ["meta", *(table.name for table in State("/nowhere", a_governor())._database.tables)]


def raw(directory: Path) -> bytes:
    """All bytes of all files in a state directory."""
    return b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())
