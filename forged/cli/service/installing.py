"""Steps that install and uninstall the units: generators that do a step and yield a sentence about it.

Raises Stop before any change if a foreign file is in the way or systemd refuses the units, and later with
systemd's message. The order keeps one daemon at the address: a daemon without systemd ends before systemd
listens there. A client in between finds the unit and lets systemd start the daemon.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence

from forged.cli import process
from forged.cli.call import Invocation
from forged.cli.exits import Stop
from forged.cli.service import units
from forged.cli.service.status import UnitFile, unit_files, wanted_units
from forged.cli.service.units import UnitFileState
from forged.cli.terminal import tell
from forged.cli.user_manager import SERVICE, SOCKET, UNITS, UserManager, address_of, systemd_version

_KEEPS_VECTORS = 254  # the first systemd that keeps the vectors of a stopped service
# Where `systemctl enable` puts its links, below the folder of the units.
_LINKS = (f"sockets.target.wants/{SOCKET}", f"default.target.wants/{SERVICE}")


def install(call: Invocation, *, replaces: bool = False) -> Iterator[str]:
    """Write systemd's units where needed and let systemd listen at the socket; yield each step."""
    manager = UserManager.find(call)
    if manager is None:
        why = "systemctl was not found, so nothing was installed; without a service the first client starts"
        raise Stop("unavailable", f"{why} the daemon")
    wanted = wanted_units(call)
    files = unit_files(call)
    _refuse_foreign(files, replaces=replaces)
    _verify(call, wanted)
    for file in files:
        yield _write_unit(file, wanted[os.path.basename(file.path)])
    if silence := manager.silence():
        again = "run `forgectl service install` again in a login session"
        raise Stop("unavailable", f"the units are written, but {silence}; {again}")
    is_new = any(file.state != UnitFileState.CURRENT for file in files)
    yield from _start_listening(call, manager, is_new=is_new)


def uninstall(call: Invocation) -> Iterator[str]:
    """Stop and disable systemd's units, remove their files and links; yield each step. Raises Stop."""
    files = [file for file in unit_files(call) if file.state != UnitFileState.MISSING]
    if not files:
        yield "no unit of forged is installed"
        return
    _refuse_foreign(files, replaces=False)
    manager = UserManager.find(call)
    answers = manager is not None and not manager.silence()
    if manager is not None and answers:
        yield from _disable_units(call, manager)
    for path in _unit_links(files):
        os.unlink(path)
        with contextlib.suppress(OSError):  # others have links there
            os.rmdir(os.path.dirname(path))
        yield f"removed {path}"
    for file in files:
        os.unlink(file.path)
        yield f"removed {file.path}"
    if manager is not None and answers:
        manager.execute("daemon-reload")


def _refuse_foreign(files: Sequence[UnitFile], *, replaces: bool) -> None:
    """Raise Stop for a systemd unit file that a person wrote or changed, unless `replaces` allows it."""
    for file in files:
        if file.state in {UnitFileState.CHANGED, UnitFileState.FOREIGN} and not (
            replaces and _is_regular_file(file.path)
        ):
            overwrite = "`forgectl service install --replace` overwrites it, without the changes"
            remedy = overwrite if _is_regular_file(file.path) else "remove it"
            raise Stop("conflict", f"{file.path} is {file.state}, so nothing was done: {remedy}")


def _is_regular_file(path: str) -> bool:
    """Return True if the path is a file and not a link."""
    return os.path.isfile(path) and not os.path.islink(path)


def _verify(call: Invocation, wanted: Mapping[str, str]) -> None:
    """Let systemd check the unit texts. Raises Stop if it refuses them; its warnings go to stderr."""
    complaints, is_refused = units.complaints(call, wanted)
    if is_refused:
        raise Stop("unavailable", f"systemd refuses the units, so nothing was done: {complaints}")
    if complaints:
        tell(f"forgectl: systemd warns about the units: {complaints}")


def _write_unit(file: UnitFile, text: str) -> str:
    """Write a systemd unit file unless it is up to date; return a sentence about what was done."""
    if file.state == UnitFileState.CURRENT:
        return f"{file.path} is up to date"
    units.replace(file.path, text)
    return f"{'wrote' if file.state == UnitFileState.MISSING else 'replaced'} {file.path}"


def _start_listening(call: Invocation, manager: UserManager, *, is_new: bool) -> Iterator[str]:
    """Reload systemd's units if needed, and enable the socket unit; yield a sentence for each step."""
    if is_new or any(manager.unit(name).is_outdated for name in UNITS):
        manager.execute("daemon-reload")
    socket = manager.unit(SOCKET)
    if socket.is_active and socket.enabled == "enabled":
        yield f"systemd listens at {manager.address}"
    else:
        yield from _make_room(call, manager)
        manager.execute("enable", "--now", SOCKET)
        yield f"enabled {SOCKET}: systemd listens at {manager.address}; the first request starts the daemon"
    if is_new and manager.unit(SERVICE).is_active:
        yield "the running daemon has the old settings; `forgectl restart` applies the new ones"


def _make_room(call: Invocation, manager: UserManager) -> Iterator[str]:
    """Stop a daemon without systemd where systemd will listen; warn if this shell uses another address."""
    ours = address_of(call)
    if ours != manager.address:
        tell(f"forgectl: systemd listens at {manager.address}, but clients of this shell connect to {ours}")
    elif ended := process.stop(call).pid:
        yield f"stopped the daemon that ran without systemd, pid {ended}"


def _disable_units(call: Invocation, manager: UserManager) -> Iterator[str]:
    """Stop and disable systemd's units, and clear their stored descriptors and failures; yield steps."""
    was = manager.unit(SERVICE)
    manager.execute("disable", "--now", *UNITS)
    if systemd_version(call) >= _KEEPS_VECTORS:
        with contextlib.suppress(Stop):  # none are kept
            manager.execute("clean", "--what=fdstore", SERVICE)
    yield f"disabled and stopped {' and '.join(UNITS)}"
    if was.pid:
        yield f"the daemon has ended, pid {was.pid}; the next client starts one without systemd"
    for name in UNITS:
        if manager.unit(name).active == "failed":
            manager.execute("reset-failed", name)


def _unit_links(files: Sequence[UnitFile]) -> Iterator[str]:
    """Yield the links in systemd's `.wants` folders that lead to these unit files."""
    for file in files:
        for link in _LINKS:
            path = f"{os.path.dirname(file.path)}/{link}"
            if os.path.islink(path) and os.path.realpath(path) == os.path.realpath(file.path):
                yield path
