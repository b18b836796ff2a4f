"""Find the repository of a work tree without git, from the files of both sides.

The files of a work tree are believed only if git's side names the work tree back and has the same owner: both
may come with a download. A `.git` file that is not named back makes its directory a root of its own. Blocks
for the disk.
"""

from __future__ import annotations

import os
import re
import stat

import msgspec

_POINTER_BYTES = 8192  # two paths of length PATH_MAX
_CONFIG_BYTES = 65536
_SECTION = re.compile(r"\s*\[\s*([^\]]*?)\s*\]")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


class GitLayout(msgspec.Struct, frozen=True):
    """Layout of a repository: a `top`, its canonical `common` git directory, and its `main` worktree.

    `common` is "" if git's side does not name the top back.
    """

    top: str
    common: str
    main: str


def is_git_directory(path: str) -> bool:
    """Return True if a path is a git directory (HEAD, objects, refs), and not a work tree's top."""
    if os.path.lexists(os.path.join(path, ".git")) or not os.path.lexists(os.path.join(path, "HEAD")):
        return False
    return all(os.path.isdir(os.path.join(path, name)) for name in ("objects", "refs"))


def is_git_top(directory: str, owners: frozenset[int]) -> bool:
    """Return True if a directory is the top of a git work tree whose `.git` belongs to one of `owners`."""
    git = os.path.join(directory, ".git")
    return is_directory(git, owners) or (_owner_uid(git) in owners and _pointer(git, b"gitdir:") is not None)


def layout(top: str, owners: frozenset[int] | None = None) -> GitLayout:
    """Return a repository's layout; a `.git` file counts only if git's side names `top` back.

    The `.git` file of a linked worktree names <common>/worktrees/<id>, which names the file back. The git
    directory of a submodule names its work tree as `core.worktree`. Both sides and one owner are required:
    only git could write the second. A `commondir` elsewhere, as in a crafted archive, is ignored
    (GHSA-q5hj-mxqh-vv77).
    """
    git, own = os.path.join(top, ".git"), GitLayout(top, "", top)
    link = _pointer(git, b"gitdir:")
    if link is None:
        if os.path.islink(git) or not os.path.isdir(git) or os.path.lexists(os.path.join(git, "commondir")):
            return own
        return GitLayout(top, git, "" if _is_bare(_core_config(git)) else top)
    git_dir = os.path.realpath(os.path.join(top, link))
    if os.path.lexists(os.path.join(git_dir, "commondir")):
        common, back = _follow(git_dir, "commondir"), _follow(git_dir, "gitdir")
        if common is None or back != git or os.path.dirname(git_dir) != os.path.join(common, "worktrees"):
            return own
        has_owner = _have_one_owner(git, git_dir, common) and (owners is None or is_directory(common, owners))
        return GitLayout(top, common, _main_worktree(common)) if has_owner else own
    has_owner = _have_one_owner(git, git_dir) and (owners is None or is_directory(git_dir, owners))
    core = _core_config(git_dir) if has_owner and os.path.isdir(git_dir) else {}
    if _is_bare(core):
        # The form `.git` -> `.bare` in the top that holds the worktrees; a link further away is ignored.
        return GitLayout(top, git_dir, "") if os.path.dirname(git_dir) == top else own
    return GitLayout(top, git_dir, top) if _work_tree(git_dir, core) == top else own


def _main_worktree(common: str) -> str:
    """Return the main worktree that belongs to a common git directory, or "" if there is none."""
    core = _core_config(common)
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
    """Return the canonical path of the work tree that a git directory names, or ""."""
    named = core.get("worktree")
    return os.path.realpath(os.path.join(git_dir, named)) if named and "\0" not in named else ""


def _have_one_owner(*paths: str) -> bool:
    """Return True if all paths are readable and belong to the same user."""
    owners = {_owner_uid(path) for path in paths}
    return len(owners) == 1 and -1 not in owners


def _follow(git_dir: str, name: str) -> str | None:
    """Return the canonical path that is written in a file of a git directory, or None."""
    link = _pointer(os.path.join(git_dir, name))
    return None if link is None else os.path.realpath(os.path.join(git_dir, link))


def _is_bare(core: dict[str, str | None]) -> bool:
    """Return True if these `[core]` keys say `bare`; the key without a value counts as true."""
    return "bare" in core and (core["bare"] is None or core["bare"].lower() in {"true", "yes", "on", "1"})


def _core_config(git_dir: str) -> dict[str, str | None]:
    """Return the keys of `[core]` in a git directory's configuration files, the last value of each."""
    found: dict[str, str | None] = {}
    for name in ("config", "config.worktree"):
        content = os.fsdecode(_read_small(os.path.join(git_dir, name), _CONFIG_BYTES) or b"")
        section = ""
        for line in content.splitlines():
            header = _SECTION.match(line)
            section = header[1].lower() if header else section
            rest = line[header.end() :] if header else line
            assignment = _ASSIGNMENT.match(rest) if section == "core" else None
            if assignment is not None:
                value = assignment[2]
                found[assignment[1].lower()] = None if value is None else _config_value(value)
    return found


def _config_value(value: str) -> str:
    """Return a value of git's configuration with escapes decoded, without quotes and comment."""
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
    """Return the path in a one-line file of git that begins with `label`, or None."""
    content = _read_small(path, _POINTER_BYTES)
    if content is None or not content.startswith(label):
        return None
    target = content.removeprefix(label).strip()
    return None if not target or b"\0" in target or b"\n" in target else os.fsdecode(target)


def _read_small(path: str, limit: int) -> bytes | None:
    """Return the content of a regular file of at most `limit` bytes, or None."""
    try:
        # Without O_NONBLOCK a FIFO of this name would block the daemon for ever.
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


def is_directory(path: str, owners: frozenset[int]) -> bool:
    """Return True if a path is a directory that one of these users owns."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid in owners


def _owner_uid(path: str) -> int:
    """Return the uid of the owner of a path, -1 if it cannot be read."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return -1
