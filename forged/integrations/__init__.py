"""The agents on this machine: finding them, connecting them, taking the connection away again.

`report` says how each stands, `connect` and `disconnect` change that step by step, `surroundings` finds what
else there is: model servers, keys, programs that could classify. Nothing here prints, asks or decides.
"""

from forged.integrations.connecting import connect, disconnect, remove_own
from forged.integrations.disk import NotDone
from forged.integrations.machine import Machine, machine_of
from forged.integrations.rows import Row, rows
from forged.integrations.standing import AgentState, report

__all__ = [
    "AgentState",
    "Machine",
    "NotDone",
    "Row",
    "connect",
    "disconnect",
    "machine_of",
    "remove_own",
    "report",
    "rows",
]
