"""Replies with something in every field that forgectl prints."""

from __future__ import annotations

from forged_client.protocol import (
    CaptureReport,
    DeadEvent,
    Edge,
    FileProblem,
    MemoryRecord,
    Ranking,
    RootReport,
    StatusReport,
    Version,
)


def root(**fields: object) -> RootReport:
    values: dict[str, object] = {
        "root": "/w",
        "scope": "repo",
        "state": "ready",
        "memories": 2000,
        "generation": "e:4",
        "indexes": ("lexical", "dense"),
        "build_ms": 12.5,
        "built_age_s": 90.0,
        "watch": "inotify",
        "watches": 1,
    }
    given = {**values, **fields}
    folder = ".forge/memory" if given["scope"] in {"repo", "user"} else "memory"
    given.setdefault("directory", f"{given['root']}/{folder}")
    return RootReport(**given)  # type: ignore[arg-type]


def status(**fields: object) -> StatusReport:
    values: dict[str, object] = {
        "version": "0.1.0",
        "pid": 7,
        "uptime_s": 7300.0,
        "socket": "/run/forged.sock",
        "strategy": "auto",
        "embedding_model": "auto",
        "roots": (root(),),
        "here": ("/w",),
        "connections": 1,
        "counters": {"retrieves": 3, "remembered": 0},
        "capture": captured(),
    }
    return StatusReport(**{**values, **fields})  # type: ignore[arg-type]


def captured(**fields: object) -> CaptureReport:
    """Capture when all is well."""
    values: dict[str, object] = {
        "state": "idle",
        "classifier": "builtin:rules",
        "worker_pid": 71,
        "last_success": "2020-01-01T00:00:00Z",
        "finished": 12,
        "memories": 3,
        "accepted": 12,
    }
    return CaptureReport(**{**values, **fields})  # type: ignore[arg-type]


def dead_event(event_id: str = "ev_1", **fields: object) -> DeadEvent:
    values: dict[str, object] = {
        "kind": "compaction",
        "session_id": "s1",
        "root": "/w",
        "received_at": "2026-05-01T10:00:00Z",
        "died_at": "2026-05-01T10:05:00Z",
        "reason": "five calls failed: bad_reply",
        "bytes": 2048,
    }
    return DeadEvent(id=event_id, **{**values, **fields})  # type: ignore[arg-type]


def problems(count: int) -> tuple[FileProblem, ...]:
    return tuple(FileProblem(f"/w/.forge/memory/bad{i}.md", f"reason {i}") for i in range(count))


def record(memory_id: str = "mem_a", **fields: object) -> MemoryRecord:
    values: dict[str, object] = {
        "scope": "repo",
        "category": "patterns",
        "version": 1,
        "content": "Wrap errors.\nWith %w.\n",
        "created_at": "2026-05-01T10:00:00Z",
        "updated_at": "2026-05-02T10:00:00Z",
        "session_id": "s1",
        "trigger": "explicit",
        "root": "/w",
        "related": (Edge("mem_b", "refines"),),
    }
    return MemoryRecord(id=memory_id, **{**values, **fields})  # type: ignore[arg-type]


def hit(memory_id: str = "mem_a", **fields: object) -> MemoryRecord:
    values: dict[str, object] = {
        "scope": "repo",
        "category": "patterns",
        "version": 2,
        "content": "Wrap errors.\nWith %w.",
        "created_at": "2026-05-01T10:00:00Z",
    }
    ranking: dict[str, object] = {
        "score": 0.9,
        "cosine": 0.8,
        "lexical": 3.25,
        "older": (Version("mem_old", 1, "2026-01-01T00:00:00Z", "Ignore errors."),),
    }
    for name, value in fields.items():
        (ranking if name in Ranking.__struct_fields__ else values)[name] = value
    return MemoryRecord(id=memory_id, found=Ranking(**ranking), **values)  # type: ignore[arg-type]
