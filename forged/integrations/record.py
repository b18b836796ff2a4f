"""What setup did on this machine, so that its removal is exact: a small file in forged's data folder.

It says by which program each agent was connected, which files and folders were made, and which containers in
settings. Nothing else depends on it: without it entries of ours are found all the same, and containers that
were made for them stay behind, empty.
"""

from __future__ import annotations

import os

import msgspec

import forged
from forged.integrations import file_io
from forged.integrations.machine import RECORD, Machine


class Done(msgspec.Struct, frozen=True):
    """What was done for one agent: by which program, and which files and folders were made.

    `made`: containers that were made in its settings, by the file.
    """

    program: str = ""
    made: dict[str, tuple[tuple[str, ...], ...]] = {}
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


class Record(msgspec.Struct, frozen=True):
    """`folders` are those made for our own files, from the top; `service`: the units are setup's."""

    version: str = forged.__version__
    agents: dict[str, Done] = {}
    folders: tuple[str, ...] = ()
    service: bool = False


def load(machine: Machine) -> Record:
    """What is on record; nothing where there is none that can be read."""
    text = file_io.read(os.path.join(machine.data, RECORD))
    if text is None:
        return Record()
    try:
        return msgspec.json.decode(text, type=Record)
    except msgspec.DecodeError:
        return Record()


def save(machine: Machine, record: Record) -> None:
    """Put it on record. Raises NotDone."""
    path = os.path.join(machine.data, RECORD)
    before = file_io.read(path)
    text = msgspec.json.format(msgspec.json.encode(record)).decode() + "\n"
    if text != before:
        file_io.write(path, text, before)


def erase(machine: Machine) -> None:
    """Take the record away, and the folders that were made for it, if nothing else is in them."""
    folders = load(machine).folders
    file_io.remove(os.path.join(machine.data, RECORD))
    for folder in reversed(folders):
        file_io.remove_empty(folder)


def noted(record: Record, agent: str, done: Done | None) -> Record:
    """The record with what was done for an agent, or without that."""
    others = {name: value for name, value in record.agents.items() if name != agent}
    return msgspec.structs.replace(
        record, version=forged.__version__, agents=others if done is None else {**others, agent: done}
    )
