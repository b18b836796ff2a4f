"""What a hook needs seldom: a daemon that is started first, and a payload that is cut to fit.

The standard library alone, as the rest of hook.py: this runs where no other package can be imported. Raised
is whatever goes wrong; the hook then says nothing.
"""

from __future__ import annotations

import _socket
import json
import time

from forged_client.address import socket_path
from forged_client.autostart import start
from forged_client.deadline import Deadline
from forged_client.dial import dial, growing_pauses
from forged_client.errors import DaemonAbsent

# Characters of a text in a payload that are kept at first; where that is not enough it is halved.
_LONGEST = 256_000
# Characters without a blank that are given up at a cut: the half of a secret looks like none.
_LONGEST_WORD = 16_000


def started(within_s: float) -> _socket.socket:
    """A blocking connection to the daemon, which is started if still nobody listens.

    Raises ClientError.
    """
    path, deadline = socket_path(), Deadline(within_s)
    starting = start(path, None, deadline)
    try:
        for pause in growing_pauses():
            try:
                sock = dial(path, deadline)
            except DaemonAbsent:
                starting.check()
            else:
                sock.setblocking(True)
                return sock
            left = deadline.left("starting the daemon")
            time.sleep(min(pause, left))
    finally:
        starting.done()
    raise AssertionError  # the pauses never end


def shortened(payload: bytes, most: int) -> bytes:
    """A payload of at most so many bytes, whose longest texts end early. Raises what json does."""
    given, longest = json.loads(payload), _LONGEST
    while len(payload) > most and longest:
        payload = json.dumps(_cut(given, longest)).encode()
        longest //= 2
    return payload


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
