"""Requests and replies of the bench, by the client of the daemon's own commit.

A driver, as inside.py is: rows of another commit load this file with that commit's client. So names and
arguments here stay when messages or fields are renamed on the wire; only their implementation changes.
Requests and replies are the client's own objects, which rows pass on unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from forged_client import framing, protocol

HEADER_BYTES = framing.HEADER_BYTES
FAILED = protocol.Failed
encode = framing.encode
decode = framing.decode_reply
# Decoders are built at their first use, from modules by name: now, while these are those of this client.
decode(encode(protocol.Pong())[HEADER_BYTES:])


class Hit(NamedTuple):
    id: str
    content: str
    cosine: float | None


class Answer(NamedTuple):
    """Outcome of a retrieve."""

    status: str
    reason: str
    indexes: tuple[str, ...]
    is_cached: bool
    hits: tuple[Hit, ...]


class Root(NamedTuple):
    root: str
    state: str
    indexes: tuple[str, ...]


class State(NamedTuple):
    """State of a daemon; `embedded` are texts, `judged` captured events."""

    pid: int
    roots: tuple[Root, ...]
    gate: str
    embedded: int
    judged: int
    worker_pid: int | None


class Recalled(NamedTuple):
    status: str
    reason: str
    is_degraded: bool
    roots: tuple[str, ...]


# --- requests ------------------------------------------------------------------------------------------


def hello(client: str, pid: int) -> Any:
    return protocol.Hello(id=1, client=client, pid=pid)


def ping() -> Any:
    return protocol.Ping(id=2)


def padded_ping(size: int) -> bytes:
    """Return the frame of a ping with a body of so many bytes: an unknown field is ignored."""
    fields = msgspec.msgpack.decode(encode(ping())[HEADER_BYTES:])

    def padded(count: int) -> bytes:
        return msgspec.msgpack.encode({**fields, "padding": bytes(count)})

    body = padded(max(2 * size - len(padded(size)), 0))
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def status() -> Any:
    return protocol.Status(id=2)


def trust(workspace: str) -> Any:
    return protocol.Trust(id=3, workspace=workspace, action="trust")


def rebuild(workspace: str, *, full: bool = False, wait: bool = False) -> Any:
    return protocol.Rebuild(id=2, workspace=workspace, full=full, wait=wait)


def events(workspace: str) -> Any:
    return protocol.Events(id=2, workspace=workspace)


def retrieve(
    workspace: str,
    *,
    said: Sequence[tuple[str, str | None]] = (),
    hypotheses: Sequence[str] = (),
    session: str = "",
    turn: str = "",
    mode: str | None = None,
    number: int = 3,
) -> Any:
    """Return a retrieve of messages as role and text (None for a tool's result), or of hypotheses.

    Clients from before sessions have no mode; each of their answers is as in `plain`.
    """
    fields: dict[str, Any] = {"session_id": session, "turn_id": turn, "messages": _messages(said)}
    if mode is not None and "mode" in protocol.Retrieve.__struct_fields__:
        fields["mode"] = mode
    return protocol.Retrieve(id=number, workspace=workspace, hypotheses=tuple(hypotheses), **fields)


def capture(workspace: str, session: str, said: Sequence[tuple[str, str | None]]) -> Any:
    return protocol.Capture(id=4, workspace=workspace, session_id=session, messages=_messages(said))


def _messages(said: Sequence[tuple[str, str | None]]) -> tuple[Any, ...]:
    result = (protocol.ContentPart("tool_result"),)
    return tuple(protocol.Message(role, result if text is None else text) for role, text in said)


def remember(workspace: str, content: str) -> Any:
    return protocol.Remember(id=3, workspace=workspace, content=content)


def some_memories(workspace: str, ids: Sequence[str]) -> Any:
    return protocol.GetMemories(id=3, workspace=workspace, ids=tuple(ids))


def all_memories(workspace: str, limit: int) -> Any:
    return protocol.ListMemories(id=5, workspace=workspace, limit=limit)


def hook(harness: str, payload: bytes) -> Any:
    return protocol.Hook(id=2, harness=harness, payload=payload)


def recall(query: str, owners: Mapping[str, str], timeout_s: float) -> Any:
    """Return a recall; `owners` by scope: session, user, agent."""
    named = {f"{scope}_id": owner for scope, owner in owners.items()}
    return protocol.Recall(id=2, query=query, timeout_s=timeout_s, **named)


# --- replies -------------------------------------------------------------------------------------------


def failure(reply: Any) -> tuple[str, str] | None:
    """Return code and message, if the request was not carried out."""
    return (reply.code, reply.message) if isinstance(reply, FAILED) else None


def answer(reply: Any) -> Answer:
    assert isinstance(reply, protocol.Retrieved)
    hits = tuple(Hit(hit.id, hit.content, hit.found.cosine) for hit in reply.memories)
    return Answer(reply.status, reply.reason, tuple(reply.indexes), reply.cached, hits)


def state(reply: Any) -> State:
    assert isinstance(reply, protocol.StatusReport)
    return State(
        reply.pid,
        tuple(Root(root.root, root.state, tuple(root.indexes)) for root in reply.roots),
        reply.gate.state,
        reply.counters.get("texts_embedded", 0),
        reply.capture.finished,
        reply.capture.worker_pid,
    )


def texts(reply: Any) -> tuple[str, ...]:
    """Return the texts of the requested memories."""
    assert isinstance(reply, protocol.Memories)
    return tuple(memory.content for memory in reply.memories)


def written_to(reply: Any) -> str:
    """Return the path of a memory's file, "" if none was written."""
    return reply.path if isinstance(reply, protocol.Remembered) else ""


def is_swap(reply: Any) -> bool:
    """Return True if an event means that a new map answers."""
    return isinstance(reply, protocol.Progress) and reply.event == "swapped"


def recalled(reply: Any) -> Recalled:
    assert isinstance(reply, protocol.Recalled)
    roots = tuple(memory.root for memory in reply.memories)
    return Recalled(reply.status, reply.reason, reply.degraded, roots)
