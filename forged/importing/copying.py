"""An export: the memory files of several roots in one folder, byte by byte, with a manifest.

It is written beside its place and gets its name when it is whole: what a kill leaves does not look so.
Directories are 0700 and files 0600, as memories are. Raises StoreError with a sentence that says what to do.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterable, Sequence

import msgspec

from forged import __version__
from forged.errors import StoreError
from forged.files import MemoryStore, Root, atomic, scan
from forged.importing.forge import MANIFEST, Manifest, Part
from forged.importing.values import Left
from forged.memory import Scope, utc_now

_ODD = re.compile(r"[^\w.-]|^\.+")


class Copy(msgspec.Struct, frozen=True):
    """The files of one root: name below its top, and bytes; and what of it is not copied."""

    root: Root
    files: tuple[tuple[str, bytes], ...]
    left: tuple[Left, ...]


def copied(top: str, scope: str, withheld: Collection[str] = ()) -> Copy:
    """Read a root; `withheld` are paths of files that do not count there."""
    root = Root(top, Scope(scope))
    store = MemoryStore(root)
    files: list[tuple[str, bytes]] = []
    left: list[Left] = []
    for listing in scan(root).listings:
        for name, seen in sorted(listing.files.items()):
            path = os.path.join(listing.path, name)
            below = os.path.relpath(path, top)
            if seen.memory is None:
                left.append(Left(below, f"no memory: {seen.reason}"))
            elif path in withheld:
                left.append(Left(below, "it is withheld; `forgectl review` shows it"))
            else:
                files.append((below, store.read(path)))
        if listing.reason:
            left.append(Left(os.path.relpath(listing.path, top), listing.reason))
    return Copy(root, tuple(files), tuple(left))


def export(target: str, copies: Sequence[Copy], *, replace: bool) -> Manifest:
    """Write them as one export; what is there goes only if it is an older one and may be replaced."""
    _check(target, replace=replace)
    told = Manifest(forged=__version__, exported_at=utc_now(), parts=tuple(_parts(copies)))
    fresh = f"{target}.{secrets.token_hex(4)}.part"
    with atomic.explained(f"cannot write {target}"):
        try:
            _written(fresh, told, copies)
            _swapped(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return told


def _check(target: str, *, replace: bool) -> None:
    if not os.path.lexists(target) or (os.path.isdir(target) and not os.listdir(target)):
        return
    if not os.path.isfile(os.path.join(target, MANIFEST)):
        raise StoreError(f"{target} is there and is no export of forged; say another folder")
    if not replace:
        raise StoreError(f"{target} holds an export already; --force replaces it")


def _parts(copies: Iterable[Copy]) -> Iterable[Part]:
    names = set[str]()
    for copy in copies:
        if copy.root.scope is Scope.USER:
            yield Part("user", Scope.USER.value, files=len(copy.files))
            continue
        plain = _ODD.sub("_", os.path.basename(copy.root.top)) or "repository"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.add(name)
        yield Part(f"repos/{name}", Scope.REPO.value, name, len(copy.files))


def _written(fresh: str, told: Manifest, copies: Sequence[Copy]) -> None:
    os.makedirs(os.path.dirname(fresh), exist_ok=True)
    os.mkdir(fresh, 0o700)
    for part, copy in zip(told.parts, copies, strict=True):
        for below, data in copy.files:
            _put(os.path.join(fresh, part.folder), below, data)
    _put(fresh, MANIFEST, msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n")


def _put(top: str, below: str, data: bytes) -> None:
    path = os.path.join(top, below)
    _make(os.path.dirname(path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _make(folder: str) -> None:
    """As os.makedirs, which gives the mode to the last folder alone."""
    if not os.path.isdir(folder):
        _make(os.path.dirname(folder))
        os.mkdir(folder, 0o700)


def _swapped(fresh: str, target: str) -> None:
    """Give the export its name, and take away what it replaces."""
    old = f"{fresh}.old"
    if os.path.lexists(target):
        os.rename(target, old)
    os.rename(fresh, target)
    if os.path.lexists(old):
        shutil.rmtree(old)
