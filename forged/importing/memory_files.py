"""Import memory files unchanged: from another `.forge`, or from an export of forged.

They keep every byte: id, version, links, dates and unknown keys. An export is a folder with a manifest of its
roots. It names a repository without its path, so the importing person says where it is.
"""

from __future__ import annotations

import os
import re

import msgspec

from forged.errors import MemoryFormatError
from forged.files import FOLDERS, MAX_FILE_BYTES, parse
from forged.importing.values import ImportBatch, ImportItem, SkippedPart
from forged.memory import Scope
from forged_client.typed import resolved

MANIFEST = "forged-export.json"
VERSION = 1
_NAME = re.compile(r"(?!\.)[^/\x00-\x1f\x7f]{1,251}\.md")
_ID = re.compile(r"(?!\.)[^/\x00-\x1f\x7f]{1,248}")


class ExportedRoot(msgspec.Struct, frozen=True):
    """Root of an export: its folder below the manifest, its scope, and the repository's name."""

    folder: str
    scope: str
    name: str = ""
    files: int = 0


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Manifest of an export: versions, time and roots, without any path of the exporting machine."""

    schema_version: int = VERSION
    forged: str = ""
    exported_at: str = ""
    parts: tuple[ExportedRoot, ...] = ()


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in these JSON bytes. Raises MemoryFormatError for another form."""
    try:
        found = msgspec.json.decode(data, type=resolved(Manifest))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MemoryFormatError(f"the manifest cannot be read: {str(error)[:120]}") from error
    if found.schema_version != VERSION:
        raise MemoryFormatError(
            f"it was exported in form {found.schema_version}, and this forged reads {VERSION}; upgrade forged"
        )
    for part in found.parts:
        steps = part.folder.split("/")
        if part.scope not in list(Scope) or os.path.isabs(part.folder) or ".." in steps:
            raise MemoryFormatError(f"the manifest names an unknown part: {part.folder[:80]!r}")
    return found


def batch_of_memory_file(data: bytes, *, name: str, where: str, scope: str, repo: str = "") -> ImportBatch:
    """Return a memory file as one item, byte by byte, or skipped with the reason."""
    if len(data) > MAX_FILE_BYTES:
        return _skipped_batch(where, f"larger than {MAX_FILE_BYTES // 1024} KiB")
    try:
        found = parse(data, scope, name.removesuffix(".md"))
    except MemoryFormatError as error:
        return _skipped_batch(where, str(error))
    if not _NAME.fullmatch(name) or not _ID.fullmatch(found.id):
        return _skipped_batch(where, "forged does not write such a name or id")
    item = ImportItem(
        text=found.content,
        where=where,
        scope=scope,
        category=found.category,
        created_at=found.created_at,
        repo=repo,
        file=data,
        name=name,
        memory_id=found.id,
    )
    return ImportBatch((item,))


def is_memory_folder(path: str) -> bool:
    """Return True for a path that ends in `.forge/memory` or `.forge/memories`."""
    return any(f"/{os.path.abspath(path)}".endswith(f"/{folder}") for folder in FOLDERS)


def _skipped_batch(where: str, why: str) -> ImportBatch:
    """Return a batch without items and with one skipped part."""
    return ImportBatch((), (SkippedPart(where, why),))
