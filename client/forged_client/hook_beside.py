"""Rare needs of a hook: a daemon that is started first, a socket with a long path, a payload cut to fit.

The standard library alone, as the rest of hook.py: this runs where no other package can be imported. Raised
is whatever goes wrong; the hook then says nothing.
"""

from __future__ import annotations

import _socket
import json
import time
from collections.abc import Iterator

from forged_client.address import socket_path
from forged_client.autostart import start
from forged_client.dial import Deadline, dial, growing_pauses
from forged_client.errors import AddressError, DaemonAbsent

# Characters of a text in a payload that are kept at first; where that is not enough it is halved.
_LONGEST = 256_000
# Characters without a blank that are given up at a cut: the half of a secret looks like none.
_LONGEST_WORD = 16_000


def started(within_s: float) -> _socket.socket:
    """A blocking connection to the daemon, which is started if still nobody listens.

    Raises ClientError.
    """
    path, deadline = socket_path(), Deadline(within_s)
    try:
        return _blocking(dial(path, deadline))
    except DaemonAbsent:
        starting = start(path, None, deadline)
    try:
        for pause in growing_pauses():
            try:
                sock = dial(path, deadline)
            except DaemonAbsent:
                starting.check()
            else:
                return _blocking(sock)
            left = deadline.left("starting the daemon")
            time.sleep(min(pause, left))
    finally:
        starting.done()
    raise AssertionError  # the pauses never end


def _blocking(sock: _socket.socket) -> _socket.socket:
    sock.setblocking(True)
    return sock


def refusal(error: BaseException, payload: bytes) -> bytes:
    """Notice, once a session, of an address that no daemon can have; empty for all else.

    Without it hooks would be silent for good. Raises what json does.
    """
    found = error if isinstance(error, AddressError) else error.__cause__
    return _notice(str(found), payload) if isinstance(found, AddressError) else b""


def another_protocol(message: bytes, payload: bytes) -> bytes:
    """Notice, once a session and in its own words, of a daemon that speaks another protocol.

    Raises what json does.
    """
    return _notice(message.decode("utf-8", "replace"), payload)


def _notice(why: str, payload: bytes) -> bytes:
    event = json.loads(payload)
    if event.get("hook_event_name") != "SessionStart" or event.get("source") in {"clear", "compact"}:
        return b""
    return json.dumps({"systemMessage": f"forged has no memory in this session: {why}"}).encode()


def shortened(payload: bytes, most: int) -> bytes:
    """A payload of at most so many bytes, whose longest texts end early. Raises what json does."""
    given, longest = json.loads(payload), _LONGEST
    while len(payload) > most and longest:
        payload = json.dumps(_cut(given, longest)).encode()
        longest //= 2
    return payload


def paths(payload: bytes, most: int) -> Iterator[tuple[bytes, bool]]:
    """The absolute paths that a payload names, each with whether it is that of a file."""
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


def _cut(value: object, longest: int) -> object:
    """The same with the beginnings of its texts: what a `<private>` before the cut hides stays hidden."""
    if isinstance(value, dict):
        return {name: _cut(each, longest) for name, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, longest) for each in value]
    if not isinstance(value, str) or len(value) <= longest:
        return value
    end = max(value.rfind(blank, max(longest - _LONGEST_WORD, 0), longest) for blank in " \n")
    return value[: end if end > 0 else max(longest - _LONGEST_WORD, 0)]
