"""The agents that have memories of their own: the directories in `~/.forge/agents`, each called by its id.

An id is the name of a directory, so two that differ only in upper and lower case are refused beside each
other: on some file systems they would be one, and each would read what the other remembers. A link is no
agent's directory. Blocks for the disk.
"""

from __future__ import annotations

import os

from forged.errors import StoreError, WorkspaceError
from forged.files import atomic
from forged.files.roots import AGENT_ID, Root, agent_root, org_root, repo_root
from forged.files.scan import open_folder
from forged.memory import Scope

_MOST_LISTED = 10_000


def agent_ids(home: str) -> tuple[str, ...]:
    """The ids of all agents that have a directory, sorted."""
    place = os.path.dirname(agent_root(home, "any").top)
    try:
        with os.scandir(place) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    return tuple(sorted(filter(AGENT_ID.fullmatch, names))[:_MOST_LISTED])


def root_of_agent(home: str, agent_id: str, *, make: bool = False) -> Root | None:
    """The root of an agent; None if it has none, unless one is to be made.

    Raises WorkspaceError for what is no id, or is another's but for upper and lower case, StoreError for a
    directory that cannot be made.
    """
    root = agent_root(home, agent_id)
    alike = [each for each in agent_ids(home) if each.casefold() == agent_id.casefold()]
    if agent_id in alike:
        return root
    if not make:
        return None
    if alike:
        raise WorkspaceError(
            f"there is an agent {alike[0]!r}, and on some file systems {agent_id!r} is the same name; "
            "use the one that is there"
        )
    _make(os.path.realpath(home), root.top)
    return root


def made_org_root(home: str) -> Root:
    """The root of what is for everybody, made if it is missing. Raises StoreError."""
    root = org_root(home)
    if os.path.islink(root.top) or not os.path.isdir(root.top):
        _make(os.path.realpath(home), root.top)
    return root


def root_at(top: str, home: str) -> Root:
    """The root that has this top: what is in the user's own directory is told by where it lies."""
    home = os.path.realpath(home)
    if top == home:
        return Root(top, Scope.USER)
    if top == org_root(home).top:
        return org_root(home)
    is_agents = os.path.dirname(top) == os.path.dirname(agent_root(home, "any").top)
    return Root(top, Scope.AGENT) if is_agents else repo_root(top)


def _make(home: str, top: str) -> None:
    if os.path.islink(top) or (os.path.lexists(top) and not os.path.isdir(top)):
        raise StoreError(f"{top} is no directory, or a link to one; move it away")
    with atomic.explained(f"cannot make {top}"):
        os.close(open_folder(home, os.path.relpath(top, home), atomic.Way(makes=True)))
