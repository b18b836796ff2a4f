"""A real `systemd --user`, in namespaces of its own, and the daemon under it.

The manager sees only its own processes, mounts and cgroups, and all of its processes end with it. Its
runtime directory and its HOME are directories of the test, so the daemon's socket can be reached from
outside. Process ids are those of its namespace, which `run` enters. Only root can make these namespaces:
elsewhere the tests are skipped.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from forged_client import Client
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon.process import lexical_by_default
from tests.support.daemon.processes import children_of

UNITS = Path(__file__).parents[3] / "systemd"
_SYSTEMD = next(
    (path for path in ("/lib/systemd/systemd", "/usr/lib/systemd/systemd") if os.path.exists(path)), ""
)
_TOOLS = ("unshare", "nsenter", "systemctl", "bash", "mount", "umount", "findmnt")
_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--cgroup", "--mount")
_HIERARCHIES = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
# First a cgroup of its own, outside. Inside, a /run/systemd that marks this machine as run by systemd, and
# its cgroups. The shell stays as the first process, which ends all others with itself.
_OUTSIDE = 'for folder in {folders}; do mkdir -p $folder; echo $$ > $folder/cgroup.procs; done; exec "$@"'
_INSIDE = r"""
set -e
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir /run/systemd/system
for top in {hierarchies}; do
    kind=$(findmnt -no FSTYPE $top)
    [ $kind = cgroup ] && options="-o none,name=systemd" || options=
    umount $top
    mount -t $kind $options cgroup $top
done
{systemd} --user --unit=basic.target &
trap 'kill -TERM $!' TERM
wait $! || wait $!
"""


class UserManager:
    """The manager and its user's `home`; `env` is the environment of a person's shell."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = Path(tempfile.mkdtemp(prefix="um"))
        self.runtime = self.directory / "run"
        self.runtime.mkdir(0o700)
        self.log_path = self.directory / "log"
        self.daemon_log_path = self.directory / "daemon.log"
        self.socket = str(self.runtime / "forged/forged.sock")
        self.env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(self.runtime),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._first = 0

    def start(self) -> None:
        """Start, and wait until it accepts commands."""
        name = self.directory.name
        tops = [top for top in _HIERARCHIES if os.path.exists(f"{top}/cgroup.procs")]
        outside = _OUTSIDE.format(folders=" ".join(f"{top}/{name}" for top in tops))
        inside = _INSIDE.format(hierarchies=" ".join(tops), systemd=_SYSTEMD)
        with open(self.log_path, "ab") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", outside, "-", *_UNSHARE, "bash", "-c", inside],
                env={**self.env, "SYSTEMD_LOG_TARGET": "console"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        eventually(self._answers)
        self._first = children_of(self._process.pid)[0]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        return (self.runtime / "systemd/private").exists()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def daemon_log(self) -> str:
        return self.daemon_log_path.read_text(errors="replace")

    def run(self, *command: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """Run a command as a person of this manager would, among its processes."""
        entered = ("nsenter", f"--target={self._first}", "--mount", "--pid", "--cgroup")
        return subprocess.run(
            [*entered, *command],
            env=self.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def systemctl(self, *words: str) -> str:
        """Run `systemctl --user`; return its output."""
        done = self.run("systemctl", "--user", *words)
        assert done.returncode == 0, f"{done.stderr}\n{self.log()}"
        return done.stdout

    def shown(self, unit: str, *names: str) -> dict[str, str]:
        """Return properties of a unit."""
        shown = self.systemctl("show", unit, f"--property={','.join(names)}")
        return dict(line.split("=", 1) for line in shown.splitlines())

    def install(self, variables: Mapping[str, str] | None = None, *command: str) -> None:
        """Install forged's units, for this checkout's daemon or another command, and listen."""
        units, settings = self.home / ".config/systemd/user", self.home / ".config/forged"
        for folder in (units, settings):
            folder.mkdir(parents=True, exist_ok=True)
        started = " ".join(f'"{word}"' for word in command or (sys.executable, "-m", "forged", "serve"))
        for unit in ("forged.service", "forged.socket"):
            text = (UNITS / unit).read_text()
            (units / unit).write_text(re.sub("(?m)^ExecStart=.*", f"ExecStart={started}", text))
        (units / "forged.service.d").mkdir(exist_ok=True)
        ours = f"[Service]\nStandardError=append:{self.daemon_log_path}\nRestartSec=100ms\n"
        (units / "forged.service.d/test.conf").write_text(ours)
        passed = {**lexical_by_default(self.home), **(variables or {})}
        (settings / "env").write_text("".join(f"{name}={value}\n" for name, value in passed.items()))
        self.systemctl("daemon-reload")
        self.systemctl("start", "forged.socket")

    def client(self, **options: object) -> Client:
        return Client(self.socket, **{"timeout_s": PATIENCE_S, "strict": True, **options})  # type: ignore[arg-type]

    def close(self) -> None:
        """End the manager and, with its namespace, all of its processes."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(PATIENCE_S)
        for top in _HIERARCHIES:
            mine = Path(top, self.directory.name)
            folders = sorted((each for each in mine.rglob("*") if each.is_dir()), reverse=True)
            for folder in [*folders, mine] if mine.exists() else []:
                eventually(functools.partial(_is_removed, folder))
        shutil.rmtree(self.directory, ignore_errors=True)


def _is_removed(folder: Path) -> bool:
    """Return True if a cgroup is gone now; one with ending processes is not yet."""
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


@contextlib.contextmanager
def user_manager(home: Path) -> Iterator[UserManager]:
    """Yield a started manager; at the end it is gone, with all of its processes."""
    manager = UserManager(home)
    try:
        manager.start()
        yield manager
    finally:
        manager.close()


@functools.cache
def _lacking() -> str:
    """Return the reason that there can be no manager here, or ""."""
    if os.geteuid() != 0:
        return "only root can make the namespaces"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(missing)} is not installed"
    if not _SYSTEMD:
        return "systemd is not installed"
    tried = subprocess.run(
        [*_UNSHARE, "true"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return tried.stderr.strip()


needs_user_manager = pytest.mark.skipif(
    bool(_lacking()), reason=f"the real `systemd --user` was NOT tried: {_lacking()}"
)
