"""Which directory on which disk a root is, a new clone at an old path being another one; and if git is there.

Device, inode and birth time of `.git` (a directory, or the file of a submodule), or of the folder itself
where there is no git. A copy or a new clone has another birth time, though it may get the same inode number.
The device counts only where it is a real one: numbers of btrfs, NFS or an overlay change with every mount.
Blocks for looks at the disk; nothing is raised.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from functools import cache

import msgspec

from forged.files import Root, upwards
from forged.memory import Scope

_AT_FDCWD, _BASIC_STATS_AND_BIRTH = -100, 0xFFF
_BIRTH = 0x800
_STATX = struct.Struct("=IIQIIIHHQQQQqIiqIiqIiqIiIIII")  # up to the device's numbers
_STATX_BYTES = 256
_PARTS = ("HEAD", "objects", "refs", "config", "commondir")  # of `.git`; one is enough


# How far below HOME the user's own roots are: `~/.forge/agents/<id>`, `~/.forge/org`.
_LEVELS = {Scope.USER: 0, Scope.SESSION: 0, Scope.AGENT: 3, Scope.ORG: 2}


class RootIdentity(msgspec.Struct, frozen=True):
    """Of `.git`, or nothing without one; and of the folder, by which it is known until git comes into it."""

    git: str
    folder: str

    @property
    def own(self) -> str:
        """What new records are kept under."""
        return self.git or self.folder


def identify(top: str) -> RootIdentity:
    """The identity of the root at `top`; both parts are empty for what cannot be looked at."""
    return RootIdentity(identity_of(os.path.join(top, ".git")), identity_of(top))


def stored_identity(root: Root) -> str:
    """Return what is stored with everything that is written to a root later: its `git` and its `folder`.

    Of the user's own roots it is the folder HOME alone: theirs may be made after it was stored.
    """
    levels = _LEVELS.get(root.scope)
    if levels is None:
        found = identify(root.top)
        return f"{found.git} {found.folder}"
    home = root.top
    for _ in range(levels):
        home = os.path.dirname(home)
    return f" {identity_of(home)}"


def is_same(stored: str, now: str) -> bool:
    """Whether two results of `stored_identity` mean one root; git decides where both have it.

    Of an empty `stored` nothing is known, so it goes by its path. An absent folder is no root's.
    """
    if not stored:
        return True
    (git, _, folder), (git_now, _, folder_now) = stored.partition(" "), now.partition(" ")
    return git == git_now if git and git_now else bool(folder) and folder == folder_now


def elsewhere(stored: Iterable[tuple[Root, str]]) -> dict[tuple[Root, str], str]:
    """Return the roots whose stored identity is not at their path now, each with a sentence why.

    A row that waits for another root must not be written to the folder at its path.
    """
    now: dict[Root, str] = {}
    found: dict[tuple[Root, str], str] = {}
    for root, identity in dict.fromkeys(stored):
        if not identity:
            continue
        if root not in now:
            now[root] = stored_identity(root)
        if not is_same(identity, now[root]):
            is_there = bool(now[root].strip())
            why = "another folder is at this path now" if is_there else "there is no folder at this path now"
            found[root, identity] = f"{root.top}: {why}"
    return found


def has_git(top: str) -> bool:
    """Whether git may write into a folder: there is a repository in it or above it, be it damaged or not."""
    return any(_may_be_git(os.path.join(way, ".git")) for way in upwards(top))


def _may_be_git(path: str) -> bool:
    """An empty directory of this name is none, and git looks further up."""
    if not os.path.isdir(path):
        return os.path.lexists(path)
    return any(os.path.lexists(os.path.join(path, name)) for name in _PARTS)


def identity_of(path: str) -> str:
    """The identity of one directory or file, empty for what cannot be looked at."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    device = status.st_dev if os.major(status.st_dev) else 0
    return f"{device:x}:{status.st_ino:x}:{_birth_ns(path, status):x}"


def _birth_ns(path: str, status: os.stat_result) -> int:
    if not sys.platform.startswith("linux"):
        return int(getattr(status, "st_birthtime", 0) * 1_000_000_000)
    statx, buffer = _statx(), ctypes.create_string_buffer(_STATX_BYTES)
    if statx is None or statx(_AT_FDCWD, os.fsencode(path), 0, _BASIC_STATS_AND_BIRTH, buffer):
        return 0
    found = _STATX.unpack_from(buffer)
    mask, inode, seconds, nanoseconds = found[0], found[8], found[15], found[16]
    return seconds * 1_000_000_000 + nanoseconds if mask & _BIRTH and inode == status.st_ino else 0


@cache
def _statx():  # type: ignore[no-untyped-def]  # noqa: ANN202 - a function of ctypes, or None
    return getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
