"""`forgectl graph`: version chains and links of memories, for Graphviz, for Mermaid, or as JSON."""

from __future__ import annotations

import os

import click
from msgspec.structs import replace

from forged.cli import gathering, links
from forged.cli.call import Invocation, daemon, show
from forged.cli.commands import asks
from forged.cli.exits import Stop
from forged.cli.terminal import listed, tell
from forged_client.protocol import ListMemories

_DEPTH = 2
_FORMS = {"dot": links.dot, "mermaid": links.mermaid}


@click.command("graph")
@click.option(
    "--format", "form", type=click.Choice(["dot", "mermaid", "json"]), default="dot", show_default=True
)
@click.option("--id", "memory_id", default="", metavar="ID", help="Only what is near this memory.")
@click.option(
    "--depth", type=click.IntRange(0, 100), metavar="N", help=f"With --id: so many links away; {_DEPTH}."
)
@click.option("--scope", default="", help="Only repo, or only user.")
@click.option(
    "--root", default="", metavar="PATH", help="Only of the root at PATH, also of another repository."
)
@click.option("--all-repos", is_flag=True, help="Of every repository that the daemon has seen.")
@click.option("--entities", is_flag=True, help="Also what they speak of, and how that is related.")
@click.option("--linked", is_flag=True, help="Leave out memories without any link.")
@asks
def graph_command(
    call: Invocation,
    *,
    form: str,
    memory_id: str,
    depth: int | None,
    scope: str,
    root: str,
    all_repos: bool,
    entities: bool,
    linked: bool,
) -> None:
    """Print which memories replaced which and which are linked, as a graph in a form that programs draw."""
    if depth is not None and not memory_id:
        raise Stop("usage", "--depth counts from a memory: say --id ID, too")
    top = os.path.normpath(os.path.join(call.workspace, root)) if root else ""
    request = ListMemories(
        workspace=call.workspace,
        scope=scope,
        all_versions=True,
        all_repos=all_repos or bool(root),
        entities=entities,
    )
    with daemon(call) as client:
        found = gathering.memories(client, request)
    memories = [each for each in found if not top or each.root == top]
    graph = links.graph_of(memories)
    if entities:
        graph = links.with_things(graph, memories)
    if memory_id:
        graph = links.around(graph, _meant(graph, memory_id), _DEPTH if depth is None else depth)
    if linked:
        graph = links.linked(graph)
    if call.as_json or form == "json":
        show(replace(call, as_json=True), graph, ())
    else:
        show(call, graph, _FORMS[form](graph))
    if not graph.nodes and not call.as_json:
        tell("no memory is linked" if linked else "no memories")


def _meant(graph: links.Graph, memory_id: str) -> tuple[str, ...]:
    """The names of the nodes whose id this is, or how it begins. Raises Stop if it is of none or several."""
    begins = (memory_id, f"mem_{memory_id}")
    whole = [node for node in graph.nodes if node.id in begins]
    found = whole or [node for node in graph.nodes if node.id.startswith(begins)]
    ids = sorted({node.id for node in found})
    if not ids:
        raise Stop("not_found", f"no memory {memory_id} here; --all-repos looks everywhere")
    if ids[1:]:
        raise Stop("invalid", f"{memory_id} is the beginning of several ids: {listed(ids[:5])}")
    return tuple(node.name for node in found)
