"""From the workspace an agent works in to the roots whose memories it may see.

One daemon serves many projects, so every request says where it comes from, and this module alone decides
what that means, for reading and writing alike. Goes in: a path and HOME. Comes out: the repo root, if there
is one, and the user root. A path that cannot be used raises WorkspaceError.

It looks at the disk and never runs git: a `.git` entry is enough, and what a repository's own files claim is
believed only when git's side of the link says the same, because both may have come with a download.
"""

from __future__ import annotations

import os
import re
import stat

import msgspec

from forged.errors import WorkspaceError
from forged.memory import Scope

FOLDERS = (".forge/memory", ".forge/memories")
"""Where a root keeps memories, below its top: the first is written to, the second is the Go program's."""

AGENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)

_POINTER_BYTES = 8192  # two paths of PATH_MAX
_CONFIG_BYTES = 65536
_BARE = re.compile(rb"^\s*bare\s*(=\s*\"?(true|yes|on|1)\b.*)?$", re.IGNORECASE | re.MULTILINE)


_OWN_FOLDERS = ("memory",)


class Root(msgspec.Struct, frozen=True):
    """Where memories of one scope lie.

    `top` is the canonical directory that holds `.forge`; of an agent it is `~/.forge/agents/<id>`, and of the
    documents that all agents may read `~/.forge/org`. `folders` are where memories lie below it.
    """

    top: str
    scope: Scope

    @property
    def folders(self) -> tuple[str, ...]:
        """Places below `top`, the first of which is written to."""
        return FOLDERS if self.scope in {Scope.REPO, Scope.USER} else _OWN_FOLDERS

    @property
    def directories(self) -> tuple[str, ...]:
        """Their absolute paths."""
        return tuple(os.path.join(self.top, folder) for folder in self.folders)

    @property
    def is_own(self) -> bool:
        """Whether it lies in the user's own directory, so that nobody else brought what is in it."""
        return self.scope is not Scope.REPO


def agent_root(home: str, agent_id: str) -> Root:
    """The memories of one agent. Raises WorkspaceError for an id that is no name of a directory."""
    if AGENT_ID.fullmatch(agent_id) is None:
        raise WorkspaceError(
            f"{agent_id[:80]!r} is no agent's id; use up to 64 of A-Z a-z 0-9 . _ - after a letter or digit"
        )
    return Root(os.path.join(os.path.realpath(home), ".forge", "agents", agent_id), Scope.AGENT)


def org_root(home: str) -> Root:
    """The documents that all agents of this user may read."""
    return Root(os.path.join(os.path.realpath(home), ".forge", "org"), Scope.ORG)


def resolve(workspace: str, home: str) -> tuple[Root, ...]:
    """Roots that a request from `workspace` sees: the repo's, if it has one, then the user's.

    `workspace` and `home` are absolute paths. The user's own directories are never a repo root: HOME, what
    lies above it, `~/.forge` and a repository of dotfiles whose top is HOME give the user root alone.

    Raises WorkspaceError when the workspace is not an absolute path to a directory that can be entered.
    """
    home = os.path.realpath(home)
    place, owner = _canonical(workspace)
    user = Root(home, Scope.USER)
    if _contains(place, home) or _contains(os.path.join(home, ".forge"), place):
        return (user,)
    # A marker counts if it is ours or its owner also owns the workspace: whoever may write to /tmp could
    # otherwise plant /tmp/.git and collect the memories of every project below (CVE-2022-24765).
    top = _top(place, home, frozenset((os.geteuid(), owner)))
    return (user,) if _contains(top, home) else (Root(top, Scope.REPO), user)


def _canonical(workspace: str) -> tuple[str, int]:
    """Real path of a workspace, and the user id that owns it."""
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


def _top(place: str, home: str, owners: frozenset[int]) -> str:
    above = upwards(place)
    for directory in above:
        if _is_git_top(directory, owners):
            return _main_worktree(directory, owners)
    for directory in above:
        if _contains(directory, home):
            break  # ~/.forge is the user's, and no project's
        if _is_directory(os.path.join(directory, ".forge"), owners):
            return directory
    return place


def upwards(place: str) -> tuple[str, ...]:
    """The path itself, its parent, and so on to the root of the file system.

    By hand, because pathlib would cost the capture worker 0.6 MB.
    """
    ways = [place]
    while (parent := os.path.dirname(ways[-1])) != ways[-1]:
        ways.append(parent)
    return tuple(ways)


def _is_git_top(directory: str, owners: frozenset[int]) -> bool:
    git = os.path.join(directory, ".git")
    return _is_directory(git, owners) or (_owner(git) in owners and _pointer(git, b"gitdir:") is not None)


def _main_worktree(top: str, owners: frozenset[int]) -> str:
    """Where the main worktree of `top` has its files; `top` itself unless it is a linked worktree.

    A linked worktree's `.git` file names <common>/worktrees/<id>, and that directory names the file back.
    Both are demanded: the first lies in the downloaded tree, the second only git could write. A `commondir`
    elsewhere, as in a crafted archive, is nobody's (GHSA-q5hj-mxqh-vv77).
    """
    git = os.path.join(top, ".git")
    link = _pointer(git, b"gitdir:")
    if link is None:
        return top
    git_dir = os.path.realpath(os.path.join(top, link))
    common = _follow(git_dir, "commondir")
    back = _follow(git_dir, "gitdir")
    linked = common is not None and os.path.dirname(git_dir) == os.path.join(common, "worktrees")
    if common is None or not linked or back != git or not _is_directory(common, owners):
        return top
    main, name = os.path.split(common)
    # The common directory of a bare repository or a submodule has no worktree beside it.
    return top if name != ".git" or _is_bare(common) else main


def _follow(git_dir: str, name: str) -> str | None:
    """Canonical path that a link file of git's directory holds, relative to that directory or absolute."""
    link = _pointer(os.path.join(git_dir, name))
    return None if link is None else os.path.realpath(os.path.join(git_dir, link))


def _is_bare(common: str) -> bool:
    # With extensions.worktreeConfig git keeps core.bare in the second file.
    files = (os.path.join(common, name) for name in ("config", "config.worktree"))
    return any(_BARE.search(_read(file, _CONFIG_BYTES) or b"") for file in files)


def _pointer(path: str, label: bytes = b"") -> str | None:
    """Path in a one-line file of git that begins with `label`, or None if this is no such file."""
    content = _read(path, _POINTER_BYTES)
    if content is None or not content.startswith(label):
        return None
    target = content.removeprefix(label).strip()
    return None if not target or b"\0" in target or b"\n" in target else os.fsdecode(target)


def _read(path: str, limit: int) -> bytes | None:
    """Content of a regular file of at most `limit` bytes; None for anything else."""
    try:
        # Without O_NONBLOCK a FIFO of this name would hold the daemon for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        fits = stat.S_ISREG(status.st_mode) and status.st_size <= limit
        return os.read(descriptor, limit) if fits else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _is_directory(path: str, owners: frozenset[int]) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid in owners


def _owner(path: str) -> int:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return -1
