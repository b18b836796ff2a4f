"""`forgectl export`: write memories as files for an import, as JSON, or as a page to read.

The first form copies the files as they are, with secrets and private spans. The other two contain the texts
that the daemon shows, without them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import groupby

import click
import msgspec

from forged import __version__
from forged.cli import gathering
from forged.cli.call import Invocation, check_done, open_client, show
from forged.cli.commands import with_daemon_options
from forged.cli.exits import Stop
from forged.cli.memories import agent_option
from forged.cli.terminal import (
    SCHEMA_VERSION,
    counted,
    escape_line,
    local_time,
    plain_data,
    project_name,
    say_escaped,
    say_json,
    tell,
)
from forged.errors import StoreError
from forged.importing import Manifest, RootCopy, SkippedPart, export, new_file, read_root
from forged_client import protocol as wire
from forged_client.client import Client

_FOLDER = "forged-export"
_PAGE = 1000
_MOST_NAMED = 3


class ExportResult(msgspec.Struct, frozen=True):
    """Result of `export` to files: folder, manifest, and in `left` the files that were not exported."""

    path: str
    manifest: Manifest
    left: tuple[SkippedPart, ...]


class JsonExport(msgspec.Struct, frozen=True):
    """Content of `export --format json`: all versions of chosen memories, and forged's version."""

    forged: str
    memories: tuple[wire.MemoryRecord, ...]


@click.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(("forge", "json", "markdown")),
    default="forge",
    show_default=True,
    help="Files for an import, one JSON object, or a page to read.",
)
@click.option(
    "--to", default="", metavar="PATH", help=f"Target (default: {_FOLDER}; stdout for json and markdown)."
)
@click.option("--scope", type=click.Choice(("repo", "user", "agent")), help="Only these memories.")
@agent_option
@click.option("--all-repos", is_flag=True, help="All known repositories, not only this one.")
@click.option("--force", is_flag=True, help="Overwrite an older export, or a file.")
@with_daemon_options
def export_command(
    call: Invocation, *, form: str, to: str, scope: str | None, agent_id: str, all_repos: bool, force: bool
) -> None:
    """Export memories: yours and this repository's, with every version."""
    if scope == "agent" and form == "forge":
        raise Stop(
            "usage",
            "memories of an agent are files in ~/.forge/agents/NAME; copy that folder, or use --format json",
        )
    asked = wire.ListMemories(
        workspace=call.workspace,
        scope=scope or "",
        agent_id=agent_id,
        all_versions=True,
        all_repos=all_repos,
        limit=_PAGE,
    )
    with open_client(call) as client:
        if form == "forge":
            done = _export_files(call, client, to or _FOLDER, scope or "", all_repos=all_repos, force=force)
            show(call, done, _receipt_lines(done))
            return
        found = _ask_records(client, asked)
    if form == "markdown":
        _write_text(to, "\n".join(_markdown_lines(found)) + "\n", force=force)
    elif to in {"", "-"}:
        say_json(JsonExport(__version__, found))
    else:
        fields = {"schema_version": SCHEMA_VERSION, **plain_data(JsonExport(__version__, found))}
        _write_text(to, msgspec.json.encode(fields).decode() + "\n", force=force)


# --- files ---------------------------------------------------------------------------------------------


def _export_files(
    call: Invocation, client: Client, to: str, scope: str, *, all_repos: bool, force: bool
) -> ExportResult:
    """Copy memory files to a folder with a manifest; return it and files left out. Raises Stop."""
    if to == "-":
        raise Stop("usage", "an export of files needs a folder; give --to DIR, or --format json")
    target = os.path.abspath(to)
    try:
        every = [
            read_root(top, each, _withheld_paths(client, top) if each == "repo" else ())
            for top, each in _roots_to_export(call, client, scope, all_repos=all_repos)
        ]
        copies = [copy for copy in every if copy.files or copy.left]
        if not copies:
            raise Stop("not_found", "there is no memory to export here; --all-repos exports all repositories")
        manifest = export(target, copies, replace=force)
    except StoreError as error:
        raise Stop("conflict", str(error)) from error
    return ExportResult(target, manifest, tuple(_skipped_items(copies, manifest)))


