from forged_client.protocol import Chain, Failed, GetMemories, History, ListMemories, Memories
from tests.support import reports


def test_list_is_one_line_a_memory(daemon, forgectl):
    pair = (reports.record(), reports.record("mem_longer", content="# Title\nx", version=3))
    daemon.answers[ListMemories] = Memories(memories=pair, total=5)

    shown = forgectl("list", "--scope", "repo", "--all-versions", "--limit", "2", "--offset", "1")

    assert shown.out.splitlines() == [
        "mem_a       repo/patterns  v1  2026-05-01  Wrap errors.",
        "mem_longer  repo/patterns  v3  2026-05-01  # Title",
    ]
    assert "and 2 more" in shown.err
    asked = daemon.asked(ListMemories)
    assert (asked.scope, asked.all_versions, asked.limit, asked.offset) == ("repo", True, 2, 1)


def test_a_newline_in_a_field_cannot_forge_a_line(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(memories=(reports.record("mem_a\nmem_b"),), total=1)

    assert len(forgectl("list").out.splitlines()) == 1


def test_show_prints_fields_and_the_text_whole(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(memories=(reports.record(supersedes="mem_0", is_head=False),))

    out = forgectl("show", "mem_a").out

    assert out.startswith("mem_a  (superseded)\nrepo/patterns, version 1\n")
    assert "supersedes mem_0\nrefines mem_b\n" in out
    assert out.endswith("\n\nWrap errors.\nWith %w.\n")


def test_a_missing_id_is_not_found_and_nothing_else(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(status="empty", missing=("mem_none",))

    shown = forgectl("show", "mem_none", "--json")

    assert shown.code == 1
    assert shown.json["error"]["code"] == "not_found"
    assert "mem_none" in shown.json["error"]["message"]


def test_what_is_there_is_shown_beside_what_is_missing(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(memories=(reports.record(),), missing=("mem_none",))

    shown = forgectl("show", "mem_a", "mem_none")
    as_json = forgectl("show", "mem_a", "mem_none", "--json")

    assert shown.code == as_json.code == 1
    assert "Wrap errors." in shown.out
    assert "mem_none" in shown.err
    assert as_json.json["missing"] == ["mem_none"]


def test_history_is_oldest_first_with_the_head_marked(daemon, forgectl):
    versions = (reports.record("mem_1", is_head=False), reports.record("mem_2", version=2))
    daemon.answers[History] = Chain(memories=versions, flags=("fork",))

    shown = forgectl("history", "mem_1")

    assert shown.out.splitlines() == [
        "   v1  mem_1  2026-05-01T10:00:00  explicit  Wrap errors.",
        "*  v2  mem_2  2026-05-01T10:00:00  explicit  Wrap errors.",
        "odd about this chain: fork",
    ]


def test_history_of_an_unknown_id_is_not_found(daemon, forgectl):
    daemon.answers[History] = Failed(status="error", code="not_found", message="no memory 'mem_x'")

    shown = forgectl("history", "mem_x")

    assert (shown.code, shown.err) == (1, "forgectl: no memory 'mem_x'\n")
