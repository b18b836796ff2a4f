import io

import pytest
from click.shell_completion import ShellComplete

from forged.cli import commands
from forged.cli.tables import cells
from forged.memory import Origin
from forged_client.protocol import (
    Chain,
    Forget,
    Forgotten,
    GetMemories,
    History,
    ListMemories,
    Memories,
    Remember,
    Remembered,
    Restore,
    Restored,
    Trashed,
)
from tests.cli import reports

GONE = Forgotten(
    ids=("mem_1", "mem_2"), trash="/state/trash", unreachable=("git history",), generation="e:10"
)


def test_a_page_behind_the_last_memory_says_so(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(total=4)

    shown = forgectl("list", "--offset", "9")

    assert (shown.out, shown.err) == ("", "no more than 4 memories: the offset leaves all out\n")


def test_a_newline_in_a_field_cannot_forge_a_line(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(memories=(reports.record("mem_a\nmem_b"),), total=1)

    assert len(forgectl("list").out.splitlines()) == 1


def test_show_prints_cues_and_says_which_evidence_changed(daemon, forgectl):
    shown = reports.record(
        cues=("cutting a release",), evidence=("src/a.py:3-9", "Makefile"), stale=("src/a.py",)
    )
    daemon.answers[GetMemories] = Memories(memories=(shown,))

    out = forgectl("show", "mem_a").out

    assert "\ncue: cutting a release\n" in out
    assert "\nstands on src/a.py:3-9, which changed since\nstands on Makefile\n" in out


def test_what_is_there_is_shown_next_to_what_is_missing(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(memories=(reports.record(),), missing=("mem_none",))

    shown, as_json = (forgectl("show", "mem_a", "mem_none", *more) for more in ((), ("--json",)))

    assert shown.code == as_json.code == 1
    assert "Wrap errors." in shown.out
    assert "mem_none" in shown.err
    assert as_json.json["missing"] == ["mem_none"]


def test_history_is_oldest_first_with_the_head_marked(daemon, forgectl):
    versions = (
        reports.record("mem_1", is_head=False, origin="typed"),
        reports.record("mem_2", version=2, origin="model"),
    )
    daemon.answers[History] = Chain(memories=versions, flags=("fork",))

    assert forgectl("history", "mem_1").out.splitlines() == [
        "   v1  mem_1  2026-05-01 10:00  explicit, typed  Wrap errors.",
        "*  v2  mem_2  2026-05-01 10:00  explicit, model  Wrap errors.",
        "odd about this chain: fork",
    ]


def test_a_write_that_was_not_done_is_a_failure_even_if_memory_is_disabled(daemon, forgectl):
    daemon.answers[Remember] = Remembered(status="disabled", reason="memory.enabled is false")

    assert forgectl("remember", "x").code == 69


@pytest.mark.parametrize("named", ["mem_notes", "notes"])
def test_a_person_is_asked_about_what_will_be_erased(daemon, forgectl, monkeypatch, named):
    """An id in the trash that is named whole, and not one on disk that only begins so."""
    daemon.answers[History] = Chain(memories=(reports.record("mem_notes-2"),))
    daemon.answers[Restore] = Restored(restorable=(Trashed(id="mem_notes", ids=("mem_notes",)),))
    daemon.answers[Forget] = GONE
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    shown = forgectl("forget", named, "--now", interactive=True)

    assert shown.code == 0
    assert "Erase mem_notes (1 version) from the trash for ever?" in shown.err
    assert "mem_notes-2" not in shown.err


# --- list, narrowed --------------------------------------------------------------------------------------


def test_every_filter_reaches_the_daemon(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(status="empty")
    narrowed = ("--since", "2026-05-01T00:00Z", "--session", "s-", "--origin", "typed", "--scope", "user")
    shown = forgectl("list", *narrowed, "--stale", "--all-repos", "--category", "patterns")

    assert shown.err == "no memory matches all that you ask for\n"
    assert daemon.asked(ListMemories) == ListMemories(
        id=daemon.asked(ListMemories).id,
        seen={"/w": ""},
        workspace="/w",
        scope="user",
        category="patterns",
        since="2026-05-01T00:00:00Z",
        session_id="s-",
        origin="typed",
        stale=True,
        all_repos=True,
    )


def test_a_filter_that_is_none_is_refused_with_those_that_are(no_daemon, forgectl):
    reported = "'gossip' is not one of 'typed', 'explicit', 'model', 'agent'"
    shown = forgectl("list", "--origin", "gossip")

    assert shown.code == 2
    assert reported in shown.err
    assert reported in forgectl("list", "--origin", "gossip", "--json").json["error"]["message"]


def test_long_says_when_whence_from_which_session_and_what_may_be_outdated(daemon, forgectl):
    one = reports.record(session_id="s-1", origin="typed", root="/x/app", stale=("a.py", "b.py"))
    may_be = "    may be outdated: a.py, b.py changed"
    daemon.answers[ListMemories] = Memories(memories=(one,), total=1)

    lines = forgectl("list", "--long", "--all-repos").out.splitlines()

    assert lines[0].startswith("mem_a  repo/patterns  v1")
    assert lines[1:] == ["    Wrap errors.", "    2026-05-01 10:00, typed, session s-1", may_be, "    /x/app"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_of_memories_fit_the_terminal(daemon, forgectl, width):
    ids = [f"mem_6f0e5d{at:02}-1111-4222-8333-444455556666" for at in range(3)]
    texts = ["数据库迁移必须能够回滚。" * 6, "🎉 " * 40, "plain words " * 12]
    found = tuple(
        reports.record(
            each, content=text, category="architectural-decisions", trigger="explicit", origin="typed"
        )
        for each, text in zip(ids, texts, strict=True)
    )
    daemon.answers[ListMemories] = Memories(memories=found, total=3)
    daemon.answers[History] = Chain(memories=found)

    for verb in (("list",), ("list", "--long"), ("list", "--all-repos"), ("history", "mem_6f0e5d00")):
        out = forgectl(*verb, width=width).out
        assert max(map(cells, out.splitlines())) <= width, verb
        assert all(each[:12] in out for each in ids), verb


def completed(forgectl_words: str, begun: str) -> list[str]:
    """What a shell is offered for the last word."""
    words = forgectl_words.split()
    found = ShellComplete(commands.forgectl, {}, "forgectl", "_FORGECTL_COMPLETE").get_completions(
        words, begun
    )
    return [each.value for each in found]


@pytest.mark.parametrize(
    ("words", "begun", "offered"),
    [
        ("list --origin", "", list(Origin)),
        ("list --scope", "u", ["user"]),
        ("list --category", "co", ["coding-preferences", "corrections"]),
        ("list --since", "", ["today", "yesterday", "2h", "7d"]),
        ("captured --since", "y", ["yesterday"]),
    ],
)
def test_a_shell_completes_the_values_of_filters(words, begun, offered):
    assert completed(words, begun) == offered
