"""Ask and tell the user's systemd what forgectl needs: whether it answers, how our units are, to do this.

`UserManager.find` is None without systemctl. `silence` says why a manager does not answer, or that it reads
another home's units, so that it would speak of somebody else's daemon. `in_charge` is for verbs that must
know who starts the daemon. Raises Stop, with systemd's own words.
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
    """A unit in systemd's words: `load` loaded, masked, not-found; `active` active, inactive, failed."""

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
        return self.name == SOCKET

    @property
    def is_active(self) -> bool:
        return self.active in {"active", "activating", "reloading"}


class UserManager(msgspec.Struct, frozen=True):
    """systemctl with the environment in which it finds the user's manager; `folder` is where our units go."""

    systemctl: str
    environment: Mapping[str, str]
    folder: str

    @classmethod
    def find(cls, call: Invocation) -> Self | None:
        systemctl = program(call, "systemctl")
        return cls(systemctl, surroundings(call), unit_folder(call.environ)) if systemctl else None

    @property
    def address(self) -> str:
        """Where our socket unit listens."""
        return f"{self.environment.get('XDG_RUNTIME_DIR', '')}/forged/forged.sock"

    def silence(self) -> str:
        """Why it cannot be told about our units, as a sentence; empty when it can."""
        done = self._run(_ASK_S, "show", "--property=UnitPath", "--value")
        if done.returncode:
            return f"no user manager answers ({_first_line(done.stderr)})"
        if self.folder not in done.stdout.rstrip("\n").split(" "):
            return f"the user manager that answers does not read {self.folder}: HOME is not the one it has"
        return ""

    def unit(self, name: str) -> UnitState:
        """How a unit stands; all is empty when no manager answers."""
        properties = [f"--property={each}" for each in _STATE]
        told = self._run(_ASK_S, "show", name, *properties).stdout
        found = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        load, active, sub, enabled, pid, restarts, outdated = (found.get(each, "") for each in _STATE)
        return UnitState(
            name, load, active, sub, enabled, int(pid or 0), int(restarts or 0), is_outdated=outdated == "yes"
        )

    def do(self, *words: str) -> None:
        """Have it do something, and wait until that is done."""
        done = self._run(_DO_S, *words)
        if done.returncode:
            told = _first_line(done.stderr) or f"exit code {done.returncode}"
            raise Stop("unavailable", f"`systemctl --user {' '.join(words)}` failed: {told}")

    def _run(self, within_s: float, *words: str) -> subprocess.CompletedProcess[str]:
        return run(self.environment, within_s, self.systemctl, "--user", *words)


def in_charge(call: Invocation) -> UserManager | None:
    """The manager that starts the daemon of this call's address; None where it is started by clients."""
    manager = of_address(call)
    return manager if manager and any(manager.unit(name).is_active for name in UNITS) else None


def of_address(call: Invocation) -> UserManager | None:
    """A manager that answers and whose units, if there are any, are those of this call's address."""
    manager = UserManager.find(call)
    if manager is None or address_of(call) != manager.address or manager.silence():
        return None
    return manager


def unit_folder(environ: Mapping[str, str]) -> str:
    """Where a user's own units lie; autostart looks there as well."""
    named = environ.get("XDG_CONFIG_HOME", "")
    return f"{named if named.startswith('/') else f'{home(environ)}/.config'}/systemd/user"


def program(call: Invocation, name: str) -> str:
    """Absolute path of a program of the system; empty where it is not there."""
    places = (os.path.join(folder, name) for folder in call.programs)
    return next((path for path in places if os.access(path, os.X_OK)), "")


def systemd_version(call: Invocation) -> int:
    """Of the systemd that is installed here, 0 if none is."""
    systemctl = program(call, "systemctl")
    told = run(surroundings(call), _ASK_S, systemctl, "--version").stdout.split() if systemctl else []
    return int(told[1]) if len(told) > 1 and told[1].isdigit() else 0


def surroundings(call: Invocation) -> dict[str, str]:
    """The caller's environment, and where a login shell without XDG_RUNTIME_DIR would find the manager."""
    found = {**call.environ, "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": "", "SYSTEMD_LESS": ""}
    runtime = f"/run/user/{os.geteuid()}"
    if not found.get("XDG_RUNTIME_DIR") and os.path.isdir(runtime):
        found["XDG_RUNTIME_DIR"] = runtime
    return found


def run(environment: Mapping[str, str], within_s: float, *command: str) -> subprocess.CompletedProcess[str]:
    """What a program of the system says. One that cannot be run, or does not end in time, has failed."""
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
    """Where this call asks for the daemon. Raises Stop when that is no address."""
    try:
        return socket_path(call.environ)
    except AddressError as error:
        raise Stop("configuration", str(error)) from error


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
