"""The two examples of agents in Python, as they stand in client/examples, on their real SDKs.

A real daemon, and the scripted API for a model: what one agent was told the other one knows in its next
session.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from forged_client.message_snapshot import MessageSnapshot
from forged_client.messages import window
from tests.agents.scripted_api import Request, ScriptedApi, Turn
from tests.support.clock import eventually
from tests.support.daemon import Stage, capturing, stopped_server

EXAMPLES = Path(__file__).parents[2] / "client" / "examples"
SDKS = {"openai_agent": "openai-agents", "claude_agent": "claude-agent-sdk"}
REQUEST, QUESTION = "Remember that our releases go out on Tuesdays.", "When do our releases go out?"
FACT = "Our releases go out on Tuesdays"
LONG_S = 90.0
# Without the SDKs nothing is checked, which pytest then says aloud.
MISSING = set(SDKS.values()) - {found.name for found in metadata.distributions()}
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"no {sorted(MISSING)}: Python agents NOT checked")


@pytest.fixture
def stage(home) -> Iterator[Stage]:
    with capturing(home) as stage:
        yield stage


def talk(
    example: str, api: ScriptedApi, top: Path, socket: str, folder: Path, *lines: str
) -> subprocess.CompletedProcess[str]:
    """One session of an example, in a HOME of its own."""
    folder.mkdir(exist_ok=True)
    env = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "FORGED_SOCKET": socket,
        "OPENAI_BASE_URL": f"{api.url}/v1",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return subprocess.run(
        [sys.executable, EXAMPLES / f"{example}.py", top],
        env=env,
        cwd=top,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )


@pytest.mark.parametrize(("first", "second"), [tuple(SDKS), tuple(SDKS)[::-1]])
def test_what_one_agent_learns_the_other_one_knows_in_its_next_session(first, second, stage, repo, tmp_path):
    stage.load(repo)
    with ScriptedApi(Turn("I see.")) as api:
        reported = talk(first, api, repo, stage.daemon.socket, tmp_path / "one", REQUEST, "Thanks a lot.")
        assert (reported.returncode, reported.stdout) == (0, "I see.\n" * 2), reported.stderr
        stage.settle()
        eventually(lambda: FACT in stage.ask(repo, QUESTION).text)
        known_of = len(api.requests)
        known = talk(second, api, repo, stage.daemon.socket, tmp_path / "two", QUESTION)
        before, after = api.requests[:known_of], api.requests[known_of:]

    assert (known.returncode, known.stdout) == (0, "I see.\n"), known.stderr
    assert {request.dialect for request in (*before, *after)} == {"responses", "messages"}
    (body,) = [request.text for request in after if QUESTION in request.text]
    assert body.count(FACT) == 1
    (kept,) = [each for each in stage.client.captured(str(repo)).captured if each.memory_id]
    assert kept.agent == SDKS[first]


@pytest.mark.parametrize("example", SDKS)
def test_an_agent_with_memories_gets_each_once_in_a_session(example, stage, repo, tmp_path):
    stage.client.remember(str(repo), "Our releases go out on Tuesdays.")
    stage.load(repo)
    with ScriptedApi(Turn("I see.")) as api:
        reported = talk(
            example, api, repo, stage.daemon.socket, tmp_path / "one", QUESTION, "And why? " + QUESTION
        )
        bodies = [request.text for request in api.requests if "And why?" in request.text]

    assert (reported.returncode, reported.stdout) == (0, "I see.\n" * 2), reported.stderr
    assert [body.count("Our releases go out on Tuesdays.") for body in bodies] == [1]
    assert [each.memory_id for each in stage.client.captured(str(repo)).captured] == []


@pytest.mark.parametrize("example", SDKS)
@pytest.mark.parametrize("daemon", ["absent", "stopped"])
def test_without_a_daemon_an_agent_finishes_its_turns(example, daemon, tmp_path, repo):
    socket = tmp_path / "s"
    with ScriptedApi(Turn("I see.")) as api:
        if daemon == "stopped":
            with stopped_server(str(socket), backlog=5):
                reported = talk(example, api, repo, str(socket), tmp_path / "one", QUESTION)
        else:
            reported = talk(example, api, repo, str(socket), tmp_path / "one", QUESTION)

    assert (reported.returncode, reported.stdout) == (0, "I see.\n"), reported.stderr


def test_the_messages_of_the_sdks_are_read_as_they_are():
    from claude_agent_sdk import AssistantMessage, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
    from claude_agent_sdk import UserMessage as Person
    from openai.types.chat import ChatCompletionMessage
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText, ResponseReasoningItem

    output = ResponseOutputText(type="output_text", text="of responses", annotations=[])
    given = [
        Person(content="a person"),
        AssistantMessage(
            content=[
                ThinkingBlock(thinking="HIDDEN", signature="s"),
                TextBlock(text="of claude"),
                ToolUseBlock(id="1", name="Bash", input={"command": "HIDDEN"}),
            ],
            model="m",
        ),
        Person(content=[ToolResultBlock(tool_use_id="1", content="HIDDEN")]),
        Person(content="HIDDEN", parent_tool_use_id="1"),
        ChatCompletionMessage(role="assistant", content="of chat", refusal="HIDDEN"),
        ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[output]),
        ResponseReasoningItem(id="1", type="reasoning", summary=[]),
        {"type": "function_call_output", "call_id": "1", "output": "HIDDEN"},
    ]
    said = ["a person", "of claude", "of chat", "of responses"]

    assert [message.content for message in window(given, 0, 10_000) if message.content] == said
    texts = [
        content if isinstance(content, str) else "".join(content)
        for _, content, _ in MessageSnapshot(given, 0)
    ]
    assert texts == said


def test_after_a_compaction_a_memory_comes_again_once(stage, repo, tmp_path):
    """The conversation of which it was a part is gone; only one of the two SDKs has such an event.

    A model takes seconds for a summary. This one answers as soon as the daemon has the compaction, which the
    observer sends after the first turn.
    """
    stage.client.remember(str(repo), "Our releases go out on Tuesdays.")
    stage.load(repo)

    def answer(request: Request) -> Turn:
        if "create a detailed summary" in request.text:
            eventually(lambda: stage.client.status().capture.durable)
        return Turn("I see.")

    with ScriptedApi(choose=answer) as api:
        lines = (QUESTION, "/compact", "And why? " + QUESTION)
        reported = talk("claude_agent", api, repo, stage.daemon.socket, tmp_path / "one", *lines)
        bodies = [request.text for request in api.requests if "And why?" in request.text]
        summaries = [request for request in api.requests if "create a detailed summary" in request.text]

    assert (reported.returncode, reported.stdout) == (0, "I see.\n" * 2), reported.stderr
    assert summaries
    assert [body.count("Our releases go out on Tuesdays.") for body in bodies] == [1]
