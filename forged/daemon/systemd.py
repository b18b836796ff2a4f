"""Protocols between systemd and the daemon: readiness, the watchdog, and a passed socket.

Three small protocols over environment variables and one datagram socket. They are written out here because
every library for them either needs libsystemd's headers or is longer (sd_notify(3), sd_listen_fds(3)). The
environment is a mapping; without systemd every function does nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from itertools import repeat

logger = logging.getLogger(__name__)

_FIRST_FD = 3
_MOST_PASSED = 256
_NAME = "forged"  # FileDescriptorName= of our socket unit
_VARIABLES = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
    "LISTEN_PIDFDID",
)


def notify(env: Mapping[str, str], state: str, descriptors: Sequence[int] = ()) -> bool:
    """Send lines such as READY=1, and descriptors, to systemd; return True if sent. Does not wait."""
    address = env.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.connect(f"\0{address[1:]}" if address[0] == "@" else address)
            socket.send_fds(sender, [state.encode()], list(descriptors))
    except OSError as error:
        logger.warning("service manager not notified state=%r error=%s", state.partition("\n")[0], error)
        return False
    return True


def watchdog_interval(env: Mapping[str, str]) -> float | None:
    """Return the seconds between two signs of life to systemd, half of its limit; None if none are due."""
    if env.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    allowed_us = _number_in(env, "WATCHDOG_USEC")
    return allowed_us / 2e6 if allowed_us else None


def inherited_socket(env: Mapping[str, str], pid: int) -> int | None:
    """Return the descriptor of systemd's listening socket, one named `forged` first; or None."""
    passed = _passed_descriptors(env, pid)
    named = [fd for name, fd in passed if name == _NAME]
    usable = [fd for fd in (*named, *(fd for _, fd in passed)) if _is_listening_socket(fd)]
    if passed and not usable:
        logger.warning("no listening Unix stream socket among those passed count=%d", len(passed))
    return usable[0] if usable else None


def stored_descriptors(env: Mapping[str, str], pid: int, prefix: str) -> tuple[tuple[str, int], ...]:
    """Return names with a prefix, and their descriptors, from systemd's descriptor store."""
    return tuple((name, fd) for name, fd in _passed_descriptors(env, pid) if name.startswith(prefix))


def _passed_descriptors(env: Mapping[str, str], pid: int) -> list[tuple[str, int]]:
    """Return all descriptors passed to process `pid`, with their names, "unknown" for none."""
    if env.get("LISTEN_PID") != str(pid):
        return []
    descriptors = range(_FIRST_FD, _FIRST_FD + min(_number_in(env, "LISTEN_FDS"), _MOST_PASSED))
    names = env.get("LISTEN_FDNAMES", "").split(":")
    return list(zip([*names, *repeat("unknown", len(descriptors))], descriptors, strict=False))


def is_service(env: Mapping[str, str], pid: int) -> bool:
    """Return True if the service manager started process `pid`, and waits for its end."""
    return str(pid) in (env.get("LISTEN_PID"), env.get("SYSTEMD_EXEC_PID"))


def variables_to_unset(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return systemd's variables that are set here: child processes must not take them as theirs."""
    return tuple(name for name in _VARIABLES if name in env)


def _number_in(env: Mapping[str, str], name: str) -> int:
    """Return the number in an environment variable, 0 for none."""
    text = env.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _is_listening_socket(descriptor: int) -> bool:
    """Return True for a listening Unix stream socket; the descriptor is made not inheritable."""
    try:
        os.set_inheritable(descriptor, False)
        passed = socket.socket(fileno=descriptor)
    except OSError:
        return False
    try:
        kind = (passed.family, passed.type)
        accepts = passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        return kind == (socket.AF_UNIX, socket.SOCK_STREAM) and accepts == 1
    finally:
        passed.detach()  # the descriptor stays open: the daemon adopts it


async def report_readiness(env: Mapping[str, str]) -> None:
    """Report READY to systemd, then feed its watchdog for ever if there is one."""
    notify(env, "READY=1\nSTATUS=serving")
    interval = watchdog_interval(env)
    while interval is not None:
        await asyncio.sleep(interval)
        notify(env, "WATCHDOG=1")
