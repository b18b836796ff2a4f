"""Read memories from a path: detect the format of each file and call its reader.

A format is detected by the file's name or content, or the person names it. Files of a folder without a known
format are skipped. The path itself must have one; otherwise, or if it cannot be read, WorkspaceError explains
what to do.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Container
from functools import partial

import msgspec

from forged.errors import MemoryFormatError, WorkspaceError
from forged.files import FOLDERS, MAX_FILE_BYTES, front_matter
from forged.importing import basic_memory, json_exports, memory_files
from forged.importing.agent_rules import batch_of_rules
from forged.importing.sources import SourceFile, Walk, read_file, repository_of
from forged.importing.values import ImportBatch, ImportItem, SkippedPart
from forged.memory import Scope, utc

FORMS = ("rules", "forge", "basic-memory", "mem0", "claude-mem")

_TEXT_BYTES, _JSON_BYTES = 512 << 10, 64 << 20
_RULES = re.compile(
    r"(?:.*/)?(?:(?:CLAUDE|AGENTS|GEMINI|QWEN)(?:\.local)?\.md|\.cursorrules|\.cursor/rules/.*\.mdc"
    r"|\.claude/rules/.*\.md|\.github/copilot-instructions\.md|\.github/instructions/.*\.instructions\.md)"
)
# File names of rules in any place, if the person names the file.
_RULES_ALONE = re.compile(r".*(?:\.mdc|\.instructions\.md|copilot-instructions\.md)")
_HOLDERS = re.compile(r"(?:^|/)\.(?:cursor|github|claude)(?:/.*)?$")
_USERS_OWN = (".claude", ".codex", ".gemini", ".qwen", ".cursor", ".config", ".copilot")
_OF_A_MEMORY = ("id", "version", "trigger", "scope")


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of an import: format and scope, "" to detect them, and the person's home."""

    home: str
    form: str = ""
    scope: str = ""


def read_path(path: str, asked: ReadOptions) -> ImportBatch:
    """Read items and skipped parts of a file or folder in a known format. Raises WorkspaceError."""
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no path"
        raise WorkspaceError(f"{path} cannot be read: {why}") from error
    if is_folder:
        return _batch_of_folder(os.path.realpath(path), asked)
    most = _JSON_BYTES if path.endswith(".json") else _TEXT_BYTES
    try:
        source = read_file(os.path.realpath(path), os.path.basename(path), most)
        source = msgspec.structs.replace(source, path=os.path.abspath(path))
        if source.name == memory_files.MANIFEST:
            return _batch_of_folder(os.path.realpath(source.folder), asked)
        found = _batch_of_file(source, asked, alone=True)
    except MemoryFormatError as error:
        raise WorkspaceError(f"{path}: {error}") from error
    if found is None:
        raise WorkspaceError(f"{path} has no known format; name it with --as ({', '.join(FORMS)})")
    return found


# --- folders -------------------------------------------------------------------------------------------


def _batch_of_folder(top: str, asked: ReadOptions) -> ImportBatch:
    """Return the batch of a folder: an export, memory files, or files of one or any format."""
    if os.path.lexists(os.path.join(top, memory_files.MANIFEST)):
        return _batch_of_export(top, asked)
    below = _memory_folders(top)
    if below:
        return _batch_of_wanted(top, asked, partial(_size_limit_in, below), "forge")
    if asked.form:
        return _batch_of_wanted(top, asked, lambda where: _size_limit_of_form(where, asked.form), asked.form)
    return _batch_of_wanted(top, asked, lambda where: _size_limit(os.path.join(top, where)), "")


def _memory_folders(top: str) -> tuple[str, ...]:
    """Return the memory folders in a `.forge` folder as "NAME/"; ("",) for such a folder itself."""
    if memory_files.is_memory_folder(top):
        return ("",)
    names = [folder.partition("/")[2] for folder in FOLDERS]
    there = tuple(f"{name}/" for name in names if os.path.isdir(os.path.join(top, name)))
    return there if os.path.basename(top) == ".forge" else ()


def _size_limit_in(folders: Container[str], where: str) -> int:
    """Return the size limit of a memory file directly in one of these folders, else 0."""
    folder, _, name = where.rpartition("/")
    is_there = (f"{folder}/" if folder else "") in folders
    return MAX_FILE_BYTES if is_there and name.endswith(".md") else 0


def _batch_of_wanted(top: str, asked: ReadOptions, wanted: Callable[[str], int], form: str) -> ImportBatch:
    """Read all files below a folder that `wanted` gives a size limit, into one batch."""
    walk = Walk(top, wanted, with_memories=form == "forge")
    asked = msgspec.structs.replace(asked, form=asked.form or form)
    parts: list[ImportBatch] = []
    for source in walk:
        try:
            part = _batch_of_file(source, asked, alone=False)
        except MemoryFormatError as error:
            part = ImportBatch((), (SkippedPart(source.where, str(error)),))
        if part is not None:
            parts.append(part)
    return merge_batches([*parts, ImportBatch((), tuple(walk.left))])


def merge_batches(parts: list[ImportBatch]) -> ImportBatch:
    """Return one batch with the items, skipped parts and file counts of several."""
    formats: dict[str, int] = {}
    for part in parts:
        for name, count in part.formats.items():
            formats[name] = formats.get(name, 0) + count
    items = tuple(item for part in parts for item in part.items)
    return ImportBatch(items, tuple(left for part in parts for left in part.left), formats)


def _size_limit(path: str) -> int:
    """Return the size limit of a file by its name, 0 if its name fits no format."""
    if _RULES.fullmatch(path):
        return _TEXT_BYTES
    return MAX_FILE_BYTES if path.endswith(".md") else 0


