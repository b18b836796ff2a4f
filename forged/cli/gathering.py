"""Read all pages of a list from the daemon, and the roots of a workspace, for `ui` and `export`.

A change between two pages may leave an item out, and never returns one twice. Raises Stop.
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


def all_memories(client: Client, asked: wire.ListMemories) -> tuple[wire.MemoryRecord, ...]:
    """Ask the daemon for a list of memories, page by page; return all, newest first, each once."""
    found = _all_pages(
        lambda start: _ask_page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.memories
    )
    return tuple({(each.root, each.id): each for each in found}.values())


def all_captured(client: Client, asked: wire.ListCaptured) -> tuple[wire.CapturedEntry, ...]:
    """Ask the daemon for all statements that capture saved or refused; return them newest first."""
    found = _all_pages(
        lambda start: _ask_page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.captured
    )
    return tuple(dict.fromkeys(found))


def all_injections(client: Client, asked: wire.ListInjections) -> tuple[wire.InjectedTurn, ...]:
    """Ask the daemon for all turns with an injection; return them newest first."""
    found = _all_pages(
        lambda start: _ask_page(client, replace(asked, limit=_PAGE, offset=start)), lambda got: got.injections
    )
    return tuple(dict.fromkeys(found))


def workspace_roots(client: Client, workspace: str) -> tuple[wire.RootReport, ...]:
    """Return the daemon's reports on the roots of the workspace's repository and of the user."""
    report = client.ask(wire.Status(workspace=workspace))
    check_read(report)
    tops = _repository_tops(client, workspace)
    return tuple(root for root in report.roots if root.scope == "user" or root.root in tops)


def _repository_tops(client: Client, workspace: str) -> frozenset[str]:
    """Return top folders of the workspace's repository and its worktree; none outside of one."""
    try:
        return frozenset(each.root for each in client.ask(wire.Trust(workspace=workspace)).roots)
    except RequestFailed as failed:
        if failed.code == "invalid":  # outside of a repository
            return frozenset()
        raise


def _ask_page(client: Client, request: wire.Request[_Reply]) -> _Reply:
    """Ask the daemon for one page of a list; return it. Raises Stop for a reply without a result."""
    reply = client.ask(request)
    check_read(reply)
    return reply


def _all_pages(page: Callable[[int], _Reply], items: Callable[[_Reply], Sequence[_Item]]) -> Iterator[_Item]:
    """Yield the items of a list, asking for page after page up to the total that replies name."""
    start, total = 0, 1
    while start < total:
        reply = page(start)
        found, total = items(reply), reply.total
        if not found:
            return
        yield from found
        start += len(found)
