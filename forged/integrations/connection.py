"""Connect and disconnect an agent: generators that do a step and yield it as a sentence.

An agent with plug-ins is connected by its own command. For others, forged's entries are added to its
settings, and no other part of the settings changes. Every change is recorded, so that it can be undone
exactly. Raises IntegrationError; the steps before it are recorded too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import msgspec

from forged.agent_table import AgentRow
from forged.integrations import entries, file_io, harness, record, rendering, status
from forged.integrations.entries import UnfitSettings
from forged.integrations.file_io import IntegrationError
from forged.integrations.jsonc import NotJson
from forged.integrations.machine import Machine
from forged.integrations.record import AgentRecord


def connect(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Connect or update an agent and check the result, unless a person switched forged off; yield steps."""
    now = status.state(machine, row, exact=True)
    if now.connection == "connected":
        yield "is connected already"
        return
    if now.connection == "off":
        yield f"{now.detail}, and stays so"
        return
    if not os.path.isfile(machine.hook):
        raise IntegrationError(f"{machine.hook} is not there: install forged-memory again")
    if row.way == "plugin":
        yield from _install(machine, row, now)
    elif row.way == "file":
        yield from _write_files(machine, row)
    else:
        yield from _write_settings(machine, row)
    after = status.state(machine, row, exact=True)
    if after.connection not in {"connected", "off"}:
        raise IntegrationError(f"it reports success, but {after.detail or 'nothing was installed'}")


