"""Resolve the workspace of an agent to the roots whose memories it may read and write.

Takes a path and HOME; returns the repo root, if there is one, and the user root. It reads the disk and never
runs git. Worktrees of one repository share the store of its main worktree. Without one, as in a bare clone,
they share `forged/memory` in git's common directory, and each also sees its own `.forge/memory`. Raises
WorkspaceError for an unusable path.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable

import msgspec

from forged.errors import StoreError, WorkspaceError
from forged.files import atomic
from forged.files.git_layout import GitLayout, is_directory, is_git_directory, is_git_top, layout
from forged.memory import Scope

FOLDERS = (".forge/memory", ".forge/memories")
"""Folders of memories below a root's top: forged writes to the first; the second is the Go program's."""

AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""Name of a directory in `~/.forge/agents`; two that differ in case are one on some file systems."""
_MOST_LISTED = 10_000
_OWN_FOLDERS = ("memory",)
_GIT_FOLDERS = ("forged/memory", *FOLDERS)


class Root(msgspec.Struct, frozen=True):
    """Place of memories of one `scope`: folders below `top`, the canonical directory that has `.forge`.

    For an agent it is `~/.forge/agents/<id>`, for documents of all agents `~/.forge/org`. With `in_git` it is
    a directory of git's own that worktrees of a bare clone share.
    """

    top: str
    scope: Scope
    in_git: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """Return the folders of memories, relative to `top`; new files go to the first."""
        if self.in_git:
            return _GIT_FOLDERS
        return FOLDERS if self.scope in {Scope.REPO, Scope.USER} else _OWN_FOLDERS

    @property
    def directories(self) -> tuple[str, ...]:
        """Return the absolute paths of the folders of memories; new files go to the first."""
        return tuple(os.path.join(self.top, folder) for folder in self.folders)

    @property
    def is_own(self) -> bool:
        """Return True if the root is in the user's own directory, so that only the user wrote to it."""
        return self.scope is not Scope.REPO

    @property
    def has_files(self) -> bool:
        """Return True if the root is a work tree or a folder, whose files can be evidence."""
        return self.scope is Scope.REPO and not self.in_git


def repo_root(top: str) -> Root:
    """Return the repo root with this top: a work tree, or a directory of git's own."""
    return Root(top, Scope.REPO, in_git=is_git_directory(top))


def agent_root(home: str, agent_id: str) -> Root:
    """Return the root of one agent. Raises WorkspaceError for an id that is no name of a directory."""
    if AGENT_ID.fullmatch(agent_id) is None:
        raise WorkspaceError(
            f"{agent_id[:80]!r} is not an agent id; use up to 64 of A-Z a-z 0-9 . _ - after a letter or digit"
        )
    return Root(os.path.join(os.path.realpath(home), ".forge", "agents", agent_id), Scope.AGENT)


def org_root(home: str) -> Root:
    """Return the root of documents that all agents of this user may read."""
    return Root(os.path.join(os.path.realpath(home), ".forge", "org"), Scope.ORG)


def resolve(workspace: str, home: str) -> tuple[Root, ...]:
    """Return the roots whose memories a workspace sees: of its repository or folder, and the user.

    The user's own directories are never a repo root: HOME, directories above it, `~/.forge` and a repository
    of dotfiles with top HOME give the user root alone. Raises WorkspaceError for an unusable path.
    """
    home = os.path.realpath(home)
    place, owner = _canonical_workspace(workspace)
    user = Root(home, Scope.USER)
    if _contains(place, home) or _contains(os.path.join(home, ".forge"), place):
        return (user,)
    # A marker counts if its owner is this user or owns the workspace. Otherwise a user who can write to /tmp
    # could plant /tmp/.git and collect the memories of every project below (CVE-2022-24765).
    repos = _repo_roots(place, home, frozenset((os.geteuid(), owner)))
    return (user,) if any(_contains(root.top, home) for root in repos) else (*repos, user)


