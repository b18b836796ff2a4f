"""State of the service: its unit files, their state in systemd, and lingering."""

from __future__ import annotations

import os

import msgspec

from forged.cli.call import Invocation
from forged.cli.exits import Stop
from forged.cli.service.units import UnitFileState, file_state, render_units
from forged.cli.user_manager import (
    UNITS,
    UnitState,
    UserManager,
    login_environment,
    program,
    run,
    systemd_version,
    unit_folder,
)

_LINGER_S = 5.0


class UnitFile(msgspec.Struct, frozen=True):
    """Path of one of forged's systemd unit files, and the state of the file."""

    path: str
    state: UnitFileState


class ServiceStatus(msgspec.Struct, frozen=True):
    """State of systemd's units for forged: files, units, lingering; `silence`: why systemd is not asked."""

    files: tuple[UnitFile, ...]
    units: tuple[UnitState, ...] = ()
    silence: str = ""
    lingering: str = ""


def read_status(call: Invocation) -> ServiceStatus:
    """Read the unit files, their state in systemd, and lingering, for `service status`; change nothing."""
    files = unit_files(call)
    manager = UserManager.find(call)
    silence = manager.silence() if manager else "systemctl was not found"
    if manager is None or silence:
        return ServiceStatus(files, silence=silence)
    return ServiceStatus(files, tuple(map(manager.unit, UNITS)), lingering=lingering(call))


def unit_files(call: Invocation) -> tuple[UnitFile, ...]:
    """Return path and state of each systemd unit file, compared with what this installation would write."""
    wanted, folder = wanted_units(call), unit_folder(call.environ)
    paths = {name: f"{folder}/{name}" for name in UNITS}
    return tuple(UnitFile(path, file_state(path, wanted[name])) for name, path in paths.items())


def wanted_units(call: Invocation) -> dict[str, str]:
    """Return this installation's unit texts by unit name. Raises Stop if `forged` is missing."""
    if call.executable is None:
        raise Stop(
            "unavailable", "the program `forged` is missing next to forgectl: install forged-memory again"
        )
    return render_units(call.executable, systemd_version(call))


def lingering(call: Invocation) -> str:
    """Return "yes" if the user's systemd outlives the last logout, "no" if not, "" if unknown."""
    loginctl = program(call, "loginctl")
    if not loginctl:
        return ""
    asked = ("show-user", str(os.geteuid()), "--property=Linger", "--value")
    answer = run(login_environment(call), _LINGER_S, loginctl, *asked).stdout.strip()
    return answer if answer in {"yes", "no"} else ""
