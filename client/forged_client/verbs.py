"""What an agent can ask: one function per verb, which both clients turn into a method of that name.

Each says how a verb is called and which reply it gets, once; `Client` and `AsyncClient` only add how to
wait. The first, unnamed parameter is the client. No function here does any I/O or raises: an agent's
messages are read with tolerance (window.py). What the fields mean is said in protocol.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic

import msgspec

from forged_client.exchange import R
from forged_client.protocol import (
    Capture,
    Captured,
    Chain,
    Cost,
    Costs,
    Dead,
    DeadEvents,
    Edge,
    Explained,
    Forget,
    Forgotten,
    Found,
    GetMemories,
    History,
    ListMemories,
    Memories,
    Pause,
    Paused,
    Ping,
    Pong,
    Rebuild,
    Rebuilt,
    Remember,
    Remembered,
    Request,
    Retrieve,
    Retrieved,
    Search,
    Status,
    StatusReport,
    Undo,
    Undone,
    Why,
)
from forged_client.window import CAPTURE_BYTES, RETRIEVE_BYTES, listed, window, window_id_of

# How much longer than a retrieve's own time limit the client waits for its answer.
GRACE_S = 0.5


class Call(msgspec.Struct, Generic[R], frozen=True):
    """A request, the type of its reply, and its deadline in seconds where it is not the client's."""

    request: Request
    kind: type[R]
    timeout_s: float | None = None


def ping(_: object, /) -> Call[Pong]:
    """Whether the daemon answers."""
    return Call(Ping(), Pong)


def status(_: object, /, workspace: str = "") -> Call[StatusReport]:
    """The daemon's health, with a workspace also that of its roots."""
    return Call(Status(workspace=workspace), StatusReport)


def retrieve(
    _: object,
    /,
    workspace: str,
    messages: Iterable[object] = (),
    *,
    session_id: str = "",
    turn_id: str = "",
    last_summary_index: int = 0,
    hypotheses: Iterable[str] = (),
    token_budget: int | None = None,
    timeout_s: float | None = None,
    min_generation: str = "",
    known_digest: str = "",
) -> Call[Retrieved]:
    """The injection for one turn, as `text`.

    `messages` are `protocol.Message`s, dicts in OpenAI or Anthropic form, or objects with such fields.
    `timeout_s` limits the daemon's work (its default is 2.0 s); the call ends at most 0.5 s later.
    """
    request = Retrieve(
        workspace=workspace,
        session_id=session_id,
        turn_id=turn_id,
        messages=window(messages, last_summary_index, RETRIEVE_BYTES),
        last_summary_index=last_summary_index,
        hypotheses=tuple(hypotheses),
        token_budget=token_budget,
        timeout_s=timeout_s,
        min_generation=min_generation,
        known_digest=known_digest,
    )
    return Call(request, Retrieved, None if timeout_s is None else timeout_s + GRACE_S)


def search(
    _: object, /, workspace: str, query: str, *, limit: int = 10, min_generation: str = ""
) -> Call[Found]:
    """Ranked memories for a query text."""
    request = Search(workspace=workspace, query=query, limit=limit, min_generation=min_generation)
    return Call(request, Found)


def why(_: object, /, workspace: str = "", *, session_id: str = "", query: str = "") -> Call[Explained]:
    """How the last injection of a session came about, or what a query would find now."""
    return Call(Why(workspace=workspace, session_id=session_id, query=query), Explained)


def remember(
    _: object,
    /,
    workspace: str,
    content: str,
    *,
    scope: str = "repo",
    category: str = "user-facts",
    supersedes: str = "",
    related: Iterable[Edge] = (),
    session_id: str = "",
) -> Call[Remembered]:
    """Write one memory; the reply comes when it is safe on disk."""
    request = Remember(
        workspace=workspace,
        content=content,
        scope=scope,
        category=category,
        supersedes=supersedes,
        related=tuple(related),
        session_id=session_id,
    )
    return Call(request, Remembered)


def capture(
    _: object,
    /,
    workspace: str,
    session_id: str,
    messages: Iterable[object],
    *,
    kind: str = "turn",
    last_summary_index: int = 0,
    window_id: str = "",
) -> Call[Captured]:
    """Hand over a finished turn, or another `kind` of event, to be turned into memories.

    `window_id` names the message that the window starts with; left out, it is made from that message.
    """
    given = listed(messages)
    request = Capture(
        workspace=workspace,
        session_id=session_id,
        kind=kind,
        messages=window(given, last_summary_index, CAPTURE_BYTES),
        last_summary_index=last_summary_index,
        window_id=window_id or window_id_of(given, last_summary_index),
    )
    return Call(request, Captured)


def get(_: object, /, workspace: str, ids: Iterable[str], *, min_generation: str = "") -> Call[Memories]:
    """Memories by id."""
    request = GetMemories(workspace=workspace, ids=tuple(ids), min_generation=min_generation)
    return Call(request, Memories)


def list_memories(
    _: object,
    /,
    workspace: str,
    *,
    scope: str = "",
    category: str = "",
    all_versions: bool = False,
    limit: int = 100,
    offset: int = 0,
    min_generation: str = "",
) -> Call[Memories]:
    """Memories of the workspace, newest first."""
    request = ListMemories(
        workspace=workspace,
        scope=scope,
        category=category,
        all_versions=all_versions,
        limit=limit,
        offset=offset,
        min_generation=min_generation,
    )
    return Call(request, Memories)


def history(_: object, /, workspace: str, memory_id: str, *, min_generation: str = "") -> Call[Chain]:
    """All versions of a memory, oldest first."""
    request = History(workspace=workspace, memory_id=memory_id, min_generation=min_generation)
    return Call(request, Chain)


def forget(
    _: object, /, workspace: str, memory_id: str, *, version_only: bool = False, erase_now: bool = False
) -> Call[Forgotten]:
    """Take a memory away, with all its versions unless `version_only`."""
    request = Forget(workspace=workspace, memory_id=memory_id, version_only=version_only, erase_now=erase_now)
    return Call(request, Forgotten)


def undo(
    _: object, /, workspace: str, *, session_id: str = "", preview: bool = False, ids: Iterable[str] = ()
) -> Call[Undone]:
    """Take back the newest batch of captured memories, or only say which it is."""
    request = Undo(workspace=workspace, session_id=session_id, preview=preview, ids=tuple(ids))
    return Call(request, Undone)


def pause(
    _: object, /, workspace: str = "", *, everywhere: bool = False, paused: bool = True
) -> Call[Paused]:
    """Stop or resume capture and injection."""
    return Call(Pause(workspace=workspace, everywhere=everywhere, paused=paused), Paused)


def dead(_: object, /, action: str = "list", ids: Iterable[str] = ()) -> Call[DeadEvents]:
    """Capture events that were given up: list, show, retry or drop them."""
    return Call(Dead(action=action, ids=tuple(ids)), DeadEvents)


def cost(_: object, /, *, days: int = 7) -> Call[Costs]:
    """What model calls have cost."""
    return Call(Cost(days=days), Costs)


def rebuild(
    _: object,
    /,
    workspace: str,
    *,
    full: bool = False,
    wait: bool = False,
    timeout_s: float | None = None,
) -> Call[Rebuilt]:
    """Rescan the roots; with `wait`, give it a `timeout_s` that a first build of the root can meet."""
    return Call(Rebuild(workspace=workspace, full=full, wait=wait), Rebuilt, timeout_s)
