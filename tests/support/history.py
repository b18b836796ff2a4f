"""Past sessions of the five agents, in the files of their harnesses, in a home directory.

Every session states rules of its own, calls tools whose output holds LEAK, and thinks LEAK; all of them hold
`SAID`. The same numbers make the same history.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from forged.transcripts import FORMATS

LEAK = "zebra-of-a-tool"
Json = dict[str, Any]
Said = tuple[str, str, float]


# No two of these are about one subject.
_WORDS = """
lint tests before pushing; sign tags of releases; squash branches while merging; pin docker images by digest
mock clocks in fixtures; vendor fonts for offline builds; profile parsers on arm machines
translate error messages into Welsh; rotate staging passwords on Mondays; archive invoices as PDF
shard integration suites by module; compress screenshots with oxipng; quote identifiers in SQL migrations
cache wheels between pipelines; name feature flags after tickets; review terraform plans in pairs
encrypt backups using age; sort imports with isort; throttle webhooks at the gateway
validate YAML schemas on save; deploy lambdas from tagged commits; freeze dependencies every quarter
document endpoints in OpenAPI; measure latency at the ninetieth percentile; label dashboards by team
store avatars in object storage; drop tables through a ticket; redact emails in analytics
benchmark kernels on bare metal; generate clients from protobuf; escalate pages after ten minutes
localise dates with ICU; prefer tuples over lists; wrap sockets in context managers
replay traffic against canaries; warm queues at midnight; lock spreadsheets during audits
render charts on the server; paginate feeds by cursor; scan containers with trivy
indent makefiles using tabs; batch notifications hourly; seed databases from anonymised dumps
split commits by concern; tune postgres with pgbench; expose metrics under slash metrics
verify checksums after downloads; simulate outages each spring; colour terminals through rich
"""
_RULES = [each.strip() for line in _WORDS.strip().splitlines() for each in line.split(";")]


def rule(number: int) -> str:
    """Return the statement of the session with this number."""
    return f"We always {_RULES[number % len(_RULES)]}."


def written(home: Path, workspaces: Sequence[Path], count: int, *, began: float) -> list[str]:
    """Write sessions, the agents in turn, each an hour after the last; return their rules, oldest first."""
    agents = list(FORMATS)
    for number in range(count):
        agent, at = agents[number % len(agents)], began + 3600 * number
        workspace = str(workspaces[number % len(workspaces)])
        said = [
            ("user", rule(number), at),
            ("assistant", "I look into it.", at + 1),
            ("assistant", "Done, as you said.", at + 3),
        ]
        path = _WRITERS[agent](Path(FORMATS[agent].home({}, str(home))), number, workspace, said)
        os.utime(path, (at, at))
    return [rule(number) for number in range(count)]


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _lines(path: Path, lines: Iterator[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _claude(home: Path, number: int, workspace: str, said: Sequence[Said]) -> Path:
    def lines() -> Iterator[Json]:
        parent = None
        base = {"sessionId": f"claude-{number}", "cwd": workspace, "version": "2.1.197", "isSidechain": False}
        tool = [{"type": "tool_use", "name": "Bash", "input": {"command": LEAK}}]
        result = [{"type": "tool_result", "content": LEAK}]
        between = [
            ("assistant", tool),
            ("user", result),
            ("assistant", [{"type": "thinking", "thinking": LEAK}]),
        ]
        contents = [(role, [{"type": "text", "text": text}]) for role, text, _ in said]
        for at, (role, content) in enumerate((*contents[:2], *between, *contents[2:])):
            line = {**base, "type": role, "uuid": f"{number}-{at}", "parentUuid": parent}
            yield {**line, "timestamp": _time(said[0][2] + at), "message": {"role": role, "content": content}}
            parent = f"{number}-{at}"

    return _lines(home / "projects" / workspace.replace("/", "-") / f"claude-{number}.jsonl", lines())


def _codex(home: Path, number: int, workspace: str, said: Sequence[Said]) -> Path:
    def lines() -> Iterator[Json]:
        meta = {"id": f"codex-{number}", "cwd": workspace, "cli_version": "0.169.0"}
        yield {"type": "session_meta", "payload": {**meta, "timestamp": _time(said[0][2])}}
        for role, text, at in said:
            kind = "input_text" if role == "user" else "output_text"
            message = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
            yield {"type": "response_item", "timestamp": _time(at), "payload": message}
        yield {"type": "response_item", "payload": {"type": "function_call_output", "output": LEAK}}
        yield {"type": "response_item", "payload": {"type": "reasoning", "content": LEAK}}

    return _lines(home / "sessions/2026/09/01" / f"rollout-{number}.jsonl", lines())


def _gemini(home: Path, number: int, workspace: str, said: Sequence[Said]) -> Path:
    def lines() -> Iterator[Json]:
        yield {"sessionId": f"gemini-{number}", "startTime": _time(said[0][2]), "kind": "main"}
        for at, (role, text, when) in enumerate(said):
            record = {"id": f"{number}-{at}", "timestamp": _time(when)}
            if role == "user":
                yield {**record, "type": "user", "content": [{"text": text}]}
            else:
                tools = [{"name": "read_file", "result": LEAK}]
                yield {**record, "type": "gemini", "content": text, "toolCalls": tools, "thoughts": [LEAK]}
        yield {"id": f"{number}-r", "type": "user", "content": [{"functionResponse": {"response": LEAK}}]}

    project = home / "tmp" / f"project-{workspace.replace('/', '-')}"
    path = _lines(project / "chats" / f"session-{number}.jsonl", lines())
    (project / ".project_root").write_text(workspace)
    return path


def _qwen(home: Path, number: int, workspace: str, said: Sequence[Said]) -> Path:
    def lines() -> Iterator[Json]:
        base = {"sessionId": f"qwen-{number}", "cwd": workspace, "version": "0.15.10"}
        for role, text, at in said:
            parts = [{"text": LEAK, "thought": True}, {"text": text}]
            yield {**base, "type": role, "timestamp": _time(at), "message": {"parts": parts}}
        result = [{"functionResponse": {"response": {"output": LEAK}}}]
        yield {**base, "type": "tool_result", "message": {"role": "user", "parts": result}}

    return _lines(home / "projects" / workspace.replace("/", "-") / "chats" / f"qwen-{number}.jsonl", lines())


_TABLES = """
create table if not exists session (id text, parent_id text, directory text, version text,
    time_created integer, time_updated integer);
create table if not exists message (id text, session_id text, time_created integer, data text);
create table if not exists part (id text, message_id text, session_id text, data text);
"""


def _opencode(home: Path, number: int, workspace: str, said: Sequence[Said]) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "opencode.db"
    began, ended = (int(1000 * each[2]) for each in (said[0], said[-1]))
    with closing(sqlite3.connect(path)) as database:
        database.executescript(_TABLES)
        session = (f"opencode-{number}", None, workspace, "1.18.33", began, ended)
        database.execute("insert into session values (?, ?, ?, ?, ?, ?)", session)
        for at, (role, text, when) in enumerate(said):
            message = (f"{number}-{at}", session[0], int(1000 * when), json.dumps({"role": role}))
            database.execute("insert into message values (?, ?, ?, ?)", message)
            tool = {"type": "tool", "state": {"output": LEAK, "text": LEAK}}
            for place, part in enumerate(
                ({"type": "text", "text": text}, tool, {"type": "reasoning", "text": LEAK})
            ):
                row = (f"{number}-{at}-{place}", message[0], session[0], json.dumps(part))
                database.execute("insert into part values (?, ?, ?, ?)", row)
        database.commit()
    return path


_WRITERS = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "opencode": _opencode,
}
