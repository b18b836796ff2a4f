"""Resolve references to API keys, and mask keys and URLs for display.

`env:NAME`, `file:PATH` and `cmd:...` keep keys out of the configuration file. A key is fetched when a
provider is made, so a locked password store does not stop the daemon. A key file that others can read is
refused, because a warning would be overlooked. No message contains a key, the output of a command or the
contents of a file.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from forged.errors import ConfigError

# Value of a key option: use the key that the environment has for this host.
OWN_KEY = "auto"
_MAX_KEY_BYTES = 16 * 1024
_FORMS = ("env:", "file:", "cmd:")


def is_reference(text: str) -> bool:
    """Return True if a text refers to a key (env:, file:, cmd:) and is not the key itself."""
    return text.startswith(_FORMS)


def resolve_key(reference: str, env: Mapping[str, str], *, timeout_s: float = 5.0) -> str:
    """Return the API key that a reference names in variable, file or command; a literal as it is.

    `cmd:` runs without a shell, in `/`, for at most `timeout_s`. Blocks. Raises ConfigError if there is no
    key or a header cannot carry it.
    """
    form, _, target = reference.partition(":")
    if not is_reference(reference):
        key = reference
    elif form == "env":
        key = env.get(target.strip(), "")
    elif form == "file":
        key = _key_from_file(target.strip(), env)
    else:
        key = _key_from_command(target, env, timeout_s)
    key = key.strip()
    if reference and not key:
        raise ConfigError(f"no key: {_source(reference)} is {'not set' if form == 'env' else 'empty'}")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(f"no key: {_source(reference)} contains blanks or invalid characters")
    return key


def _key_from_file(path: str, env: Mapping[str, str]) -> str:
    """Return the content of a key file. Raises ConfigError, also if others can read the file."""
    if path.startswith("~/"):
        path = f"{env.get('HOME', '')}{path[1:]}"
    if not os.path.isabs(path):
        raise ConfigError(f"no key: file:{path} must be an absolute path or start with ~/")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            _require_private(os.fstat(file.fileno()), path)
            return file.read(_MAX_KEY_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise ConfigError(f"no key: file:{path} cannot be read ({error.strerror})") from error


def _require_private(info: os.stat_result, path: str) -> None:
    """Raise ConfigError unless a key file is regular and only its owner can read it."""
    if not stat.S_ISREG(info.st_mode):
        raise ConfigError(f"no key: file:{path} is not a regular file")
    if info.st_uid != os.getuid() or info.st_mode & 0o077:
        raise ConfigError(f"no key: file:{path} must belong to you alone (chmod 600 {path})")


def _key_from_command(command: str, env: Mapping[str, str], timeout_s: float) -> str:
    """Run a command for a limited time; return the key that it prints. Raises ConfigError."""
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"no key: unclosed quote in {_source('cmd:')}") from error
    if not arguments:
        raise ConfigError("no key: cmd: names no command")
    name = Path(arguments[0]).name
    try:
        # An own session, so that a timeout kills the command and its children.
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"no key: the command {name} cannot be started") from error
    with process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise ConfigError(f"no key: the command {name} took over {timeout_s:g} s") from error
    if process.returncode:
        raise ConfigError(f"no key: the command {name} failed with exit code {process.returncode}")
    return bytes(output[:_MAX_KEY_BYTES]).decode("utf-8", "replace")


def _source(reference: str) -> str:
    """Return the source of a key as words for an error message, without the key."""
    form, _, target = reference.partition(":")
    if not is_reference(reference):
        return "the key in the configuration"
    return "the command of cmd:" if form == "cmd" else target.strip() or reference


def shown_key(reference: str) -> str:
    """Return a reference to a key for display: of a command only its name; stars for a literal key."""
    if reference.startswith("cmd:"):
        name, _, arguments = reference.removeprefix("cmd:").strip().partition(" ")
        return f"cmd:{name}{' ...' if arguments else ''}"
    plain = is_reference(reference) or reference in {"", OWN_KEY}
    return reference if plain else "********"


def shown_url(url: str) -> str:
    """Return a URL without user, password, query and fragment, each of which may hold a key."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else "(not a URL)"
