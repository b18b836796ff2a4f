"""What verbs need that show or copy a store at once: its roots, and as a whole what comes in pages.

A page is as long as a reply has room. What comes or goes between two pages may be missing once; nothing
comes twice. Raised is Stop, as by every question of a verb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from forged.cli.call import check_read
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.errors import RequestFailed

_PAGE = 1000

_Reply = TypeVar("_Reply", wire.Memories, wire.CapturedPage, wire.InjectionsPage)
_Item = TypeVar("_Item")


def memories(client: Client, asked: wire.ListMemories) -> tuple[wire.MemoryRecord, ...]:
    """All memories that are asked for, newest first."""
    found = _all(
        lambda start: _page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.memories
    )
    return tuple({(each.root, each.id): each for each in found}.values())


def captured(client: Client, asked: wire.ListCaptured) -> tuple[wire.CapturedEntry, ...]:
    """All that capture has kept and refused, newest first."""
    found = _all(
        lambda start: _page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.captured
    )
    return tuple(dict.fromkeys(found))


def injections(client: Client, asked: wire.ListInjections) -> tuple[wire.InjectedTurn, ...]:
    """All that turns got, newest first."""
    found = _all(
        lambda start: _page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.injections
    )
    return tuple(dict.fromkeys(found))


def roots(client: Client, workspace: str) -> tuple[wire.RootReport, ...]:
    """The roots of a workspace, and of no other in which somebody is at work."""
    report = client.ask(wire.Status(workspace=workspace))
    check_read(report)
    tops = _repository(client, workspace)
    return tuple(root for root in report.roots if root.scope == "user" or root.root in tops)


def _repository(client: Client, workspace: str) -> frozenset[str]:
    """Tops of the workspace's repository: a worktree may share a store and have one of its own."""
    try:
        return frozenset(each.root for each in client.ask(wire.Trust(workspace=workspace)).roots)
    except RequestFailed as failed:
        if failed.code == "invalid":  # it lies in none
            return frozenset()
        raise


def _page(client: Client, request: wire.Request[_Reply]) -> _Reply:
    reply = client.ask(request)
    check_read(reply)
    return reply


def _all(page: Callable[[int], _Reply], items: Callable[[_Reply], Sequence[_Item]]) -> Iterator[_Item]:
    """The items of one page after the other, until there are no more."""
    start, total = 0, 1
    while start < total:
        reply = page(start)
        found, total = items(reply), reply.total
        if not found:
            return
        yield from found
        start += len(found)
