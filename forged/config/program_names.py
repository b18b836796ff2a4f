"""Names of classifiers that are programs of the person's own: `cli:claude`, `cli:qwen/MODEL`, `cmd:NAME`."""

from __future__ import annotations

AGENTS = {"claude": 280, "codex": 3_100, "gemini": 210, "qwen": 200, "opencode": 140}
"""Agents that are known as `cli:NAME`, and about how many tokens each adds to what a call is given."""

AGENT, OWN = "cli:", "cmd:"

_NAMING = frozenset({"qwen", "opencode"})  # take whatever model they are told, and have none of their own


def is_program(model: str) -> bool:
    """Whether this names a program, and no endpoint's model."""
    return model.startswith((AGENT, OWN))


def parts_of(model: str) -> tuple[str, str, str]:
    """Return `cli:` or `cmd:`, the name behind it, and the model that is chosen there, if one is."""
    kind = AGENT if model.startswith(AGENT) else OWN
    name, _, chosen = model.removeprefix(kind).partition("/")
    return kind, name, chosen


def no_program(role: str, model: str) -> str:
    """Why this name of a program can be none, or nothing; `role` is embedder, chat or classifier."""
    if role != "classifier":
        return "a program can be used as classifier only, not for other models"
    kind, name, chosen = parts_of(model)
    if kind == OWN:
        return "" if name and not chosen else "cmd: needs a name of your choice, such as cmd:mine"
    if name not in AGENTS:
        return f"cli: takes one of {', '.join(AGENTS)}"
    return f"it needs the name of a model, as in cli:{name}/MODEL" if name in _NAMING and not chosen else ""
