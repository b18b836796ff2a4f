"""`forgectl graph`: chains and links as text for Graphviz and Mermaid, and as JSON.

What is printed for Graphviz is given to `dot` itself where it is installed; for either form a strict reading
of our own holds each line against the grammar.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from forged_client.protocol import Edge, ListMemories, Memories, MemoryRecord, Relation
from tests.cli import reports
from tests.support.clock import PATIENCE_S

HOSTILE = (
    '"]; evil -> m1; m1["',
    "</script><script>alert(1)</script>",
    'a\\"b\\',
    "\\N \\G \\l",
    "`**bold**` #quot; #35; &quot; &lt;b&gt;",
    "end",
    "%%{init: {}}%%",
    "m1 ==>|x| m2",
    "|pipe| {brace} (round) [square] <angle>",
    "\u202etxt.exe\u202c \u200bzero\x07",
    "数据库 🎉",
    "",
)


def record(memory_id: str, **fields: object) -> MemoryRecord:
    return reports.record(memory_id, **{"related": (), **fields})


def chained() -> Memories:
    """Three versions, one of them linked to another memory, one by itself, and a link to what is gone."""
    return Memories(
        memories=(
            record("mem_alone", content="By itself.", created_at="2026-05-05T00:00:00Z"),
            record(
                "mem_new",
                content="Newest.",
                created_at="2026-05-04T00:00:00Z",
                version=3,
                supersedes="mem_mid",
                related=(Edge("mem_other", "refines"), Edge("mem_gone", "relates-to")),
            ),
            record(
                "mem_mid",
                content="Middle.",
                created_at="2026-05-03T00:00:00Z",
                supersedes="mem_old",
                is_head=False,
            ),
            record("mem_other", content="Other.", created_at="2026-05-02T00:00:00Z"),
            record("mem_old", content="Oldest.", created_at="2026-05-01T00:00:00Z", is_head=False),
        ),
        total=5,
    )


def test_json_names_memories_and_links_in_an_order_of_their_own(daemon, forgectl):
    daemon.answers[ListMemories] = chained()

    graph = forgectl("graph", "--format", "json").json

    assert [(node["name"], node["id"], node["missing"]) for node in graph["nodes"]] == [
        ("m1", "mem_old", False),
        ("m2", "mem_other", False),
        ("m3", "mem_mid", False),
        ("m4", "mem_new", False),
        ("m5", "mem_alone", False),
        ("m6", "mem_gone", True),
    ]
    assert [(link["source"], link["relationship"], link["target"]) for link in graph["links"]] == [
        ("m3", "supersedes", "m1"),
        ("m4", "supersedes", "m3"),
        ("m4", "refines", "m2"),
        ("m4", "relates-to", "m6"),
    ]
    assert daemon.asked(ListMemories).all_versions


def test_dot_has_a_line_for_each_of_them(daemon, forgectl):
    daemon.answers[ListMemories] = chained()

    lines = forgectl("graph").out.splitlines()

    assert (lines[0], lines[-1]) == ("digraph memories {", "}")
    assert '  m4 [label="Newest.\\nrepo/patterns v3 mem_new"];' in lines
    assert '  m1 [label="Oldest.\\nrepo/patterns v1 mem_old", style=dashed];' in lines
    assert '  m4 -> m3 [label="supersedes", style=bold];' in lines
    assert '  m4 -> m2 [label="refines"];' in lines


def test_mermaid_has_a_line_for_each_of_them(daemon, forgectl):
    daemon.answers[ListMemories] = chained()

    lines = forgectl("graph", "--format", "mermaid").out.splitlines()

    assert lines[0] == "flowchart RL"
    assert '  m4["Newest.<br>repo/patterns v3 mem_new"]' in lines
    assert '  m4 ==>|"supersedes"| m3' in lines
    assert '  m6["(not there)<br>mem_gone"]:::older' in lines


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        (("--id", "mem_old", "--depth", "0"), {"mem_old"}),
        (("--id", "old", "--depth", "1"), {"mem_old", "mem_mid"}),
        (("--id", "mem_old"), {"mem_old", "mem_mid", "mem_new"}),
        (("--id", "mem_oth", "--depth", "2"), {"mem_other", "mem_new", "mem_mid", "mem_gone"}),
        (("--linked",), {"mem_old", "mem_mid", "mem_new", "mem_other", "mem_gone"}),
        (("--root", "/elsewhere"), set()),
        (("--root", "/w"), {"mem_old", "mem_mid", "mem_new", "mem_other", "mem_gone", "mem_alone"}),
    ],
)
def test_it_shows_what_is_near_a_memory_what_is_linked_or_one_root(daemon, forgectl, arguments, ids):
    daemon.answers[ListMemories] = chained()

    graph = forgectl("graph", *arguments, "--json").json

    assert {node["id"] for node in graph["nodes"]} == ids
    names = {node["name"] for node in graph["nodes"]}
    assert all({link["source"], link["target"]} <= names for link in graph["links"])
    assert daemon.asked(ListMemories).all_repos == ("--root" in arguments)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--id", "nobody"), 1, "no memory nobody here; --all-repos looks everywhere"),
        (("--id", "mem_o"), 2, "mem_o is the beginning of several ids: mem_old, mem_other"),
        (("--depth", "3"), 2, "--depth counts from a memory: say --id ID, too"),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_to_say(daemon, forgectl, arguments, code, told):
    daemon.answers[ListMemories] = chained()

    shown = forgectl("graph", *arguments)

    assert (shown.code, shown.out, shown.err) == (code, "", f"forgectl: {told}\n")


def test_an_id_that_two_roots_have_is_two_memories(daemon, forgectl):
    pair = (record("mem_a", supersedes="mem_b"), record("mem_a", root="/h", scope="user"))
    daemon.answers[ListMemories] = Memories(memories=pair, total=2)

    graph = forgectl("graph", "--id", "mem_a", "--json").json

    assert [(node["root"], node["id"]) for node in graph["nodes"]] == [
        ("/h", "mem_a"),
        ("/w", "mem_a"),
        ("/w", "mem_b"),
    ]


def test_a_store_of_many_pages_is_whole_and_nothing_comes_twice(daemon, forgectl):
    store = [record(f"mem_{number:04}", content="x") for number in range(2500)]

    def page(asked: ListMemories) -> Memories:
        start = max(asked.offset - 1, 0)  # one came meanwhile, and all others moved on
        return Memories(memories=tuple(store[start : start + asked.limit]), total=len(store) + 1)

    daemon.answers[ListMemories] = page

    nodes = forgectl("graph", "--json").json["nodes"]

    assert [node["id"] for node in nodes] == [each.id for each in store]


# --- foreign text --------------------------------------------------------------------------------------

_QUOTED = r'"(?:[^"\\]|\\["\\n])*"'
_DOT_LINE = re.compile(
    rf"digraph memories {{|}}|  (?:rankdir=RL|node \[.*\]|edge \[.*\]);"
    rf"|  m\d+ \[label={_QUOTED}(?:, style=dashed)?\];|  m\d+ -> m\d+ \[label={_QUOTED}(?:, style=bold)?\];"
)
_PLAIN = r'"(?:[\w .,:/\'()+\-]|<br>|#\d+;)+"'
_MERMAID_LINE = re.compile(
    rf"flowchart RL|  classDef older stroke-dasharray: 4 3|  m\d+\[{_PLAIN}\](?::::older)?"
    rf"|  m\d+ (?:==>|-->)\|{_PLAIN}\| m\d+",
    re.ASCII,
)


def hostile() -> Memories:
    memories = [
        record(
            f"mem_{number}{text[:9]}",
            content=text + "\nmore",
            category=text,
            supersedes=HOSTILE[number - 1],
            related=(Edge(f"mem_{number - 1}", text),),
        )
        for number, text in enumerate(HOSTILE)
    ]
    return Memories(memories=tuple(memories), total=len(memories))


@pytest.mark.parametrize(("form", "grammar"), [("dot", _DOT_LINE), ("mermaid", _MERMAID_LINE)])
def test_foreign_text_ends_no_quotes_and_makes_no_line(daemon, forgectl, form, grammar):
    daemon.answers[ListMemories] = hostile()

    lines = forgectl("graph", "--format", form).out.split("\n")[:-1]

    assert [line for line in lines if not grammar.fullmatch(line)] == []
    assert len([line for line in lines if re.match(r"  m\d+ ?\[", line)]) >= len(HOSTILE)
    assert "\u202e" not in "".join(lines)


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed: no `dot` to read it")
def test_graphviz_reads_it_and_shows_foreign_text_as_it_is(daemon, forgectl):
    daemon.answers[ListMemories] = hostile()

    text = forgectl("graph").out
    read = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, text=True, timeout=PATIENCE_S)
    drawn = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, timeout=PATIENCE_S)

    assert (read.returncode, read.stderr, drawn.stderr) == (0, "", "")
    nodes = [line for line in read.stdout.splitlines() if line.startswith("node ")]
    graph = forgectl("graph", "--json").json
    assert len(nodes) == len(graph["nodes"])
    assert len([line for line in read.stdout.splitlines() if line.startswith("edge ")]) == len(graph["links"])
    assert ">&quot;]; evil &#45;&gt; m1; m1[&quot;<" in drawn.stdout
    assert ">\\N \\G \\l<" in drawn.stdout
    assert "<script" not in drawn.stdout


def speaking() -> Memories:
    """Two memories that speak of one thing, which is related to another; a third of a thing of its own."""
    return Memories(
        memories=(
            record("mem_a", content="A.", entities=("Ledger", "once"), created_at="2026-05-01T00:00:00Z"),
            record(
                "mem_b",
                content="B.",
                entities=("`ledger`", "Policy 7"),
                relations=(Relation("ledger", "falls-under", "Policy 7"),),
                created_at="2026-05-02T00:00:00Z",
                supersedes="mem_old",
            ),
            record("mem_old", content="O.", entities=("Policy 7",), is_head=False),
        ),
        total=3,
    )


def test_what_newest_memories_speak_of_is_drawn_if_it_joins_anything(daemon, forgectl):
    daemon.answers[ListMemories] = speaking()

    graph = forgectl("graph", "--entities", "--format", "json").json

    things = {node["name"]: node["first_line"] for node in graph["nodes"] if node["kind"] == "entity"}
    memories = {node["id"]: node["name"] for node in graph["nodes"] if node["kind"] == "memory"}
    assert things == {"e1": "Ledger", "e2": "Policy 7"}
    assert [tuple(link.values()) for link in graph["links"] if link["relationship"] != "supersedes"] == [
        (memories["mem_a"], "e1", "speaks-of"),
        (memories["mem_b"], "e1", "speaks-of"),
        (memories["mem_b"], "e2", "speaks-of"),
        ("e1", "e2", "falls-under"),
    ]
    assert daemon.asked(ListMemories).entities


def test_things_have_a_shape_of_their_own(daemon, forgectl):
    daemon.answers[ListMemories] = speaking()

    dot = forgectl("graph", "--entities").out.splitlines()
    mermaid = forgectl("graph", "--entities", "--format", "mermaid").out.splitlines()

    (line,) = (line for line in dot if line.startswith("  e1 ["))
    assert line.startswith('  e1 [label="Ledger", shape=ellipse')
    assert '  e1 -> e2 [label="falls-under"];' in dot
    assert '  e1(["Ledger"]):::thing' in mermaid
    assert '  e1 -->|"falls-under"| e2' in mermaid


def test_without_being_asked_for_no_thing_is_drawn(daemon, forgectl):
    daemon.answers[ListMemories] = speaking()

    assert "Ledger" not in forgectl("graph").out
    assert not daemon.asked(ListMemories).entities


def test_a_thing_leads_from_one_memory_to_another(daemon, forgectl):
    daemon.answers[ListMemories] = speaking()

    graph = forgectl("graph", "--entities", "--id", "mem_a", "--depth", "2", "--format", "json").json

    assert {"mem_a", "mem_b"} <= {node["id"] for node in graph["nodes"]}
