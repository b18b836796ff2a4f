import io
import time

import pytest
from click.shell_completion import ShellComplete

from forged.cli import commands, memories
from forged.cli.tables import cells
from forged.memory import Category, Origin, Scope
from forged_client.protocol import (
    TYPES,
    Chain,
    Edge,
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

WRITTEN = Remembered(memory_id="mem_n", version=2, path="/w/.forge/memory/mem_n.md", generation="e:9")
GONE = Forgotten(
    ids=("mem_1", "mem_2"), trash="/state/trash", unreachable=("git history",), generation="e:10"
)


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


def test_a_page_behind_the_last_memory_says_so(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(total=4)

    shown = forgectl("list", "--offset", "9")

    assert (shown.out, shown.err) == ("", "no more than 4 memories: the offset leaves all out\n")


def test_where_memory_is_off_nobody_says_that_there_is_none(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(status="disabled", reason="switched off")

    shown = forgectl("list")

    assert (shown.code, shown.out, shown.err) == (0, "", "forgectl: memory is disabled: switched off\n")


def test_a_newline_in_a_field_cannot_forge_a_line(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(memories=(reports.record("mem_a\nmem_b"),), total=1)

    assert len(forgectl("list").out.splitlines()) == 1


def test_show_prints_fields_and_the_text_whole(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(memories=(reports.record(supersedes="mem_0", is_head=False),))

    out = forgectl("show", "mem_a").out

    assert out.startswith("mem_a  (superseded)\nrepo/patterns, version 1\n")
    assert "supersedes mem_0\nrefines mem_b\n" in out
    assert out.endswith("\n\nWrap errors.\nWith %w.\n")


def test_show_prints_cues_and_says_which_evidence_changed(daemon, forgectl):
    shown = reports.record(
        cues=("cutting a release",), evidence=("src/a.py:3-9", "Makefile"), stale=("src/a.py",)
    )
    daemon.answers[GetMemories] = Memories(memories=(shown,))

    out = forgectl("show", "mem_a").out

    assert "\ncue: cutting a release\n" in out
    assert "\nstands on src/a.py:3-9, which changed since\nstands on Makefile\n" in out


def test_list_asks_for_what_is_stale(daemon, forgectl):
    daemon.answers[ListMemories] = Memories()

    shown = forgectl("list", "--stale")

    assert daemon.asked(ListMemories).stale
    assert shown.err == "no memory stands on a file that changed\n"


def test_remember_takes_cues_and_evidence(daemon, forgectl):
    daemon.answers[Remember] = WRITTEN

    forgectl("remember", "x", "--cue", "a b", "--cue", "c", "--evidence", "Makefile:3")

    asked = daemon.asked(Remember)
    assert (asked.cues, asked.evidence) == (("a b", "c"), ("Makefile:3",))


def test_a_missing_id_is_not_found_and_nothing_else(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(status="empty", missing=("mem_none",))

    shown = forgectl("show", "mem_none", "--json")

    assert shown.code == 1
    assert shown.json["error"] == {"code": "not_found", "message": "no memory mem_none in this workspace"}


def test_what_is_there_is_shown_beside_what_is_missing(daemon, forgectl):
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


def test_remember_says_id_version_path_and_generation(daemon, forgectl):
    daemon.answers[Remember] = WRITTEN
    related = ("--related", "mem_b", "--related", "c:refines")

    shown = forgectl("remember", "Wrap errors.", "--supersedes", "mem_o", *related)

    assert shown.out.splitlines() == [
        "remembered mem_n, version 2",
        "path /w/.forge/memory/mem_n.md",
        "generation e:9",
    ]
    asked = daemon.asked(Remember)
    assert (asked.content, asked.scope, asked.supersedes) == ("Wrap errors.", "", "mem_o")
    assert asked.related == (Edge("mem_b", "relates-to"), Edge("c", "refines"))


def test_remember_reads_a_dash_from_stdin(daemon, forgectl, piped):
    daemon.answers[Remember] = WRITTEN
    piped("line\nline\n")

    assert forgectl("remember", "-", "--json").json["memory_id"] == "mem_n"
    assert daemon.asked(Remember).content == "line\nline\n"


def test_a_write_that_was_not_done_is_a_failure_even_if_memory_is_disabled(daemon, forgectl):
    daemon.answers[Remember] = Remembered(status="disabled", reason="memory.enabled is false")

    assert forgectl("remember", "x").code == 69


def test_forget_with_yes_prints_the_receipt(daemon, forgectl):
    daemon.answers[Forget] = GONE

    shown = forgectl("forget", "mem_2", "--yes")

    assert shown.out.splitlines() == [
        "forgotten: mem_1, mem_2",
        "in the trash for 7 days: /state/trash",
        "not reached: git history",
        "generation e:10",
    ]
    assert (daemon.asked(Forget).version_only, daemon.asked(Forget).erase_now) == (False, False)


@pytest.mark.parametrize(("answer", "done"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_forget_asks_a_person_and_shows_what_would_go(daemon, forgectl, monkeypatch, answer, done):
    daemon.answers[History] = Chain(memories=(reports.record("mem_1"), reports.record("mem_2")))
    daemon.answers[Forget] = GONE
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))

    shown = forgectl("forget", "mem_2", "--now", interactive=True)

    assert shown.code == (0 if done else 1)
    assert "2 versions" in shown.err
    assert "erase it for ever" in shown.err
    assert any(isinstance(request, Forget) for request in daemon.requests) is done


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


def test_what_is_offered_is_what_the_contract_lists():
    (origin,) = [each for each in memories.list_command.params if each.name == "origin"]
    offered = (memories._scopes, memories._categories, memories._types)
    types = [each for some in TYPES.values() for each in some]

    assert list(origin.type.choices) == list(Origin)
    assert [each(None, None, "") for each in offered] == [list(Scope), list(Category), types]
    assert memories._scopes(None, None, "a") == ["agent"]


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
    told = "'gossip' is not one of 'typed', 'explicit', 'model', 'agent'"
    shown = forgectl("list", "--origin", "gossip")

    assert shown.code == 2
    assert told in shown.err
    assert told in forgectl("list", "--origin", "gossip", "--json").json["error"]["message"]


def test_with_all_repos_each_memory_has_its_repository_told_from_others_of_its_name(daemon, forgectl):
    of = [
        ("mem_a", "/x/app", "repo"),
        ("mem_b", "/y/app", "repo"),
        ("mem_c", "/z/lib", "repo"),
        ("mem_d", "/h", "user"),
    ]
    found = tuple(reports.record(name, root=root, scope=scope) for name, root, scope in of)
    daemon.answers[ListMemories] = Memories(memories=found, total=4)

    places = [line.split()[4] for line in forgectl("list", "--all-repos").out.splitlines()]

    assert places == ["/x/app", "/y/app", "lib", "you"]


def test_long_says_when_whence_from_which_session_and_what_may_be_outdated(daemon, forgectl):
    one = reports.record(session_id="s-1", origin="typed", root="/x/app", stale=("a.py", "b.py"))
    may_be = "    may be outdated: a.py, b.py changed"
    daemon.answers[ListMemories] = Memories(memories=(one,), total=1)

    lines = forgectl("list", "--long", "--all-repos").out.splitlines()

    assert lines[0].startswith("mem_a  repo/patterns  v1")
    assert lines[1:] == ["    Wrap errors.", "    2026-05-01 10:00, typed, session s-1", may_be, "    /x/app"]


@pytest.mark.parametrize("verb", [("list",), ("list", "--long"), ("history", "mem_a")])
def test_a_day_is_the_one_on_the_wall_as_in_since(daemon, forgectl, monkeypatch, verb):
    late = reports.record(created_at="2026-05-01T23:30:00Z")
    daemon.answers[ListMemories] = Memories(memories=(late,), total=1)
    daemon.answers[History] = Chain(memories=(late,))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()

    assert "2026-05-02" in forgectl(*verb).out


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
