"""Tell files that are gone from a folder from files that only cannot be seen now.

A file is gone if the system says that it does not exist, on the disk that had it. An unplugged disk leaves
an empty mount point on another disk; a folder without permission says nothing about its files. Where case or
form of letters do not count, a file with a new spelling of its name is gone under the old one. Raises
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property

import msgspec

from forged.documents.reading import DocumentFile


class FileState(msgspec.Struct, frozen=True):
    """State of a file that was a document: it `is_gone`, or why that is in `doubt`; neither: it exists."""

    is_gone: bool = False
    doubt: str = ""


_EXISTS, _GONE = FileState(), FileState(is_gone=True)


class FolderCheck:
    """Looks for files in a folder whose documents were found by a walk."""

    def __init__(self, folder: str, walked: Iterable[DocumentFile]) -> None:
        """Take the real path of the folder, and the files that a walk found in it."""
        self._folder = folder
        self._walked = walked
        self._names: dict[str, frozenset[str]] = {}

    def state_of(self, path: str, disk: str) -> FileState:
        """Return the state of a file by its real path and the disk that it was on."""
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return self._state_without(path, disk)
        except OSError as error:
            return FileState(doubt=f"it cannot be looked at: {error.strerror}")
        is_walked = (status.st_dev, status.st_ino) in self._walked_inodes
        return _GONE if is_walked and not self._is_spelled_so(path) else _EXISTS

    def _state_without(self, path: str, disk: str) -> FileState:
        """Return the state of a file that does not exist: gone if the disk that had it is there."""
        above = os.path.dirname(path)
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        now, mount = disk_of(above), disk.partition(" ")[2]
        if now == disk:
            return _GONE
        is_replaced = mount == now.partition(" ")[2]
        why = f"another disk is at {mount} now" if is_replaced else f"its disk is not there, at {mount}"
        return FileState(doubt=why)

    @cached_property
    def _walked_inodes(self) -> frozenset[tuple[int, int]]:
        """Return device and inode of each walked file."""
        found = []
        for each in self._walked:
            try:
                status = os.lstat(each.path)
            except OSError:
                continue
            found.append((status.st_dev, status.st_ino))
        return frozenset(found)

    def _is_spelled_so(self, path: str) -> bool:
        """Return True if each folder below the checked one lists the next part of a path as it is spelled."""
        while path != self._folder and (above := os.path.dirname(path)) != path:
            if above not in self._names:
                try:
                    self._names[above] = frozenset(os.listdir(above))
                except OSError:
                    return True
            if os.path.basename(path) not in self._names[above]:
                return False
            path = above
        return True


def place_of(path: str) -> tuple[str, str]:
    """Return the real path of a file, and the disk that it is on."""
    real = os.path.realpath(path)
    return real, disk_of(os.path.dirname(real))


def disk_of(folder: str) -> str:
    """Return the device and the mount point of a real folder, "" if it cannot be read.

    Device numbers of btrfs, NFS or an overlay change with every mount. Of these the inode of the mount point
    counts.
    """
    try:
        device = os.stat(folder).st_dev
        while (above := os.path.dirname(folder)) != folder and os.stat(above).st_dev == device:
            folder = above
        number = f"{device:x}" if os.major(device) else f"0:{os.stat(folder).st_ino:x}"
    except OSError:
        return ""
    return f"{number} {folder}"
