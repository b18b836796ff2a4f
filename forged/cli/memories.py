"""`forgectl list`, `show`, `history`, `remember` and `forget`: the memories that a workspace sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from forged.cli.call import Invocation, ask, check_done, daemon, show, show_found, stdin_text, tell_notice
from forged.cli.commands import asks, min_generation_option
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.listing import chain_table, memory_list, memory_page, memory_table
from forged.cli.since import since_option
from forged.cli.terminal import counted, escape_line, listed, tell
from forged_client import protocol as wire
from forged_client.client import Client

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _one_of(words: Iterable[str]) -> Complete:
    """Complete one of the contract's words; a file may hold others."""
    return lambda _context, _option, begun: [each for each in words if each.startswith(begun)]


_scopes, _categories = _one_of(list(wire.Scope)), _one_of(list(wire.Category))
_types = _one_of([each for types in wire.TYPES.values() for each in types])
agent_option = click.option(
    "--agent", "agent_id", default="", metavar="NAME", help="Whose memories, in scope agent."
)
_of_scope = click.option(
    "--scope",
    default="",
    shell_complete=_scopes,
    help="repo or user, for an id that both have; agent or org for what is there.",
)


def scope_option(command: Callable[..., None]) -> Callable[..., None]:
    """Options of a verb that is told where a memory is."""
    return _of_scope(agent_option(command))


@click.command("list")
@click.option(
    "--scope", default="", shell_complete=_scopes, help="Only this scope: repo, user, agent, session or org."
)
@agent_option
@click.option("--category", default="", shell_complete=_categories, help="Only this category.")
@since_option
@click.option("--session", "session_id", default="", metavar="ID", help="Only of sessions that begin so.")
@click.option("--origin", type=click.Choice(list(map(str, wire.Origin))), help="Only of this origin.")
@click.option("--stale", is_flag=True, help="Only those that stand on a file which changed.")
@click.option("--problems", is_flag=True, help="Files that are no memories, or only in part, and why.")
@click.option("--all-repos", is_flag=True, help="Of every repository that was seen, not only of this one.")
@click.option("-l", "--long", "long", is_flag=True, help="Also when, from which session, and their origin.")
@click.option("--all-versions", is_flag=True, help="Superseded memories too.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out so many of the newest.")
@min_generation_option
@asks
def list_command(call: Invocation, *, long: bool, problems: bool, **fields: Any) -> None:
    """List the memories of this workspace, newest first; of several filters all hold."""
    if problems:
        _list_problems(call)
        return
    given = {name: value for name, value in fields.items() if value is not None}
    request = wire.ListMemories(workspace=call.workspace, **given)
    found = ask(call, request)
    shown = memory_list if long else memory_table
    show(call, found, shown(found.memories, call.width, with_root=request.all_repos))
    tell_notice(call, found)
    if call.as_json or found.status == "disabled":
        return
    left = found.total - request.offset - len(found.memories)
    if left > 0:
        tell(f"and {left:,} more; --limit and --offset show them")
    elif not found.total:
        tell(f"no memory can be listed: {found.reason}" if found.reason else _nothing(request))
    elif not found.memories:
        tell(f"no more than {counted(found.total, 'memory', 'memories')}: the offset leaves all out")


def _list_problems(call: Invocation) -> None:
    """Name the files of all roots that `status` shows which are no memories, or only in part."""
    ask(call, wire.ListMemories(workspace=call.workspace, limit=1))  # answered once the files were read
    report = ask(call, wire.Status(workspace=call.workspace))
    found = [each for root in report.roots for each in (*root.problems, *root.no_memories)]
    show(call, report, (f"{escape_line(each.path)}: {escape_line(each.reason)}" for each in found))
    if not found and not call.as_json:
        tell("all files in the folders of memories are memories")


def _nothing(request: wire.ListMemories) -> str:
    filters = (request.scope, request.category, request.since, request.session_id, request.origin)
    if request.stale and not any(filters):
        return "no memory stands on a file that changed"
    return "no memory matches all that you ask for" if any(filters) else "no memories"


@click.command("show")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@scope_option
@min_generation_option
@asks
def show_command(call: Invocation, **fields: Any) -> None:
    """Print memories whole. Ids that are not there are named; the exit code is then 1."""
    found = ask(call, wire.GetMemories(workspace=call.workspace, **fields))
    pages = ["\n".join(memory_page(memory, call.paint)) for memory in found.memories]
    why = f" ({found.reason})" if found.reason else ""
    missing = f"no memory {', '.join(found.missing)} in this workspace{why}"
    show_found(call, found, pages, missing)


@click.command("history")
@click.argument("memory_id", metavar="ID")
@scope_option
@min_generation_option
@asks
def history_command(call: Invocation, **fields: Any) -> None:
    """Show the versions of a memory, oldest first; `*` marks the newest."""
    chain = ask(call, wire.History(workspace=call.workspace, **fields))
    show(call, chain, chain_table(chain, call.width))


