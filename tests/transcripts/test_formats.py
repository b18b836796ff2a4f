"""Transcript features beyond the recorded sessions: branches, summaries, damage, hostile files."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest

from forged.transcripts import FORMATS, TranscriptError, read, read_tail, sessions
from tests.transcripts.homes import FIXTURES, PLACES, folder_of, lay

AT = "2026-11-23T20:40:00Z"
TEXTS = {
    "claude": lambda role, text: {
        "type": role,
        "uuid": text,
        "sessionId": "s",
        "cwd": "/w",
        "timestamp": AT,
        "message": {"role": role, "content": text},
    },
    "codex": lambda role, text: {
        "type": "response_item",
        "timestamp": AT,
        "payload": {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]},
    },
    "gemini": lambda role, text: {
        "id": text,
        "type": "user" if role == "user" else "gemini",
        "timestamp": AT,
        "content": [{"text": text}],
    },
    "qwen": lambda role, text: {
        "type": role,
        "sessionId": "s",
        "cwd": "/w",
        "timestamp": AT,
        "message": {"parts": [{"text": text}]},
    },
}


@pytest.fixture
def reported(tmp_path):
    """What is read of a file of a harness: of lines, each a value, or bytes as they are."""

    def read_lines(agent, *lines, **more):
        path = folder_of(agent, tmp_path) / PLACES[agent]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        )
        return read_tail(str(path), agent, 1 << 30, home=str(folder_of(agent, tmp_path)), **more)

    return read_lines


def texts(session):
    return [each.text for each in session.messages]


def claude(text, parent=None, role="user", **more):
    return {**TEXTS["claude"](role, text), "parentUuid": parent, **more}


@pytest.mark.parametrize("agent", TEXTS)
def test_a_line_that_makes_no_sense_is_skipped_and_counted(agent, reported):
    bad = [b"{\n", b"\xff\xfe\n", b"[]\n", b'{"type": 7, "message": 3, "payload": "x", "$set": 1}\n', b"1\n"]
    good = TEXTS[agent]
    unknown = {"type": "new-in-a-later-version", "uuid": "u", "sessionId": "s"}
    session = reported(agent, good("user", "one"), *bad, unknown, good("assistant", "two"))

    assert texts(session) == ["one", "two"]
    assert session.skipped == len(bad)


@pytest.mark.parametrize("agent", TEXTS)
@pytest.mark.parametrize(
    "bad",
    [
        b'{"type": "user", "timestamp": "caf\xe9"}\n',
        b'{"message": {"content": %b}, "payload": {"content": %b}, "content": %b}\n' % ((b"[" * 20_000,) * 3),
    ],
)
def test_a_line_that_no_decoder_gets_through_costs_no_other(agent, bad, reported):
    good = TEXTS[agent]
    session = reported(agent, good("user", "one"), bad, good("assistant", "two"))

    assert (texts(session), session.skipped) == (["one", "two"], 1)


@pytest.mark.parametrize("agent", TEXTS)
def test_a_value_in_the_place_of_a_word_is_no_word(agent, reported):
    good = TEXTS[agent]
    odd = json.loads(
        json.dumps(good("user", "odd")).replace('"user"', '{"a": 1}').replace('"input_text"', "[]")
    )
    session = reported(agent, good("user", "one"), odd, good("assistant", "two"))

    assert texts(session) == ["one", "two"]


@pytest.mark.parametrize("agent", TEXTS)
def test_what_is_no_prose_of_the_two_is_cut_out_of_their_texts(agent, reported):
    block = "<forged-memories 0123456789abcdef>\nUse tabs.\n</forged-memories 0123456789abcdef>"
    user = f"Use spaces. {block} <system-reminder>LEAK</system-reminder> <private>LEAK</private>"
    assistant = "<thinking>LEAK</thinking>Fine.<tool_call>LEAK</tool_call>"
    good = TEXTS[agent]
    session = reported(agent, good("user", user), good("assistant", assistant))

    assert texts(session) == ["Use spaces.", "Fine."]


@pytest.mark.parametrize("agent", TEXTS)
def test_a_line_that_is_too_long_is_left_out(agent, reported, monkeypatch):
    monkeypatch.setattr("forged.transcripts.files.MOST_LINE", 1_000)
    good = TEXTS[agent]
    session = reported(agent, good("user", "one"), good("assistant", "x" * 5_000), good("user", "two"))

    assert texts(session) == ["one", "two"]
    assert session.skipped == 1


def test_of_claude_the_branch_that_was_left_is_not_read(reported):
    session = reported(
        "claude",
        claude("one"),
        claude("said otherwise", "one"),
        claude("two", "one"),
        claude("a side", "two", isSidechain=True),
        claude("meta", "two", isMeta=True),
        claude("three", "two", "assistant"),
    )

    assert texts(session) == ["one", "two", "three"]


ASIDE = {
    "a side conversation": {"isSidechain": True},
    "the harness's own line": {"isMeta": True},
    "a summary": {"isCompactSummary": True},
    "an error of the provider": {"isApiErrorMessage": True},
    "a team mate's": {"teamName": "reviewers"},
}


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("place", ["first", "between", "last", "whole"])
@pytest.mark.parametrize("kind", ASIDE)
def test_of_claude_what_neither_the_person_nor_the_model_said_to_each_other_is_not_read(
    kind, place, role, reported
):
    """Wherever it hangs in the tree: also where the conversation goes on from it, or it is all there is."""
    after = {"first": [], "between": ["one"], "last": ["one", "two"], "whole": []}[place]
    before = {"first": ["one", "two"], "between": ["two"], "last": [], "whole": []}[place]
    line = {**claude("ASIDE", after[-1] if after else None, role), **ASIDE[kind]}
    lines = [claude(text, parent) for text, parent in zip(after, [None, *after], strict=False)]
    chain = ["ASIDE", *before]
    more = [claude(text, parent) for text, parent in zip(before, chain, strict=False)]

    session = reported("claude", *lines, line, *more)

    assert texts(session) == [*after, *before]


@pytest.mark.parametrize(
    "text", ["[Request interrupted by user]", "Caveat: The messages below were generated"]
)
def test_of_claude_what_the_harness_says_as_the_user_is_not_read(text, reported):
    assert texts(reported("claude", claude("one"), claude(text, "one"), claude("two", text))) == [
        "one",
        "two",
    ]


def test_of_claude_a_reply_that_no_model_gave_is_not_read(reported):
    made = claude("LEAK", "one", "assistant")
    made["message"]["model"] = "<synthetic>"

    assert texts(reported("claude", claude("one"), made, claude("two", "LEAK"))) == ["one", "two"]


def test_of_claude_nothing_is_known_of_a_session_that_is_a_side_conversation(reported):
    """The folder of a project holds them as files of their own."""
    session = reported("claude", claude("LEAK", isSidechain=True), claude("more", "LEAK", isSidechain=True))

    assert (session.messages, session.session_id, session.workspace) == ((), "", "")


def test_of_claude_a_circle_of_parents_comes_to_an_end(reported):
    session = reported("claude", claude("one", "two"), claude("two", "one"))

    assert texts(session) == ["one", "two"]


def test_a_claude_line_without_its_parent_follows_the_line_before(reported):
    session = reported("claude", claude("one"), b"{broken\n", claude("three", "two"))

    assert texts(session) == ["one", "three"]


def test_of_claude_an_old_compaction_is_followed_to_what_was_before(reported):
    boundary = {**claude("b"), "type": "system", "subtype": "compact_boundary", "logicalParentUuid": "one"}
    summary = claude("summary", "b", isCompactSummary=True)
    session = reported("claude", claude("one"), boundary, summary, claude("two", "summary"))

    assert texts(session) == ["one", "two"]
    assert session.since_summary == 1


def test_of_codex_what_follows_a_summary_is_the_window(reported):
    say = TEXTS["codex"]
    session = reported("codex", say("user", "one"), {"type": "compacted", "payload": {}}, say("user", "two"))

    assert texts(session) == ["one", "two"]
    assert session.since_summary == 1


def test_of_codex_what_the_harness_says_as_the_user_is_not_read(reported):
    line = TEXTS["codex"]("user", "from a hook")
    line["payload"]["internal_chat_message_metadata_passthrough"] = {
        "content_item_metadata": [{"provenance": {"type": "harness", "hook": True}}]
    }

    assert texts(reported("codex", line, TEXTS["codex"]("user", "one"))) == ["one"]


@pytest.mark.parametrize("source", [{"source": {"subagent": "review"}}, {"thread_source": "subagent"}])
def test_of_codex_a_thread_that_an_agent_began_is_not_read(source, reported):
    meta = {"type": "session_meta", "payload": {"id": "s", "cwd": "/w", **source}}

    assert reported("codex", meta, TEXTS["codex"]("user", "one")).messages == ()


def test_of_gemini_a_message_counts_in_its_newest_words_where_it_stood_first(reported):
    say = TEXTS["gemini"]
    grown = {**say("assistant", "b"), "content": "b and more"}
    session = reported("gemini", say("user", "a"), say("assistant", "b"), say("user", "c"), grown)

    assert texts(session) == ["a", "b and more", "c"]


def test_of_gemini_what_was_taken_back_is_not_read(reported):
    say = TEXTS["gemini"]
    session = reported("gemini", say("user", "a"), say("user", "b"), {"$rewindTo": "b"}, say("user", "c"))

    assert texts(session) == ["a", "c"]


def test_of_gemini_a_history_that_begins_with_a_snapshot_is_a_summary(reported):
    say = TEXTS["gemini"]
    snapshot = say("user", "<state_snapshot>it was said</state_snapshot>")
    session = reported("gemini", say("user", "a"), {"$set": {"messages": [snapshot]}}, say("user", "b"))

    assert texts(session) == ["a", "b"]
    assert session.since_summary == 1


def test_of_gemini_an_older_version_wrote_one_document(reported):
    say = TEXTS["gemini"]
    whole = {"sessionId": "s", "startTime": AT, "messages": [say("user", "a"), say("assistant", "b")]}
    session = reported("gemini", whole)

    assert texts(session) == ["a", "b"]
    assert session.session_id == "s"


def test_of_qwen_what_follows_a_summary_is_the_window(reported):
    say = TEXTS["qwen"]
    summary = {"type": "system", "subtype": "chat_compression", "sessionId": "s"}
    session = reported("qwen", say("user", "one"), summary, say("user", "two"))

    assert texts(session) == ["one", "two"]
    assert session.since_summary == 1


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_of_qwen_a_side_conversation_is_not_read(role, reported):
    say = TEXTS["qwen"]
    session = reported(
        "qwen", say("user", "one"), {**say(role, "LEAK"), "isSidechain": True}, say("user", "two")
    )

    assert texts(session) == ["one", "two"]


def test_of_gemini_a_session_of_another_kind_is_not_read(reported):
    about = {"sessionId": "s", "startTime": AT, "kind": "subagent"}

    assert reported("gemini", about, TEXTS["gemini"]("user", "LEAK")).messages == ()


@pytest.fixture
def opencode(tmp_path):
    """A recorded database, to be changed by statements."""
    fixture = next(path for path in FIXTURES if path.parent.name == "opencode")
    path = lay("opencode", fixture, tmp_path)

    def change(*statements):
        with closing(sqlite3.connect(path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()
        return str(folder_of("opencode", tmp_path))

    return change


def test_of_opencode_a_summary_and_synthetic_parts_are_not_read(opencode):
    home = opencode(
        "update part set data = json_set(data, '$.synthetic', json('true')) where data like '%deploy%'",
        "update message set data = json_set(data, '$.summary', json('true')) where id in"
        " (select message_id from part where data like '%I look%')",
    )
    (found,) = sessions("opencode", home)
    session = read(found, home)

    assert texts(session)[:2] == ["Done, as you said.", "Never push to the branch main."]
    assert session.since_summary == 0


def test_of_opencode_damage_is_said_and_found_nowhere(opencode, tmp_path):
    home = opencode("drop table part")
    (found,) = sessions("opencode", home)

    with pytest.raises(TranscriptError):
        read(found, home)
    (folder_of("opencode", tmp_path) / "opencode.db").write_bytes(b"no database")
    assert sessions("opencode", home) == []


def test_of_opencode_what_is_in_its_journal_alone_is_read_and_nothing_is_written(tmp_path):
    fixture = next(path for path in FIXTURES if path.parent.name == "opencode")
    path = lay("opencode", fixture, tmp_path)
    home = str(folder_of("opencode", tmp_path))
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode = wal")
        writer.execute("update part set data = replace(data, 'Fridays', 'Mondays')")
        writer.commit()
        before = path.read_bytes()
        (found,) = sessions("opencode", home)

        assert texts(read(found, home))[0] == "We always deploy on Mondays."
        assert path.read_bytes() == before


@pytest.mark.parametrize("agent", TEXTS)
def test_nothing_is_followed_out_of_the_folder_of_the_harness(agent, tmp_path, reported):
    reported(agent, TEXTS[agent]("user", "one"))
    home = folder_of(agent, tmp_path)
    outside = tmp_path / "outside.jsonl"
    outside.write_text(json.dumps(TEXTS[agent]("user", "LEAK")))
    inside = (home / PLACES[agent]).with_name("rollout-session-b.jsonl")
    inside.symlink_to(outside)
    folder = (home / PLACES[agent]).parent
    elsewhere = folder.with_name("linked")
    elsewhere.symlink_to(tmp_path, target_is_directory=True)
    found = sessions(agent, str(home))

    assert [each.path for each in found] == [str(home / PLACES[agent])]
    for path in (inside, outside, home / ".." / "outside.jsonl", elsewhere / "outside.jsonl"):
        with pytest.raises(TranscriptError):
            read_tail(str(path), agent, 1 << 20, home=str(home))


def test_a_pipe_is_no_transcript(tmp_path):
    home = folder_of("claude", tmp_path)
    (home / "projects/p").mkdir(parents=True)
    os.mkfifo(home / "projects/p/a.jsonl")

    assert sessions("claude", str(home)) == []
    with pytest.raises(TranscriptError):
        read_tail(str(home / "projects/p/a.jsonl"), "claude", 1 << 20, home=str(home))


def test_sessions_come_newest_first_and_since_a_time(tmp_path):
    folder = folder_of("claude", tmp_path) / "projects/p"
    folder.mkdir(parents=True)
    for at in (100, 300, 200):
        (folder / f"{at}.jsonl").write_text("{}")
        os.utime(folder / f"{at}.jsonl", (at, at))
    home = str(folder_of("claude", tmp_path))

    assert [each.changed_at for each in sessions("claude", home)] == [300, 200, 100]
    assert [each.changed_at for each in sessions("claude", home, since=150)] == [300, 200]
    assert sessions("codex", home) == []


def test_the_variables_of_a_harness_say_where_its_sessions_are():
    assert FORMATS["claude"].home({"CLAUDE_CONFIG_DIR": "/c"}, "/home/me") == "/c/"
    assert FORMATS["gemini"].home({"GEMINI_CLI_HOME": "/g"}, "/home/me") == "/g/.gemini"
    assert FORMATS["opencode"].home({"XDG_DATA_HOME": "/d"}, "/home/me") == "/d/opencode"
    assert FORMATS["codex"].home({}, "/home/me") == "/home/me/.codex"


SCRIPTED = {
    "claude": lambda scripted: [
        {**TEXTS["claude"]("user", "one"), "entrypoint": "sdk-cli"},
        {
            **TEXTS["claude"]("user", "two"),
            "parentUuid": "one",
            "entrypoint": "sdk-cli" if scripted else "cli",
        },
    ],
    "codex": lambda scripted: [
        {
            "type": "session_meta",
            "payload": {"id": "s", "cwd": "/w", "source": "exec" if scripted else "cli"},
        },
        TEXTS["codex"]("user", "one"),
    ],
}


@pytest.mark.parametrize("agent", SCRIPTED)
@pytest.mark.parametrize("scripted", [True, False])
def test_a_session_is_headless_where_a_script_said_all_of_it(reported, agent, scripted):
    found = reported(agent, *SCRIPTED[agent](scripted))

    assert found.headless == scripted
    assert found.messages
