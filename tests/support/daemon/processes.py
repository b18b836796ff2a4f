"""State of processes, from the system."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.clock import PATIENCE_S, eventually

_ACCEPTS = 0x10000  # SO_ACCEPTCON, in /proc/net/unix


def state_of(pid: int) -> str:
    """Return the kernel's state letter of a process; empty if it does not exist."""
    try:
        return proc(pid, "stat").rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    """Return True if the process runs; a zombie does not."""
    return state_of(pid) not in {"Z", "X", ""}


def wait_for_end(pid: int, timeout_s: float = PATIENCE_S) -> None:
    eventually(lambda: not is_alive(pid), timeout_s)


def processes_with(text: str) -> list[int]:
    """Return other living processes with `text` in their environment or on their command line."""
    found = []
    for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
        if pid != os.getpid() and is_alive(pid):
            with contextlib.suppress(OSError):
                if text.encode() in proc(pid, "environ") + proc(pid, "cmdline"):
                    found.append(pid)
    return found


def is_listening(path: str) -> bool:
    """Return True if a Unix socket at the path accepts connections; a bound one refuses them."""
    rows = (row.split(maxsplit=7) for row in Path("/proc/net/unix").read_text().splitlines()[1:])
    return any(len(row) == 8 and row[7] == path and int(row[3], 16) & _ACCEPTS for row in rows)


def proc(pid: int, name: str) -> bytes:
    """Return the content of a file of a process in /proc."""
    return (Path("/proc") / str(pid) / name).read_bytes()


def of_threads(pid: int, name: str) -> list[str]:
    """Return the content of this /proc file for every thread; threads that end meanwhile are left out."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append((task / name).read_text())
    return found


def children_of(pid: int) -> list[int]:
    """Return the children of all threads, with zombies; a worker is the child of one thread."""
    return [int(child) for children in of_threads(pid, "children") for child in children.split()]


@dataclass(frozen=True)
class Usage:
    """Resources that a process uses."""

    threads: int
    descriptors: int
    children: frozenset[int]
    semaphores: int


def usage(pid: int) -> Usage:
    return Usage(
        threads=len(os.listdir(f"/proc/{pid}/task")),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),
        children=frozenset(children_of(pid)),
        semaphores=proc(pid, "maps").count(b"/dev/shm/sem."),  # under a temporary name, if they are its own
    )