def disconnect(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Remove forged's plug-in, files or entries from an agent, and setup's record of it; yield each step."""
    if row.way == "plugin":
        yield from _uninstall(machine, row)
    elif row.way == "file":
        yield from _remove_files(machine, row)
    else:
        yield from _remove_settings(machine, row)
    _record_changes(machine, row, None)


def planned_steps(machine: Machine, row: AgentRow) -> tuple[str, ...]:
    """Describe what `connect` would do to an agent, as sentences for a plan; nothing is changed."""
    events = ", ".join(row.events)
    if row.way == "plugin":
        commands = " && ".join(f"{row.program} {' '.join(words)}" for words in row.installs)
        return (
            f"runs `{commands.replace('{folder}', shlex.quote(machine.plugin))}`",
            f"which adds hooks ({events}) and the MCP server `forged`",
        )
    if row.way == "file":
        paths = (os.path.join(machine.folder(row), name) for name in row.files)
        return (f"writes {', '.join(paths)}: a plug-in, with the MCP server `forged`",)
    return (
        f"adds entries of forged to {', '.join(status.settings(machine, row))}",
        f"hooks ({events}) and the MCP server `forged`; everything else there stays as it is",
    )


def is_recorded(machine: Machine, agent: str) -> bool:
    """Return True if setup's record has changes for this agent, which a removal undoes."""
    return agent in record.load(machine).agents


def owns_service(machine: Machine) -> bool:
    """Return True if setup installed the systemd units of the daemon."""
    return record.load(machine).service


def record_service(machine: Machine, *, installed: bool) -> None:
    """Note for a later removal that setup has, or has not, `installed` the systemd units."""
    _make_data_folder(machine)
    record.save(machine, msgspec.structs.replace(record.load(machine), service=installed))


def remove_own_files(machine: Machine) -> Iterator[str]:
    """Remove plug-in folder and setup's record if it has no agent or service; yield the step."""
    known = record.load(machine)
    if known.agents or known.service:
        return
    is_there = os.path.isdir(machine.plugin)
    names = sorted(rendering.plugin_files(machine), key=len, reverse=True)
    for name in names:
        file_io.remove(os.path.join(machine.plugin, name))
    for folder in sorted({above for name in names for above in _folders_above(name)}, key=len, reverse=True):
        file_io.remove_empty(os.path.join(machine.plugin, folder))
    file_io.remove_empty(machine.plugin)
    record.erase(machine)
    if is_there:
        yield f"removed {machine.plugin}"


def _folders_above(name: str) -> Iterator[str]:
    """Yield the folders above a relative path, innermost first."""
    while name := os.path.dirname(name):
        yield name


# --- by the agent's own command ------------------------------------------------------------------------


def _install(machine: Machine, row: AgentRow, now: status.AgentState) -> Iterator[str]:
    """Write the plug-in's folder, let the agent install it, record that; yield the step."""
    if not now.program:
        raise IntegrationError(
            f"{row.program} is not in PATH: {row.install}, then `forgectl setup {row.name}`"
        )
    _record_changes(machine, row, AgentRecord(now.program))
    _write_plugin_folder(machine)
    if now.connection:
        for arguments in row.removes:
            _call_ignoring_failure(machine, row, now.program, arguments)
    for arguments in row.installs:
        harness.call(machine, row, now.program, arguments)
    if not status.state(machine, row).connection:
        raise IntegrationError(
            f"{row.program} reports success, but no plug-in is there; {harness.update_advice(row)}"
        )
    yield f"installed the plug-in by `{row.program} {row.installs[-1][0]} {row.installs[-1][1]}`"


def _uninstall(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Let the agent remove the plug-in by its own commands, and check that it is gone; yield the result."""
    program = machine.program(row.program) or record.load(machine).agents.get(row.name, AgentRecord()).program
    if not program or not os.access(program, os.X_OK):
        raise IntegrationError(
            f"{row.program} is not there any more, and only it can remove its plug-in: {row.install}"
        )
    os.makedirs(machine.plugin, mode=0o700, exist_ok=True)
    was_there = bool(status.state(machine, row).connection)
    for arguments in row.removes:
        _call_ignoring_failure(machine, row, program, arguments)
    if (left := status.state(machine, row)).connection:
        harness.call(machine, row, program, row.removes[0])
        raise IntegrationError(f"{row.program} has removed its plug-in, but {left.detail}")
    called = f"`{row.program} {row.removes[0][0]} {row.removes[0][1]}`"
    yield f"removed the plug-in by {called}" if was_there else "no plug-in of forged was there"


def _call_ignoring_failure(machine: Machine, row: AgentRow, program: str, arguments: tuple[str, ...]) -> None:
    """Run an agent's command and ignore its failure: the caller checks the agent's state afterwards."""
    try:
        harness.call(machine, row, program, arguments)
    except IntegrationError:
        return


def _write_plugin_folder(machine: Machine) -> None:
    """Write the plug-in's files in forged's data folder, where agents install it from, if they differ."""
    try:
        file_io.make_folders(machine.plugin)
    except OSError as error:
        raise IntegrationError(f"{machine.plugin} cannot be made: {error.strerror}") from error
    for name, text in rendering.plugin_files(machine).items():
        path = os.path.join(machine.plugin, name)
        if (before := file_io.read(path)) != text:
            file_io.write(path, text, before)


# --- by forged's own files and entries ------------------------------------------------------------------


def _write_files(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Write and record the plug-in's files in the folder of an agent without installer; yield each step."""
    for name, text in rendering.files(row, machine).items():
        path = os.path.join(machine.folder(row), name)
        _write_and_record(machine, row, path, text)
        yield f"wrote {path}"


def _remove_files(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Remove the plug-in's files from the folder of an agent without installer; yield each step."""
    for name in rendering.files(row, machine):
        path = os.path.join(machine.folder(row), name)
        if os.path.lexists(path):
            file_io.remove(path)
            yield f"removed {path}"


def _write_settings(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Replace forged's entries in an agent's settings files by current ones, and record it; yield steps."""
    for path, wanted in status.settings(machine, row).items():
        before, head = file_io.read(path), _file_head(machine, row, path)
        try:
            bare = (
                "\n" if before is None else entries.remove(before, _made_containers(machine, row, path), head)
            )
            text, made = entries.add(bare, wanted, head)
        except (NotJson, UnfitSettings) as error:
            remedy = "fix it, or add these yourself and leave the rest as it is"
            raise IntegrationError(f"{path}: {error}; {remedy}: {_manual_lines(wanted)}") from error
        if text != before:
            _write_and_record(machine, row, path, text, made)
            yield f"wrote forged's entries into {path}"


def _remove_settings(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Remove forged's entries from an agent's settings, and files that setup made for them; yield steps."""
    for path in status.settings(machine, row):
        before = file_io.read(path)
        if before is None or not before.strip():
            continue
        try:
            text = entries.remove(
                before, _made_containers(machine, row, path), _file_head(machine, row, path)
            )
        except NotJson as error:
            raise IntegrationError(f"{path}: {error}; fix it, then run this again") from error
        if not text.strip() and path in _agent_record(machine, row).files:
            file_io.remove(path)
            yield f"removed {path}"
        elif text != before:
            file_io.write(path, text, before)
            yield f"removed forged's entries from {path}"


def _write_and_record(
    machine: Machine, row: AgentRow, path: str, text: str, made: tuple[entries.Path, ...] = ()
) -> None:
    """Write an agent's file; record it if it is new, with the folders and JSON containers made for it."""
    before, known = file_io.read(path), _agent_record(machine, row)
    folders = file_io.write(path, text, before)
    done = AgentRecord(
        machine.program(row.program),
        {**known.made, path: made},
        (*known.files, path) if before is None else known.files,
        (*known.folders, *folders),
    )
    _record_changes(machine, row, done)


def _manual_lines(wanted: tuple[entries.SettingsEntry, ...]) -> str:
    """Return forged's entries as JSON text, for a person to copy into settings that setup cannot edit."""
    return entries.add("", wanted, {})[0]


def _file_head(machine: Machine, row: AgentRow, path: str) -> entries.Head:
    """Return the members, such as a version, with which a new settings file of the agent has to begin."""
    return next((head for place, head in row.head.items() if status.path_of(machine, row, place) == path), {})


# --- record of changes ----------------------------------------------------------------------------------


def _agent_record(machine: Machine, row: AgentRow) -> AgentRecord:
    """Return setup's record of its changes for an agent; an empty one if there is none."""
    return record.load(machine).agents.get(row.name, AgentRecord())


def _made_containers(machine: Machine, row: AgentRow, path: str) -> tuple[entries.Path, ...]:
    """Return the paths of the JSON containers that setup made in an agent's settings file."""
    return _agent_record(machine, row).made.get(path, ())


def _record_changes(machine: Machine, row: AgentRow, done: AgentRecord | None) -> None:
    """Save setup's record of an agent; with None remove it, and the empty folders made for that agent."""
    known = record.load(machine)
    if done is None:
        for folder in reversed(_agent_record(machine, row).folders):
            file_io.remove_empty(folder)
    else:
        made = _make_data_folder(machine)
        known = msgspec.structs.replace(known, folders=(*known.folders, *made))
    record.save(machine, record.with_agent(known, row.name, done))


def _make_data_folder(machine: Machine) -> list[str]:
    """Create forged's data folder; return the folders that were new."""
    try:
        return file_io.make_folders(machine.data)
    except OSError as error:
        raise IntegrationError(f"{machine.data} cannot be made: {error.strerror}") from error
