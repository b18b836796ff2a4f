import json
from pathlib import Path

import pytest

from forged.memory import Related
from tests.evaluation import jsonl_set, loading
from tests.evaluation.dataset import DatasetError

SMALL = Path(__file__).parents[1] / "data" / "eval_small"

MEMORY = {
    "id": "mem_1",
    "root": "mill",
    "category": "patterns",
    "created_at": "2026-01-01T00:00:00Z",
    "content": "Text.",
}
QUERY = {"id": "q1", "root": "mill", "text": "What?", "evidence": ["mem_1"], "kind": "direct"}


@pytest.fixture
def written(tmp_path):
    """Write a set of these lines, each an object or raw text, and return its directory."""

    def write(memories=(MEMORY,), queries=(QUERY,), off_topic=None):
        files = {"memories.jsonl": memories, "queries.jsonl": queries, "off_topic.jsonl": off_topic}
        for name, lines in files.items():
            if lines is not None:
                texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
                (tmp_path / name).write_text("\n".join(texts))
        return tmp_path

    return write


def test_a_directory_becomes_repositories_and_what_the_user_carries_everywhere():
    found = loading.load(SMALL)

    assert found.name == "eval_small"
    assert [(r.name, len(r.items), len(r.queries)) for r in found.repositories] == [
        ("kite", 3, 2),
        ("mill", 5, 4),
    ]
    assert [item.memory.scope for item in found.user] == ["user", "user"]
    assert found.has_hypotheses
    assert len(found.off_topic) == 3


def test_front_matter_fields_of_a_memory_are_kept():
    found = {item.memory.id: item for item in loading.load(SMALL).repositories[1].items}
    newer, linked = found["mem_mill_03"].memory, found["mem_mill_04"].memory

    assert (newer.version, newer.supersedes, newer.created_at) == (2, "mem_mill_02", "2026-06-20T09:10:00Z")
    assert linked.related == (Related("mem_mill_05", "relates-to"),)
    assert found["mem_mill_04"].labels == {"mem_mill_04"}


def test_a_split_has_its_queries_and_messages_and_all_memories():
    found = loading.load(SMALL).part("test")

    assert {q.id for r in found.repositories for q in r.queries} == {"q_mill_2", "q_mill_4", "q_kite_2"}
    assert [message.text for message in found.off_topic] == [
        "zsh: command not found: qemu-img",
        "Silo doors are red.",
    ]
    assert sum(len(r.items) for r in found.repositories) == 8


def test_what_has_no_split_belongs_to_each(written):
    found = loading.load(written(off_topic=[{"text": "Hi."}]))

    assert found.part("dev") == found.part("test") == found.part("all")


@pytest.mark.parametrize(
    ("memories", "queries", "complaint"),
    [
        ([MEMORY, MEMORY], [QUERY], "is there twice"),
        ([{**MEMORY, "id": "../x"}], [], "is no id"),
        ([{**MEMORY, "created_at": "yesterday"}], [QUERY], "created_at of mem_1 is no time"),
        ([{**MEMORY, "category": "gossip"}], [QUERY], "memories.jsonl, line 1"),
        ([MEMORY], ["", "{"], "queries.jsonl, line 2"),
        ([MEMORY], ["\udcff".encode("utf-8", "surrogateescape").decode("latin-1")], "queries.jsonl, line 1"),
        ([MEMORY], [{**QUERY, "evidence": []}], "has no evidence"),
        ([MEMORY], [{**QUERY, "root": "mlil"}], "no repository of the set"),
        ([MEMORY], [{**QUERY, "root": "user"}], "no repository of the set"),
        ([MEMORY], [{**QUERY, "evidence": ["mem_2"]}], "which it cannot see"),
        (
            [MEMORY, {**MEMORY, "id": "mem_2", "supersedes": "mem_1"}],
            [QUERY],
            "which a newer version replaces",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_set_that_would_measure_nonsense_is_refused_with_its_place(written, memories, queries, complaint):
    with pytest.raises(DatasetError, match=complaint):
        loading.load(written(memories, queries))


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"memories": None}, r"holds no memories\.jsonl"),
        ({"queries": None}, r"queries\.jsonl cannot be read"),
        (
            {
                "memories": [MEMORY, {**MEMORY, "id": "mem_2", "root": "kite"}],
                "queries": [{**QUERY, "evidence": ["mem_2"]}],
            },
            "cannot see",
        ),
    ],
)
def test_a_directory_that_lacks_a_file_or_asks_across_repositories_is_no_set(written, files, complaint):
    with pytest.raises(DatasetError, match=complaint):
        loading.load(written(**files))


def test_off_topic_messages_of_another_file_are_read_line_by_line(tmp_path):
    (tmp_path / "mine").write_text('{"text": "Hi."}\n\n{"text": "Ho.", "split": "dev"}\n')

    assert [message.split for message in jsonl_set.load_off_topic(tmp_path / "mine")] == ["", "dev"]
