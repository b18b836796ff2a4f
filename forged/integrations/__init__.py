"""The agents on this machine: finding them, connecting them, taking the connection away again.

`report` says how each stands, `connect` and `disconnect` change that step by step, `surroundings` finds what
else there is: model servers, keys, programs that could classify. Nothing here prints, asks or decides.
"""

from forged.integrations.connecting import (
    connect,
    disconnect,
    has_service,
    intended,
    is_on_record,
    note_service,
    remove_own,
)
from forged.integrations.disk import IntegrationError
from forged.integrations.machine import Machine, machine_of
from forged.integrations.rows import rows
from forged.integrations.standing import AgentState, report
from forged.integrations.surroundings import TURNS, ClassifierProgram, ModelServer, classifiers, keys, servers

__all__ = [
    "TURNS",
    "AgentState",
    "ClassifierProgram",
    "IntegrationError",
    "Machine",
    "ModelServer",
    "classifiers",
    "connect",
    "disconnect",
    "has_service",
    "intended",
    "is_on_record",
    "keys",
    "machine_of",
    "note_service",
    "remove_own",
    "report",
    "rows",
    "servers",
]
