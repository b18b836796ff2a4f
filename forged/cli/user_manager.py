"""Client of the user's systemd, by `systemctl --user`: state of forged's units, and commands for them.

`UserManager.find` is None without systemctl. `silence` says why a manager does not answer, or that it reads
the units of another home. `in_charge` is for verbs that must know if systemd starts the daemon. Raises Stop
with systemd's message.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from typing import Self

import msgspec

from forged.cli.call import Invocation
from forged.cli.exits import Stop
from forged_client.address import home, socket_path
from forged_client.errors import AddressError

SOCKET, SERVICE = "forged.socket", "forged.service"
UNITS = (SOCKET, SERVICE)

_ASK_S, _DO_S = 10.0, 60.0
_STATE = ("LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID", "NRestarts", "NeedDaemonReload")


class UnitState(msgspec.Struct, frozen=True):
    """State of one of forged's systemd units, in systemd's words; `is_outdated` if its file has changed.

    `load` is loaded, not-found and others; `active` is active, inactive, failed and others.
    """

    name: str
    load: str = ""
    active: str = ""
    sub: str = ""
    enabled: str = ""
    pid: int = 0
    restarts: int = 0
    is_outdated: bool = False

    @property
    def is_socket(self) -> bool:
        """True for forged's socket unit, False for its service unit."""
        return self.name == SOCKET

    @property
    def is_active(self) -> bool:
        """True if systemd's unit runs, starts or reloads."""
        return self.active in {"active", "activating", "reloading"}


class UserManager(msgspec.Struct, frozen=True):
    """Client of the user's systemd by `systemctl --user`: reads units and runs commands on them.

    `folder` has the user's units.
    """

    systemctl: str
    environment: Mapping[str, str]
    folder: str

    @classmethod
    def find(cls, call: Invocation) -> Self | None:
        """Return a client of systemd if systemctl is installed, else None; asks systemd nothing."""
        systemctl = program(call, "systemctl")
        return cls(systemctl, login_environment(call), unit_folder(call.environ)) if systemctl else None

    @property
    def address(self) -> str:
        """Path of the socket on which forged's socket unit listens."""
        return f"{self.environment.get('XDG_RUNTIME_DIR', '')}/forged/forged.sock"

    def silence(self) -> str:
        """Return why the user's systemd cannot be used: no answer, or another HOME; empty if it can."""
        done = self._run(_ASK_S, "show", "--property=UnitPath", "--value")
        if done.returncode:
            return f"systemd's user manager does not answer ({_first_line(done.stderr)})"
        if self.folder not in done.stdout.rstrip("\n").split(" "):
            return f"systemd's user manager does not read {self.folder}: it has another HOME"
        return ""

    def unit(self, name: str) -> UnitState:
        """Return the state of a systemd unit by its name, with empty fields if systemd is silent."""
        properties = [f"--property={each}" for each in _STATE]
        shown = self._run(_ASK_S, "show", name, *properties).stdout
        found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
        load, active, sub, enabled, pid, restarts, outdated = (found.get(each, "") for each in _STATE)
        return UnitState(
            name, load, active, sub, enabled, int(pid or 0), int(restarts or 0), is_outdated=outdated == "yes"
        )

    def execute(self, *words: str) -> None:
        """Run `systemctl --user` with these words, 60 s at most. Raises Stop with its error."""
        done = self._run(_DO_S, *words)
        if done.returncode:
            why = _first_line(done.stderr) or f"exit code {done.returncode}"
            raise Stop("unavailable", f"`systemctl --user {' '.join(words)}` failed: {why}")

    def _run(self, within_s: float, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `systemctl --user` with these words within a time; return exit code and output."""
        return run(self.environment, within_s, self.systemctl, "--user", *words)


def in_charge(call: Invocation) -> UserManager | None:
    """Return systemd's manager if a unit of forged is active and listens at this call's address, or None."""
    manager = manager_at_address(call)
    return manager if manager and any(manager.unit(name).is_active for name in UNITS) else None


def manager_at_address(call: Invocation) -> UserManager | None:
    """Return systemd's manager if it answers and its socket's path is this call's address, or None."""
    manager = UserManager.find(call)
    if manager is None or address_of(call) != manager.address or manager.silence():
        return None
    return manager


def unit_folder(environ: Mapping[str, str]) -> str:
    """Return the folder of the user's systemd units, by XDG_CONFIG_HOME or HOME."""
    named = environ.get("XDG_CONFIG_HOME", "")
    return f"{named if named.startswith('/') else f'{home(environ)}/.config'}/systemd/user"


def program(call: Invocation, name: str) -> str:
    """Return the absolute path of a system program in the call's fixed folders; empty if it is missing."""
    places = (os.path.join(folder, name) for folder in call.programs)
    return next((path for path in places if os.access(path, os.X_OK)), "")


def systemd_version(call: Invocation) -> int:
    """Return the version number of the installed systemd, 0 if there is none."""
    systemctl = program(call, "systemctl")
    words = run(login_environment(call), _ASK_S, systemctl, "--version").stdout.split() if systemctl else []
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def login_environment(call: Invocation) -> dict[str, str]:
    """Return the environment for systemd's programs: plain output, XDG_RUNTIME_DIR as after a login."""
    found = {**call.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_LESS": ""}
    runtime = f"/run/user/{os.geteuid()}"
    if not found.get("XDG_RUNTIME_DIR") and os.path.isdir(runtime):
        found["XDG_RUNTIME_DIR"] = runtime
    return found


def run(environment: Mapping[str, str], within_s: float, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a system program; return code and output, a nonzero code if it cannot start or end."""
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"no answer within {within_s:.0f} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"{error.strerror}")


def address_of(call: Invocation) -> str:
    """Return the path of the daemon's socket by this call's environment. Raises Stop if it is invalid."""
    try:
        return socket_path(call.environ)
    except AddressError as error:
        raise Stop("configuration", str(error)) from error


def _first_line(text: str) -> str:
    """Return the first line of systemctl's error output that is not blank."""
    return text.strip().partition("\n")[0]