@click.command("remember")
@click.argument("text")
@click.option(
    "--scope",
    default="",
    shell_complete=_scopes,
    help="Who it is for: repo (or that of --supersedes), user, agent or session.",
)
@click.option("--agent", "agent_id", default="", metavar="NAME", help="Whose it is, or who wrote it.")
@click.option("--session", "session_id", default="", metavar="ID", help="Session that it is of.")
@click.option("--type", "memory_type", default="", shell_complete=_types, help="What kind of memory it is.")
@click.option("--importance", type=click.FloatRange(0, 1), help="How much it matters, 0 to 1.")
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="What to filter by; repeatable.")
@click.option("--category", default="", help="What it is about; left out, by what it supersedes or by scope.")
@click.option("--supersedes", default="", metavar="ID", help="Memory that this one replaces.")
@click.option("--related", multiple=True, metavar="ID[:RELATIONSHIP]", help="Link to a memory; repeatable.")
@click.option("--cue", "cues", multiple=True, metavar="LINE", help="When it should come back; repeatable.")
@click.option(
    "--evidence", multiple=True, metavar="PATH[:LINES]", help="File of the repository that it stands on."
)
@click.option("--allow-secret", is_flag=True, help="Keep a text that holds a secret: agents will see it.")
@asks
def remember_command(
    call: Invocation, *, text: str, related: tuple[str, ...], metadata: tuple[str, ...], **fields: Any
) -> None:
    """Write one memory, durably; `-` reads its text from stdin.

    A VALUE of --meta that is JSON is taken as such.
    """
    content = stdin_text() if text == "-" else text
    edges, known = tuple(map(edge, related)), dict(key_and_value("--meta", each) for each in metadata)
    request = wire.Remember(
        workspace=call.workspace, content=content, related=edges, origin="explicit", metadata=known, **fields
    )
    written = ask(call, request, check_done)
    show(call, written, written_lines(written))


@click.command("forget")
@click.argument("memory_id", metavar="ID")
@scope_option
@click.option("--version", "version_only", is_flag=True, help="Only this version, not the whole chain.")
@click.option("--now", "erase_now", is_flag=True, help="Erase at once instead of 7 days in the trash.")
@yes_option
@asks
def forget_command(call: Invocation, *, yes: bool, **fields: Any) -> None:
    """Take a memory and its older versions away; the receipt says what forged cannot reach."""
    request = wire.Forget(workspace=call.workspace, **fields)
    if not yes:
        require_answer(call, "forget")
    with daemon(call) as client:
        if not yes:
            _confirm(call, client, request)
        gone = client.ask(request)
    check_done(gone)
    show(call, gone, _receipt(gone))
    if gone.unreachable and not call.as_json:
        tell("what is not reached must be removed by hand")


def key_and_value(option: str, text: str) -> tuple[str, Any]:
    """One key and its value, as JSON if it is some. Raises Stop."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise Stop("usage", f"{option} {text!r} is not KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def edge(text: str) -> wire.Edge:
    """A link as it is written on a command line: ID[:RELATIONSHIP]."""
    memory_id, colon, relationship = text.partition(":")
    return wire.Edge(memory_id, relationship) if colon else wire.Edge(memory_id)


def written_lines(written: wire.Remembered) -> Iterator[str]:
    """What was written, where, and what it replaced."""
    done = "there already as" if written.existed else "remembered"
    about = f", {escape_line(written.scope)}/{escape_line(written.category)}" if written.scope else ""
    yield f"{done} {escape_line(written.memory_id)}, version {written.version}{about}"
    if written.replaced:
        moved = ", which was newer than the one named" if written.base_moved else ""
        yield f"replaces {escape_line(written.replaced)}{moved}"
    if written.path:
        yield f"path {escape_line(written.path)}"
    if written.generation:
        yield f"generation {escape_line(written.generation)}"
    if written.reason:
        yield f"note: {escape_line(written.reason)}"


def _confirm(call: Invocation, client: Client, request: wire.Forget) -> None:
    """Show what would go and ask. Raises Stop when the answer is no."""
    asked = wire.History(
        workspace=request.workspace,
        memory_id=request.memory_id,
        scope=request.scope,
        agent_id=request.agent_id,
    )
    chain = client.ask(asked)
    is_shown = any(each.id in _whole(request) for each in chain.memories)
    there = _in_trash(client, request) if request.erase_now and not is_shown else None
    # The daemon, too, takes an id in the trash that is named whole before one that only begins so.
    if there is not None and (chain.status == "error" or _whole(request) & set(there.ids)):
        versions = counted(len(there.ids), "version")
        question = f"Erase {escape_line(there.id)} ({versions}) from the trash for ever?"
        confirm((escape_line(there.first_line),), question, declined="nothing was erased")
        return
    check_done(chain)
    what = "this version" if request.version_only else counted(len(chain.memories), "version")
    where = "erase it for ever" if request.erase_now else "move it to the trash for 7 days"
    question = f"Forget {escape_line(request.memory_id)} ({what}) and {where}?"
    confirm(chain_table(chain, call.width), question, declined="nothing was forgotten")


def _in_trash(client: Client, request: wire.Forget) -> wire.Trashed | None:
    """Return the one entry of the trash with this id; None if there is none, or more than one."""
    asked = wire.Restore(workspace=request.workspace, scope=request.scope, agent_id=request.agent_id)
    whole = _whole(request)
    begun = [
        each for each in client.ask(asked).restorable if any(id_.startswith(tuple(whole)) for id_ in each.ids)
    ]
    found = [each for each in begun if whole & set(each.ids)] or begun
    return found[0] if len({each.ids for each in found}) == 1 else None


def _whole(request: wire.Forget) -> set[str]:
    return {request.memory_id, f"mem_{request.memory_id}"}


def _receipt(gone: wire.Forgotten) -> Iterator[str]:
    yield f"forgotten: {listed(gone.ids)}"
    yield f"in the trash for 7 days: {escape_line(gone.trash)}" if gone.trash else "erased"
    if gone.cut_sentences:
        sentences, events = counted(gone.cut_sentences, "sentence"), counted(gone.cut_events, "event")
        yield f"taken out of what waited to be judged or was given up: {sentences} in {events}"
    yield from (f"not reached: {escape_line(place)}" for place in gone.unreachable)
    yield f"generation {escape_line(gone.generation)}"
