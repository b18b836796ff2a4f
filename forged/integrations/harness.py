"""Run an agent's own command, by its absolute path, in forged's folder, with a time limit.

Some commands ask questions although no terminal is there, and some wait for a network. So each call has a
deadline, and its child processes end with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence

from forged.agent_table import AgentRow
from forged.integrations.file_io import IntegrationError
from forged.integrations.machine import Machine

_WITHIN_S = 120.0
_ASKED_S = 10.0
_MOST_SHOWN = 300
# Error messages for an unknown command or option, which an older version prints.
_UNKNOWN = re.compile(
    r"(unknown|unrecognized|invalid|unexpected) (sub)?(command|option|argument)", re.IGNORECASE
)


def call(machine: Machine, row: AgentRow, program: str, arguments: Sequence[str]) -> None:
    """Run a command of an agent, at most 120 s. Raises IntegrationError with its output or a remedy."""
    words = [program, *(argument.replace("{folder}", machine.plugin) for argument in arguments)]
    code, output = _run(words, _environment(machine, row, program), machine.plugin, _WITHIN_S)
    if code == 0:
        return
    shown = f"`{row.program} {' '.join(words[1:])}`"
    if code is None:
        raise IntegrationError(
            f"{shown} did not end within {_WITHIN_S:.0f} s: run it yourself, then run this again"
        )
    if code == 127 or "node: No such file" in output:
        raise IntegrationError(f"{program} cannot run: it needs Node.js, which is not in PATH (nodejs.org)")
    last = " ".join((output.strip()[-_MOST_SHOWN:] or f"exit code {code}").split())
    raise IntegrationError(
        f"{shown} failed: {last}" + (f"; {update_advice(row)}" if _UNKNOWN.search(output) else "")
    )


def update_advice(row: AgentRow) -> str:
    """Return the advice to update an agent whose version may lack plug-ins, and to run setup again."""
    return f"it was tried with {row.title} {row.tried}: `{row.install}`, then `forgectl setup {row.name}`"


def version_of(machine: Machine, row: AgentRow, program: str) -> str:
    """Return the version that the agent prints; empty if it prints none in time."""
    code, output = _run([program, "--version"], _environment(machine, row, program), machine.home, _ASKED_S)
    words = output.split() if code == 0 else []
    return next((word for word in words if word[:1].isdigit() and "." in word), "")[:40]


def _environment(machine: Machine, row: AgentRow, program: str) -> dict[str, str]:
    """Return the environment for an agent's command: bypasses forged, has the program's folder in PATH."""
    path = f"{os.path.dirname(program)}:{machine.environ.get('PATH', '/usr/bin:/bin')}"
    return {**machine.environ, **row.env, "PATH": path, "FORGED_BYPASS": "1", "NO_COLOR": "1"}


def _run(
    words: Sequence[str], env: Mapping[str, str], folder: str, within_s: float
) -> tuple[int | None, str]:
    """Run a program without stdin; return its exit code (None: time-out, 127: no start) and its output."""
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
            return _wait_for_output(process, within_s)
    except OSError as error:
        return 127, f"{error.strerror}"


def _wait_for_output(process: subprocess.Popen[bytes], within_s: float) -> tuple[int | None, str]:
    """Wait for a process, end its whole group; return exit code (None: time-out) and output."""
    try:
        output, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        return None, ""
    else:
        return process.returncode, output.decode(errors="replace")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
