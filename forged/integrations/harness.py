"""An agent's own command: called by its absolute path, in a folder of ours, with an end.

Some ask although nobody can answer, and some wait for a network; so each call has a deadline, and what it
started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence

from forged.integrations.disk import IntegrationError
from forged.integrations.machine import Machine
from forged.integrations.rows import AgentRow

_WITHIN_S = 120.0
_ASKED_S = 10.0
_MOST_SHOWN = 300
# How programs say that they do not know one of our words: they are of an older version.
_UNKNOWN = re.compile(
    r"(unknown|unrecognized|invalid|unexpected) (sub)?(command|option|argument)", re.IGNORECASE
)


def call(machine: Machine, row: AgentRow, program: str, arguments: Sequence[str]) -> None:
    """Have the agent do something. Raises IntegrationError with what it said."""
    words = [program, *(argument.replace("{folder}", machine.plugin) for argument in arguments)]
    code, said = _run(words, _surroundings(machine, row, program), machine.plugin, _WITHIN_S)
    if code == 0:
        return
    shown = f"`{row.program} {' '.join(words[1:])}`"
    if code is None:
        raise IntegrationError(
            f"{shown} did not end within {_WITHIN_S:.0f} s: run it yourself, then run this again"
        )
    if code == 127 or "node: No such file" in said:
        raise IntegrationError(f"{program} cannot run: it needs Node.js, which is not in PATH (nodejs.org)")
    last = " ".join((said.strip()[-_MOST_SHOWN:] or f"exit code {code}").split())
    raise IntegrationError(f"{shown} failed: {last}" + (f"; {newer(row)}" if _UNKNOWN.search(said) else ""))


def newer(row: AgentRow) -> str:
    """What to do about an agent that is too old to have plug-ins."""
    return f"it was tried with {row.title} {row.tried}: `{row.install}`, then `forgectl setup {row.name}`"


def version_of(machine: Machine, row: AgentRow, program: str) -> str:
    """What an agent says is its version; empty when it says none in time."""
    code, said = _run([program, "--version"], _surroundings(machine, row, program), machine.home, _ASKED_S)
    words = said.split() if code == 0 else []
    return next((word for word in words if word[:1].isdigit() and "." in word), "")[:40]


def _surroundings(machine: Machine, row: AgentRow, program: str) -> dict[str, str]:
    """Those of the person, with the program's own folder in PATH: its interpreter often lies there."""
    path = f"{os.path.dirname(program)}:{machine.environ.get('PATH', '/usr/bin:/bin')}"
    return {**machine.environ, **row.env, "PATH": path, "FORGED_BYPASS": "1", "NO_COLOR": "1"}


def _run(
    words: Sequence[str], env: Mapping[str, str], folder: str, within_s: float
) -> tuple[int | None, str]:
    """Exit code, None for one that did not end, and all that was said."""
    try:
        with subprocess.Popen(
            words,
            env=env,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            return _heard(process, within_s)
    except OSError as error:
        return 127, f"{error.strerror}"


def _heard(process: subprocess.Popen[bytes], within_s: float) -> tuple[int | None, str]:
    """What it says until it ends; then its whole group is ended."""
    try:
        said, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        return None, ""
    else:
        return process.returncode, said.decode(errors="replace")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
