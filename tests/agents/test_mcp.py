"""Each real agent calls a tool of the bridge in its first turn, and its model has the answer."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from forged.integrations import agent_rows, machine_of, rendering
from tests.agents.scripted_api import Request, ScriptedApi, Turn
from tests.faults.amount import times
from tests.mcp.agent import COMMAND
from tests.support.daemon import DaemonProcess, processes_with, running

MEMORY, HYPOTHESIS = "Backups run at dawn on the host zephyr.", "Backups are made at dawn."
MOST_REQUESTS = 12
ASKED, OFF = "Where do backups run?", "FORGED_BYPASS is set"
LONG_S = 180.0
REPO = Path(__file__).parents[2]
_Setup = tuple[dict[str, str], tuple[str, ...]]


def _server(name: str, home: Path) -> dict[str, object]:
    """As `setup` describes it to this agent, said in a shell in which nothing was moved."""
    return rendering.server(agent_rows()[name], machine_of({"HOME": str(home), "PATH": ""}, ""))


def _claude(url: str, home: Path) -> _Setup:
    servers = home / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"forged": _server("claude", home)}}))
    env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-fake"}
    allowed = ("--mcp-config", str(servers), "--allowedTools", "mcp__forged__search_memories")
    return {**env, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}, ("-p", ASKED, *allowed)


def _codex(url: str, home: Path) -> _Setup:
    """Codex gives a server little of its environment, and its newest models tools as code to write."""
    (home / ".codex").mkdir()
    server = "\n".join(f"{key} = {json.dumps(value)}" for key, value in _server("codex", home).items())
    (home / ".codex/config.toml").write_text(
        'model = "gpt-5"\nmodel_provider = "scripted"\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        f"[mcp_servers.forged]\n{server}\n"
    )
    return {"SCRIPTED_KEY": "fake"}, ("exec", "--skip-git-repo-check", ASKED)


def _gemini(url: str, home: Path) -> _Setup:
    _settings(home / ".gemini", "gemini", "gemini-api-key")
    env = {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return env, ("-m", "gemini-2.5-flash", "-p", ASKED)


def _qwen(url: str, home: Path) -> _Setup:
    _settings(home / ".qwen", "qwen", "openai")
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "fake", "OPENAI_MODEL": "scripted"}
    return env, ("-p", ASKED)


def _settings(folder: Path, name: str, auth: str) -> None:
    folder.mkdir()
    servers = {"forged": {**_server(name, folder.parent), "trust": True}}
    settings = {"security": {"auth": {"selectedType": auth}}, "mcpServers": servers}
    (folder / "settings.json").write_text(json.dumps(settings))


def _opencode(url: str, home: Path) -> _Setup:
    options = {"baseURL": f"{url}/v1", "apiKey": "fake"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
    server = _server("opencode", home)
    (home / "opencode.json").write_text(
        json.dumps({"provider": {"scripted": provider}, "mcp": {"forged": server}})
    )
    return {"OPENCODE_CONFIG": str(home / "opencode.json")}, ("run", "-m", "scripted/m", ASKED)


AGENTS: dict[str, Callable[[str, Path], _Setup]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "qwen": _qwen,
    "opencode": _opencode,
}


def _offered(request: Request) -> str:
    """Return the agent's name of the tool in this request, in a group or alone."""
    for tool in request.body.get("tools", ()):
        if "search_memories" in [each.get("name") for each in tool.get("tools", ())]:
            return f"{tool['name']}.search_memories"
    return next((name for name in request.tools if name.endswith("search_memories")), "")


def _model(request: Request) -> Turn:
    """Calls the tool where it is offered, and says what came of it; agents ask for titles, too."""
    if MEMORY in request.text or OFF in request.text:
        return Turn("The answer has come.")
    if name := _offered(request):
        return Turn("", tools=((name, {"hypotheses": [HYPOTHESIS]}),))
    if "tool_search" in request.tools:  # qwen offers what a server has when it was looked for
        return Turn("", tools=(("tool_search", {"query": "select:mcp__forged__search_memories"}),))
    return Turn("There is no such tool.")


