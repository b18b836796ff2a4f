"""Integrations with the agents on this machine: find, connect and disconnect them.

`report` returns the state of each agent. `connect` and `disconnect` change it step by step. `environment`
finds model servers, keys, and programs that could classify. Nothing here prints, asks or decides.
"""

from forged.agent_table import agent_rows
from forged.integrations.connection import (
    connect,
    disconnect,
    is_recorded,
    owns_service,
    planned_steps,
    record_service,
    remove_own_files,
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
    "is_recorded",
    "keys",
    "machine_of",
    "owns_service",
    "planned_steps",
    "record_service",
    "remove_own_files",
    "report",
    "servers",
]
