import io

import msgspec
import pytest
from click.shell_completion import ShellComplete

from forged.cli import commands
from forged.cli.tables import cells
from forged.memory import Origin
from forged_client.protocol import (
    Category,
    Chain,
    Failed,
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

    assert (shown.out, shown.err) == ("", "there are 4 memories, and --offset 9 skips all of them\n")


def test_a_newline_in_a_field_cannot_forge_a_line(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(memories=(reports.record("mem_a\nmem_b"),), total=1)

    assert len(forgectl("list").out.splitlines()) == 1


def test_show_prints_cues_and_says_which_evidence_changed(daemon, forgectl):
    shown = reports.record(
        cues=("cutting a release",), evidence=("src/a.py:3-9", "Makefile"), stale=("src/a.py",)
    )
    daemon.answers |= {GetMemories: Memories(memories=(shown,)), History: Chain(memories=(shown,))}

    out = forgectl("show", "mem_a").out

    assert "\ncue: cutting a release\n" in out
    assert "\nevidence src/a.py:3-9, changed since then\nevidence Makefile\n" in out


def test_what_is_there_is_shown_with_what_is_missing(daemon, forgectl):
    daemon.answers |= {
        GetMemories: Memories(memories=(reports.record(),), missing=("mem_none",)),
        History: Chain(memories=(reports.record(),)),
    }

    shown, as_json = (forgectl("show", "mem_a", "mem_none", *more) for more in ((), ("--json",)))

    assert shown.code == as_json.code == 1
    assert "Wrap errors." in shown.out
    assert "mem_none" in shown.err
    assert as_json.json["missing"] == ["mem_none"]


def test_show_says_each_fact_once_with_the_path(daemon, forgectl):
    one = reports.record(session_id="explicit", origin="explicit", related=())
    one = msgspec.structs.replace(one, updated_at=one.created_at)
    chain = Chain(memories=(msgspec.structs.replace(one, path="/w/.forge/memory/mem_a.md"),))
    daemon.answers |= {GetMemories: Memories(memories=(one,)), History: chain}

    assert forgectl("show", "mem_a").out.splitlines() == [
        "mem_a",
        "repo/patterns, version 1",
        "path /w/.forge/memory/mem_a.md",
        "created 2026-05-01 10:00",
        "origin explicit",
        "",
        "Wrap errors.",
        "With %w.",
    ]
    asked = daemon.asked(History)
    assert (asked.memory_id, asked.scope, asked.agent_id) == ("mem_a", "repo", "")


def test_show_prints_the_versions_oldest_first_with_the_current_one_marked(daemon, forgectl):
    versions = (
        reports.record("mem_1", is_head=False, origin="typed"),
        reports.record("mem_2", version=2, origin="explicit", path="/p"),
    )
    daemon.answers |= {
        GetMemories: Memories(memories=versions[1:]),
        History: Chain(memories=versions, flags=("fork",)),
    }

    assert forgectl("show", "mem_2").out.splitlines()[-4:] == [
        "versions",
        "   v1  mem_1  2026-05-01 10:00  explicit, typed  Wrap errors. With %w.",
        "*  v2  mem_2  2026-05-01 10:00  explicit         Wrap errors. With %w.",
        "problems of these versions: fork",
    ]
    (memory,) = forgectl("show", "mem_2", "--json").json["memories"]
    assert (memory["id"], memory["path"], memory["flags"]) == ("mem_2", "/p", ["fork"])
    assert [each["id"] for each in memory["versions"]] == ["mem_1", "mem_2"]


def test_a_memory_of_a_session_has_no_versions_to_ask_for(daemon, forgectl):
    daemon.answers[GetMemories] = Memories(memories=(reports.record(scope="session"),))

    assert "versions" not in forgectl("show", "mem_a").out
    assert daemon.requests_of(History) == []


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
    assert "Erase mem_notes (1 version) for ever?" in shown.err
    assert "mem_notes-2" not in shown.err


def several(daemon):
    """A daemon with two memories, one of two versions; `mem_x` is none."""
    chains = {
        "mem_1": Chain(memories=(reports.record("mem_0", is_head=False), reports.record("mem_1"))),
        "mem_2": Chain(memories=(reports.record("mem_2", content="Use tabs."),)),
    }
    chains["mem_0"] = chains["mem_1"]
    unknown = Failed(code="not_found", message="no memory 'mem_x' in this workspace")
    daemon.answers |= {
        History: lambda asked: chains.get(asked.memory_id, unknown),
        Forget: lambda asked: msgspec.structs.replace(
            GONE, ids=(asked.memory_id,), cut_sentences=1, cut_events=1
        ),
    }


def test_several_memories_are_shown_and_forgotten_after_one_question(daemon, forgectl, monkeypatch):
    several(daemon)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    shown = forgectl("forget", "mem_0", "mem_1", "mem_2", interactive=True)

    assert shown.code == 0
    assert all(text in shown.err for text in ("mem_0", "mem_1", "Use tabs."))
    assert shown.err.count("[y/N]") == 1
    assert "Forget 2 memories (3 versions, 7 days in the trash)?" in shown.err
    assert shown.out.splitlines() == [
        "forgotten: mem_0, mem_2",
        "in the trash for 7 days: /state/trash",
        "removed from capture events that are pending or failed: 2 sentences in 2 events",
        "not removed: git history; remove these yourself",
    ]
    assert [each.memory_id for each in daemon.requests_of(Forget)] == ["mem_0", "mem_2"]


@pytest.mark.parametrize("yes", [(), ("-y",)])
def test_one_wrong_id_among_several_and_nothing_is_removed(daemon, forgectl, yes):
    several(daemon)

    shown = forgectl("forget", "mem_1", "mem_x", *yes, interactive=True)

    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "forgectl: no memory 'mem_x' in this workspace; nothing was forgotten\n"
    assert daemon.requests_of(Forget) == []


def test_a_removal_that_stops_halfway_says_what_is_gone(daemon, forgectl):
    several(daemon)
    refused = Failed(code="conflict", message="busy")
    daemon.answers[Forget] = lambda asked: refused if asked.memory_id == "mem_2" else GONE

    shown = forgectl("forget", "mem_1", "mem_2", "--yes")

    assert (shown.code, shown.out) == (1, "")
    assert shown.err == "forgotten before that: mem_1, mem_2\nforgectl: busy\n"


def test_what_is_only_in_the_trash_can_be_erased(daemon, forgectl, monkeypatch):
    several(daemon)
    daemon.answers[Restore] = Restored(restorable=(Trashed(id="mem_x", ids=("mem_x",), first_line="Gone."),))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    shown = forgectl("forget", "mem_x", "--now", interactive=True)

    assert shown.code == 0
    assert shown.err.startswith("Gone.\nErase mem_x (1 version) for ever?")


# --- list, narrowed --------------------------------------------------------------------------------------


def test_every_filter_reaches_the_daemon(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(status="empty")
    narrowed = ("--since", "2026-05-01T00:00Z", "--session", "s-", "--origin", "typed", "--scope", "user")
    shown = forgectl("list", *narrowed, "--stale", "--all-repos", "--category", "patterns")

    assert shown.err == "no memory matches all filters\n"
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
    reported = "'gossip' is not one of 'typed', 'explicit', 'agreed', 'model'"
    shown = forgectl("list", "--origin", "gossip")

    assert shown.code == 2
    assert reported in shown.err
    assert reported in forgectl("list", "--origin", "gossip", "--json").json["error"]["message"]


SCOPES = "'repo', 'user', 'agent', 'session', 'org'"
CATEGORIES = ", ".join(f"'{each}'" for each in Category)


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        ("list --scope foo", SCOPES),
        ("remember x --scope foo", SCOPES),
        ("show x --scope foo", SCOPES),
        ("search x --scope foo", "'repo', 'user', 'agent', 'session', 'org'"),
        ("move x foo", "'repo', 'user', 'agent'"),
        ("remember x --category foo", CATEGORIES),
        ("edit x --category foo", CATEGORIES),
        ("remember x --type foo", "'fact', 'preference', 'summary', 'learning', 'state'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_true_set(no_daemon, forgectl, arguments, allowed):
    shown = forgectl(*arguments.split())

    assert shown.code == 2
    assert f"'foo' is not one of {allowed}" in " ".join(shown.err.split())
    verb = arguments.split()[0]
    assert all(each.strip("'") in forgectl(verb, "--help").out for each in allowed.split(", "))


def test_a_category_that_no_memory_has_is_refused_unless_it_is_one_of_the_six(daemon, forgectl):
    daemon.answers[ListMemories] = Memories(status="empty")

    wrong, empty = forgectl("list", "--category", "foo"), forgectl("list", "--category", "patterns")

    assert (wrong.code, empty.code) == (2, 0)
    assert wrong.err == (
        "forgectl: no memory has category 'foo'; the categories are coding-preferences,"
        " project-conventions, architectural-decisions, user-facts, corrections, patterns\n"
    )
    daemon.answers[ListMemories] = Memories(memories=(reports.record(category="foo"),), total=1)
    assert forgectl("list", "--category", "foo").code == 0
    assert "coding-preferences" in forgectl("list", "--help").out


def test_in_a_pipe_a_text_is_whole_and_on_a_terminal_it_is_cut(daemon, forgectl):
    long = reports.record(content="word " * 40 + "\n\nthe end")
    daemon.answers[ListMemories] = Memories(memories=(long,), total=1)

    assert "word word the end\n" in forgectl("list").out
    assert "the end" not in forgectl("list", width=120).out


def test_long_says_when_whence_from_which_session_and_what_may_be_outdated(daemon, forgectl):
    one = reports.record(session_id="s-1", origin="typed", root="/x/app", stale=("a.py", "b.py"))
    may_be = "    may be outdated: a.py, b.py changed"
    daemon.answers[ListMemories] = Memories(memories=(one,), total=1)

    lines = forgectl("list", "--long", "--all-repos").out.splitlines()

    assert lines[0].startswith("mem_a  repo/patterns  v1")
    assert lines[1:] == [
        "    Wrap errors. With %w.",
        "    2026-05-01 10:00, typed, session s-1",
        may_be,
        "    /x/app",
    ]


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
    daemon.answers |= {GetMemories: Memories(memories=found[:1]), History: Chain(memories=found)}

    for verb in (("list",), ("list", "--long"), ("list", "--all-repos"), ("show", "mem_6f0e5d00")):
        out = forgectl(*verb, width=width).out
        shown = out.partition("\nversions\n")[2] or out
        assert max(map(cells, shown.splitlines())) <= width, verb
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
