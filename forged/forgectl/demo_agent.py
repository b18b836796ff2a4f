"""The two agent processes of `forgectl demo`: they know nothing of forged but its client.

Run as `python -m forged.forgectl.demo_agent write|read ...`; prints JSON for the demo to show. What stands
here is what an agent's integration would hold.
"""

from __future__ import annotations

import sys
import time

import msgspec

from forged_client import Client
from forged_client.protocol import Edge, Retrieved


class Written(msgspec.Struct):
    """Ids of the memories by what they are called in the demo, and the milliseconds of each write."""

    ids: dict[str, str]
    milliseconds: list[float]
    generation: str


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
            "errors",
            "Check Go errors with errors.As, never with a type assertion.",
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


if __name__ == "__main__":
    done = write(sys.argv[2]) if sys.argv[1] == "write" else read(sys.argv[2], sys.argv[3])
    sys.stdout.buffer.write(msgspec.json.encode(done))
