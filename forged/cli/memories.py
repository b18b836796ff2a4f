"""`forgectl list`, `show`, `remember` and `forget`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from forged.cli.call import (
    Invocation,
    ask,
    check_done,
    check_read,
    open_client,
    show,
    show_found,
    stdin_text,
    tell_notice,
)
from forged.cli.commands import min_generation_option, with_daemon_options
from forged.cli.confirm import confirm, require_answer, yes_option
from forged.cli.exits import Stop
from forged.cli.listing import chain_table, memory_list, memory_page, memory_table
from forged.cli.since import since_option
from forged.cli.terminal import counted, escape_line, listed, plain_data, tell
from forged_client import protocol as wire
from forged_client.client import Client
from forged_client.errors import ClientError, RequestFailed


class OptionalChoice(click.Choice[str]):
    """Type of an option whose value is one of some words, or "" if the option is left out."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return an option's word, or "" if it was left out; any other word ends the call."""
        return super().convert(value, param, ctx) if value else ""


SCOPES = OptionalChoice(list(map(str, wire.Scope)))
CATEGORIES = OptionalChoice(list(map(str, wire.Category)))
_TYPES = OptionalChoice([each for types in wire.TYPES.values() for each in types])

agent_option = click.option(
    "--agent", "agent_id", default="", metavar="NAME", help="Owner of the memories, in scope agent."
)
_of_scope = click.option(
    "--scope",
    type=SCOPES,
    default="",
    help="Where to look: repo or user if both have the id; agent, session and org are searched only by name.",
)
allow_secret_option = click.option(
    "--allow-secret", is_flag=True, help="Save the text even if it has a secret; agents will see it."
)


