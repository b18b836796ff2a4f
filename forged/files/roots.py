"""From the workspace an agent works in to the roots whose memories it may see.

One daemon serves many projects, so every request says where it comes from, and this module alone decides
what that means, for reading and writing alike. Goes in: a path and HOME. Comes out: the repo root, if there
is one, and the user root. A path that cannot be used raises WorkspaceError.

It looks at the disk and never runs git: a `.git` entry is enough, and what a repository's own files claim is
believed only when git's side of the link says the same and has the same owner, because both may have come
with a download. A `.git` file that nothing names back makes its directory a root of its own.

Worktrees of one repository share the store of its main worktree. Where there is none, as in a bare clone,
they share `forged/memory` in git's common directory, and each sees its own `.forge/memory` as well.
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
_SECTION = re.compile(r"\s*\[\s*([^\]]*?)\s*\]")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}

_OWN_FOLDERS = ("memory",)
_GIT_FOLDERS = ("forged/memory", *FOLDERS)


class Root(msgspec.Struct, frozen=True):
    """Where memories of one scope lie.

    `top` is the canonical directory that holds `.forge`; of an agent it is `~/.forge/agents/<id>`, and of the
    documents that all agents may read `~/.forge/org`. `folders` are where memories lie below it. With
    `in_git` the top is a directory of git's own, with no work tree: what worktrees of a bare clone share.
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


class GitLayout(msgspec.Struct, frozen=True):
    """How a git top hangs together with its repository.

    `common` is git's common directory, canonical, and empty where git's side does not name the top back.
    `main` is the top of the main worktree, empty where there is none.
    """

    top: str
    common: str
    main: str


def repo_root(top: str) -> Root:
    """The repo root that has this top: of a work tree, or in a directory of git's own."""
    return Root(top, Scope.REPO, in_git=is_git_directory(top))


def is_git_directory(path: str) -> bool:
    """Whether a directory is one that git keeps for itself, and no work tree."""
    if os.path.lexists(os.path.join(path, ".git")) or not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    return all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))


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
    repos = _repo_roots(place, home, frozenset((os.geteuid(), owner)))
    return (user,) if any(_contains(root.top, home) for root in repos) else (*repos, user)


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


def _repo_roots(place: str, home: str, owners: frozenset[int]) -> tuple[Root, ...]:
    """The roots of a workspace's repository or folder, the one that is written to first."""
    above = upwards(place)
    for directory in above:
        if _is_git_top(directory, owners):
            return _shared(layout(directory, owners))
    for directory in above:
        if _contains(directory, home):
            break  # ~/.forge is the user's, and no project's
        if is_git_directory(directory) and _is_directory(directory, owners):
            return (Root(directory, Scope.REPO, in_git=True),)
        if _is_directory(os.path.join(directory, ".forge"), owners):
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


def _is_git_top(directory: str, owners: frozenset[int]) -> bool:
    git = os.path.join(directory, ".git")
    return _is_directory(git, owners) or (_owner(git) in owners and _pointer(git, b"gitdir:") is not None)


