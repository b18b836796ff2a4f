"""Records what the five real agents write down of a session, against the scripted API; run by hand.

`python -m tests.agents.record_transcripts AGENTS FOLDER [AGENT]...` leaves the HOME of each under FOLDER: two
turns, the first with a call of a tool whose output holds `TOOL-OUTPUT`, in Claude Code then a compaction and
a third turn. What of it is a fixture is written to `tests/data/transcripts/AGENT/VERSION.jsonl` (OpenCode:
`.sql`), with long texts cut and without what names a machine.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.agents.scripted_api import Request, ScriptedApi, Turn

DATA = Path(__file__).parents[1] / "data" / "transcripts"
FIRST, SECOND = "We always deploy on Fridays.", "Never push to the branch main."
THIRD = "Use tabs in Go files."
TOOLS = {
    "claude": ("Bash", {"command": "echo TOOL-OUTPUT", "description": "x"}),
    "codex": ("exec_command", {"cmd": "echo TOOL-OUTPUT"}),
    "gemini": ("read_file", {"file_path": "notes.txt"}),
    "qwen": ("read_file", {"file_path": "WORK/notes.txt"}),
    "opencode": ("bash", {"command": "echo TOOL-OUTPUT", "description": "x"}),
}
COMMANDS = {
    "claude": [
        ["-p", FIRST, "--allowedTools", "Bash"],
        ["-p", SECOND, "--continue"],
        ["-p", "/compact", "--continue"],  # which says that there is not enough to compact
        ["-p", "Go on.", "--continue"],
        ["-p", "/compact", "--continue"],
        ["-p", THIRD, "--continue"],
    ],
    "codex": [
        ["exec", "--skip-git-repo-check", FIRST],
        ["exec", "--skip-git-repo-check", "resume", "--last", SECOND],
    ],
    "gemini": [
        ["-m", "gemini-2.5-flash", "-p", FIRST],
        ["-m", "gemini-2.5-flash", "--resume", "latest", "-p", SECOND],
    ],
    "qwen": [["-p", FIRST], ["--continue", "-p", SECOND]],
    "opencode": [["run", FIRST], ["run", "--continue", SECOND]],
}
WRITTEN = {
    "claude": ".claude/projects/*/*.jsonl",
    "codex": ".codex/sessions/*/*/*/*.jsonl",
    "gemini": ".gemini/tmp/*/chats/*.jsonl",
    "qwen": ".qwen/projects/*/chats/*.jsonl",
    "opencode": ".local/share/opencode/opencode.db",
}
_LONGEST = 400
_TABLES = ("session", "message", "part")


def _choose(name: str, work: Path) -> Callable[[Request], Turn]:
    asked: list[Request] = []

    def choose(request: Request) -> Turn:
        if not request.tools:
            return Turn("A title")
        asked.append(request)
        if len(asked) > 1:
            return Turn("Done, as you said.")
        tool, arguments = TOOLS[name]
        reported = {key: value.replace("WORK", str(work)) for key, value in arguments.items()}
        return Turn("I look into it.", tools=((tool, reported),))

    return choose


def _settings(name: str, url: str, home: Path) -> dict[str, str]:
    """Write what the agent is configured by; its environment."""
    if name == "claude":
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-fake", **quiet}
    if name == "codex":
        provider = f'name="fake"\nbase_url="{url}/v1"\nwire_api="responses"\nenv_key="FAKE_KEY"\n'
        reported = f'model="gpt-5"\nmodel_provider="fake"\n[model_providers.fake]\n{provider}'
        _write(home / ".codex/config.toml", reported)
        return {"FAKE_KEY": "x"}
    if name == "gemini":
        _write(home / ".gemini/settings.json", _auth("gemini-api-key"))
        return {"GEMINI_API_KEY": "x", "GOOGLE_GEMINI_BASE_URL": url, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    if name == "qwen":
        _write(home / ".qwen/settings.json", _auth("openai"))
        return {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "x", "OPENAI_MODEL": "fake-model"}
    options = {"baseURL": f"{url}/v1", "apiKey": "fake"}
    provider_of = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "m"}}}
    _write(home / "opencode.json", json.dumps({"provider": {"scripted": provider_of}, "model": "scripted/m"}))
    return {"OPENCODE_CONFIG": str(home / "opencode.json")}


def _auth(kind: str) -> str:
    return json.dumps({"security": {"auth": {"selectedType": kind}}})


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def record(name: str, program: Path, folder: Path) -> None:
    """Have the agent run in a HOME of its own, and make a fixture of what it wrote."""
    home, work = folder / name, folder / name / "shop"
    work.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / "notes.txt").write_text("TOOL-OUTPUT\n")
    with ScriptedApi(choose=_choose(name, work)) as api:
        env = {"HOME": str(home), "PATH": os.environ["PATH"], **_settings(name, api.url, home)}
        asked = [str(program), "--version"]
        version = subprocess.run(asked, env=env, capture_output=True, text=True, check=True).stdout
        for arguments in COMMANDS[name]:
            subprocess.run(
                [program, *arguments], cwd=work, env=env, stdin=subprocess.DEVNULL, check=True, timeout=150
            )
    number = next(word for word in version.split() if word[0].isdigit())
    (written,) = home.glob(WRITTEN[name])
    is_database = name == "opencode"
    lines = _dumped(written) if is_database else map(_scrubbed, written.read_text().splitlines())
    fixture = DATA / name / f"{number}.{'sql' if is_database else 'jsonl'}"
    _write(
        fixture,
        "".join(f"{line}\n" for line in lines)
        .replace(str(home), "/home/user")
        .replace(home.as_posix().replace("/", "-"), "-home-user"),
    )


def _scrubbed(line: str) -> str:
    return json.dumps(_cut(json.loads(line)), ensure_ascii=False)


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return f"{value[:_LONGEST]} (cut)" if isinstance(value, str) and len(value) > _LONGEST else value


def _dumped(path: Path) -> Iterator[str]:
    """The tables that hold sessions, as SQL."""
    with sqlite3.connect(path) as source:
        for (name,) in source.execute("select name from sqlite_master where type = 'table'").fetchall():
            if name not in _TABLES:
                source.execute(f'drop table "{name}"')
        yield from source.iterdump()
        source.rollback()


if __name__ == "__main__":
    for each in sys.argv[3:] or TOOLS:
        record(each, Path(sys.argv[1]).resolve() / "node_modules/.bin" / each, Path(sys.argv[2]).resolve())
