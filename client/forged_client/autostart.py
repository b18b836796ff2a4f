"""Starting the daemon when nobody listens: by the user's socket unit if there is one, else directly.

What is started runs with the user's rights, outlives us and serves every agent. So it inherits next to
nothing (inherited.py), and the program is never searched for: it is named by the author of the calling
program, or by the record that a daemon left in the state directory, and must be a file that only we or root
can change, outside of the tree where the caller stands. No variable names it. Several clients may start
several daemons at once; the daemon's lock decides, the losers exit with 75 and do no harm.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forged_client.address import environment, home, socket_path, state_dir
from forged_client.deadline import Deadline
from forged_client.errors import AddressError, DaemonEnded, DaemonUnavailable
from forged_client.inherited import check_program, inherited, only_ours

if TYPE_CHECKING:  # importing it costs 10 ms, and nearly every call finds a daemon
    import subprocess

RECORD_NAME = "executable"
LOG_NAME = "forged.log"
SYSTEMCTL = ("/usr/bin/systemctl", "/bin/systemctl", "/run/current-system/sw/bin/systemctl")

_UNIT = "forged.socket"
_ANOTHER_WON = 75  # EX_TEMPFAIL
_RECORD_BYTES = 4096


class Starting:
    """A daemon that was asked to start, and may yet fail to."""

    def __init__(self, process: subprocess.Popen[bytes] | None = None, log: str = "") -> None:
        self._process = process
        self._log = log
        if process is not None:
            import _thread  # noqa: PLC0415 - waits for the child as long as we live, so that it never is a zombie

            _thread.start_new_thread(process.wait, ())

    def check(self) -> None:
        """Raises DaemonEnded when it has already given up (bad configuration, missing package)."""
        code = self._process.poll() if self._process else None
        if code not in (None, 0, _ANOTHER_WON):
            raise DaemonEnded(f"the daemon ended with exit code {code}; see {self._log}", code)


def start(
    address: str,
    executable: str | None,
    deadline: Deadline,
    *,
    env: Mapping[str, str] | None = None,
    systemctl: tuple[str, ...] = SYSTEMCTL,
) -> Starting:
    """Have a daemon started that will listen at `address`; returns before it does.

    Raises DaemonUnavailable when there is nothing trustworthy to start or to give it, DeadlineExceeded.
    """
    given = inherited(environment() if env is None else env, address)
    if _unit_listens_at(address, given) and _start_unit(given, deadline, systemctl):
        return Starting()
    state = state_dir(given)
    return _spawn(trusted_executable(executable, state), address, given, state)


def trusted_executable(explicit: str | None, state: str) -> str:
    """Real path of the daemon's program: `explicit`, else what is on record in the state directory `state`.

    Raises DaemonUnavailable, saying what is wrong with it.
    """
    named = explicit or _recorded(f"{state}/{RECORD_NAME}")
    if not named.startswith("/"):
        raise DaemonUnavailable(f"cannot start the daemon: {named!r} is not an absolute path")
    path = os.path.realpath(named)
    check_program(path)
    return path


def _recorded(path: str) -> str:
    try:
        with open(path, "rb") as file:
            if not only_ours(os.fstat(file.fileno())):
                raise DaemonUnavailable(f"cannot start the daemon: others can write to {path}")
            return os.fsdecode(file.read(_RECORD_BYTES)).strip()
    except OSError as error:
        raise DaemonUnavailable(
            "no daemon runs and none was ever started here: run `forged serve` once"
        ) from error


def _unit_listens_at(address: str, env: Mapping[str, str]) -> bool:
    """Whether a socket unit is installed and the address is the one it listens at (`%t/forged`)."""
    try:
        config = env.get("XDG_CONFIG_HOME") or f"{home(env)}/.config"
        data = env.get("XDG_DATA_HOME") or f"{home(env)}/.local/share"
        if address != socket_path(env):
            return False
    except AddressError:
        return False
    folders = (f"{config}/systemd/user", f"{data}/systemd/user", "/etc/systemd/user", "/usr/lib/systemd/user")
    # A masked unit links to /dev/null, which is no regular file.
    return any(os.path.isfile(f"{folder}/{_UNIT}") for folder in folders)


def _start_unit(env: dict[str, str], deadline: Deadline, systemctl: tuple[str, ...]) -> bool:
    """False when systemd does not do it, for whatever reason: then the daemon is started directly."""
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


def _spawn(executable: str, address: str, env: dict[str, str], state: str) -> Starting:
    import subprocess  # noqa: PLC0415 - see above

    log = f"{state}/{LOG_NAME}"
    output = -1
    try:
        os.makedirs(state, mode=0o700, exist_ok=True)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        process = subprocess.Popen(
            [executable, "serve"],
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
        if output >= 0:
            os.close(output)
    return Starting(process, log)
