"""What `status` and `doctor` tell of each scope: where it lives, how much there is, and what is lost when."""

from __future__ import annotations

import asyncio
import os

from forged.daemon.handlers.context import Daemon
from forged.files import Root, agent_ids, agent_root, org_root
from forged.memory import Scope
from forged_client import protocol as wire

_FILES, _MEMORY = "files", "memory"


async def scope_reports(daemon: Daemon) -> tuple[wire.ScopeReport, ...]:
    """The scopes beside a workspace's roots; how those fare, their own reports tell."""
    agents, org = await asyncio.to_thread(_counted, daemon.resolver.home)
    rows = sum(1 for _ in daemon.session_memories.all())
    wanted, home = daemon.config.scopes.retrieved, daemon.resolver.home
    return (
        wire.ScopeReport(
            scope=Scope.SESSION,
            engine=_MEMORY,
            owners=daemon.session_memories.sessions,
            memories=rows,
            retrieved=Scope.SESSION in wanted,
            lasts_s=daemon.session_memories.ttl_s,
            dropped=daemon.session_memories.dropped,
        ),
        wire.ScopeReport(
            scope=Scope.AGENT,
            engine=_FILES,
            place=os.path.dirname(agent_root(home, "any").top),
            owners=len(agents),
            memories=sum(agents),
            retrieved=Scope.AGENT in wanted,
        ),
        wire.ScopeReport(
            scope=Scope.ORG,
            engine=_FILES,
            place=org_root(home).top,
            owners=int(org > 0),
            memories=org,
            retrieved=Scope.ORG in wanted,
        ),
    )


def _counted(home: str) -> tuple[list[int], int]:
    """How many files each agent has, and how many the documents take."""
    agents = [_files(agent_root(home, each)) for each in agent_ids(home)]
    return agents, _files(org_root(home))


def _files(root: Root) -> int:
    names = 0
    for directory in root.directories:
        try:
            names += sum(name.endswith(".md") and not name.startswith(".") for name in os.listdir(directory))
        except OSError:
            continue
    return names
