"""What there is of the service: the unit files, how systemd sees them, whether it outlives a logout."""

from __future__ import annotations

import os

import msgspec

from forged.cli.call import Invocation
from forged.cli.exits import Stop
from forged.cli.service.units import UnitFileState, rendered, standing
from forged.cli.user_manager import (
    UNITS,
    UnitState,
    UserManager,
    program,
    run,
    surroundings,
    systemd_version,
    unit_folder,
)

_LINGER_S = 5.0


class UnitFile(msgspec.Struct, frozen=True):
    """A unit's file: where it belongs, and what lies there."""

    path: str
    standing: UnitFileState


class ServiceStatus(msgspec.Struct, frozen=True):
    """`silence`: why systemd says nothing of the units; `lingering`: yes, no, or empty where nobody knows."""

    files: tuple[UnitFile, ...]
    units: tuple[UnitState, ...] = ()
    silence: str = ""
    lingering: str = ""


def look(call: Invocation) -> ServiceStatus:
    """All of it; touches nothing."""
    files = unit_files(call)
    manager = UserManager.find(call)
    silence = manager.silence() if manager else "there is no systemctl here"
    if manager is None or silence:
        return ServiceStatus(files, silence=silence)
    return ServiceStatus(files, tuple(map(manager.unit, UNITS)), lingering=lingering(call))


def unit_files(call: Invocation) -> tuple[UnitFile, ...]:
    """Each unit's file, compared with what this installation would write."""
    wanted, folder = wanted_units(call), unit_folder(call.environ)
    paths = {name: f"{folder}/{name}" for name in UNITS}
    return tuple(UnitFile(path, standing(path, wanted[name])) for name, path in paths.items())


def wanted_units(call: Invocation) -> dict[str, str]:
    """The units of this installation. Raises Stop when no daemon's program lies beside this forgectl."""
    if call.executable is None:
        raise Stop("unavailable", "no `forged` lies beside this forgectl: install forged-memory again")
    return rendered(call.executable, systemd_version(call))


def lingering(call: Invocation) -> str:
    """Whether the user's systemd outlives the last logout: yes, no, or empty where nobody knows."""
    loginctl = program(call, "loginctl")
    if not loginctl:
        return ""
    asked = ("show-user", str(os.geteuid()), "--property=Linger", "--value")
    told = run(surroundings(call), _LINGER_S, loginctl, *asked).stdout.strip()
    return told if told in {"yes", "no"} else ""
