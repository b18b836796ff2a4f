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


class AgentRecord(msgspec.Struct, frozen=True):
    """Changes for one agent: its program, and the files and folders that were made.

    `made`: the containers that were made in its settings, by file.
    """

    program: str = ""
    made: dict[str, tuple[tuple[str, ...], ...]] = {}
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class SetupRecord(msgspec.Struct, frozen=True):
    """All changes that setup made. `folders` were made for forged's files, from the top.

    `service`: setup installed the systemd units of the daemon.
    """

    version: str = forged.__version__
    agents: dict[str, AgentRecord] = {}
    folders: tuple[str, ...] = ()
    service: bool = False


def load(machine: Machine) -> SetupRecord:
    """Return the record of setup's changes; an empty one if it cannot be read."""
    text = file_io.read(os.path.join(machine.data, RECORD))
    if text is None:
        return SetupRecord()
    try:
        return msgspec.json.decode(text, type=SetupRecord)
    except msgspec.DecodeError:
        return SetupRecord()


def save(machine: Machine, record: SetupRecord) -> None:
    """Write the record, if it has changed. Raises IntegrationError."""
    path = os.path.join(machine.data, RECORD)
    before = file_io.read(path)
    text = msgspec.json.format(msgspec.json.encode(record)).decode() + "\n"
    if text != before:
        file_io.write(path, text, before)


def erase(machine: Machine) -> None:
    """Remove the record, and the folders made for it if they are empty."""
    folders = load(machine).folders
    file_io.remove(os.path.join(machine.data, RECORD))
    for folder in reversed(folders):
        file_io.remove_empty(folder)


def with_agent(record: SetupRecord, agent: str, done: AgentRecord | None) -> SetupRecord:
    """Return the record with the changes for an agent, or without that agent."""
    others = {name: value for name, value in record.agents.items() if name != agent}
    return msgspec.structs.replace(
        record, version=forged.__version__, agents=others if done is None else {**others, agent: done}
    )
