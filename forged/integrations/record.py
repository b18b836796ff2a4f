"""Record of the changes that setup made, for an exact removal: a file in forged's data folder.

It has the program by which each agent was connected, the files and folders that were made, and the
containers in settings. Nothing else depends on it. Without it forged's entries are still found, and empty
containers stay behind.
"""

from __future__ import annotations

import os

import msgspec

import forged
from forged.integrations import file_io
from forged.integrations.machine import RECORD, Machine
from forged_client.typed import resolved


class AgentRecord(msgspec.Struct, frozen=True):
    """Changes that setup made for one agent: the program it ran, new files, folders and containers.

    `made`: the containers that were made in its settings, by file.
    """

    program: str = ""
    made: dict[str, tuple[tuple[str, ...], ...]] = {}
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class SetupRecord(msgspec.Struct, frozen=True):
    """Record of all that setup changed: for each agent, folders made for forged, and systemd's units.

    `folders` are in the order from the top. `service`: setup installed the systemd units of the daemon.
    """

    version: str = forged.__version__
    agents: dict[str, AgentRecord] = {}
    folders: tuple[str, ...] = ()
    service: bool = False


def load(machine: Machine) -> SetupRecord:
    """Read setup's record of its changes; empty if missing or invalid. Raises IntegrationError."""
    text = file_io.read(os.path.join(machine.data, RECORD))
    if text is None:
        return SetupRecord()
    try:
        return msgspec.json.decode(text, type=resolved(SetupRecord))
    except msgspec.DecodeError:
        return SetupRecord()


def save(machine: Machine, record: SetupRecord) -> None:
    """Write setup's record to its file, if that differs. Raises IntegrationError."""
    path = os.path.join(machine.data, RECORD)
    before = file_io.read(path)
    text = msgspec.json.format(msgspec.json.encode(record)).decode() + "\n"
    if text != before:
        file_io.write(path, text, before)


def erase(machine: Machine) -> None:
    """Remove the file of setup's record, and the folders made for forged's files if they are empty."""
    folders = load(machine).folders
    file_io.remove(os.path.join(machine.data, RECORD))
    for folder in reversed(folders):
        file_io.remove_empty(folder)


def with_agent(record: SetupRecord, agent: str, done: AgentRecord | None) -> SetupRecord:
    """Return setup's record with `done` in place of an agent's entry, or without the agent if it is None."""
    others = {name: value for name, value in record.agents.items() if name != agent}
    return msgspec.structs.replace(
        record, version=forged.__version__, agents=others if done is None else {**others, agent: done}
    )
