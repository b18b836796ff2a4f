"""The agent processes of `forgectl demo`: they know nothing of forged but its client.

Run as `python -m forged.cli.demo.agent write|read|turns ...`; prints JSON for the demo to show. What
stands here is what an agent's integration would hold.
"""

from __future__ import annotations

import sys
import time

import msgspec

from forged_client import Client, Observer
from forged_client.protocol import Edge, Retrieved

# What the user says, and what the agent answers: one thing to keep, one correction, and small talk.
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


class Written(msgspec.Struct):
    """Ids of the memories by what they are called in the demo, and the milliseconds of each write."""

    ids: dict[str, str]
    milliseconds: list[float]
    generation: str


class Finished(msgspec.Struct):
    """Milliseconds of each `on_turn_complete`, what was answered how often, and whether all arrived."""

    milliseconds: list[float]
    outcomes: dict[str, int]
    delivered: bool


class Read(msgspec.Struct):
    """One retrieve as the agent saw it: milliseconds around the call, the reply's own words."""

    milliseconds: float
    status: str
    reason: str
    text: str
    legs: list[str]
    strategy: str
    cached: bool
    ids: list[str]
    vias: list[str]


def write(workspace: str) -> Written:
    """Remember four things, of which one leads to another by an edge."""
    told = Written({}, [], "")
    with Client(strict=True) as client:

        def remember(
            name: str, text: str, *, scope: str, category: str, related: tuple[str, ...] = ()
        ) -> None:
            began = time.perf_counter()
            reply = client.remember(
                workspace,
                text,
                scope=scope,
                category=category,
                related=[Edge(told.ids[other]) for other in related],
            )
            told.milliseconds.append((time.perf_counter() - began) * 1000)
            told.ids[name] = reply.memory_id
            told.generation = reply.generation

        remember(
            "logging",
            "Log with slog and key-value pairs, never with fmt.Printf.",
            scope="user",
            category="coding-preferences",
        )
        remember(
            "migrations",
            "Database migrations run with goose, one file per change.",
            scope="repo",
            category="project-conventions",
        )
        remember(
            "pool",
            "Connections go through pgbouncer in transaction mode.",
            scope="repo",
            category="architectural-decisions",
        )
        remember(
            "prepared",
            "Prepared statements are switched off in our SQL driver.",
            scope="repo",
            category="corrections",
            related=("pool",),
        )
    return told


def read(workspace: str, message: str) -> Read:
    """Ask for the memories of one turn, twice: the second is a sub-turn of the same message."""
    with Client(strict=True) as client:
        client.ping()

        def ask() -> Retrieved:
            said = [{"role": "user", "content": message}]
            return client.retrieve(workspace, said, session_id="demo", turn_id=message)

        began = time.perf_counter()
        reply = ask()
        took = (time.perf_counter() - began) * 1000
        again = ask()
    return Read(
        took,
        reply.status,
        reply.reason,
        reply.text,
        list(reply.legs),
        reply.strategy,
        again.cached and again.text == reply.text,
        [hit.id for hit in reply.memories],
        [hit.via for hit in reply.memories],
    )


def turns(workspace: str) -> Finished:
    """Finish turns as an agent's loop does: the window grows, and no call waits for the daemon."""
    observer = Observer(workspace, "demo-turns")
    window: list[dict[str, str]] = []
    took = []
    for question, answer in TURNS:
        window += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        began = time.perf_counter()
        observer.on_turn_complete(window)
        took.append((time.perf_counter() - began) * 1000)
    delivered = observer.close()
    return Finished(took, dict(observer.counts), delivered)


if __name__ == "__main__":
    done: Written | Read | Finished
    match sys.argv[1:]:
        case ["write", place]:
            done = write(place)
        case ["turns", place]:
            done = turns(place)
        case _:
            done = read(sys.argv[2], sys.argv[3])
    sys.stdout.buffer.write(msgspec.json.encode(done))