@contextlib.contextmanager
def _busy(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


class Machine:
    """A daemon with one memory, in a HOME whose agents have only the MCP server."""

    def __init__(self, daemon: DaemonProcess, repo: Path, programs: Path) -> None:
        self.daemon, self.repo, self.programs = daemon, repo, programs

    def first_turn(self, name: str, home: Path, env: Mapping[str, str] | None = None) -> list[Request]:
        """The requests that an agent makes of its model in one session of one turn."""
        home.mkdir()

        def reply(request: Request) -> Turn:
            return _model(request) if len(api.requests) < MOST_REQUESTS else Turn("I give up.")

        with ScriptedApi(choose=reply) as api:
            own, arguments = AGENTS[name](api.url, home)
            done = subprocess.run(
                [self.programs / name, *arguments],
                env={**self.daemon.env, "HOME": str(home), "PYTHONWARNINGS": "", **own, **(env or {})},
                cwd=self.repo,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LONG_S,
            )
            assert done.returncode == 0, done
            assert "The answer has come." in done.stdout, (done, [each.tools for each in api.requests])
            return api.requests


@pytest.fixture
def machine(home: Path, repo: Path, agents: Path) -> Iterator[Machine]:
    with running(home) as daemon:
        daemon.trust(repo)
        with daemon.client() as client:
            client.remember(str(repo), MEMORY)
        yield Machine(daemon, repo, agents)
        for second in processes_with(f"HOME={home.parent / 'agent'}"):  # of a server that found no daemon
            os.kill(second, signal.SIGKILL)


@pytest.mark.parametrize("name", AGENTS)
def test_a_tool_that_is_called_in_the_first_turn_answers(machine, tmp_path, name):
    """With the memory itself, once, between the marks that say that it is data."""
    requests = machine.first_turn(name, tmp_path / "agent")
    last = next(each.text for each in requests if MEMORY in each.text)

    assert last.count("<forged-memories ") == last.count("</forged-memories ") == 1
    assert last.count(MEMORY) == 1


@pytest.mark.parametrize("name", AGENTS)
def test_a_runtime_directory_that_only_the_agent_knows_leads_to_the_one_daemon(machine, tmp_path, name):
    """A server that does not see it would start a second daemon, with an empty memory."""
    runtime = Path(machine.daemon.directory, "run")
    runtime.mkdir(mode=0o700)
    (runtime / "forged").symlink_to(os.path.dirname(machine.daemon.socket))
    moved = {"XDG_RUNTIME_DIR": str(runtime), "FORGED_SOCKET": ""}
    requests = machine.first_turn(name, tmp_path / "agent", moved)

    assert any(MEMORY in each.text for each in requests)
    assert not (tmp_path / "agent/.local/state/forged").exists()


@pytest.mark.parametrize("name", AGENTS)
def test_what_keeps_an_agent_without_memory_keeps_its_tools_off(machine, tmp_path, name):
    requests = machine.first_turn(name, tmp_path / "agent", {"FORGED_BYPASS": "1"})

    assert any(OFF in each.text for each in requests)
    assert not any(MEMORY in each.text for each in requests)


LINES = {
    line.split()[0]: shlex.split(line)
    for line in (REPO / "forged/docs/mcp.md").read_text().splitlines()
    if " mcp add " in line
}


@pytest.mark.parametrize("name", LINES)
def test_the_line_of_the_manual_connects_it(home, repo, agents, name):
    """In a place of its own; what it wrote is then started by the agent, which says how that went."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "FORGED_SOCKET": f"{home}/s"}
    env |= {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_API_KEY": "fake"}
    abroad = {"/abs/python": COMMAND[0], "/abs/forged/mcp/bridge.py": COMMAND[-1]}

    def run(*words: str) -> str:
        program = str(agents / name)
        done = subprocess.run(
            [program, *words], env=env, cwd=repo, capture_output=True, text=True, timeout=LONG_S
        )
        assert done.returncode == 0, done
        return done.stdout + done.stderr

    run(*(abroad.get(word, word) for word in LINES[name][1:]))

    assert re.search(r"forged.*(Connected|enabled)", run("mcp", "list"))
    assert list(repo.iterdir()) == [repo / ".git"]


def test_the_manual_has_a_line_for_each_agent_that_has_such_a_command():
    assert set(LINES) == set(AGENTS) - {"opencode"}


@pytest.mark.long
def test_it_answers_in_the_first_turn_during_two_busy_loops(machine, tmp_path):
    """Every time: who is still connecting when the model calls has lost."""
    with _busy(2):
        for number in range(times(10, 2)):
            requests = machine.first_turn("claude", tmp_path / f"agent {number}")
            assert [MEMORY in each.text for each in requests] == [False, True]
