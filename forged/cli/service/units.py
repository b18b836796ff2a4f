"""Write the two unit files, and compare those on disk with this installation's.

A written file names the program by its absolute path and has a digest of the rest in its first line. The
digest identifies files of forgectl, also of older versions. A file that a person wrote or changed is never
replaced or removed without a request. Links (`systemctl mask`) count as foreign; drop-ins are ignored.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from importlib import resources

from forged.cli.call import Invocation
from forged.cli.exits import Stop
from forged.cli.user_manager import UNITS, login_environment, program, run

_PACKAGE = resources.files("forged")
# In the package once it is installed, next to it in a checkout.
_FOLDERS = (_PACKAGE / "units", _PACKAGE / ".." / "systemd")
_PLACE = "@forged@"
_MARK = re.compile(r"# Written by forgectl service install, sha256 ([0-9a-f]{64}) of what follows\.\n")
_SINCE = re.compile(r"^# From systemd (\d+) on: (\w+=.*)$", re.MULTILINE)
_VERIFY_S = 30.0
_MOST_BYTES = 1 << 16


class UnitFileState(StrEnum):
    """State of a systemd unit file: missing, up to date, older, changed by hand, or not forgectl's."""

    MISSING = "missing"
    CURRENT = "up to date"
    OLDER = "of another installation or version"
    CHANGED = "changed by hand"
    FOREIGN = "not written by forgectl"


def render_units(executable: str, systemd: int) -> dict[str, str]:
    """Return the texts of both systemd units, for the daemon's program and a version of systemd.

    Raises Stop for a path that systemd cannot start.
    """
    path = _quote_for_systemd(executable)
    return {
        name: _with_digest_line(for_version(_unit_template(name).replace(_PLACE, path), systemd))
        for name in UNITS
    }


def for_version(text: str, systemd: int) -> str:
    """Return a unit's text with settings uncommented that this version of systemd knows."""
    return _SINCE.sub(lambda line: line[2] if systemd >= int(line[1]) else line[0], text)


def file_state(path: str, wanted: str) -> UnitFileState:
    """Return the state of a systemd unit file, by its digest line and the wanted text."""
    if not os.path.lexists(path):
        return UnitFileState.MISSING
    text = _read(path)
    mark = _MARK.match(text)
    if mark is None:
        return UnitFileState.FOREIGN
    if _digest(text[mark.end() :]) != mark[1]:
        return UnitFileState.CHANGED
    return UnitFileState.CURRENT if text == wanted else UnitFileState.OLDER


def complaints(call: Invocation, units: Mapping[str, str]) -> tuple[str, bool]:
    """Return systemd-analyze's messages on these units, "" if not installed, and if it refuses them."""
    analyze = program(call, "systemd-analyze")
    if not analyze:
        return "", False
    with tempfile.TemporaryDirectory(prefix="forged-units-") as folder:
        for name, text in units.items():
            _write_new_file(f"{folder}/{name}", text)
        environment = {
            **login_environment(call),
            "XDG_RUNTIME_DIR": folder,
        }  # without one it fails on any unit
        files = [f"{folder}/{name}" for name in units]
        done = run(environment, _VERIFY_S, analyze, "--user", "verify", *files)
    # It also reads installed units and warns about them.
    lines = [line.replace(f"{folder}/", "") for line in done.stderr.splitlines() if "forged." in line]
    return "; ".join(lines), bool(done.returncode and lines)


def replace(path: str, text: str) -> None:
    """Write a systemd unit file atomically, with its folder. Raises Stop if it cannot be written."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fresh = f"{path}.{os.getpid()}.tmp"
        try:
            _write_new_file(fresh, text)
            os.replace(fresh, path)
        except BaseException:
            if os.path.lexists(fresh):
                os.unlink(fresh)
            raise
    except OSError as error:
        raise Stop("unavailable", f"{path} cannot be written: {error.strerror}") from error


def _write_new_file(path: str, text: str) -> None:
    """Write a file that must not exist yet, and sync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def _unit_template(name: str) -> str:
    """Read the template of a unit from the package or the checkout."""
    found = next(file for folder in _FOLDERS if (file := folder / name).is_file())
    return found.read_text(encoding="utf-8")


def _with_digest_line(text: str) -> str:
    """Return a unit's text below a comment with its digest, by which forgectl knows its own files."""
    return f"# Written by forgectl service install, sha256 {_digest(text)} of what follows.\n{text}"


def _digest(text: str) -> str:
    """Return the SHA-256 of a unit's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: str) -> str:
    """Read a systemd unit file; empty if it is missing, unreadable or a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _quote_for_systemd(path: str) -> str:
    """Quote the daemon's path for ExecStart= of a unit. Raises Stop if systemd could not start it."""
    if not path.startswith("/") or re.search(r"[\"'\\\x00-\x1f\x7f]", path):
        raise Stop("unavailable", f"systemd cannot start {path!r}: install forged in another folder")
    escaped = path.replace("%", "%%")
    return f'"{escaped}"' if " " in escaped else escaped