def _size_limit_of_form(where: str, form: str) -> int:
    """Return the size limit of a file of one format, 0 if its name does not fit."""
    if form in {"mem0", "claude-mem"}:
        return _JSON_BYTES if where.endswith(".json") else 0
    names = (".md", ".mdc", ".cursorrules") if form == "rules" else (".md",)
    return _TEXT_BYTES if where.endswith(names) else 0


def _batch_of_export(top: str, asked: ReadOptions) -> ImportBatch:
    """Return the batch of all roots in an export. Raises WorkspaceError for an unreadable manifest."""
    try:
        manifest = memory_files.parse_manifest(
            read_file(os.path.join(top, memory_files.MANIFEST), memory_files.MANIFEST, _JSON_BYTES).data
        )
    except MemoryFormatError as error:
        raise WorkspaceError(f"{top}: {error}") from error
    homes = {f"{part.folder}/{folder}/": part for part in manifest.parts for folder in FOLDERS}
    walk = Walk(top, partial(_size_limit_in, homes), with_memories=True)
    parts: list[ImportBatch] = []
    for source in walk:
        part = homes[f"{source.where.rpartition('/')[0]}/"]
        parts.append(_batch_of_memory(source, asked.scope or part.scope, part.name))
    return merge_batches([*parts, ImportBatch((), tuple(walk.left))])


# --- single files --------------------------------------------------------------------------------------


def _batch_of_file(source: SourceFile, asked: ReadOptions, *, alone: bool) -> ImportBatch | None:
    """Read a file by the given or detected format, None for an unknown one. Raises MemoryFormatError."""
    form = asked.form or _detect_form(source, alone=alone)
    if form == "rules":
        found = _batch_of_agent_rules(source, asked)
    elif form == "forge":
        return _batch_of_memory(source, asked.scope or _stated_scope(source))
    elif form == "basic-memory":
        name = source.name.removesuffix(".md")
        found = basic_memory.batch_of_note(source.text(), where=source.where, name=name, scope=asked.scope)
    elif form == "mem0":
        found = json_exports.batch_of_mem0(
            json_exports.decoded(source.data), where=source.where, scope=asked.scope
        )
    elif form == "claude-mem":
        document = json_exports.decoded(source.data)
        if not json_exports.is_claude_mem(document):
            raise MemoryFormatError("it contains no list of observations")
        found = json_exports.batch_of_claude_mem(document, where=source.where, scope=asked.scope)
    else:
        return None
    dated = tuple(_with_time(item, source) for item in found.items)
    return ImportBatch(dated, found.left, {form: 1})


def _detect_form(source: SourceFile, *, alone: bool) -> str:
    """Return the format of a file by name and content, or ""; `alone`: the person named this file."""
    if _RULES.fullmatch(source.path) or (alone and _RULES_ALONE.fullmatch(source.name)):
        return "rules"
    if source.name.endswith(".json") and alone:
        return _form_of_json(source.data)
    if not source.name.endswith(".md"):
        return ""
    try:
        text = source.text()
    except MemoryFormatError:
        return ""
    return "forge" if _is_memory_file(text) else "basic-memory" if basic_memory.is_note(text) else ""


def _form_of_json(data: bytes) -> str:
    """Return "mem0" or "claude-mem" for the bytes of such an export, else ""."""
    document = json_exports.decoded(data)
    if json_exports.is_claude_mem(document):
        return "claude-mem"
    return "mem0" if json_exports.is_mem0(document) else ""


def _is_memory_file(text: str) -> bool:
    """Return True if a text begins with the front matter of a memory file."""
    try:
        values = front_matter(text, _OF_A_MEMORY).values
    except MemoryFormatError:
        return False
    return "id" in values and ("version" in values or "trigger" in values)


def _batch_of_memory(source: SourceFile, scope: str, repo: str = "") -> ImportBatch:
    """Return the batch of one memory file, with its bytes unchanged."""
    found = memory_files.batch_of_memory_file(
        source.data, name=source.name, where=source.where, scope=scope, repo=repo
    )
    items = tuple(msgspec.structs.replace(item, source=source.name) for item in found.items)
    return ImportBatch(items, found.left, {"forge": 1})


def _stated_scope(source: SourceFile) -> str:
    """Return the scope that a memory file's front matter states: user, or else repo."""
    try:
        values = front_matter(source.data.decode("utf-8", "replace"), ("scope",)).values
    except MemoryFormatError:
        return Scope.REPO.value
    return Scope.USER.value if values.get("scope") == "user" else Scope.REPO.value


def _batch_of_agent_rules(source: SourceFile, asked: ReadOptions) -> ImportBatch:
    """Return the batch of an agent's rules; those in the home, or an agent's folder there, are the user's."""
    home = os.path.realpath(asked.home)
    folder = os.path.realpath(source.folder)
    below = os.path.relpath(folder, home).split("/")
    is_users = folder == home or below[0] in _USERS_OWN
    scope = asked.scope or (Scope.USER.value if is_users else Scope.REPO.value)
    top = "" if is_users else repository_of(folder, home)
    holds_for = _HOLDERS.sub("", os.path.relpath(folder, top)) if top else ""
    found = batch_of_rules(
        source.text(), where=source.where, scope=scope, folder="" if holds_for == "." else holds_for
    )
    place = top if scope == Scope.REPO else ""
    return ImportBatch(tuple(msgspec.structs.replace(item, place=place) for item in found.items), found.left)


def _with_time(item: ImportItem, source: SourceFile) -> ImportItem:
    """Return an item with the file's name, and with its modification time unless it has a time."""
    created = item.created_at or utc(source.changed)
    return msgspec.structs.replace(
        item, created_at=created, updated_at=item.updated_at or created, source=source.name
    )