def _canonical_workspace(workspace: str) -> tuple[str, int]:
    """Return the real path of a workspace, and its owner. Raises WorkspaceError if unusable."""
    if not os.path.isabs(workspace):
        raise WorkspaceError(f"workspace {workspace!r} is not an absolute path")
    try:
        place = os.path.realpath(workspace, strict=True)
        place.encode()  # a reply can only name a root that is text
        status = os.stat(place)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path in UTF-8"
        raise WorkspaceError(f"workspace {workspace!r} cannot be used: {reason}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise WorkspaceError(f"workspace {workspace!r} is not a directory")
    if not os.access(place, os.X_OK):
        raise WorkspaceError(f"workspace {workspace!r} cannot be entered")
    return place, status.st_uid


def _contains(outer: str, inner: str) -> bool:
    return os.path.commonpath((outer, inner)) == outer


def _repo_roots(place: str, home: str, owners: frozenset[int]) -> tuple[Root, ...]:
    """Return a directory's repo roots: of the git or `.forge` top at or above it, else itself."""
    above = upwards(place)
    for directory in above:
        if is_git_top(directory, owners):
            return _roots_of_layout(layout(directory, owners))
    for directory in above:
        if _contains(directory, home):
            break  # ~/.forge is the user's and belongs to no project
        if is_git_directory(directory) and is_directory(directory, owners):
            return (Root(directory, Scope.REPO, in_git=True),)
        if is_directory(os.path.join(directory, ".forge"), owners):
            return (Root(directory, Scope.REPO),)
    return (Root(place, Scope.REPO),)


def _roots_of_layout(found: GitLayout) -> tuple[Root, ...]:
    """Return a work tree's repo roots: the main worktree or itself, and a store in git if any."""
    main = Root(found.main or found.top, Scope.REPO)
    if not found.common or not is_git_directory(found.common):
        return (main,)
    in_git = Root(found.common, Scope.REPO, in_git=True)
    if not found.main:
        return in_git, main
    return (main, in_git) if os.path.isdir(in_git.directories[0]) else (main,)


def upwards(place: str) -> tuple[str, ...]:
    """Return the path itself, its parent, and so on to the root of the file system.

    Computed by hand, because pathlib would cost the capture worker 0.6 MB.
    """
    ways = [place]
    while (parent := os.path.dirname(ways[-1])) != ways[-1]:
        ways.append(parent)
    return tuple(ways)


Enter = Callable[[int, str], int]
"""Opens a directory by name within an open one."""


def open_part(parent: int, name: str) -> int:
    """Open a directory by name within an open one."""
    return os.open(name, atomic.DIRECTORY, dir_fd=parent)


def open_folder(top: str, folder: str, enter: Enter = open_part) -> int:
    """Open a directory at or below `top`, part by part with `enter`; refuses links that lead out of it.

    Raises StoreError for a symlink that leads out of `top`, as in a hostile clone, else OSError.
    """
    real_top, real = os.path.realpath(top), os.path.realpath(os.path.join(top, folder))
    if os.path.commonpath((real_top, real)) != real_top:
        raise StoreError(f"a symbolic link leads out of {top}; it is not followed")
    current = os.open(real_top, atomic.DIRECTORY)
    for part in os.path.relpath(real, real_top).split("/"):
        parent = current
        try:
            current = enter(parent, part)
        finally:
            os.close(parent)
    return current


def agent_ids(home: str) -> tuple[str, ...]:
    """Return the ids of all agents that have a directory in `~/.forge/agents`, sorted."""
    place = os.path.dirname(agent_root(home, "any").top)
    try:
        with os.scandir(place) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    return tuple(sorted(filter(AGENT_ID.fullmatch, names))[:_MOST_LISTED])


def root_of_agent(home: str, agent_id: str, *, make: bool = False) -> Root | None:
    """Return the root of an agent; None if it has no directory, unless `make` creates one.

    Raises WorkspaceError for an invalid id or another spelling of an existing one, StoreError on failure.
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
    _make_root(os.path.realpath(home), root.top)
    return root


def make_org_root(home: str) -> Root:
    """Return the root of documents for all agents, created if missing. Raises StoreError."""
    root = org_root(home)
    if os.path.islink(root.top) or not os.path.isdir(root.top):
        _make_root(os.path.realpath(home), root.top)
    return root


def root_at(top: str, home: str) -> Root:
    """Return the root whose top is this path: user, agent, org by its place below HOME, else repository."""
    home = os.path.realpath(home)
    if top == home:
        return Root(top, Scope.USER)
    if top == org_root(home).top:
        return org_root(home)
    is_agents = os.path.dirname(top) == os.path.dirname(agent_root(home, "any").top)
    return Root(top, Scope.AGENT) if is_agents else repo_root(top)


def _make_root(home: str, top: str) -> None:
    """Create the directory `top` of a root below HOME. Raises StoreError, also for a link in its place."""
    if os.path.islink(top) or (os.path.lexists(top) and not os.path.isdir(top)):
        raise StoreError(f"{top} is not a directory, or is a link; move it away")
    with atomic.explained(f"cannot make {top}"):
        os.close(open_folder(home, os.path.relpath(top, home), atomic.PathOpener(makes=True)))