def _roots_to_export(
    call: Invocation, client: Client, scope: str, *, all_repos: bool
) -> list[tuple[str, str]]:
    """Return path and scope of each root that `export` copies, the user's first."""
    here = gathering.workspace_roots(client, call.workspace)
    found = sorted(((root.root, root.scope) for root in here), key=lambda each: each[1] != "user")
    if all_repos:
        seen = client.ask(wire.Trust(action="list"))
        check_done(seen)
        found += [(root.root, "repo") for root in seen.roots]
    return [each for each in dict.fromkeys(found) if scope in {"", each[1]}]


def _withheld_paths(client: Client, top: str) -> frozenset[str]:
    """Return paths of a repository's files that are not used yet. Raises Stop if there are too many."""
    reply = client.ask(wire.Review(workspace=top))
    check_done(reply)
    if reply.root is not None and reply.root.withheld > len(reply.files):
        raise Stop(
            "unavailable",
            f"too many files in {top} are not used yet; decide on them first with `forgectl review`",
        )
    return frozenset(file.path for file in reply.files)


def _skipped_items(copies: Sequence[RootCopy], manifest: Manifest) -> Iterator[SkippedPart]:
    """Yield the files that an export left out, each with its path below the export and the reason."""
    for copy, part in zip(copies, manifest.parts, strict=True):
        yield from (SkippedPart(f"{part.folder}/{each.where}", each.why) for each in copy.left)


def _reason_of(left: SkippedPart) -> str:
    """Return the reason why a file was not exported, as a key to group by."""
    return left.why


def _receipt_lines(done: ExportResult) -> Iterator[str]:
    """Yield folder and numbers of exported files, those not exported by reason, and a warning on secrets."""
    yield f"exported to {escape_line(done.path)}"
    for part in done.manifest.parts:
        yield f"  {escape_line(part.folder)}: {counted(part.files, 'file')}"
    for why, some in groupby(sorted(done.left, key=_reason_of), key=_reason_of):
        places = [escape_line(each.where) for each in some]
        more = f" and {len(places) - _MOST_NAMED:,} more" if len(places) > _MOST_NAMED else ""
        yield f"not exported: {', '.join(places[:_MOST_NAMED])}{more}: {escape_line(why)}"
    yield "the files are exact copies, with secrets and private text"


# --- JSON and a page -----------------------------------------------------------------------------------


def _ask_records(client: Client, asked: wire.ListMemories) -> tuple[wire.MemoryRecord, ...]:
    """Ask the daemon for a list of memories, page by page; return all of them."""
    found: list[wire.MemoryRecord] = []
    while True:
        page = client.ask(msgspec.structs.replace(asked, offset=len(found)))
        check_done(page)
        found += page.memories
        if not page.memories or len(found) >= page.total:
            return tuple(found)


def _markdown_lines(found: Sequence[wire.MemoryRecord]) -> Iterator[str]:
    """Yield the current memories as a markdown page, by repository and category."""
    yield "# Memories"
    heads = sorted((each for each in found if each.is_head), key=_sort_key)
    for (root, scope), here in groupby(heads, key=lambda each: (each.root, each.scope)):
        yield f"\n## {'Yours' if scope == 'user' else project_name(root)}"
        for category, some in groupby(here, key=lambda each: each.category):
            yield f"\n### {' '.join(category.split())}"
            for each in some:
                about = f"{each.id}, version {each.version}, {local_time(each.created_at)}"
                yield f"\n{each.content.strip()}\n\n*{about}*"


def _sort_key(record: wire.MemoryRecord) -> tuple[bool, str, str, str, str]:
    """Return a memory's key for the order of an export: the user's first, then root, category, time."""
    return record.scope != "user", record.root, record.category, record.created_at, record.id


def _write_text(to: str, text: str, *, force: bool) -> None:
    """Write an export to stdout, escaped, or to a file; only `force` overwrites an existing one."""
    if to in {"", "-"}:
        say_escaped(text)
        return
    try:
        with open(_open_target(to, force=force), "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError as error:
        raise Stop("conflict", f"{to} exists already; --force overwrites it") from error
    except OSError as error:
        raise Stop("unavailable", f"{to} cannot be written: {error.strerror or error}") from error
    tell(f"exported to {to}")


def _open_target(path: str, *, force: bool) -> int:
    """Open an export's file for writing: a new private one or, with `force`, an existing one, emptied."""
    os.stat(os.path.dirname(path) or ".")  # an export makes no folder
    try:
        return new_file(path)
    except FileExistsError:
        if not force:
            raise
        return os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC)
