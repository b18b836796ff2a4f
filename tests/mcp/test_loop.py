"""The loop as an agent meets it: what it answers without a daemon, and that nothing ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading

import pytest

from forged.mcp import parse_arguments, tools
from forged.mcp.loop import LONGEST
from forged_client.protocol import ListMemories, Memories
from tests.mcp.agent import BRIDGE, COMMAND, started
from tests.support.clock import PATIENCE_S
from tests.support.daemon import FORGECTL, Shell
from tests.support.daemon.shell import Terminal

BEFORE = [
    b'{"jsonrpc":"2.0","id":0,"method":"server/discover"}',
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
    *(
        b'{"jsonrpc":"2.0","id":"%s","method":"%s"}' % (method, method)
        for method in (
            *(b"tools/list", b"prompts/list", b"resources/list", b"resources/templates/list", b"ping"),
        )
    ),
]


def test_until_a_tool_is_called_nothing_is_imported_that_costs_time(tmp_path):
    """With `-X importtime`, as agents start it; the answers are there, all of them."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-I", "-S", BRIDGE, "claude"],
        input=b"\n".join(BEFORE) + b"\n",
        capture_output=True,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr.decode(), re.MULTILINE))

    assert done.stdout.count(b"\n") == len(BEFORE) - 1
    assert "forged.mcp.loop" in imported
    costly = ("msgspec", "asyncio", "site", "typing", "threading", "socket", "subprocess", "forged_client")
    assert imported.isdisjoint({*costly, "forged.mcp.calls", "click"})


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("server/discover", {}, -32601),
        ("logging/setLevel", {"level": "debug"}, -32601),
        ("tools/call", {"name": "drop_memories"}, -32602),
        ("tools/call", {"name": ["forget"]}, -32602),
        ("tools/call", {}, -32602),
        ("resources/read", {"uri": "file:///etc/passwd"}, -32002),
        ("resources/read", {"uri": "memory://"}, -32002),
        ("resources/read", {}, -32002),
    ],
)
def test_what_is_not_offered_is_refused_by_its_code(agent, method, params, code):
    assert agent.refused(method, **params)["code"] == code
    assert agent.result("ping") == {}


