"""`forgectl edit`, `move` and `restore`.

The text of an edit that cannot be written is saved to a temporary file, and a message names that file.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import click
from msgspec.structs import replace

from forged.cli.call import Invocation, ask, check_done, check_read, open_client, show, stdin_text
from forged.cli.commands import with_daemon_options
from forged.cli.exits import Stop
from forged.cli.listing import memory_table, trash_table
from forged.cli.memories import CATEGORIES, allow_secret_option, parse_edge, scope_option, written_lines
from forged.cli.terminal import escape_line, listed, tell
from forged_client import protocol as wire
from forged_client.client import Client

_PATIENCE_S = 600.0
_TARGETS = click.Choice((str(wire.Scope.REPO), str(wire.Scope.USER), str(wire.Scope.AGENT)))


@click.command("edit")
@click.argument("memory_id", metavar="ID")
@click.argument("text", required=False)
@click.option("--category", type=CATEGORIES, default="", help="New category.")
@click.option("--cue", "cues", multiple=True, metavar="LINE", help='New cues; "" for none; repeatable.')
@click.option(
    "--evidence", multiple=True, metavar="PATH[:LINES]", help='New evidence; "" for none; repeatable.'
)
@click.option(
    "--relate",
    multiple=True,
    metavar="ID[:RELATIONSHIP]",
    help=f"Link it to a memory, as {', '.join(wire.Relationship)}; repeatable.",
)
@click.option("--unrelate", multiple=True, metavar="ID", help="Remove the link to a memory; repeatable.")
@click.option(
    "--if-version", "base", default="", metavar="VERSION", help="Only if this is the current version."
)
@scope_option
@allow_secret_option
@with_daemon_options
def edit_command(
    call: Invocation, *, memory_id: str, text: str | None, relate: tuple[str, ...], **fields: Any
) -> None:
    """Write a new version of a memory: a new text, category, cues, evidence or links.

    `-` reads the text from stdin. Without any change, the text opens in your editor ($VISUAL or $EDITOR).
    """
    for name in ("cues", "evidence"):
        fields[name] = tuple(filter(None, fields[name])) if fields[name] else None
    fields |= {"memory_id": memory_id, "relate": tuple(map(parse_edge, relate))}
    asked = wire.Edit(workspace=call.workspace, origin="explicit", **fields)
    with open_client(call) as client:
        others = asked.category or asked.relate or asked.unrelate
        if text is None and not others and asked.cues is asked.evidence is None:
            asked = _with_edited_text(call, client, asked)
        elif text is not None:
            asked = replace(asked, content=stdin_text() if text == "-" else text)
        with _save_on_error(asked.content if text in {None, "-"} else None):
            written = client.ask(asked)
            check_done(written)
    show(call, written, written_lines(written))


@click.command("move")
@click.argument("memory_id", metavar="ID")
@click.argument("to", type=_TARGETS, metavar="SCOPE")
@scope_option
@allow_secret_option
@with_daemon_options
def move_command(call: Invocation, **fields: Any) -> None:
    """Move a memory to scope repo, user or agent; its older versions go to the trash for 7 days."""
    moved = ask(call, wire.Move(workspace=call.workspace, **fields), check_done)
    show(call, moved, _move_receipt(moved))


@click.command("restore")
@click.argument("memory_id", metavar="[ID]", default="")
@scope_option
@with_daemon_options
def restore_command(call: Invocation, **fields: Any) -> None:
    """Bring back what `forget`, `undo` or `move` removed in the last 7 days; without ID list it.

    `forgectl undo` removes what was captured last.
    """
    request = wire.Restore(workspace=call.workspace, **fields)
    with open_client(call) as client:  # many documents take minutes
        back = client.ask(request, timeout_s=max(call.timeout_s, _PATIENCE_S if request.memory_id else 0.0))
    (_check_restored if request.memory_id else check_read)(back)
    show(
        call,
        back,
        _restore_receipt(back, call.width) if request.memory_id else trash_table(back.restorable, call.width),
    )
    if not call.as_json and not request.memory_id and not back.restorable:
        tell("nothing was removed here in the last 7 days")


# --- edit ----------------------------------------------------------------------------------------------


def _with_edited_text(call: Invocation, client: Client, asked: wire.Edit) -> wire.Edit:
    """Edit a memory's text in the editor; return the request with it. Raises Stop if unchanged."""
    if not call.interactive:
        raise Stop(
            "usage", "edit opens an editor and needs a terminal; otherwise give a TEXT, `-` or an option"
        )
    chain = client.ask(
        wire.History(
            workspace=asked.workspace, memory_id=asked.memory_id, scope=asked.scope, agent_id=asked.agent_id
        )
    )
    check_done(chain)
    (before,) = [memory for memory in chain.memories if memory.is_head][-1:]
    after = click.edit(before.content, extension=".md")
    if after is None or after.rstrip("\n") == before.content.rstrip("\n"):
        raise Stop("declined", "the text has not changed; nothing was written")
    return replace(asked, content=after, base=asked.base or before.id)


@contextlib.contextmanager
def _save_on_error(content: str | None) -> Iterator[None]:
    """Guard a `with` block: if it raises, save the text, unless None, and print the file's path."""
    try:
        yield
    except BaseException:
        if content is not None:
            path = os.path.join(tempfile.mkdtemp(prefix="forgectl-edit-"), "text.md")
            with open(path, "w", encoding="utf-8", errors="replace") as file:
                file.write(content)
            tell(f"forgectl: your text is saved in {escape_line(path)}")
        raise


# --- receipts ------------------------------------------------------------------------------------------


def _move_receipt(moved: wire.Moved) -> Iterator[str]:
    """Yield the new id, scope and path of a moved memory, what is in the trash, and removed links."""
    yield f"moved to {escape_line(moved.memory_id)}, {escape_line(moved.scope)}/{escape_line(moved.category)}"
    yield f"path {escape_line(moved.path)}"
    yield f"in the trash for 7 days: {listed(moved.ids)}"
    if moved.unlinked:
        yield f"links removed, as they hold in one scope only: {moved.unlinked:,}"
    if moved.reason:
        yield f"note: {escape_line(moved.reason)}"


def _check_restored(reply: wire.Reply) -> None:
    """Raise Stop if a restore failed; print the reason if there was nothing to restore."""
    if reply.status != "empty":
        check_done(reply)
    else:
        tell(f"forgectl: {reply.reason}")


def _restore_receipt(back: wire.Restored, width: int) -> Iterator[str]:
    """Yield ids of memories restored from the trash, and a table of their current versions."""
    if back.status == "empty":
        return
    documents = dict.fromkeys(memory.source for memory in back.memories if memory.document_id)
    others = [memory for memory in back.memories if not memory.document_id]
    yield f"restored: {listed([*documents, *(memory.id for memory in others)])}"
    yield from memory_table((memory for memory in others if memory.is_head), width)
    if back.reason:
        yield f"note: {escape_line(back.reason)}"
