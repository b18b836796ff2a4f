"""From the configuration to the program of the person's own that decides what is kept.

In go the configuration and the environment, out comes a `Program`, or ConfigError is raised. Its path is
absolute and comes from `llm.command`, where a person wrote it: nothing is looked for in PATH.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from forged.config.endpoints import endpoint_key
from forged.config.keys import OWN_KEY
from forged.config.program_names import AGENT, parts_of
from forged.config.values import Config
from forged.errors import ConfigError
from forged.program import Program


def find_program(config: Config, env: Mapping[str, str]) -> Program:
    """Return the program that the classifier names. Blocks up to 5 s when its key comes from a command.

    Raises ConfigError where no command is recorded, or a key is not there.
    """
    kind, name, model = parts_of(config.classifier)
    if not config.llm.command:
        raise ConfigError(
            f"{kind}{name} needs its path: llm.command is not set (`forgectl config classifier` prints it)"
        )
    key = "" if config.llm.api_key == OWN_KEY else endpoint_key("llm.api_key", config, env)
    given = {name: value for name, value in env.items() if not name.startswith("FORGED_")}
    row = name if kind == AGENT else "cmd"
    return Program(f"{kind}{name}", row, model, tuple(shlex.split(config.llm.command)), given, key)


def bad_command(text: str) -> str:
    """What `llm.command` must be, if this is not it."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = [""]
    is_one = not words or (os.path.isabs(words[0]) and "/../" not in f"{words[0]}/")
    return "" if is_one else "an absolute path, optionally followed by arguments"