def test_what_is_no_message_is_answered_and_the_next_one_is_dealt_with(agent):
    agent.write(b"no json\n\n  \n")
    assert agent.next()["error"]["code"] == -32700
    agent.write(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n')
    assert "one message a line" in agent.next()["error"]["message"]
    agent.write(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n')
    assert agent.next() == {"jsonrpc": "2.0", "id": "\ud800", "result": {}}
    agent.notify("notifications/of another version", anything=1)
    agent.notify("notifications/cancelled", requestId=["not", "an id"])
    agent.send({"jsonrpc": "2.0", "id": 99, "result": {"to": "nothing that was asked"}})
    assert agent.result("ping") == {}


def test_a_line_beyond_all_measure_is_passed_over_and_the_next_one_is_dealt_with(agent):
    agent.write(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * (2 * LONGEST) + b'"}}\n')

    assert agent.next()["error"]["code"] == -32600
    assert agent.result("ping") == {}


def test_it_ends_quietly_when_no_one_reads_what_it_says(agent):
    agent.result("ping")
    agent.process.stdout.close()
    agent.begin("ping")

    assert agent.process.wait(PATIENCE_S) == 0
    assert agent.complaints() == ""


@pytest.mark.parametrize("command", [COMMAND, (FORGECTL, "mcp")])
def test_it_ends_without_a_traceback_when_it_is_interrupted(tmp_path, command):
    """As where a person types Ctrl-C at an agent, and the terminal tells all that it has started."""
    with started(tmp_path, command=command) as agent:
        agent.result("ping")
        agent.process.send_signal(signal.SIGINT)

        assert agent.process.wait(PATIENCE_S) == 130
        assert agent.complaints() == ""


_PRINTS = """
import os, subprocess, sys
from forged.mcp import loop, tools
initialized = tools.initialize_result
def prints(version):
    {prints}
    return initialized(version)
tools.initialize_result = prints
loop.serve()
"""


@pytest.mark.parametrize("is_stderr_open", [True, False])
@pytest.mark.parametrize(
    "prints",
    [
        "print('NOISE', flush=True)",
        "sys.__stdout__.write('NOISE\\n'), sys.__stdout__.flush()",
        "os.write(1, b'NOISE\\n')",
        "subprocess.run(['echo', 'NOISE'])",
    ],
)
def test_what_is_printed_in_any_way_does_not_land_among_the_messages(tmp_path, prints, is_stderr_open):
    python = (sys.executable, "-c", _PRINTS.format(prints=prints))
    command = python if is_stderr_open else ("sh", "-c", 'exec "$@" 2>&-', "sh", *python)
    with started(tmp_path, command=command) as agent:
        assert agent.result("initialize", capabilities={})["serverInfo"]["name"] == "forged"
        assert agent.result("ping") == {}
        assert agent.hang_up() == 0

        assert agent.line() == b""
        assert agent.complaints() == ("NOISE\n" if is_stderr_open else "")


def test_a_person_who_starts_it_is_informed_whom_it_is_for(home, tmp_path):
    def act(terminal: Terminal) -> None:
        terminal.wait_for("this is for agents, which speak MCP on stdin; Ctrl-D ends it")
        terminal.type("\x04")

    code, _ = Shell(home, f"{home}/s", tmp_path).on_terminal("mcp", act=act)

    assert code == 0


def test_a_ping_is_answered_while_a_tool_waits_for_the_daemon(daemon, tmp_path):
    daemon.answers[ListMemories] = lambda _: daemon.stop_answering()
    with started(tmp_path) as agent:
        agent.begin("tools/call", name="list_memories", arguments={})
        assert daemon.waits.wait(PATIENCE_S)

        assert agent.result("ping") == {}
        assert agent.result("tools/list")["tools"]


def test_a_call_that_is_cancelled_is_not_answered_and_its_id_is_free_again(daemon, tmp_path):
    waits, goes_on = threading.Event(), threading.Event()

    def answer(_: object) -> Memories:
        waits.set()
        goes_on.wait(PATIENCE_S)
        return Memories(status="empty")

    daemon.answers[ListMemories] = answer
    with started(tmp_path) as agent:
        agent.begin("tools/call", "a", name="list_memories", arguments={})
        assert waits.wait(PATIENCE_S)
        agent.begin("tools/call", "a", name="list_memories", arguments={})
        refused = agent.next()
        agent.notify("notifications/cancelled", requestId="a", reason="the user said stop")
        agent.begin("tools/call", "a", name="list_memories", arguments={"scope": "user"})
        assert agent.result("ping") == {}
        goes_on.set()
        answered = agent.next()

        assert (refused["id"], refused["error"]["message"]) == ("a", "this id is in use")
        assert answered["result"]["content"][0]["text"] == "There are no such memories."
        assert agent.hang_up() == 0
        assert agent.line() == b""


def test_calls_without_number_are_refused_and_not_a_thread_is_begun_for_them(daemon, tmp_path):
    daemon.answers[ListMemories] = lambda _: daemon.stop_answering()
    with started(tmp_path) as agent:
        for _ in range(64):
            agent.begin("tools/call", name="list_memories", arguments={})

        refused = agent.refused("tools/call", name="list_memories", arguments={})
        assert "too many calls" in refused["message"]
        assert len(os.listdir(f"/proc/{agent.process.pid}/task")) <= 65


def test_what_was_asked_before_the_agent_hung_up_is_answered(daemon, tmp_path):
    """As with a few lines piped into it."""
    daemon.answers[ListMemories] = Memories(status="empty")
    with started(tmp_path) as agent:
        agent.begin("tools/call", "last", name="list_memories", arguments={})

        assert agent.hang_up() == 0
        assert agent.next()["result"]["content"][0]["text"] == "There are no memories yet."


def test_the_folders_of_an_agent_are_asked_for_where_it_has_such(daemon, tmp_path):
    daemon.answers[ListMemories] = Memories(status="empty")
    roots = {"roots": [{"uri": "file:///home/me/my%20project"}, {"uri": "file:///elsewhere"}]}
    with started(tmp_path) as agent:
        agent.result("initialize", protocolVersion="2025-11-25", capabilities={"roots": {}})
        agent.notify("notifications/initialized")
        agent.result("ping")
        (question,) = agent.asked
        agent.send({"jsonrpc": "2.0", "id": question["id"], "result": roots})
        agent.tool("list_memories")

    assert question["method"] == "roots/list"
    assert daemon.asked(ListMemories).workspace == "/home/me/my project"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--workspace", "/w", "claude"], "/w"),
        (["--workspace", "below"], "{here}/below"),
        (["claude"], "/project"),
        (["codex"], "{here}"),
        ([], "{here}"),
    ],
)
def test_the_workspace_is_what_the_command_line_says_before_the_harness_and_where_it_is(
    daemon, tmp_path, arguments, expected
):
    """A variable of one harness means nothing to another, which may have been started from its shell."""
    daemon.answers[ListMemories] = Memories(status="empty")
    env = {**os.environ, "CLAUDE_PROJECT_DIR": "/project"}
    with started(tmp_path, env, *arguments) as agent:
        agent.tool("list_memories")

    assert daemon.asked(ListMemories).workspace == expected.format(here=tmp_path.resolve())


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ("", "")),
        (["claude"], ("claude", "")),
        (["--workspace", "/w"], ("", "/w")),
        (["--workspace", "/w", "codex"], ("codex", "/w")),
        (["gemini", "--workspace", "w"], ("gemini", "w")),
        (["--workspace"], None),
        (["--help"], None),
        (["a", "b"], None),
        (["../x"], None),
        ([""], None),
    ],
)
def test_a_command_line_names_a_harness_and_a_workspace_or_is_none(arguments, expected):
    assert parse_arguments(arguments) == expected


def test_forgectl_mcp_is_the_same_for_a_person_and_does_without_click(tmp_path):
    with started(tmp_path, None, "mcp", command=(FORGECTL,)) as agent:
        assert agent.result("tools/list") == {"tools": list(tools.TOOLS)}
        assert agent.hang_up() == 0
    code = "import sys; sys.modules['click'] = None; from forged.cli import main; main()"
    with started(tmp_path, None, "mcp", "claude", command=(sys.executable, "-c", code)) as agent:
        assert agent.result("ping") == {}