def scope_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--scope` and `--agent`, which say where a memory is, to a click command."""
    return _of_scope(agent_option(command))


def _make_completer(words: Iterable[str]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    return lambda _context, _option, begun: [each for each in words if each.startswith(begun)]


# --- list ----------------------------------------------------------------------------------------------


@click.command("list")
@click.option("--scope", type=SCOPES, default="", help="Only this scope.")
@agent_option
@click.option(
    "--category",
    default="",
    metavar="CATEGORY",
    shell_complete=_make_completer(CATEGORIES.choices),
    help=f"Only this category: {', '.join(CATEGORIES.choices)}.",
)
@since_option
@click.option(
    "--session", "session_id", default="", metavar="ID", help="Only sessions whose id begins like this."
)
@click.option("--origin", type=click.Choice(list(map(str, wire.Origin))), help="Only this origin.")
@click.option("--stale", is_flag=True, help="Only memories with evidence that changed.")
@click.option("--problems", is_flag=True, help="Files that are not memories, or only in part, and why.")
@click.option("--all-repos", is_flag=True, help="Include every repository that forged has seen.")
@click.option("-l", "--long", "long", is_flag=True, help="Show time, session and origin, too.")
@click.option("--all-versions", is_flag=True, help="Include superseded versions.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="Most memories.",
)
@click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Skip the first N.")
@min_generation_option
@with_daemon_options
def list_command(call: Invocation, *, long: bool, problems: bool, **fields: Any) -> None:
    """List the memories of this workspace by date, latest first. All filters must match."""
    if problems:
        _list_problems(call)
        return
    given = {name: value for name, value in fields.items() if value is not None}
    request = wire.ListMemories(workspace=call.workspace, **given)
    found = ask(call, request)
    if not found.memories and request.category and request.category not in CATEGORIES.choices:
        known = ", ".join(CATEGORIES.choices)
        raise Stop("usage", f"no memory has category {request.category!r}; the categories are {known}")
    shown = memory_list if long else memory_table
    show(call, found, shown(found.memories, call.width, with_root=request.all_repos))
    tell_notice(call, found)
    if call.as_json or found.status == "disabled":
        return
    left = found.total - request.offset - len(found.memories)
    if left > 0:
        tell(f"and {left:,} more; --limit and --offset show them")
    elif not found.total:
        tell(f"no memory can be listed: {found.reason}" if found.reason else _empty_sentence(request))
    elif not found.memories:
        has = f"there {'is' if found.total == 1 else 'are'} {counted(found.total, 'memory', 'memories')}"
        tell(f"{has}, and --offset {request.offset} skips all of them")


def _list_problems(call: Invocation) -> None:
    """Print files in the memory folders that are not memories, or only in part, with the reason."""
    ask(call, wire.ListMemories(workspace=call.workspace, limit=1))  # answered once the files were read
    report = ask(call, wire.Status(workspace=call.workspace))
    found = [each for root in report.roots for each in (*root.problems, *root.no_memories)]
    show(call, report, (f"{escape_line(each.path)}: {escape_line(each.reason)}" for each in found))
    if not found and not call.as_json:
        tell("all files in the memory folders are memories")


def _empty_sentence(request: wire.ListMemories) -> str:
    filters = (request.scope, request.category, request.since, request.session_id, request.origin)
    if request.stale and not any(filters):
        return "no memory has evidence that changed"
    return "no memory matches all filters" if any(filters) else "no memories"


# --- show ----------------------------------------------------------------------------------------------


@click.command("show")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@scope_option
@min_generation_option
@with_daemon_options
def show_command(call: Invocation, *, agent_id: str, **fields: Any) -> None:
    """Print memories whole, with the paths of their files and their versions, oldest first.

    `*` marks the current version. Exit code 1: one of the ids was not found.
    """
    with open_client(call) as client:
        found = client.ask(wire.GetMemories(workspace=call.workspace, agent_id=agent_id, **fields))
        check_read(found)
        chains = [_ask_chain(call, client, each, agent_id) for each in found.memories]
    pages = [_page_text(call, *each) for each in zip(found.memories, chains, strict=True)]
    memories = [
        {**plain_data(each), "path": _path_in(each, chain), "versions": chain.memories, "flags": chain.flags}
        for each, chain in zip(found.memories, chains, strict=True)
    ]
    why = f" ({found.reason})" if found.reason else ""
    sentence = f"no memory {', '.join(found.missing)} in this workspace{why}"
    value = plain_data(found) | {"memories": memories}
    del value["id"]
    show_found(call, value, pages, found.missing, sentence)


def _ask_chain(call: Invocation, client: Client, memory: wire.MemoryRecord, agent_id: str) -> wire.Chain:
    """Return all versions of a memory from the daemon; for a session's memory only itself."""
    if memory.scope == wire.Scope.SESSION:
        return wire.Chain(memories=(memory,))
    owner = agent_id if memory.scope == wire.Scope.AGENT else ""
    asked = wire.History(workspace=call.workspace, memory_id=memory.id, scope=memory.scope, agent_id=owner)
    chain = client.ask(asked)
    check_read(chain)
    return chain


def _path_in(memory: wire.MemoryRecord, chain: wire.Chain) -> str:
    return next((each.path for each in chain.memories if each.id == memory.id), "")


def _page_text(call: Invocation, memory: wire.MemoryRecord, chain: wire.Chain) -> str:
    lines = [*memory_page(memory, call.paint, _path_in(memory, chain))]
    if len(chain.memories) > 1 or chain.flags:
        lines += ["", call.paint("strong", "versions"), *chain_table(chain, call.width)]
    return "\n".join(lines)


# --- remember ------------------------------------------------------------------------------------------


@click.command("remember")
@click.argument("text")
@click.option("--scope", type=SCOPES, default="", help="Audience (default: that of --supersedes, else repo).")
@click.option(
    "--agent",
    "agent_id",
    default="",
    metavar="NAME",
    help="Owner in scope agent; elsewhere the agent that wrote it.",
)
@click.option("--session", "session_id", default="", metavar="ID", help="Session that the memory belongs to.")
@click.option(
    "--type", "memory_type", type=_TYPES, default="", help="Kind of memory, in scope user or agent."
)
@click.option(
    "--importance", type=click.FloatRange(0, 1), metavar="NUMBER", help="Below a limit it is not found."
)
@click.option("--meta", "metadata", multiple=True, metavar="KEY=VALUE", help="Metadata; repeatable.")
@click.option(
    "--category", type=CATEGORIES, default="", help="Subject (default: that of --supersedes, else by scope)."
)
@click.option("--supersedes", default="", metavar="ID", help="Memory that this one replaces.")
@click.option(
    "--related",
    multiple=True,
    metavar="ID[:RELATIONSHIP]",
    help=f"Link to a memory, as {', '.join(wire.Relationship)}; repeatable.",
)
@click.option("--cue", "cues", multiple=True, metavar="LINE", help="Situation that recalls it; repeatable.")
@click.option(
    "--evidence",
    multiple=True,
    metavar="PATH[:LINES]",
    help="Repository file that this memory depends on; repeatable.",
)
@allow_secret_option
@with_daemon_options
def remember_command(
    call: Invocation, *, text: str, related: tuple[str, ...], metadata: tuple[str, ...], **fields: Any
) -> None:
    """Write one memory to disk; `-` reads its text from stdin.

    A VALUE of --meta that is valid JSON is read as JSON.
    """
    content = stdin_text() if text == "-" else text
    request = wire.Remember(
        workspace=call.workspace,
        content=content,
        related=tuple(map(parse_edge, related)),
        origin="explicit",
        metadata=dict(parse_key_value("--meta", each) for each in metadata),
        **fields,
    )
    written = ask(call, request, check_done)
    show(call, written, written_lines(written))


def parse_key_value(option: str, text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE of an option, with the value as JSON where it is valid JSON. Raises Stop."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise Stop("usage", f"{option} {text!r} is not KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key, value


def parse_edge(text: str) -> wire.Edge:
    """Parse ID[:RELATIONSHIP] of an option into a link to another memory."""
    memory_id, colon, relationship = text.partition(":")
    return wire.Edge(memory_id, relationship) if colon else wire.Edge(memory_id)


def written_lines(written: wire.Remembered) -> Iterator[str]:
    """Yield the receipt of a written memory: id, scope, version, path, and the version it replaced."""
    done = "already saved as" if written.existed else "remembered"
    about = f", {escape_line(written.scope)}/{escape_line(written.category)}" if written.scope else ""
    yield f"{done} {escape_line(written.memory_id)}, version {written.version}{about}"
    if written.replaced:
        moved = ", which was newer than the one named" if written.base_moved else ""
        yield f"replaces {escape_line(written.replaced)}{moved}"
    if written.path:
        yield f"path {escape_line(written.path)}"
    if written.reason:
        yield f"note: {escape_line(written.reason)}"


# --- forget --------------------------------------------------------------------------------------------


class _Removal(msgspec.Struct, frozen=True):
    """A memory that `forget` will remove: the request, and its versions on disk or its trash entry."""

    request: wire.Forget
    chain: wire.Chain = wire.Chain()
    trashed: wire.Trashed | None = None

    @property
    def name(self) -> str:
        """Id of the memory to remove: complete if it is in the trash, else as it was typed."""
        return self.trashed.id if self.trashed is not None else self.request.memory_id

    @property
    def versions(self) -> set[tuple[str, str]]:
        """Root and id of each version of the memory, on disk or in its trash entry."""
        if self.trashed is not None:
            return {(self.trashed.root, each) for each in self.trashed.ids}
        return {(each.root, each.id) for each in self.chain.memories}

    def lines(self, width: int) -> Iterable[str]:
        """Return lines on the memory to remove: its versions, or its first line in the trash."""
        return (escape_line(self.trashed.first_line),) if self.trashed else chain_table(self.chain, width)


@click.command("forget")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@scope_option
@click.option("--this-version", "version_only", is_flag=True, help="Only these versions, not older ones.")
@click.option("--now", "erase_now", is_flag=True, help="Erase at once, without 7 days in the trash.")
@yes_option
@with_daemon_options
def forget_command(call: Invocation, *, ids: tuple[str, ...], yes: bool, **fields: Any) -> None:
    """Remove memories with all their versions, after one question about all of them.

    For 7 days `forgectl restore` brings them back. If one ID is wrong, nothing is removed.
    """
    requests = [
        wire.Forget(workspace=call.workspace, memory_id=each, **fields) for each in dict.fromkeys(ids)
    ]
    if not yes:
        require_answer(call, "forget")
    with open_client(call) as client:
        if len(requests) > 1 or not yes:
            removals = _find_removals(client, requests)
            requests = [each.request for each in removals]
            if not yes:
                _confirm(removals, call.width)
        gone = _forget_each(client, requests)
    show(call, gone, _forget_receipt(gone))


def _find_removals(client: Client, requests: Sequence[wire.Forget]) -> list[_Removal]:
    """Find the memories to forget, each once. Raises Stop with a sentence for each wrong id."""
    found, wrong = list[_Removal](), list[RequestFailed]()
    for request in requests:
        try:
            each = _find_removal(client, request)
        except RequestFailed as failed:
            wrong.append(failed)
            continue
        if request.version_only or not any(each.versions & other.versions for other in found):
            found.append(each)
    if wrong:
        nothing = ("nothing was forgotten",) if len(requests) > 1 else ()
        raise Stop(wrong[0].code, "; ".join((*(each.message for each in wrong), *nothing)))
    return found


def _find_removal(client: Client, request: wire.Forget) -> _Removal:
    """Find the memory to forget: on disk, or in the trash if it is to be erased. Raises RequestFailed."""
    asked = wire.History(
        workspace=request.workspace,
        memory_id=request.memory_id,
        scope=request.scope,
        agent_id=request.agent_id,
    )
    chain, failure = wire.Chain(), None
    try:
        chain = client.ask(asked)
        check_done(chain)
    except RequestFailed as failed:
        failure = failed
    if request.erase_now and not any(each.id in _possible_ids(request) for each in chain.memories):
        trashed = _find_in_trash(client, request)
        # As in the daemon: an id in the trash that is named whole comes before one that only begins so.
        if trashed is not None and (failure or _possible_ids(request) & set(trashed.ids)):
            return _Removal(request, trashed=trashed)
    if failure is not None:
        raise failure
    return _Removal(request, chain)


def _find_in_trash(client: Client, request: wire.Forget) -> wire.Trashed | None:
    """Return the trash's only entry with this id or prefix; None if there is none, or more than one."""
    asked = wire.Restore(workspace=request.workspace, scope=request.scope, agent_id=request.agent_id)
    names = _possible_ids(request)
    begun = [
        each for each in client.ask(asked).restorable if any(id_.startswith(tuple(names)) for id_ in each.ids)
    ]
    found = [each for each in begun if names & set(each.ids)] or begun
    return found[0] if len({each.ids for each in found}) == 1 else None


def _possible_ids(request: wire.Forget) -> set[str]:
    return {request.memory_id, f"mem_{request.memory_id}"}


def _confirm(removals: Sequence[_Removal], width: int) -> None:
    """Show all memories that `forget` would remove, and ask once. Raises Stop if the answer is no."""
    request = removals[0].request
    blocks = ([*each.lines(width), ""] for each in removals)
    lines = list(itertools.chain.from_iterable(blocks))[:-1]
    memories = counted(len(removals), "memory", "memories")
    name = escape_line(removals[0].name) if len(removals) == 1 else memories
    count = sum(1 if each.request.version_only else len(each.versions) for each in removals)
    versions = "only this version" if request.version_only else counted(count, "version")
    if request.erase_now:
        confirm(lines, f"Erase {name} ({versions}) for ever?", declined="nothing was erased")
    else:
        question = f"Forget {name} ({versions}, 7 days in the trash)?"
        confirm(lines, question, declined="nothing was forgotten")


def _forget_each(client: Client, requests: Sequence[wire.Forget]) -> wire.Forgotten:
    """Forget memories one by one; return one receipt. On an error print those done and raise it."""
    gone: list[wire.Forgotten] = []
    for request in requests:
        try:
            done = client.ask(request)
            check_done(done)
        except (ClientError, Stop):
            if gone:
                tell(f"forgotten before that: {listed(id_ for each in gone for id_ in each.ids)}")
            raise
        gone.append(done)
    return replace(
        gone[-1],
        ids=tuple(id_ for each in gone for id_ in each.ids),
        trash=next((each.trash for each in gone if each.trash), ""),
        unreachable=tuple(dict.fromkeys(place for each in gone for place in each.unreachable)),
        cut_sentences=sum(each.cut_sentences for each in gone),
        cut_events=sum(each.cut_events for each in gone),
    )


def _forget_receipt(gone: wire.Forgotten) -> Iterator[str]:
    yield f"forgotten: {listed(gone.ids)}"
    yield f"in the trash for 7 days: {escape_line(gone.trash)}" if gone.trash else "erased"
    if gone.cut_sentences:
        sentences, events = counted(gone.cut_sentences, "sentence"), counted(gone.cut_events, "event")
        yield f"removed from capture events that are pending or failed: {sentences} in {events}"
    yield from (f"not removed: {escape_line(place)}; remove these yourself" for place in gone.unreachable)
