"""Names of classifiers that are programs of the user: `cli:claude`, `cli:qwen/MODEL`, `cmd:NAME`."""

from __future__ import annotations

AGENTS = {"claude": 280, "codex": 3_100, "gemini": 210, "qwen": 200, "opencode": 140}
"""Agents usable as `cli:NAME`, with the approximate number of tokens that each adds to a call."""

AGENT, OWN = "cli:", "cmd:"

_NAMING = frozenset({"qwen", "opencode"})  # these have no default model of their own


def is_program(model: str) -> bool:
    """Return True if this names a program and not a model of an endpoint."""
    return model.startswith((AGENT, OWN))


def split_program_name(model: str) -> tuple[str, str, str]:
    """Return the prefix `cli:` or `cmd:` of a program's name, the name behind it, and its model or ""."""
    kind = AGENT if model.startswith(AGENT) else OWN
    name, _, chosen = model.removeprefix(kind).partition("/")
    return kind, name, chosen


def program_name_problem(role: str, model: str) -> str:
    """Return why this name of a program is invalid, or ""; `role` is embedder, chat or classifier."""
    if role != "classifier":
        return "a program can be used as classifier only, not for other models"
    kind, name, chosen = split_program_name(model)
    if kind == OWN:
        return "" if name and not chosen else "cmd: needs a name of your choice, such as cmd:mine"
    if name not in AGENTS:
        return f"cli: takes one of {', '.join(AGENTS)}"
    return f"it needs the name of a model, as in cli:{name}/MODEL" if name in _NAMING and not chosen else ""
