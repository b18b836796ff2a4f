"""Identity of a root: its directory on its disk, which a new clone at the same path does not share.

It is device, inode and birth time of `.git` (a directory, or the file of a submodule), or of the folder
without git. A copy or a new clone has another birth time, even with the same inode number. Device numbers of
btrfs, NFS or an overlay change with every mount, so only real ones count. Blocks for the disk; raises
nothing.
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
_STATX = struct.Struct("=IIQIIIHHQQQQqIiqIiqIiqIiIIII")  # offset of the device numbers
_STATX_BYTES = 256
_PARTS = ("HEAD", "objects", "refs", "config", "commondir")  # entries of `.git`; one is enough


# Depth of the user's own roots below HOME: `~/.forge/agents/<id>`, `~/.forge/org`.
_LEVELS = {Scope.USER: 0, Scope.SESSION: 0, Scope.AGENT: 3, Scope.ORG: 2}


class RootIdentity(msgspec.Struct, frozen=True):
    """Identity of a root: of its `.git`, or "", and of its folder, used until git comes into it."""

    git: str
    folder: str

    @property
    def own(self) -> str:
        """Return the identity for new records: that of `.git`, or of the folder without one."""
        return self.git or self.folder


def identify(top: str) -> RootIdentity:
    """Return the identity of the root at `top`; both parts are "" if it cannot be read."""
    return RootIdentity(identity_of(os.path.join(top, ".git")), identity_of(top))


def stored_identity(root: Root) -> str:
    """Return the identity of a root to store with pending writes: of `.git` and folder, or of HOME.

    For the user's own roots it is the folder HOME, because they may be created later.
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
    """Return True if two results of `stored_identity` mean one root; git decides if both have it.

    An empty `stored` matches any folder at its path. A missing folder matches none.
    """
    if not stored:
        return True
    (git, _, folder), (git_now, _, folder_now) = stored.partition(" "), now.partition(" ")
    return git == git_now if git and git_now else bool(folder) and folder == folder_now


def elsewhere(stored: Iterable[tuple[Root, str]]) -> dict[tuple[Root, str], str]:
    """Return roots whose stored identity is not at their path now, each with a sentence why.

    A pending write for such a root must not go to the folder at its path.
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
    """Return True if a folder has a repository in it or above it, even a damaged one."""
    return any(_may_be_git(os.path.join(way, ".git")) for way in upwards(top))


def _may_be_git(path: str) -> bool:
    """Return True if a path `.git` exists and is no empty directory, which git would skip."""
    if not os.path.isdir(path):
        return os.path.lexists(path)
    return any(os.path.lexists(os.path.join(path, name)) for name in _PARTS)


def identity_of(path: str) -> str:
    """Return the identity of a directory or file (device, inode, birth time), "" if it cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return ""
    device = status.st_dev if os.major(status.st_dev) else 0
    return f"{device:x}:{status.st_ino:x}:{_birth_ns(path, status):x}"


def _birth_ns(path: str, status: os.stat_result) -> int:
    """Return the birth time of a file in nanoseconds, 0 if the system does not know it."""
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
