"""A daemon that is absent, stopped, slow or of another mind: a call ends with a sentence, and soon."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from forged.mcp import calls, tools
from forged.mcp.calls import Calls
from forged_client import protocol
from forged_client.protocol import Failed, ListMemories, Memories, Search
from tests.mcp.agent import started
from tests.support.clock import eventually
from tests.support.daemon import Shell, processes_with, stopped_server

LIST = {"name": "list_memories", "arguments": {}}


def reported(**call: object) -> tuple[str, bool]:
    calls = Calls()
    result = calls.run_tool({**LIST, **call}, "")
    calls._client.close()
    return result["content"][0]["text"], result["isError"]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "TIMEOUT_S", 0.3)


def test_a_daemon_that_is_not_there_is_started_and_asked(home, repo):
    (home / ".config/forged").mkdir(parents=True)
    (home / ".config/forged/config.toml").write_text('[memory]\nembedding_model = "builtin:lexical"\n')
    shell = Shell(home, f"{home}/s/forged.sock", repo)
    try:
        with started(repo, shell.env) as agent:
            assert agent.tool("remember", text="The first rule.").startswith("Kept as")
            assert agent.hang_up() == 0
            assert agent.line() == b""  # the daemon holds no end of the agent's pipe
        shell.stop_daemon()
        assert eventually(lambda: not processes_with(shell.socket))
    finally:
        for left in processes_with(shell.socket):
            os.kill(left, signal.SIGKILL)


def test_where_none_can_be_started_it_says_so(monkeypatch, home):
    monkeypatch.setenv("FORGED_SOCKET", f"{home}/nobody/forged.sock")
    monkeypatch.setattr(calls, "_daemon_executable", lambda: None)

    text, failed = reported()

    assert failed
    assert text.startswith("Memory is not running and could not be started: ")
    assert "`forgectl doctor`" in text


@pytest.mark.usefixtures("soon")
def test_a_daemon_that_is_stopped_costs_the_deadline_and_no_more(monkeypatch, tmp_path):
    path = f"{tmp_path}/s"
    monkeypatch.setenv("FORGED_SOCKET", path)
    with stopped_server(path, 8):
        text, failed = reported()

    assert failed
    assert "Memory did not answer: no answer within 0.3 s" in text
    assert "Go on without it" in text


@pytest.mark.usefixtures("soon")
def test_forgetting_stops_at_a_daemon_that_does_not_answer(daemon):
    daemon.answers[protocol.Forget] = lambda _: daemon.stop_answering()
    text, failed = reported(name="forget", arguments={"ids": [f"mem_{n}" for n in range(20)]})

    assert failed
    assert "mem_0: Memory did not answer" in text
    assert "mem_1" not in text


@pytest.mark.parametrize("name", tools.BY_NAME)
def test_where_memory_is_off_no_one_is_asked_and_nothing_is_kept(monkeypatch, daemon, name):
    monkeypatch.setenv("FORGED_BYPASS", "1")
    given = {
        "search_memories": {"hypotheses": ["x"]},
        "remember": {"text": "x"},
        "list_memories": {},
        "memory_status": {},
    }.get(name, {"ids": ["mem_a"]})

    assert reported(name=name, arguments=given) == ("Memory is off here: FORGED_BYPASS is set.", False)
    assert daemon.requests == []


@pytest.mark.parametrize(
    ("reply", "expected", "failed"),
    [
        (Memories(status="disabled", reason="it is off"), "Memory is off here: it is off.", False),
        (
            Memories(status="not_ready", reason="the first index is still being built"),
            "not ready yet (the first index",
            True,
        ),
        (Memories(status="error", reason="disk"), "could not answer: disk", True),
        (Memories(status="empty", reason="none"), "There are no memories to show. (none)", False),
        (Failed(status="error", code="invalid", message="no such scope"), "Not done: no such scope.", True),
        (
            Failed(status="error", code="unknown_verb", message="what?"),
            "the user can run `forgectl restart`",
            True,
        ),
    ],
)
def test_what_the_daemon_says_is_reported_as_a_sentence(daemon, reply, expected, failed):
    daemon.answers[ListMemories] = reply
    text, is_error = reported()

    assert expected in text
    assert is_error == failed


def test_a_fault_of_ours_is_answered_and_ends_no_session(tmp_path):
    """As where the installation is broken: no msgspec can be imported."""
    broken = "import sys; sys.modules['msgspec'] = None; from forged.mcp import serve; serve()"
    with started(tmp_path, None, command=(sys.executable, "-c", broken)) as agent:
        refused = agent.refused("tools/call", **LIST)

        assert refused["code"] == -32603
        assert "forgectl doctor" in refused["message"]
        assert agent.result("ping") == {}
        assert agent.hang_up() == 0
        assert "tools/call failed: ModuleNotFoundError" in agent.complaints()


def test_a_folder_that_is_gone_is_reported(monkeypatch, daemon, tmp_path):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()

    text, failed = reported()

    assert failed
    assert "is gone" in text


def test_an_agent_sees_what_it_has_written_whatever_the_daemon_shows_others(daemon, tmp_path):
    """Whoever reads after a write waits for the generation that shows it."""
    daemon.answers |= {
        protocol.Remember: protocol.Remembered(memory_id="mem_a", generation="e:7"),
        protocol.Forget: protocol.Forgotten(ids=("mem_a",), generation="e:8"),
        **{kind: kind.reply_type()(status="empty") for kind in (Search, ListMemories, protocol.GetMemories)},
    }
    with started(tmp_path) as agent:
        agent.tool("remember", text="x")
        agent.tool("search_memories", hypotheses=["x"])
        agent.tool("list_memories")
        agent.tool("forget", ids=["mem_a"])
        agent.failing("get_memories", ids=["mem_a"])

    kinds = (Search, ListMemories, protocol.GetMemories)
    assert [daemon.asked(kind).min_generation for kind in kinds] == ["e:7", "e:7", "e:8"]
