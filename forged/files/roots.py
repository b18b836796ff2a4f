"""Resolve the workspace that an agent works in to the roots whose memories it may read and write.

Goes in: a path and HOME. Comes out: the repo root, if there is one, and the user root. It looks at the disk
and never runs git. Worktrees of one repository share the store of its main worktree. Where there is none, as
in a bare clone, they share `forged/memory` in git's common directory, and each sees its own `.forge/memory`
as well. Raises WorkspaceError for a path that cannot be used.
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
"""Where a root keeps memories, below its top: the first is written to, the second is the Go program's."""

AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""Name of a directory in `~/.forge/agents`; two that differ in case are one to some file systems."""
_MOST_LISTED = 10_000
_OWN_FOLDERS = ("memory",)
_GIT_FOLDERS = ("forged/memory", *FOLDERS)


class Root(msgspec.Struct, frozen=True):
    """Where memories of one scope lie, below `top`: the canonical directory that holds `.forge`.

    Of an agent it is `~/.forge/agents/<id>`, of the documents for all agents `~/.forge/org`. With `in_git` it
    is a directory of git's own, which worktrees of a bare clone share.
    """

    top: str
    scope: Scope
    in_git: bool = False

    @property
    def folders(self) -> tuple[str, ...]:
        """Places below `top`, the first of which is written to."""
        if self.in_git:
            return _GIT_FOLDERS
        return FOLDERS if self.scope in {Scope.REPO, Scope.USER} else _OWN_FOLDERS

    @property
    def directories(self) -> tuple[str, ...]:
        """Their absolute paths."""
        return tuple(os.path.join(self.top, folder) for folder in self.folders)

    @property
    def is_own(self) -> bool:
        """Whether it lies in the user's own directory, so that nobody else brought what is in it."""
        return self.scope is not Scope.REPO

    @property
    def has_files(self) -> bool:
        """Whether it is a work tree or a folder, whose files memories may stand on."""
        return self.scope is Scope.REPO and not self.in_git


def repo_root(top: str) -> Root:
    """The repo root that has this top: of a work tree, or in a directory of git's own."""
    return Root(top, Scope.REPO, in_git=is_git_directory(top))


def agent_root(home: str, agent_id: str) -> Root:
    """The memories of one agent. Raises WorkspaceError for an id that is no name of a directory."""
    if AGENT_ID.fullmatch(agent_id) is None:
        raise WorkspaceError(
            f"{agent_id[:80]!r} is not an agent id; use up to 64 of A-Z a-z 0-9 . _ - after a letter or digit"
        )
    return Root(os.path.join(os.path.realpath(home), ".forge", "agents", agent_id), Scope.AGENT)


def org_root(home: str) -> Root:
    """The documents that all agents of this user may read."""
    return Root(os.path.join(os.path.realpath(home), ".forge", "org"), Scope.ORG)


def resolve(workspace: str, home: str) -> tuple[Root, ...]:
    """Roots that a request from the path `workspace` sees: the repo's, if it has one, then the user's.

    The user's own directories are never a repo root: HOME, directories above it, `~/.forge` and a repository
    of dotfiles whose top is HOME give the user root alone. Raises WorkspaceError for a path that cannot be
    used.
    """
    home = os.path.realpath(home)
    place, owner = _canonical(workspace)
    user = Root(home, Scope.USER)
    if _contains(place, home) or _contains(os.path.join(home, ".forge"), place):
        return (user,)
    # A marker counts if it is ours or its owner also owns the workspace: whoever may write to /tmp could
    # otherwise plant /tmp/.git and collect the memories of every project below (CVE-2022-24765).
    repos = _repo_roots(place, home, frozenset((os.geteuid(), owner)))
    return (user,) if any(_contains(root.top, home) for root in repos) else (*repos, user)


def _canonical(workspace: str) -> tuple[str, int]:
    if not os.path.isabs(workspace):
        raise WorkspaceError(f"workspace {workspace!r} is not an absolute path")
    try:
        place = os.path.realpath(workspace, strict=True)
        place.encode()  # a reply could not name a root that is not text
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
    above = upwards(place)
    for directory in above:
        if is_git_top(directory, owners):
            return _shared(layout(directory, owners))
    for directory in above:
        if _contains(directory, home):
            break  # ~/.forge is the user's, and no project's
        if is_git_directory(directory) and is_directory(directory, owners):
            return (Root(directory, Scope.REPO, in_git=True),)
        if is_directory(os.path.join(directory, ".forge"), owners):
            return (Root(directory, Scope.REPO),)
    return (Root(place, Scope.REPO),)


def _shared(found: GitLayout) -> tuple[Root, ...]:
    """Roots that a work tree sees of its repository; a store in git's directory stays found in any case."""
    main = Root(found.main or found.top, Scope.REPO)
    if not found.common or not is_git_directory(found.common):
        return (main,)
    in_git = Root(found.common, Scope.REPO, in_git=True)
    if not found.main:
        return in_git, main
    return (main, in_git) if os.path.isdir(in_git.directories[0]) else (main,)


def upwards(place: str) -> tuple[str, ...]:
    """The path itself, its parent, and so on to the root of the file system.

    By hand, because pathlib would cost the capture worker 0.6 MB.
    """
    ways = [place]
    while (parent := os.path.dirname(ways[-1])) != ways[-1]:
        ways.append(parent)
    return tuple(ways)


Enter = Callable[[int, str], int]
"""Opens a directory of a name within an open one."""


def open_part(parent: int, name: str) -> int:
    """Open a directory within another one."""
    return os.open(name, atomic.DIRECTORY, dir_fd=parent)


def open_folder(top: str, folder: str, enter: Enter = open_part) -> int:
    """Open a directory at or below `top` and return its descriptor; `enter` opens each part of the way.

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

    Raises WorkspaceError for no id, or another's in another case, StoreError if it cannot be made.
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
    _made(os.path.realpath(home), root.top)
    return root


def made_org_root(home: str) -> Root:
    """The root of what is for everybody, made if it is missing. Raises StoreError."""
    root = org_root(home)
    if os.path.islink(root.top) or not os.path.isdir(root.top):
        _made(os.path.realpath(home), root.top)
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


def _made(home: str, top: str) -> None:
    if os.path.islink(top) or (os.path.lexists(top) and not os.path.isdir(top)):
        raise StoreError(f"{top} is not a directory, or is a link; move it away")
    with atomic.explained(f"cannot make {top}"):
        os.close(open_folder(home, os.path.relpath(top, home), atomic.Way(makes=True)))
