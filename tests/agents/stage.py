"""One person's machine with the five agents: a HOME, a git repository, and a model API on loopback.

- `World.run` has an agent take one turn without a terminal, in a new session or in the last one;
  `World.run_all` has several do that side by side. `World.asked` is what they then asked of their model.
- `World.screen` starts an agent as a person sees it, on a terminal that tmux keeps.
- `World.forgectl` is the person at a shell, `World.memories` what is kept, `World.files` what lies in the
  HOME.
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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.agents import settled
from tests.agents.screen import LONG_S, Screen
from tests.agents.scripted_api import Request, ScriptedApi, Turn
from tests.support.clock import eventually
from tests.support.daemon import FORGECTL, processes_with
from tests.support.git import git


@dataclass(frozen=True)
class Agent:
    """Command of one agent, with the prompt as its last word: in a new session, in the last one.

    On its screen `ready` is to be seen when a person may type; `compact` is what they type to have the
    session compacted, `compacted` what they see then, and `leave` ends it.
    """

    name: str
    says: tuple[str, ...]
    goes_on: tuple[str, ...]
    ready: str
    compact: str
    compacted: str
    leave: str


_EXEC = ("exec", "--skip-git-repo-check")
_TYPE = "Type your message"
AGENTS = {
    row.name: row
    for row in (
        Agent("claude", ("-p",), ("--continue", "-p"), "? for shortcuts", "/compact", "Compacted", "/exit"),
        Agent("codex", _EXEC, (*_EXEC, "resume", "--last"), "Ask Codex", "/compact", "compacted", "/quit"),
        Agent(
            "gemini", ("-p",), ("--resume", "latest", "-p"), _TYPE, "/compress", "compressed from", "/quit"
        ),
        Agent("qwen", ("-p",), ("--continue", "-p"), _TYPE, "/compress", "compressed from", "/quit"),
        Agent(
            "opencode", ("run",), ("run", "--continue"), "Ask any", "/compact", "Compaction · m ·", "/exit"
        ),
    )
}


class World:
    """The machine. `programs`: the folder of the programs; `reply`: what the model says to a request.

    What a test puts into `extra` is in the environment of whatever is run from then on.
    """

    def __init__(self, folder: Path, programs: Path, reply: Callable[[Request], Turn]) -> None:
        self.home, self.repo = folder / "home", folder / "repo"
        self.programs = programs
        self._short = Path(tempfile.mkdtemp(prefix="fa"))
        self.socket = str(self._short / "s" / "forged.sock")
        self.extra: dict[str, str] = {}
        self.api = ScriptedApi(choose=reply)
        self.api.__enter__()
        self.home.mkdir(parents=True)
        self.repo.mkdir()
        git(self.repo, "init", "-q")
        for settle in settled.ALL:
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
            "ANTHROPIC_API_KEY": settled.CLAUDE_KEY,
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

    # --- the agents -----------------------------------------------------------------------------------

    def run(self, agent: str, prompt: str, *, go_on: bool = False, folder: Path | None = None) -> str:
        """One turn without a terminal, to its end; what the agent said."""
        row = AGENTS[agent]
        words = row.goes_on if go_on else row.says
        done = self.shell(str(self.programs / agent), *words, prompt, folder=folder)
        assert done.returncode == 0, (agent, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def run_all(
        self, prompts: Mapping[str, str], *, go_on: bool = False, folder: Path | None = None
    ) -> dict[str, str]:
        """One turn of each of these agents, all at once."""
        with ThreadPoolExecutor(len(prompts)) as pool:
            begun = {
                agent: pool.submit(self.run, agent, prompt, go_on=go_on, folder=folder)
                for agent, prompt in prompts.items()
            }
            return {agent: run.result() for agent, run in begun.items()}

    def asked(self, prompt: str) -> str:
        """The body of the first request to a model with this prompt; those for a title offer no tools."""
        return next(each.text for each in self.api.requests if each.tools and prompt in each.text)

    def shell(
        self, *command: str, within: float = LONG_S, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Any command, as the person would run it in the repository."""
        return subprocess.run(
            command,
            env=self.env,
            cwd=folder or self.repo,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            start_new_session=True,
        )

    def screen(self, agent: str, *flags: str) -> Screen:
        """The agent on a terminal; closed by `with`."""
        return Screen((str(self.programs / agent), *flags), self.env, self.repo)

    def trust_codex(self) -> str:
        """What a person does to have it run new hooks; what it asked."""
        with self.screen("codex") as screen:
            screen.wait_for("Trust all and continue")
            question = screen.text
            screen.move_to("› 2. Trust all", below="› 1.")
            screen.keys("Enter")
            screen.wait_for(AGENTS["codex"].ready)
            screen.leave("/quit")
        return question

    # --- forged ---------------------------------------------------------------------------------------

    def forgectl(self, *words: str, folder: Path | None = None) -> str:
        """What it prints, on both streams; it has to end well."""
        done = self.shell(FORGECTL, *words, folder=folder)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    @property
    def memories(self) -> list[str]:
        """The texts of what is kept."""
        listed = self.shell(FORGECTL, "list", "--json")
        return [each["content"] for each in json.loads(listed.stdout)["memories"]]

    @property
    def files(self) -> dict[str, bytes]:
        """All of the HOME, by names in it; a link is what it points to."""
        found = {}
        for path in sorted(self.home.rglob("*")):
            if path.is_symlink():
                found[str(path.relative_to(self.home))] = os.readlink(path).encode()
            elif path.is_file():
                found[str(path.relative_to(self.home))] = path.read_bytes()
        return found

    # --- the end --------------------------------------------------------------------------------------

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


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
