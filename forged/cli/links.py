"""Memories as a graph: which replaced which, which are linked, what they speak of; as text for programs.

Pure functions over records of the wire. A link leads from the memory that names it to the one it is about;
one to a memory that is not there ends in a node that is `missing`. The order is that of root, time and id,
so equal stores give equal text. A thing that memories speak of is a node of its own kind, one for all roots,
if it joins two memories or is related to another thing. In either form all foreign text stands inside quotes,
without any character that could end them or mean something there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

import msgspec

from forged.cli.tables import cut
from forged.cli.terminal import escape_line
from forged.cli.things import Key, things_of
from forged_client.protocol import MemoryRecord

SUPERSEDES, SPEAKS_OF = "supersedes", "speaks-of"
_CELLS = 60
_DOT_THING = ', shape=ellipse, style=filled, fillcolor="#e8eef7", fontcolor="#1b2a41"'
_UNPLAIN = re.compile(r"[^\w .,:/'()+\-]", re.ASCII)


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A memory, or (`kind` entity) a thing by its name; `name` is the node's own within the graph."""

    name: str
    id: str
    root: str
    scope: str = ""
    category: str = ""
    version: int = 0
    first_line: str = ""
    is_head: bool = False
    missing: bool = False
    kind: str = "memory"


class Link(msgspec.Struct, frozen=True):
    """From the node `source` to the node `target`, by their names; `relationship` says what it is to it."""

    source: str
    target: str
    relationship: str


class Graph(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...] = ()
    links: tuple[Link, ...] = ()


def graph_of(memories: Iterable[MemoryRecord]) -> Graph:
    """All of these and what they name."""
    known = {(each.root, each.id): each for each in sorted(memories, key=_order)}
    named = {key: f"m{number}" for number, key in enumerate(known, 1)}
    links = []
    for key, memory in known.items():
        for target, relationship in dict.fromkeys(_named_by(memory)):
            name = named.setdefault((memory.root, target), f"m{len(named) + 1}")
            links.append(Link(named[key], name, relationship))
    nodes = tuple(_node(name, key, known.get(key)) for key, name in named.items())
    return Graph(nodes, tuple(links))


def with_things(graph: Graph, memories: Iterable[MemoryRecord]) -> Graph:
    """The same and what these memories speak of, as far as it joins anything."""
    found = things_of(memories)
    ours = {(node.root, node.id): node.name for node in graph.nodes}
    nodes = tuple(
        Node(name=f"e{number}", id="", root="", first_line=each.name, is_head=True, kind="entity")
        for number, each in enumerate(found.things, 1)
    )
    speaks = (
        Link(ours[key], node.name, SPEAKS_OF)
        for node, each in zip(nodes, found.things, strict=True)
        for key in each.memories
    )
    ties = (Link(nodes[tie.source].name, nodes[tie.target].name, tie.relation) for tie in found.ties)
    return Graph((*graph.nodes, *nodes), (*graph.links, *speaks, *ties))


def around(graph: Graph, names: Collection[str], depth: int) -> Graph:
    """What is at most so many links away from these nodes, whichever way the links lead."""
    beside = defaultdict(set)
    for link in graph.links:
        beside[link.source].add(link.target)
        beside[link.target].add(link.source)
    near, edge = set(names), set(names)
    while edge and depth > 0:
        depth -= 1
        edge = {name for each in edge for name in beside[each]} - near
        near |= edge
    return only(graph, near)


def linked(graph: Graph) -> Graph:
    """Without the memories that no link begins or ends at."""
    return only(graph, {name for link in graph.links for name in (link.source, link.target)})


def only(graph: Graph, names: Collection[str]) -> Graph:
    nodes = tuple(node for node in graph.nodes if node.name in names)
    links = tuple(link for link in graph.links if link.source in names and link.target in names)
    return Graph(nodes, links)


def _order(memory: MemoryRecord) -> tuple[str, str, str]:
    return memory.root, memory.created_at, memory.id


def _named_by(memory: MemoryRecord) -> Iterator[tuple[str, str]]:
    if memory.supersedes:
        yield memory.supersedes, SUPERSEDES
    yield from ((edge.id, edge.relationship) for edge in memory.related)


def _node(name: str, key: Key, memory: MemoryRecord | None) -> Node:
    root, memory_id = key
    if memory is None:
        return Node(name=name, id=memory_id, root=root, missing=True)
    return Node(
        name=name,
        id=memory_id,
        root=root,
        scope=memory.scope,
        category=memory.category,
        version=memory.version,
        first_line=memory.content.strip().split("\n", 1)[0].strip(),
        is_head=memory.is_head,
    )


# --- as text -------------------------------------------------------------------------------------------


def dot(graph: Graph) -> Iterator[str]:
    """Lines for Graphviz."""
    yield "digraph memories {"
    yield "  rankdir=RL;"
    yield '  node [shape=box, style=rounded, fontname="sans-serif", fontsize=10];'
    yield '  edge [fontname="sans-serif", fontsize=9];'
    for node in graph.nodes:
        style = _DOT_THING if node.kind == "entity" else "" if node.is_head else ", style=dashed"
        yield f"  {node.name} [label={_dot_text(*_label(node))}{style}];"
    for link in graph.links:
        style = ", style=bold" if link.relationship == SUPERSEDES else ""
        yield f"  {link.source} -> {link.target} [label={_dot_text(link.relationship)}{style}];"
    yield "}"


def mermaid(graph: Graph) -> Iterator[str]:
    """Lines for Mermaid, as Markdown pages show them."""
    yield "flowchart RL"
    for node in graph.nodes:
        text = _mermaid_text(*_label(node))
        shape = f"([{text}]):::thing" if node.kind == "entity" else f"[{text}]"
        yield f"  {node.name}{shape}" + ("" if node.is_head else ":::older")
    for link in graph.links:
        arrow = "==>" if link.relationship == SUPERSEDES else "-->"
        yield f"  {link.source} {arrow}|{_mermaid_text(link.relationship)}| {link.target}"
    yield "  classDef older stroke-dasharray: 4 3"
    if any(node.kind == "entity" for node in graph.nodes):
        yield "  classDef thing stroke-width: 2px"


def _label(node: Node) -> tuple[str, ...]:
    """Two lines: what it says, and what it is; of a thing its name."""
    if node.kind == "entity":
        return (cut(node.first_line, _CELLS),)
    if node.missing:
        return "(not there)", node.id
    about = f"{node.scope}/{node.category} v{node.version} {node.id}"
    return cut(node.first_line, _CELLS), about


def _dot_text(*lines: str) -> str:
    """A quoted string; what would be an entity or an escape in it is none."""
    plain = (
        escape_line(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines
    )
    return '"' + "\\n".join(plain) + '"'


def _mermaid_text(*lines: str) -> str:
    """A quoted string in which whatever could mean something stands by its number; it may not be empty."""
    return '"' + ("<br>".join(map(_numbered, lines)) or " ") + '"'


def _numbered(line: str) -> str:
    return _UNPLAIN.sub(lambda found: f"#{ord(found.group())};", escape_line(line))
