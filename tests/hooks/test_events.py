"""Hook payloads of each harness, recorded or as documented, and the answers to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from forged.hooks import HookEvent, PayloadError, event_of, output
from forged.text.harnesses import HOOKS
from tests.support.hooks import PAYLOADS, payload

MEANINGS = {
    "claude/start": "session_start",
    "claude/resume": "session_start",
    "claude/prompt": "prompt",
    "claude/stop": "turn_end",
    "claude/precompact": "compaction",
    "claude/subagent_stop": None,
    "claude/compacted": "compacted",
    "claude/postcompact": None,
    "claude/end": "session_end",
    "codex/start": "session_start",
    "codex/resume": "session_start",
    "codex/prompt": "prompt",
    "codex/stop": "turn_end",
    "codex/precompact": "compaction",
    "codex/postcompact": "compacted",
    "codex/compacted": "compacted",
    "codex/end": "session_end",
    "gemini/start": "session_start",
    "gemini/resume": "session_start",
    "gemini/prompt": "prompt",
    "gemini/prompt_with_context": "prompt",
    "gemini/precompress_auto": "compaction",
    "gemini/precompress_manual": "compacted",
    "gemini/stop": "turn_end",
    "gemini/end": "session_end",
    "gemini/end_clear": "cleared",
    "gemini/start_clear": "cleared",
    "qwen/notification": None,
    "qwen/prompt": "prompt",
    "qwen/stop": "turn_end",
    "qwen/precompact": "compaction",
    "qwen/compacted": "compacted",
    "qwen/postcompact": None,
    "qwen/end_clear": "cleared",
    "cursor/start": "session_start",
    "cursor/prompt": "prompt",
    "cursor/response": "turn_end",
    "cursor/stop": None,
    "cursor/precompact": "compacted",
    "vscode/start": "session_start",
    "vscode/prompt": "prompt",
    "vscode/stop": "turn_end",
    "vscode/precompact": "compacted",
}


def reported(name: str, **changes: object) -> HookEvent | None:
    harness, _, event = name.partition("/")
    return event_of(json.dumps(payload(harness, event) | changes).encode(), HOOKS[harness])


def test_every_recorded_payload_is_one_of_these():
    found = {f"{file.parent.name}/{file.stem}" for file in PAYLOADS.glob("*/*.json")}

    assert found == set(MEANINGS)


@pytest.mark.parametrize("name", MEANINGS)
def test_a_payload_is_the_event_that_it_tells_of(name):
    event = reported(name)

    assert (None if event is None else event.kind) == MEANINGS[name]
    assert event is None or (event.session_id, event.workspace) != ("", "")


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini", "qwen"])
def test_the_end_of_a_turn_has_its_reply_and_what_joins_it_to_its_prompt(harness):
    prompt, end = reported(f"{harness}/prompt"), reported(f"{harness}/stop")

    assert end.reply
    assert prompt.session_id == end.session_id
    assert (prompt.turn_id == end.turn_id != "") or end.prompt == prompt.prompt or harness == "qwen"


@pytest.mark.parametrize("source", ["system", "loop_wakeup", "schedule_wakeup", "poll_event"])
def test_a_prompt_that_no_person_sent_is_passed_over(source):
    assert reported("claude/prompt", source=source) is None
    assert reported("claude/prompt", source="user").kind == "prompt"


def test_an_event_of_a_subagent_is_passed_over():
    assert reported("claude/stop", agent_id="a1") is None
    assert reported("claude/stop", agent_id="").kind == "turn_end"


@pytest.mark.parametrize(
    "data", [b"", b"no json", b"[]", b"null", b"{" * 100_000, b'{"hook_event_name":"Stop"}', b"\xff\xfe"]
)
def test_what_is_no_payload_is_refused_without_a_word_of_it(data):
    with pytest.raises(PayloadError) as caught:
        event_of(data, HOOKS["claude"])

    assert len(str(caught.value)) < 60


@pytest.mark.parametrize("value", [1, None, {}, [], [1], True, "x" * 300])
def test_a_field_of_a_wrong_type_or_length_is_as_good_as_none(value):
    assert reported("claude/stop", prompt_id=value).turn_id == ""
    with pytest.raises(PayloadError):
        reported("claude/stop", session_id=value)


def answered(name: str, injection: str = "", *lines: str) -> dict:
    data = output(reported(name), HOOKS[name.partition("/")[0]], injection, lines)
    return json.loads(data) if data else {}


@pytest.mark.parametrize("harness", ["claude", "codex", "gemini", "qwen", "vscode"])
def test_a_prompt_is_answered_with_the_keys_that_every_harness_knows(harness):
    prompt = reported(f"{harness}/prompt")

    assert answered(f"{harness}/prompt", "<x>\n", "kept", "withheld") == {
        "hookSpecificOutput": {"hookEventName": prompt.name, "additionalContext": "<x>\n"},
        "systemMessage": "kept\nwithheld",
    }


@pytest.mark.parametrize(
    "name",
    [
        *("claude/stop", "claude/precompact", "claude/end", "codex/stop", "codex/postcompact", "gemini/stop"),
        *("gemini/resume", "gemini/precompress_manual", "qwen/stop", "qwen/compacted", "cursor/prompt"),
    ],
)
def test_where_an_answer_would_do_harm_or_be_lost_there_is_none(name):
    assert answered(name, "text", "line") == {}


def test_fixtures_name_no_path_of_a_real_machine():
    for file in PAYLOADS.glob("*/*.json"):
        fields = json.loads(file.read_text())
        for name in ("cwd", "transcript_path"):
            path = fields.get(name) or "/repo"
            assert Path(path).parts[1] in {"repo", "home"}