def layout(top: str, owners: frozenset[int] | None = None) -> GitLayout:
    """Layout of the repository of a git top; `owners` are those whose directories count, all without it.

    A linked worktree's `.git` file names <common>/worktrees/<id>, and that directory names the file back; a
    submodule's git directory, or one that lies elsewhere, names its work tree as `core.worktree`. Both sides
    are demanded, with one owner: the first lies in the downloaded tree, the second only git could write. A
    `commondir` elsewhere, as in a crafted archive, is nobody's (GHSA-q5hj-mxqh-vv77).
    """
    git, own = os.path.join(top, ".git"), GitLayout(top, "", top)
    link = _pointer(git, b"gitdir:")
    if link is None:
        if os.path.islink(git) or not os.path.isdir(git) or os.path.lexists(os.path.join(git, "commondir")):
            return own
        return GitLayout(top, git, "" if _is_bare(_core(git)) else top)
    git_dir = os.path.realpath(os.path.join(top, link))
    if os.path.lexists(os.path.join(git_dir, "commondir")):
        common, back = _follow(git_dir, "commondir"), _follow(git_dir, "gitdir")
        if common is None or back != git or os.path.dirname(git_dir) != os.path.join(common, "worktrees"):
            return own
        has_owner = _have_one_owner(git, git_dir, common) and (
            owners is None or _is_directory(common, owners)
        )
        return GitLayout(top, common, _main_worktree(common)) if has_owner else own
    has_owner = _have_one_owner(git, git_dir) and (owners is None or _is_directory(git_dir, owners))
    core = _core(git_dir) if has_owner and os.path.isdir(git_dir) else {}
    if _is_bare(core):
        # The form `.git` -> `.bare` in the top that the worktrees lie in; a link further away is nobody's.
        return GitLayout(top, git_dir, "") if os.path.dirname(git_dir) == top else own
    return GitLayout(top, git_dir, top) if _work_tree(git_dir, core) == top else own


def _main_worktree(common: str) -> str:
    """The top of the main worktree, if there is one and each names the other."""
    core = _core(common)
    if _is_bare(core):
        return ""
    above, name = os.path.split(common)
    if name == ".git":
        return above
    main = _work_tree(common, core)
    link = _pointer(os.path.join(main, ".git"), b"gitdir:") if main else None
    if link is None or os.path.realpath(os.path.join(main, link)) != common:
        return ""
    return main if _have_one_owner(os.path.join(main, ".git"), common) else ""


def _work_tree(git_dir: str, core: dict[str, str | None]) -> str:
    """Canonical path of what a git directory names as its work tree, or nothing."""
    named = core.get("worktree")
    return os.path.realpath(os.path.join(git_dir, named)) if named and "\0" not in named else ""


def _have_one_owner(*paths: str) -> bool:
    owners = {_owner(path) for path in paths}
    return len(owners) == 1 and -1 not in owners


def _follow(git_dir: str, name: str) -> str | None:
    """Canonical path that a link file of git's directory holds, relative to that directory or absolute."""
    link = _pointer(os.path.join(git_dir, name))
    return None if link is None else os.path.realpath(os.path.join(git_dir, link))


def _is_bare(core: dict[str, str | None]) -> bool:
    """Whether git says that there is no work tree; a key without a value is true."""
    return "bare" in core and (core["bare"] is None or core["bare"].lower() in {"true", "yes", "on", "1"})


def _core(git_dir: str) -> dict[str, str | None]:
    """The keys of `[core]` in a git directory's own configuration, the later of two winning.

    With extensions.worktreeConfig git keeps core.bare and core.worktree in the second file.
    """
    found: dict[str, str | None] = {}
    for name in ("config", "config.worktree"):
        content = os.fsdecode(_read(os.path.join(git_dir, name), _CONFIG_BYTES) or b"")
        section = ""
        for line in content.splitlines():
            header = _SECTION.match(line)
            section = header[1].lower() if header else section
            rest = line[header.end() :] if header else line
            assignment = _ASSIGNMENT.match(rest) if section == "core" else None
            if assignment is not None:
                value = assignment[2]
                found[assignment[1].lower()] = None if value is None else _unquoted(value)
    return found


def _unquoted(value: str) -> str:
    """A value of git's configuration without its quotes, escapes and comment."""
    text, is_quoted, at = "", False, 0
    while at < len(value):
        each = value[at]
        if each == "\\" and at + 1 < len(value):
            at += 1
            text += _ESCAPES.get(value[at], value[at])
        elif each == '"':
            is_quoted = not is_quoted
        elif each in "#;" and not is_quoted:
            break
        else:
            text += each
        at += 1
    return text if is_quoted or value.endswith('"') else text.rstrip()


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
