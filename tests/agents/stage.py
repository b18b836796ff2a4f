"""One person's machine with the five agents on it: a HOME, a git repository, and a model API on loopback.

- `World.run` has an agent take one turn without a terminal, in a new session or in the last one, and returns
  what it printed and what it asked of its model.
- `World.screen` starts an agent as a person sees it, on a terminal that tmux keeps.
- `World.left` are the processes that are still there; `World.close` ends them.

Every agent is set up as its own manual says, with the scripted API as its model and a key that opens nothing.
How each is called is a row of `AGENTS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.agents.scripted_api import Request, ScriptedApi, Turn
from tests.support.clock import eventually
from tests.support.daemon import processes_with
from tests.support.git import git

LONG_S = 120.0
_STEP_S = 0.1
_SIZE = ("-x", "120", "-y", "40")


@dataclass(frozen=True)
class Agent:
    """How one agent is called. Each takes the prompt as its last word."""

    name: str
    says: tuple[str, ...]
    goes_on: tuple[str, ...]
    screen: tuple[str, ...]
    ready: str


AGENTS = {
    row.name: row
    for row in (
        Agent("claude", ("-p",), ("--continue", "-p"), (), "? for shortcuts"),
        Agent(
            "codex",
            ("exec", "--skip-git-repo-check"),
            ("exec", "--skip-git-repo-check", "resume", "--last"),
            (),
            "Ask Codex",
        ),
        Agent("gemini", ("-p",), ("--resume", "latest", "-p"), (), "Type your message"),
        Agent("qwen", ("-p",), ("--continue", "-p"), (), "Type your message"),
        Agent("opencode", ("run",), ("run", "--continue"), (), "Ask anything"),
    )
}


@dataclass(frozen=True)
class Ran:
    """One turn that is over."""

    code: int
    out: str
    err: str
    requests: tuple[Request, ...]

    def asked(self, prompt: str) -> Request:
        """The first call of a model in which the agent put this prompt, and not a title for it."""
        return next(each for each in self.requests if prompt in each.text and each.tools)


class World:
    """The machine. `programs`: the folder of the programs; `reply`: what the model says to a request."""

    def __init__(self, folder: Path, programs: Path, reply: Callable[[Request], Turn]) -> None:
        self.home, self.repo = folder / "home", folder / "repo"
        self.programs = programs
        self._short = Path(tempfile.mkdtemp(prefix="fa"))
        self.socket = str(self._short / "s" / "forged.sock")
        self.api = ScriptedApi(choose=reply)
        self.api.__enter__()
        self.home.mkdir(parents=True)
        self.repo.mkdir()
        git(self.repo, "init", "-q")
        self.extra: dict[str, str] = {}
        for settle in (_claude, _codex, _gemini, _qwen, _opencode):
            settle(self.home, self.repo, self.api.url)

    @property
    def env(self) -> dict[str, str]:
        """Of a person's shell, with a place of its own for everything."""
        url = self.api.url
        return {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": str(self._short),
            "XDG_RUNTIME_DIR": str(self._short),
            "FORGED_SOCKET": self.socket,
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": CLAUDE_KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "FAKE_KEY": "fake",
            "GEMINI_API_KEY": "fake",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "fake",
            "OPENAI_MODEL": "scripted",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            **self.extra,
        }

    def run(self, agent: str, prompt: str, *, go_on: bool = False, flags: Sequence[str] = ()) -> Ran:
        """One turn without a terminal, to its end."""
        row = AGENTS[agent]
        words = row.goes_on if go_on else row.says
        before = len(self.api.requests)
        done = self.shell(str(self.programs / agent), *words[:-1], *flags, *words[-1:], prompt)
        return Ran(done.returncode, done.stdout, done.stderr, tuple(self.api.requests[before:]))

    def shell(self, *command: str, within: float = LONG_S) -> subprocess.CompletedProcess[str]:
        """Any command, as the person would run it in the repository."""
        return subprocess.run(
            command,
            env=self.env,
            cwd=self.repo,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            start_new_session=True,
        )

    def screen(self, agent: str, *flags: str) -> Screen:
        """The agent on a terminal; closed by `with`."""
        return Screen((str(self.programs / agent), *AGENTS[agent].screen, *flags), self.env, self.repo)

    def left(self) -> list[str]:
        """Command lines of the processes that know of this HOME."""
        return [_command(pid) for pid in processes_with(str(self.home))]

    def close(self) -> None:
        """End what is left, whoever's child it is by now."""
        for pid in processes_with(str(self.home)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        eventually(lambda: not processes_with(str(self.home)))
        self.api.__exit__()
        shutil.rmtree(self._short, ignore_errors=True)


class Screen:
    """A program on a terminal of 120 x 40 that a tmux of its own keeps."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path) -> None:
        self._socket = os.path.join(env["XDG_RUNTIME_DIR"], f"tmux{time.monotonic_ns()}")
        self._env = dict(env)
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "-c", str(folder), *command
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")

    @property
    def text(self) -> str:
        """What is to be seen, and what has scrolled away."""
        try:
            return self._tmux("capture-pane", "-p", "-S", "-")
        except subprocess.CalledProcessError:
            return ""

    def wait_for(self, *parts: str, within: float = LONG_S) -> str:
        """Wait for one of these on the screen, and return which it was."""
        until = time.monotonic() + within
        while time.monotonic() < until:
            seen = self.text
            for part in parts:
                if part in seen:
                    return part
            time.sleep(_STEP_S)
        raise AssertionError(f"none of {parts} was to be seen:\n{self.text}")

    def keys(self, *names: str) -> None:
        """Keys by tmux's names, such as Enter, Down, C-c."""
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        """Letters only; an agent that takes a fast line break for pasted text gets it apart."""
        self._tmux("send-keys", "-l", text)

    def say(self, text: str) -> None:
        """Type a line, wait until it stands there, and send it."""
        self.type(text)
        self.wait_for(text[-40:])
        time.sleep(_STEP_S * 5)
        self.keys("Enter")

    @property
    def over(self) -> bool:
        """Whether the program has ended."""
        return not os.path.exists(self._socket) or not self.text

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], env=self._env, capture_output=True, text=True, check=True
        )
        return done.stdout


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


