"""Start the daemon when none listens: by the user's socket unit if there is one, else directly.

The daemon runs with the user's rights, outlives its client and serves every agent. So it inherits next to
nothing (daemon_environment.py). Its program is never searched for, and no variable names it. The author of
the calling program does, or the record that a daemon left in the state directory. The program must be a file
that only this user or root can change, outside of the working tree of the caller.

A lock in the state directory selects one of several clients to start the daemon; its holder may die. Without
the lock, thirty agents would start thirty interpreters. If two daemons start, the second exits with 75.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from forged_client.address import MAX_PATH_BYTES, environment, home, socket_path, state_dir
from forged_client.daemon_environment import check_program, daemon_environment, is_only_ours
from forged_client.dial import Deadline
from forged_client.errors import AddressError, DaemonEnded, DaemonUnavailable

if TYPE_CHECKING:  # importing it costs 10 ms, and most calls find a daemon
    import subprocess

RECORD_NAME = "executable"
LOG_NAME = "forged.log"
LOCK_NAME = "starting.lock"
SYSTEMCTL = ("/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl")

_UNIT = "forged.socket"
_ANOTHER_WON = 75  # EX_TEMPFAIL
_RECORD_BYTES = 4096
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class DaemonStart:
    """One client's part in starting the daemon: of several, the one with the lock starts it."""

    def __init__(self, begin: Callable[[], subprocess.Popen[bytes] | None], state: str) -> None:
        self._begin = begin
        self._state = state
        self._lock = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._is_begun = False
        self._is_ours = self._try_lock()

    def proceed(self) -> None:
        """Take a step after a failed connect: get the lock, start the daemon, or see if it exited.

        A client that waited for the lock looks for a daemon once more before it starts one. Raises
        DaemonUnavailable if there is no trustworthy program. Raises DaemonEnded if the started daemon has
        already exited (bad configuration, missing package).
        """
        if not self._is_ours:
            self._is_ours = self._try_lock()
        elif not self._is_begun:
            self._is_begun = True
            self._process = self._begin()
        code = self._process.poll() if self._process else None
        if code not in (None, 0, _ANOTHER_WON):
            raise DaemonEnded(f"the daemon ended with exit code {code}; see {self._state}/{LOG_NAME}", code)

    def release_lock(self) -> None:
        """Release the lock on starting the daemon, if held, so that other waiting clients go on."""
        if self._lock >= 0:
            import fcntl  # noqa: PLC0415 - already loaded

            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open, too
            os.close(self._lock)
            self._lock = -1

    def _try_lock(self) -> bool:
        """Try to lock the start of the daemon; return False only if another client has the lock."""
        import fcntl  # noqa: PLC0415 - most calls find a daemon

        try:
            if self._lock < 0:
                os.makedirs(self._state, mode=0o700, exist_ok=True)
                self._lock = os.open(f"{self._state}/{LOCK_NAME}", _LOCK_FLAGS, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # no locks on this file system; the daemon has its own
            return True
        return True


def prepare_start(
    address: str,
    executable: str | None,
    deadline: Deadline,
    *,
    env: Mapping[str, str] | None = None,
    systemctl: tuple[str, ...] = SYSTEMCTL,
) -> DaemonStart:
    """Return a `DaemonStart` for the daemon that will listen at `address`; nothing is started yet.

    The caller calls its `proceed` and `release_lock`. Raises DaemonUnavailable if there is no trustworthy
    program.
    """
    given = daemon_environment(environment() if env is None else env, address)
    state = state_dir(given)

    def begin() -> subprocess.Popen[bytes] | None:
        """Start the socket unit of the address and return None, else the program and return its process."""
        if _unit_listens_at(address, given) and _start_unit(given, deadline, systemctl):
            return None
        return _spawn(trusted_executable(executable, state), address, given, state)

    return DaemonStart(begin, state)


def start_replacement(
    address: str, executable: str | None, *, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a daemon to replace the one at `address`; return its process (exit 75: could not)."""
    given = daemon_environment(environment() if env is None else env, address)
    state = state_dir(given)
    return _spawn(trusted_executable(executable, state), address, given, state, "--replace")


def trusted_executable(explicit: str | None, state: str) -> str:
    """Return the checked real path of the daemon's program: `explicit`, else the record in `state`.

    Raises DaemonUnavailable with the defect of the program.
    """
    named = explicit or _recorded_executable(f"{state}/{RECORD_NAME}")
    if not named.startswith("/"):
        raise DaemonUnavailable(f"cannot start the daemon: {named!r} is not an absolute path")
    path = os.path.realpath(named)
    check_program(path)
    return path


def _recorded_executable(path: str) -> str:
    """Return the program's path in the record that a daemon left. Raises DaemonUnavailable."""
    try:
        with open(path, "rb") as file:
            if not is_only_ours(os.fstat(file.fileno())):
                raise DaemonUnavailable(f"cannot start the daemon: others can write to {path}")
            return os.fsdecode(file.read(_RECORD_BYTES)).strip()
    except OSError as error:
        raise DaemonUnavailable(
            "no daemon runs and none was ever started here: run `forged serve` once"
        ) from error


def _unit_listens_at(address: str, env: Mapping[str, str]) -> bool:
    """Return True if the socket unit is installed, and the address is the user's default one."""
    try:
        config = env.get("XDG_CONFIG_HOME") or f"{home(env)}/.config"
        data = env.get("XDG_DATA_HOME") or f"{home(env)}/.local/share"
        if address != socket_path(env) or len(os.fsencode(address)) > MAX_PATH_BYTES:
            return False  # systemd cannot bind a longer path
    except AddressError:
        return False
    folders = (f"{config}/systemd/user", f"{data}/systemd/user", "/etc/systemd/user", "/usr/lib/systemd/user")
    # A masked unit is a link to /dev/null, which is no regular file.
    return any(os.path.isfile(f"{folder}/{_UNIT}") for folder in folders)


def _start_unit(env: dict[str, str], deadline: Deadline, systemctl: tuple[str, ...]) -> bool:
    """Start the socket unit; return False if systemd cannot, so that the daemon is started directly."""
    program = next((path for path in systemctl if os.path.isfile(path)), None)
    if program is None:
        return False
    import subprocess  # noqa: PLC0415 - see above

    null = subprocess.DEVNULL
    try:
        done = subprocess.run(
            [program, "--user", "start", _UNIT],
            env=env,
            stdin=null,
            stdout=null,
            stderr=null,
            timeout=deadline.left("starting the socket unit"),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _spawn(
    executable: str, address: str, env: dict[str, str], state: str, *options: str
) -> subprocess.Popen[bytes]:
    """Start the daemon's program detached, with output to the log and a thread that reaps it; return it."""
    import subprocess  # noqa: PLC0415 - see above

    output = _open_log(state)
    try:
        process = subprocess.Popen(
            [executable, "serve", *options],
            env={**env, "FORGED_SOCKET": address},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise DaemonUnavailable(f"cannot start {executable}: {error.strerror}") from error
    finally:
        os.close(output)
    import _thread  # noqa: PLC0415 - a thread reaps the child, so that it is no zombie

    _thread.start_new_thread(process.wait, ())
    return process


def _open_log(state: str) -> int:
    """Open the log file for a starting daemon's output; return its descriptor. Raises DaemonUnavailable."""
    log = f"{state}/{LOG_NAME}"
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DaemonUnavailable(
            f"cannot start the daemon: {log} cannot be written: {error.strerror}; "
            "fix that, or set XDG_STATE_HOME to a folder of yours that can be written"
        ) from error
