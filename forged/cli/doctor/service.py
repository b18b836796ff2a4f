"""The part of `forgectl doctor` that looks at the service, where there is one.

Most people need none, so without unit files nothing is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from forged.cli.call import Invocation
from forged.cli.doctor.checks import OK, WARN, Check
from forged.cli.exits import Stop
from forged.cli.service.looking import ServiceStatus, look, unit_files
from forged.cli.service.units import UnitFileState

_INSTALL = "`forgectl service install`"


def service(call: Invocation) -> Iterator[Check]:
    """Whether the units are those of this installation, and systemd listens."""
    try:
        if all(file.standing == UnitFileState.MISSING for file in unit_files(call)):
            return
    except Stop:  # no program to compare them with
        return
    found = look(call)
    odd = [file for file in found.files if file.standing in {UnitFileState.MISSING, UnitFileState.OLDER}]
    for file in odd:
        yield Check("service", WARN, f"{file.path} is {file.standing}", _INSTALL)
    if found.silence:
        yield Check("service", WARN, found.silence, f"{_INSTALL} in a session that you logged in to")
    elif not any(unit.is_socket and unit.is_active for unit in found.units):
        yield Check("service", WARN, "systemd does not listen", _INSTALL)
    elif not odd:
        yield Check("service", OK, _told(found))


def _told(found: ServiceStatus) -> str:
    """What differs from `install` is the person's own, and named."""
    own = [file.path for file in found.files if file.standing != UnitFileState.CURRENT]
    return f"systemd listens; {', '.join(own)}: of your own" if own else "systemd listens"