# --- each agent's own settings, as a person has them before forged comes ------------------------------

CLAUDE_KEY = "sk-ant-api03-scripted-0123456789abcdefghij"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _claude(home: Path, repo: Path, _: str) -> None:
    """A person who has been through its welcome, and has allowed this key and this folder."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [CLAUDE_KEY[-20:]], "rejected": []},
        "projects": {str(repo): project},
    }
    _write(home / ".claude.json", json.dumps(state))


def _codex(home: Path, repo: Path, url: str) -> None:
    _write(
        home / ".codex/config.toml",
        f'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "FAKE_KEY"\n\n'
        f'[projects."{repo}"]\ntrust_level = "trusted"\n',
    )


def _gemini(home: Path, _repo: Path, _url: str) -> None:
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    settings = {
        "security": auth,
        "model": {"name": "gemini-2.5-flash"},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(home / ".gemini/settings.json", json.dumps(settings, indent=2))


def _qwen(home: Path, _repo: Path, _url: str) -> None:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "$version": 3,
    }
    _write(home / ".qwen/settings.json", json.dumps(settings, indent=2))


def _opencode(home: Path, _repo: Path, url: str) -> None:
    options = {"baseURL": f"{url}/v1", "apiKey": "fake"}
    models = {"m": {"name": "m"}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "scripted", "options": options, "models": models}
    settings = {
        "$schema": "https://opencode.ai/config.json",
        "model": "scripted/m",
        "autoupdate": False,
        "provider": {"scripted": provider},
    }
    _write(home / ".config/opencode/opencode.json", json.dumps(settings, indent=2))
