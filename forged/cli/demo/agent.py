"""Agent processes of `forgectl demo`, which use only forged's client library.

Run as `python -m forged.cli.demo.agent write|read|turns WORKSPACE [MESSAGE MODE]`; prints JSON for the demo.
An agent's integration would contain this code.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import msgspec

from forged_client import Client, Observer
from forged_client.protocol import Edge, Retrieved

# A name for the demo, scope, category and text.
MEMORIES = (
    ("logging", "user", "coding-preferences", "Log with slog and key-value pairs, never with fmt.Printf."),
    ("migrations", "repo", "project-conventions", "Database migrations run with goose, one file per change."),
    ("pool", "repo", "architectural-decisions", "Connections go through pgbouncer in transaction mode."),
    ("prepared", "repo", "corrections", "Prepared statements are switched off in our SQL driver."),
)
_EDGES = {"prepared": "pool"}

# Messages of the user with the agent's answers: a preference, a correction, and small talk.
TURNS = (
    (
        "Always use errors.As to check Go errors, never a type assertion. Can you fix the handler?",
        "Done: the handler unwraps with errors.As now.",
    ),
    (
        "No, we run the integration tests with make it, not with go test.",
        "Understood, I ran make it; all 42 tests pass.",
    ),
    ("Nice, thanks! What a day. Shall we call it a night?", "Sleep well!"),
)


class WriteTimes(msgspec.Struct):
    """Result of the demo's writing agent: memory ids by name, and milliseconds of each write."""

    ids: dict[str, str]
    milliseconds: list[float]


class FinishedTurns(msgspec.Struct):
    """Result of the demo's turns: milliseconds per call, events by outcome, if all arrived."""

    milliseconds: list[float]
    outcomes: dict[str, int]
    delivered: bool


class RetrievedTurn(msgspec.Struct):
    """Result of the demo's retrieves: time and reply of the first, and if the second was cached."""

    milliseconds: float
    reply: Retrieved
    cached: bool


def write_memories(workspace: str) -> WriteTimes:
    """Save the demo's four memories, with a link between two of them; return ids and times."""
    ids: dict[str, str] = {}
    took = []
    with Client(strict=True) as client:
        for name, scope, category, text in MEMORIES:
            related = [Edge(ids[_EDGES[name]])] if name in _EDGES else []
            began = time.perf_counter()
            reply = client.remember(workspace, text, scope=scope, category=category, related=related)
            took.append(milliseconds_since(began))
            ids[name] = reply.memory_id
    return WriteTimes(ids, took)


def retrieve_twice(workspace: str, message: str, mode: str) -> RetrievedTurn:
    """Retrieve for one message twice, as an agent; return time, reply, and if the cache answered."""
    said = [{"role": "user", "content": message}]
    with Client(strict=True) as client:
        client.ping()
        began = time.perf_counter()
        reply = client.retrieve(workspace, said, session_id="demo", turn_id=message, mode=mode)
        took = milliseconds_since(began)
        again = client.retrieve(workspace, said, session_id="demo", turn_id=message, mode=mode)
    return RetrievedTurn(took, reply, again.cached and again.text == reply.text)


def finish_turns(workspace: str) -> FinishedTurns:
    """Report the demo's turns to capture; return times and outcomes, and if all were delivered."""
    observer = Observer(workspace, "demo-turns")
    window: list[dict[str, str]] = []
    took = []
    for question, answer in TURNS:
        window += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        began = time.perf_counter()
        observer.on_turn_complete(window)
        took.append(milliseconds_since(began))
    delivered = observer.close()
    return FinishedTurns(took, dict(observer.counts), delivered)


def milliseconds_since(began: float) -> float:
    """Return the milliseconds that have passed since a value of `time.perf_counter`."""
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    act, *arguments = sys.argv[1:]
    acts: dict[str, Callable[..., object]] = {
        "write": write_memories,
        "read": retrieve_twice,
        "turns": finish_turns,
    }
    sys.stdout.buffer.write(msgspec.json.encode(acts[act](*arguments)))
