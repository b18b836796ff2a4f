"""Checks of the systemd service, for `forgectl doctor`; no finding without unit files."""

from __future__ import annotations

from collections.abc import Iterator

from forged.cli.call import Invocation
from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.exits import Stop
from forged.cli.service.status import ServiceStatus, read_status, unit_files
from forged.cli.service.units import UnitFileState

_INSTALL = "`forgectl service install`"


def service(call: Invocation) -> Iterator[Check]:
    """Yield findings on forged's systemd units: old or missing files, no socket; none if absent."""
    try:
        if all(file.state == UnitFileState.MISSING for file in unit_files(call)):
            return
    except Stop:  # no program to compare them with
        return
    found = read_status(call)
    odd = [file for file in found.files if file.state in {UnitFileState.MISSING, UnitFileState.OLDER}]
    for file in odd:
        yield Check("service", WARN, f"{file.path} is {file.state}", _INSTALL)
    if found.silence:
        yield Check("service", WARN, found.silence, f"{_INSTALL} in a login session")
    elif not any(unit.is_socket and unit.is_active for unit in found.units):
        yield Check("service", WARN, "systemd does not listen on the socket", _INSTALL)
    elif not odd:
        yield Check("service", OK, _listening_text(found))


def _listening_text(found: ServiceStatus) -> str:
    """Return the text `systemd listens` for doctor, with the unit files that a person changed."""
    own = [file.path for file in found.files if file.state != UnitFileState.CURRENT]
    return f"systemd listens; changed by you: {', '.join(own)}" if own else "systemd listens"
