"""Verbs on one memory, at a shell."""

from __future__ import annotations

import click
import pytest

from forged_client.protocol import (
    Chain,
    Edge,
    Edit,
    Failed,
    GetMemories,
    History,
    Memories,
    Move,
    Moved,
    Remembered,
    Restore,
    Restored,
    Trashed,
)
from tests.cli import reports

WRITTEN = Remembered(
    memory_id="mem_n",
    version=3,
    path="/w/mem_n.md",
    generation="e:9",
    replaced="mem_b",
    base_moved=True,
    scope="repo",
    category="patterns",
)
LINES = [
    "remembered mem_n, version 3, repo/patterns",
    "replaces mem_b, which was newer than the one named",
    "path /w/mem_n.md",
]


@pytest.mark.parametrize(
    ("given", "asked_for"),
    [
        (("--cue", "a b"), (("a b",), None)),
        (("--cue", ""), ((), None)),
        (("--evidence", "a.py"), (None, ("a.py",))),
    ],
)
def test_edit_changes_cues_and_evidence_without_an_editor(daemon, forgectl, given, asked_for):
    daemon.answers[Edit] = WRITTEN

    assert forgectl("edit", "mem_a", *given).code == 0
    asked = daemon.asked(Edit)
    assert (asked.content, asked.cues, asked.evidence) == (None, *asked_for)


def test_edit_opens_an_editor_and_names_the_version_that_it_showed(daemon, forgectl, monkeypatch):
    daemon.answers[History] = Chain(memories=(reports.record(is_head=True),))
    daemon.answers[Edit] = WRITTEN
    monkeypatch.setattr(click, "edit", lambda text, extension: text + "And more.\n")

    shown = forgectl("edit", "mem_a", interactive=True)

    assert shown.code == 0
    asked = daemon.asked(Edit)
    assert (asked.content, asked.base) == ("Wrap errors.\nWith %w.\nAnd more.\n", "mem_a")


def test_an_editor_that_changes_nothing_writes_nothing(daemon, forgectl, monkeypatch):
    daemon.answers[History] = Chain(memories=(reports.record(is_head=True),))
    monkeypatch.setattr(click, "edit", lambda text, extension: text)

    shown = forgectl("edit", "mem_a", interactive=True)

    assert (shown.code, shown.out) == (1, "")
    assert "nothing was written" in shown.err


def test_where_no_one_can_type_edit_wants_a_text(daemon, forgectl):
    shown = forgectl("edit", "mem_a")

    assert shown.code == 2
    assert "TEXT" in shown.err


@pytest.mark.parametrize("how", ["editor", "stdin"])
def test_a_text_that_is_refused_is_not_lost(daemon, forgectl, monkeypatch, piped, *, tmp_path, how):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    daemon.answers[History] = Chain(memories=(reports.record(is_head=True),))
    daemon.answers[Edit] = Failed(code="conflict", message="version 4 (mem_z) is the newest now")
    monkeypatch.setattr(click, "edit", lambda text, extension: "typed for an hour")
    piped("typed for an hour")

    shown = forgectl("edit", "mem_a", *(["-"] if how == "stdin" else []), interactive=how == "editor")

    (kept,) = tmp_path.glob("forgectl-edit-*/text.md")
    assert kept.read_text() == "typed for an hour"
    assert shown.code == 1
    assert str(kept) in shown.err
    assert "mem_z" in shown.err


def test_edit_adds_and_removes_links_without_an_editor(daemon, forgectl):
    daemon.answers[Edit] = WRITTEN
    links = ("--relate", "mem_b", "--relate", "mem_c:refines", "--unrelate", "mem_d")

    shown = forgectl("edit", "mem_a", *links, "--scope", "repo")

    assert shown.out.splitlines() == LINES
    asked = daemon.asked(Edit)
    assert asked.relate == (Edge("mem_b"), Edge("mem_c", "refines"))
    assert (asked.content, asked.unrelate, asked.scope) == (None, ("mem_d",), "repo")


def test_move_says_what_became_of_it(daemon, forgectl):
    daemon.answers[Move] = Moved(
        memory_id="mem_n", path="/u/mem_n.md", scope="user", category="corrections", ids=("mem_a",),
        trash="/t", unlinked=2, generation="e:9",
    )  # fmt: skip

    shown = forgectl("move", "mem_a", "user")

    assert shown.out.splitlines() == [
        "moved to mem_n, user/corrections",
        "path /u/mem_n.md",
        "in the trash for 7 days: mem_a",
        "links removed, as they hold in one scope only: 2",
    ]
    assert daemon.asked(Move).to == "user"


def test_restore_lists_and_brings_back(daemon, forgectl):
    daemon.answers[Restore] = Restored(
        restorable=(
            Trashed(
                id="mem_a", ids=("mem_0", "mem_a"), scope="repo", root="/w", why="forget",
                taken_at="2026-01-02T03:04:05Z", until="2026-01-09T03:04:05Z", first_line="Wrap errors.",
            ),
        )
    )  # fmt: skip
    listed = forgectl("restore")
    daemon.answers[Restore] = Restored(memories=(reports.record(is_head=True),), generation="e:9")
    back = forgectl("restore", "mem_a")

    assert listed.out == "mem_a  repo  2 files  forget 2026-01-02 03:04  until 2026-01-09  Wrap errors.\n"
    assert back.out.splitlines()[0] == "restored: mem_a"
    assert "generation" not in back.out


def test_a_conflict_of_versions_is_named_with_the_commands_that_end_it(daemon, forgectl):
    pair = (
        reports.record("mem_b", is_head=True, concurrent_heads=("mem_a",)),
        reports.record("mem_a", is_head=True, concurrent_heads=("mem_b",)),
    )
    daemon.answers |= {
        GetMemories: Memories(memories=pair[1:]),
        History: Chain(memories=pair, flags=("fork",)),
    }

    out = forgectl("show", "mem_a").out

    assert "in conflict with mem_b: neither version replaces the other" in out
    assert "2 versions are in conflict; choose the one that replaces the other:" in out
    assert "forgectl edit mem_a --relate mem_b:supersedes" in out
    assert "forgectl forget --this-version mem_b" in out
