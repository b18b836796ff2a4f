"""What the page shows: everything that there is to see of a workspace, or of all repositories, as one value.

It is asked of the daemon and of nobody else, so nothing is shown that it does not give. Raised is Stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import msgspec

from forged import __version__
from forged.cli import gathering
from forged.cli.call import check_done
from forged_client import errors
from forged_client import protocol as wire
from forged_client.client import Client


class WithheldRow(msgspec.Struct, frozen=True):
    """A file of the repository at `root` that is not used."""

    root: str
    file: wire.WithheldFile


class PageData(msgspec.Struct, frozen=True, kw_only=True):
    """`made_at` is RFC 3339; lists are newest first, and `memories` is all versions."""

    made_at: str
    forged: str = __version__
    workspace: str
    all_repos: bool = False
    memories: tuple[wire.MemoryRecord, ...] = ()
    withheld: tuple[WithheldRow, ...] = ()
    waiting: tuple[wire.Proposed, ...] = ()
    judged: tuple[wire.Judged, ...] = ()
    injections: tuple[wire.InjectedTurn, ...] = ()


def look(client: Client, workspace: str, *, all_repos: bool) -> PageData:
    """Ask for all of it."""
    every = wire.ListMemories(workspace=workspace, all_versions=True, all_repos=all_repos, entities=True)
    memories = gathering.memories(client, every)
    reviews = tuple(_reviews(client, workspace, all_repos=all_repos))
    return PageData(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        workspace=workspace,
        all_repos=all_repos,
        memories=memories,
        withheld=tuple(
            WithheldRow(reviewed.root.root, file)
            for reviewed in reviews
            if reviewed.root is not None
            for file in reviewed.files
        ),
        waiting=_once(each for reviewed in reviews for each in reviewed.waiting),
        judged=gathering.judged(client, wire.ListJudged(workspace=workspace, all_repos=all_repos)),
        injections=gathering.injections(
            client, wire.ListInjections(workspace=workspace, all_repos=all_repos)
        ),
    )


def _reviews(client: Client, workspace: str, *, all_repos: bool) -> Iterator[wire.Reviewed]:
    """What waits for a person in the workspace, and with `all_repos` in every root that has something."""
    here = _review(client, workspace)
    if here is not None:
        yield here
    if not all_repos:
        return
    roots = [each.root for each in client.ask(wire.Trust(action="list")).roots if each.withheld]
    done = {here.root.root} if here is not None and here.root is not None else set()
    for place in dict.fromkeys((*roots, *(here.elsewhere if here is not None else ()))):
        if place not in done and (found := _review(client, place)) is not None:
            yield found


def _review(client: Client, place: str) -> wire.Reviewed | None:
    """None where there is nothing that could wait: outside of a repository, or where its folder is gone."""
    try:
        reviewed = client.ask(wire.Review(workspace=place))
    except errors.RequestFailed as failed:
        if failed.code == "invalid":
            return None
        raise
    if reviewed.status != "disabled":
        check_done(reviewed)
    return reviewed


def _once(proposals: Iterable[wire.Proposed]) -> tuple[wire.Proposed, ...]:
    """Each once: what is the user's waits in every workspace."""
    return tuple({(each.root, each.id): each for each in proposals}.values())
