"""Resolve the user's program that works as classifier.

The path is absolute and comes from `llm.command`, which a person wrote. PATH is never searched.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from forged.config.endpoints import endpoint_key
from forged.config.keys import OWN_KEY
from forged.config.program_names import AGENT, split_program_name
from forged.config.values import Config
from forged.errors import ConfigError
from forged.program import Program


def find_program(config: Config, env: Mapping[str, str]) -> Program:
    """Return the classifier's program with command, environment and key; may block 5 s for the key.

    Raises ConfigError if no command is configured, or a key is missing.
    """
    kind, name, model = split_program_name(config.classifier)
    if not config.llm.command:
        raise ConfigError(
            f"{kind}{name} needs its path: llm.command is not set (`forgectl config classifier` prints it)"
        )
    key = "" if config.llm.api_key == OWN_KEY else endpoint_key("llm.api_key", config, env)
    given = {name: value for name, value in env.items() if not name.startswith("FORGED_")}
    row = name if kind == AGENT else "cmd"
    return Program(f"{kind}{name}", row, model, tuple(shlex.split(config.llm.command)), given, key)


def command_problem(text: str) -> str:
    """Return the required form of `llm.command` if this text does not have it, else ""."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = [""]
    is_one = not words or (os.path.isabs(words[0]) and "/../" not in f"{words[0]}/")
    return "" if is_one else "an absolute path, optionally followed by arguments"
