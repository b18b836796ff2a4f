"""Read Codex's own records of the plug-in: if it is enabled, and if its hooks are trusted.

Codex runs a hook only after you trust it, and stores the hash of its event, command and timeout. The same
hash is computed here, so that a changed command shows as untrusted. Other changes of the plug-in, also of
its version, leave the trust as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from typing import Literal

from forged.integrations import file_io
from forged.integrations.file_io import IntegrationError

Trust = Literal["given", "missing"]
_HOOKS_FILE = "codex/hooks.json"


def is_on(folder: str, plugin: str) -> bool:
    """Return True if Codex's configuration enables the plug-in. Raises IntegrationError."""
    plugins = _read_config(folder).get("plugins")
    one = plugins.get(plugin) if isinstance(plugins, dict) else None
    return isinstance(one, dict) and one.get("enabled") is not False


def hook_trust(folder: str, plugin: str, hooks: dict[str, list[object]]) -> Trust:
    """Return `given` if Codex's record has the hash of each of these hooks, else `missing`."""
    section = _read_config(folder).get("hooks")
    states = section.get("state") if isinstance(section, dict) else None
    if not isinstance(states, dict):
        return "missing"
    for event, groups in hooks.items():
        name = _snake_case(event)
        noted = states.get(f"{plugin}:{_HOOKS_FILE}:{name}:0:0")
        if not isinstance(noted, dict) or noted.get("trusted_hash") != _hash(name, groups[0]):
            return "missing"
    return "given"


def _hash(event: str, group: object) -> str:
    """Compute the hash that Codex stores for a trusted hook: event and settings as compact, sorted JSON."""
    one = {"async": False, **group["hooks"][0]} if isinstance(group, dict) else {}
    identity = {"event_name": event, "hooks": [one]}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _snake_case(event: str) -> str:
    """Return an event's name in snake case, as Codex writes it."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", event).lower()


def _read_config(folder: str) -> dict[str, object]:
    """Read config.toml in Codex's folder; empty if there is none. Raises IntegrationError if unreadable."""
    path = os.path.join(folder, "config.toml")
    try:
        return tomllib.loads(file_io.read(path) or "")
    except tomllib.TOMLDecodeError as error:
        raise IntegrationError(f"{path} is no TOML: {error}") from error
