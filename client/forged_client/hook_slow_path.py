"""Rare cases of a hook: start the daemon, connect to a long path, truncate a payload.

Uses the standard library alone, as hook.py, because this runs where no other package can be imported. Raises
any error; the hook then prints nothing.
"""

from __future__ import annotations

import _socket
import json
import time
from collections.abc import Iterator

from forged_client.address import socket_path
from forged_client.autostart import prepare_start
from forged_client.dial import Deadline, dial, retry_pauses
from forged_client.errors import AddressError, DaemonAbsent

# Characters of each text in a payload that are kept at first; this is halved until the payload fits.
_LONGEST = 256_000
# Characters without a blank that are dropped at a cut, because half a secret does not look like one.
_LONGEST_WORD = 16_000


def connect_or_start(within_s: float) -> _socket.socket:
    """Return a blocking connection to the daemon within `within_s` seconds; start it if none listens.

    Raises ClientError.
    """
    path, deadline = socket_path(), Deadline(within_s)
    try:
        return _make_blocking(dial(path, deadline))
    except DaemonAbsent:
        starting = prepare_start(path, None, deadline)
    try:
        for pause in retry_pauses():
            try:
                sock = dial(path, deadline)
            except DaemonAbsent:
                starting.proceed()
            else:
                return _make_blocking(sock)
            left = deadline.left("starting the daemon")
            time.sleep(min(pause, left))
    finally:
        starting.release_lock()
    raise AssertionError  # `retry_pauses` never ends


def _make_blocking(sock: _socket.socket) -> _socket.socket:
    """Return the same socket, in blocking mode."""
    sock.setblocking(True)
    return sock


def address_notice(error: BaseException, payload: bytes) -> bytes:
    """Return a notice, at a session's start, of an address that no daemon can have; otherwise empty.

    Without it hooks would be silent for good. Raises the errors of json.
    """
    found = error if isinstance(error, AddressError) else error.__cause__
    return _notice(str(found), payload) if isinstance(found, AddressError) else b""


def protocol_notice(message: bytes, payload: bytes) -> bytes:
    """Return a notice, at a session's start, with the message of a daemon of another protocol.

    Raises the errors of json.
    """
    return _notice(message.decode("utf-8", "replace"), payload)


def _notice(why: str, payload: bytes) -> bytes:
    """Return the output of a hook that shows this notice at a session's start; empty for other events."""
    event = json.loads(payload)
    if event.get("hook_event_name") != "SessionStart" or event.get("source") in {"clear", "compact"}:
        return b""
    return json.dumps({"systemMessage": f"forged has no memory in this session: {why}"}).encode()


def shortened(payload: bytes, most: int) -> bytes:
    """Cut a payload's texts ever shorter until it has at most `most` bytes; return it as JSON."""
    given, longest = json.loads(payload), _LONGEST
    while len(payload) > most and longest:
        payload = json.dumps(_cut_texts(given, longest)).encode()
        longest //= 2
    return payload


def paths(payload: bytes, most: int) -> Iterator[tuple[bytes, bool]]:
    """Yield the absolute paths that a payload names, each with True for the path of a file."""
    try:
        given = json.loads(payload.decode("utf-8", "replace"))
    except ValueError:
        return
    for name, is_file in (("cwd", False), ("workspace_roots", False), ("transcript_path", True)):
        value = given.get(name) if isinstance(given, dict) else None
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, str) and value.startswith("/") and "\0" not in value:
            path = value.encode("utf-8", "replace")
            if len(path) < most:
                yield path, is_file


def _cut_texts(value: object, longest: int) -> object:
    """Return a JSON value with each text cut to `longest` at a blank, as half a secret is not recognized."""
    if isinstance(value, dict):
        return {name: _cut_texts(each, longest) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut_texts(each, longest) for each in value]
    if not isinstance(value, str) or len(value) <= longest:
        return value
    end = max(value.rfind(blank, max(longest - _LONGEST_WORD, 0), longest) for blank in " \n")
    return value[: end if end > 0 else max(longest - _LONGEST_WORD, 0)]
