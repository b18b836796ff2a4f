"""The agents on this machine: finding them, connecting them, taking the connection away again.

`report` says how each stands, `connect` and `disconnect` change that step by step, `surroundings` finds what
else there is: model servers, keys, programs that could classify. Nothing here prints, asks or decides.
"""

from forged.integrations.agent_table import agent_rows
from forged.integrations.connection import (
    connect,
    disconnect,
    has_service,
    intended,
    is_on_record,
    note_service,
    remove_own,
)
from forged.integrations.environment import TURNS, ClassifierProgram, ModelServer, classifiers, keys, servers
from forged.integrations.file_io import IntegrationError
from forged.integrations.machine import Machine, machine_of
from forged.integrations.status import AgentState, report

__all__ = [
    "TURNS",
    "AgentState",
    "ClassifierProgram",
    "IntegrationError",
    "Machine",
    "ModelServer",
    "agent_rows",
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
    "servers",
]
