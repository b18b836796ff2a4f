"""Export memory files of several roots into one folder, byte by byte, with a manifest.

It is written under another name and renamed when complete, so an interrupted export is recognisable.
Directories are 0700 and files 0600. Raises StoreError with advice.
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
from forged.files import FOLDERS, MemoryStore, Root, atomic, repo_root, scan
from forged.importing.memory_files import MANIFEST, ExportedRoot, Manifest
from forged.importing.values import SkippedPart
from forged.memory import Scope, utc_now

_ODD = re.compile(r"[^\w.-]|^\.+")


class RootCopy(msgspec.Struct, frozen=True):
    """Memory files of one root as names and bytes, to export, and the files that are left out."""

    root: Root
    files: tuple[tuple[str, bytes], ...]
    left: tuple[SkippedPart, ...]


def read_root(top: str, scope: str, withheld: Collection[str] = ()) -> RootCopy:
    """Read all memory files of a root for an export; `withheld` are paths to leave out."""
    root = repo_root(top) if scope == Scope.REPO else Root(top, Scope(scope))
    store = MemoryStore(root)
    files: list[tuple[str, bytes]] = []
    left: list[SkippedPart] = []
    for listing, folder in zip(scan(root).listings, root.folders, strict=True):
        for name, seen in sorted(listing.files.items()):
            path = os.path.join(listing.path, name)
            below = os.path.join(FOLDERS[0] if root.in_git else folder, name)
            if seen.memory is None:
                left.append(SkippedPart(below, f"not a memory: {seen.reason}"))
            elif path in withheld:
                left.append(SkippedPart(below, "it is not used yet; `forgectl review` shows it"))
            else:
                files.append((below, store.read(path)))
        if listing.reason:
            left.append(SkippedPart(os.path.relpath(listing.path, top), listing.reason))
    return RootCopy(root, tuple(files), tuple(left))


def export(target: str, copies: Sequence[RootCopy], *, replace: bool) -> Manifest:
    """Write copies with a manifest into a folder, with `replace` over an export; return the manifest."""
    _check_target(target, replace=replace)
    manifest = Manifest(forged=__version__, exported_at=utc_now(), parts=tuple(_manifest_parts(copies)))
    fresh = f"{target}.{secrets.token_hex(4)}.part"
    with (
        atomic.explained(f"cannot write {target}"),
        atomic.open_or_make_path(os.path.dirname(target)) as (parent, owner),
    ):
        try:
            _write_all(parent, os.path.basename(fresh), owner, manifest, copies)
            _swap_in(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return manifest


def new_file(path: str) -> int:
    """Create a file (0600) and missing folders, for their owner if root; return its descriptor.

    Raises OSError, FileExistsError if the name exists.
    """
    with atomic.open_or_make_path(os.path.dirname(path)) as (folder, owner):
        return atomic.create(folder, os.path.basename(path), owner)


def _check_target(target: str, *, replace: bool) -> None:
    """Raise StoreError unless the target is free, or an export that may be replaced."""
    if os.path.islink(target):  # the link itself would be replaced
        led_to = os.path.realpath(target)
        raise StoreError(f"{target} is a link to {led_to}; give that folder itself, or another one")
    if not os.path.lexists(target) or (os.path.isdir(target) and not os.listdir(target)):
        return
    if not os.path.isfile(os.path.join(target, MANIFEST)):
        raise StoreError(f"{target} exists and is not an export of forged; give another folder")
    if not replace:
        raise StoreError(f"{target} contains an export already; --force replaces it")


def _manifest_parts(copies: Iterable[RootCopy]) -> Iterable[ExportedRoot]:
    """Yield the manifest entry of each copy, with a unique folder."""
    names = set[str]()
    for copy in copies:
        if copy.root.scope is Scope.USER:
            yield ExportedRoot("user", Scope.USER.value, files=len(copy.files))
            continue
        plain = _ODD.sub("_", _project_name(copy.root)) or "repository"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.add(name)
        yield ExportedRoot(f"repos/{name}", Scope.REPO.value, name, len(copy.files))


def _project_name(root: Root) -> str:
    """Return the name of a root's project, also for a top such as `project/.bare` or `project.git`."""
    above, name = os.path.split(root.top)
    if root.in_git and name.startswith("."):
        return os.path.basename(above)
    return name.removesuffix(".git") if root.in_git else name


def _write_all(
    parent: int, fresh: str, owner: atomic.Owner | None, manifest: Manifest, copies: Sequence[RootCopy]
) -> None:
    """Write the files of an export and its manifest into a new folder below `parent`."""
    top = atomic.open_or_make(parent, fresh, owner)
    try:
        for part, copy in zip(manifest.parts, copies, strict=True):
            for below, data in copy.files:
                _write_file(top, os.path.join(part.folder, below), data, owner)
        _write_file(
            top, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n", owner
        )
    finally:
        os.close(top)


def _write_file(top: int, below: str, data: bytes, owner: atomic.Owner | None) -> None:
    """Write one file below a directory, with the folders that it needs."""
    *folders, name = below.split("/")
    current = os.dup(top)
    try:
        for folder in folders:
            current, above = atomic.open_or_make(current, folder, owner), current
            os.close(above)
        with open(atomic.create(current, name, owner), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    finally:
        os.close(current)


def _swap_in(fresh: str, target: str) -> None:
    """Rename a complete export to its target, and delete the older export that was there."""
    old = f"{fresh}.old"
    if os.path.lexists(target):
        os.rename(target, old)
    os.rename(fresh, target)
    if os.path.lexists(old):
        shutil.rmtree(old)
