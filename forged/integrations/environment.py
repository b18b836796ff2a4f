"""Find model servers on loopback, API keys by name, and programs that can classify.

Each server is asked once, for the names of its models, with a limit of half a second. Of a key only the name
of its variable is read.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping

import msgspec

from forged import config
from forged.integrations.machine import Machine

_WITHIN_S = 0.5
_MOST_BYTES = 1 << 18
_MOST_NAMES = 5
_KEYS = ("OPENAI_API_KEY", "EMBEDDING_API_KEY")
# Estimate of a day's work, for the cost; text of a call besides the agent's own part.
TURNS, _TURNS_A_CALL, _TEXT_TOKENS = 40, 4, 1_500


class ModelServer(msgspec.Struct, frozen=True):
    """A model server that answers on loopback: its name, its URL for the configuration, and its models."""

    name: str
    base_url: str
    models: tuple[str, ...] = ()


class ClassifierProgram(msgspec.Struct, frozen=True):
    """An installed agent that could classify turns, with calls and tokens for a day of `TURNS` turns."""

    name: str
    title: str
    calls: int
    tokens: int


SERVERS: Mapping[str, tuple[int, str, str, str]] = {
    "Ollama": (11434, "/api/tags", "models", "name"),
    "LM Studio": (1234, "/v1/models", "data", "id"),
}


def servers(known: Mapping[str, tuple[int, str, str, str]] | None = None) -> tuple[ModelServer, ...]:
    """Ask the known ports on loopback (Ollama, LM Studio) for models; return the servers that answer."""
    found = []
    for name, (port, path, section, field) in (SERVERS if known is None else known).items():
        names = _ask_models(port, path, section, field)
        if names is not None:
            found.append(ModelServer(name, f"http://127.0.0.1:{port}/v1", names))
    return tuple(found)


def keys(machine: Machine) -> tuple[str, ...]:
    """Return which of two known variables with API keys are set, by name, without the keys."""
    return tuple(name for name in _KEYS if machine.environ.get(name))


def classifiers(machine: Machine, titles: Mapping[str, str]) -> tuple[ClassifierProgram, ...]:
    """Return the installed agents that could classify turns if configured, with the cost for a day."""
    calls = TURNS // _TURNS_A_CALL
    return tuple(
        ClassifierProgram(_config_name(name), titles[name], calls, calls * (_TEXT_TOKENS + added))
        for name, added in config.AGENTS.items()
        if machine.program(name)
    )


def _config_name(agent: str) -> str:
    """Return the value for `classifier` that selects an agent's program, with MODEL where it needs one."""
    name = f"cli:{agent}"
    return f"{name}/MODEL" if config.unusable_reason("classifier", name) else name


def _ask_models(port: int, path: str, section: str, field: str) -> tuple[str, ...] | None:
    """Ask a server on a port of loopback for its models; None if it gives no valid answer within 0.5 s."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_WITHIN_S)
    ends = time.monotonic() + _WITHIN_S
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        data = b""
        while (part := response.read1(_MOST_BYTES)) and time.monotonic() < ends:
            data += part
            if len(data) > _MOST_BYTES:
                return None
        listed = json.loads(data)[section] if response.status == 200 else None
        names = [one[field] for one in listed or []]
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, RecursionError):
        return None
    finally:
        connection.close()
    return tuple(str(name)[:80] for name in names[:_MOST_NAMES]) if listed is not None else None
