"""Table of the agents that forged knows: `agents.toml`, which documents its keys."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Literal

import msgspec

from forged_client.typed import resolved

Way = Literal["plugin", "file", "settings"]
Shape = Literal["group", "plain", "typed"]
ServerEnv = Literal["passed", "named", "written"]


class AgentRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Row of agents.toml: programs, files, settings and hooks of one agent; that file documents the keys."""

    title: str
    program: str
    install: str
    places: tuple[str, ...]
    way: Way
    name: str = ""
    macos: str = ""
    tried: str = ""
    unit_s: float = 1.0
    shape: Shape = "group"
    events: dict[str, int] = {}
    installs: tuple[tuple[str, ...], ...] = ()
    removes: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    server_env: ServerEnv = "written"
    headless: tuple[str, ...] = ()
    files: dict[str, str] = {}
    copies: dict[str, str] = {}
    settings: dict[str, str] = {}
    head: dict[str, dict[str, int]] = {}
    leaves: str = ""
    left: str = ""

    def is_run_as(self, path: str) -> bool:
        """Return True for a path of the agent's program, of another one of it, or in its npm package."""
        name = _ENDING.sub("", os.path.basename(path).removeprefix("-"))
        package = self.install.rpartition(" ")[2] if self.install.startswith("npm ") else ""
        is_inside = bool(package) and f"/node_modules/{package}/" in path
        return is_inside or name == self.program or name.startswith(f"{self.program}-")


@cache
def agent_rows() -> dict[str, AgentRow]:
    """Return the rows of agents.toml by the names of the agents."""
    text = resources.files("forged").joinpath("agents.toml").read_text("utf-8")
    read = msgspec.convert(tomllib.loads(text), resolved(dict[str, AgentRow]))
    return {name: msgspec.structs.replace(row, name=name) for name, row in read.items()}


# Programs that run a script, which is the first word behind them that is no option.
_INTERPRETERS = re.compile(r"(?:node(?:js)?|bun|deno|tsx|python[\d.]*)(?:\.exe)?")
_ENDING = re.compile(r"\.(?:exe|[cm]?js|ts|py|sh)$")


def agent_that_runs(command: Sequence[str]) -> str:
    """Return the title of the agent that a process with this command line is, or ""."""
    words = command[:1]
    if words and _INTERPRETERS.fullmatch(os.path.basename(words[0])):
        words = [*words, *[word for word in command[1:] if not word.startswith("-")][:1]]
    return next((row.title for row in agent_rows().values() if any(map(row.is_run_as, words))), "")
