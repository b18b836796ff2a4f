"""Supervisor process that runs one program in its folder, and ends it when the caller's pipe closes.

A process of its own, because it must outlive the caller: `guard.py PIPE FOLDER PROGRAM ARGUMENT...` with the
environment, standard streams and directory of the program. The program leads a session and a process group
of its own. When the other end of PIPE is closed, also by a kill of the caller, the group is sent TERM and
half a second later KILL. When the program ends, the rest of its group is killed. Then FOLDER is removed.
This process ends as the program did, with its exit code or by its signal; 127 means that it could not be
started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

_PATIENCE_S = 0.5
_NOT_STARTED = 127


def main(pipe: int, folder: str, command: list[str]) -> int:
    """Run the program until it or the caller ends; return its exit code, and leave no process or folder."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(pipe, False)
    ended, awaken = os.pipe()
    os.set_blocking(awaken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(awaken)
    pid = _spawn(command)
    try:
        select.select([pipe, ended], [], [])
        if not _is_over(pid):
            _send_signal(pid, signal.SIGTERM)
            select.select([ended], [], [], _PATIENCE_S)
        _send_signal(pid, signal.SIGKILL)  # before it is waited for, while its number cannot be reused
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        _remove_folder(folder)


def _spawn(command: list[str]) -> int:
    """Start the program in a session of its own, and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_STARTED)


def _is_over(pid: int) -> bool:
    """Return True if the process has ended; its exit code can still be read."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _send_signal(pid: int, number: int) -> None:
    """Send a signal to the program's process group or, if it has none yet, to the program alone."""
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            continue
        return


def _remove_folder(folder: str) -> None:
    """Leave the folder and remove it with all of its files."""
    from shutil import rmtree  # noqa: PLC0415 - 10 ms that the program need not wait for

    os.chdir("/")
    rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    code = main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
    if code < 0:
        with contextlib.suppress(OSError):  # KILL has no other disposition
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
