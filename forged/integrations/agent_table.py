"""Table of the agents that forged connects to: `agents.toml`, which documents its keys."""

from __future__ import annotations

import tomllib
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


@cache
def agent_rows() -> dict[str, AgentRow]:
    """Return the rows of agents.toml by the names of the agents."""
    text = resources.files("forged.integrations").joinpath("agents.toml").read_text("utf-8")
    read = msgspec.convert(tomllib.loads(text), resolved(dict[str, AgentRow]))
    return {name: msgspec.structs.replace(row, name=name) for name, row in read.items()}


def template(name: str) -> str:
    """Return the text of a template in the folder `plugin`, by its name."""
    return resources.files("forged.integrations").joinpath("plugin", name).read_text("utf-8")
