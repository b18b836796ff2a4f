"""The short way for `ping`, `status` and `retrieve` in their plain forms.

Only what is fully understood is answered here; anything else (another option, an abbreviation, a mistake)
is left to click, which says the same things at more cost. `ping` does not even load the protocol: its
frames are constants, checked against the protocol by a test, and any reply that is not the expected one
sends the call the long way (3 ms instead of 50 over a bare interpreter, design.md section 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HELLO = b"\x83\xa4type\xa5hello\xa2id\x01\xa6client\xa8forgectl"
PING = b"\x82\xa4type\xa4ping\xa2id\x02"
PROTOCOL = b"\xa8protocol\x01"
PONG = b"\x84\xa4type\xa4pong\xa2id\x02\xa6status\xa2ok\xa6reason\xa0"
PONG_JSON = '{"schema_version":1,"status":"ok","reason":""}'

_PATIENCE_S = 0.5
_MOST_BYTES = 4096


class Plain:
    """A command line in plain form. `verb` is empty when it is not one."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.verb, self.message, self.workspace = "", "", ""
        self.as_json = self.no_autostart = False
        if self._understands(list(arguments)):
            self.verb = arguments[0]

    def _understands(self, arguments: list[str]) -> bool:
        if not arguments or arguments.pop(0) not in {"ping", "status", "retrieve"}:
            return False
        return False
