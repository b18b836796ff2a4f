"""Connecting an agent, and taking the connection away: a generator does a step and says it as a sentence.

Where an agent has plug-ins, its own command does it; where it has not, our entries are put into its settings
and nothing else of them is touched. What was done is on record, so that it can be undone exactly. Raised is
IntegrationError; what was done before it is on record too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import msgspec

from forged.integrations import disk, entries, harness, record, rendering, standing
from forged.integrations.disk import IntegrationError
from forged.integrations.entries import Unfit
from forged.integrations.jsonc import NotJson
from forged.integrations.machine import Machine
from forged.integrations.record import Done
from forged.integrations.rows import AgentRow


def connect(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Connect an agent, or bring its connection up to date."""
    now = standing.state(machine, row, exact=True)
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
    after = standing.state(machine, row, exact=True)
    if after.connection not in {"connected", "off"}:
        raise IntegrationError(f"it reports success, but {after.detail or 'nothing was installed'}")


def disconnect(machine: Machine, row: AgentRow) -> Iterator[str]:
    """Take away what connects an agent, and nothing else."""
    if row.way == "plugin":
        yield from _uninstall(machine, row)
    elif row.way == "file":
        yield from _remove_files(machine, row)
    else:
        yield from _remove_settings(machine, row)
    _note(machine, row, None)


def intended(machine: Machine, row: AgentRow) -> tuple[str, ...]:
    """What connecting this agent means, in sentences."""
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
        f"adds entries of forged to {', '.join(standing.settings(machine, row))}",
        f"hooks ({events}) and the MCP server `forged`; everything else there stays as it is",
    )


def is_on_record(machine: Machine, agent: str) -> bool:
    """Whether setup has done anything for this agent."""
    return agent in record.load(machine).agents


def has_service(machine: Machine) -> bool:
    """Whether it was setup that had systemd run the daemon."""
    return record.load(machine).service


def note_service(machine: Machine, *, installed: bool) -> None:
    """Put that on record."""
    _make_data(machine)
    record.save(machine, msgspec.structs.replace(record.load(machine), service=installed))


def remove_own(machine: Machine) -> Iterator[str]:
    """Take our own files away, once no agent uses them."""
    known = record.load(machine)
    if known.agents or known.service:
        return
    is_there = os.path.isdir(machine.plugin)
    names = sorted(rendering.plugin_files(machine), key=len, reverse=True)
    for name in names:
        disk.remove(os.path.join(machine.plugin, name))
    for folder in sorted({above for name in names for above in _above(name)}, key=len, reverse=True):
        disk.remove_empty(os.path.join(machine.plugin, folder))
    disk.remove_empty(machine.plugin)
    record.erase(machine)
    if is_there:
        yield f"removed {machine.plugin}"


def _above(name: str) -> Iterator[str]:
    while name := os.path.dirname(name):
        yield name


# --- by the agent's own command ------------------------------------------------------------------------


def _install(machine: Machine, row: AgentRow, now: standing.AgentState) -> Iterator[str]:
    if not now.program:
        raise IntegrationError(
            f"{row.program} is not in PATH: {row.install}, then `forgectl setup {row.name}`"
        )
    _note(machine, row, Done(now.program))
    _render(machine)
    if now.connection:
        for arguments in row.removes:
            _quietly(machine, row, now.program, arguments)
    for arguments in row.installs:
        harness.call(machine, row, now.program, arguments)
    if not standing.state(machine, row).connection:
        raise IntegrationError(
            f"{row.program} reports success, but no plug-in is there; {harness.newer(row)}"
        )
    yield f"installed the plug-in by `{row.program} {row.installs[-1][0]} {row.installs[-1][1]}`"


def _uninstall(machine: Machine, row: AgentRow) -> Iterator[str]:
    program = machine.program(row.program) or record.load(machine).agents.get(row.name, Done()).program
    if not program or not os.access(program, os.X_OK):
        raise IntegrationError(
            f"{row.program} is not there any more, and only it can remove its plug-in: {row.install}"
        )
    os.makedirs(machine.plugin, mode=0o700, exist_ok=True)
    was_there = bool(standing.state(machine, row).connection)
    for arguments in row.removes:
        _quietly(machine, row, program, arguments)
    if (left := standing.state(machine, row)).connection:
        harness.call(machine, row, program, row.removes[0])
        raise IntegrationError(f"{row.program} has removed its plug-in, but {left.detail}")
    called = f"`{row.program} {row.removes[0][0]} {row.removes[0][1]}`"
    yield f"removed the plug-in by {called}" if was_there else "no plug-in of forged was there"


def _quietly(machine: Machine, row: AgentRow, program: str, arguments: tuple[str, ...]) -> None:
    """For what may be gone already: whether it worked is seen by looking."""
    try:
        harness.call(machine, row, program, arguments)
    except IntegrationError:
        return


def _render(machine: Machine) -> None:
    """Write the folder that is a plug-in; what is there already stays as it is."""
    try:
        disk.make_folders(machine.plugin)
    except OSError as error:
        raise IntegrationError(f"{machine.plugin} cannot be made: {error.strerror}") from error
    for name, text in rendering.plugin_files(machine).items():
        path = os.path.join(machine.plugin, name)
        if (before := disk.read(path)) != text:
            disk.write(path, text, before)


# --- by files and entries of ours -----------------------------------------------------------------------


def _write_files(machine: Machine, row: AgentRow) -> Iterator[str]:
    for name, text in rendering.files(row, machine).items():
        path = os.path.join(machine.folder(row), name)
        _put(machine, row, path, text)
        yield f"wrote {path}"


def _remove_files(machine: Machine, row: AgentRow) -> Iterator[str]:
    for name in rendering.files(row, machine):
        path = os.path.join(machine.folder(row), name)
        if os.path.lexists(path):
            disk.remove(path)
            yield f"removed {path}"


def _write_settings(machine: Machine, row: AgentRow) -> Iterator[str]:
    for path, wanted in standing.settings(machine, row).items():
        before, head = disk.read(path), _head(machine, row, path)
        try:
            bare = "\n" if before is None else entries.remove(before, _made(machine, row, path), head)
            text, made = entries.add(bare, wanted, head)
        except (NotJson, Unfit) as error:
            told = "fix it, or add these yourself and leave the rest as it is"
            raise IntegrationError(f"{path}: {error}; {told}: {_by_hand(wanted)}") from error
        if text != before:
            _put(machine, row, path, text, made)
            yield f"wrote forged's entries into {path}"


def _remove_settings(machine: Machine, row: AgentRow) -> Iterator[str]:
    for path in standing.settings(machine, row):
        before = disk.read(path)
        if before is None or not before.strip():
            continue
        try:
            text = entries.remove(before, _made(machine, row, path), _head(machine, row, path))
        except NotJson as error:
            raise IntegrationError(f"{path}: {error}; fix it, then run this again") from error
        if not text.strip() and path in _done(machine, row).files:
            disk.remove(path)
            yield f"removed {path}"
        elif text != before:
            disk.write(path, text, before)
            yield f"removed forged's entries from {path}"


def _put(machine: Machine, row: AgentRow, path: str, text: str, made: tuple[entries.Path, ...] = ()) -> None:
    before, known = disk.read(path), _done(machine, row)
    folders = disk.write(path, text, before)
    done = Done(
        machine.program(row.program),
        {**known.made, path: made},
        (*known.files, path) if before is None else known.files,
        (*known.folders, *folders),
    )
    _note(machine, row, done)


def _by_hand(wanted: tuple[entries.SettingsEntry, ...]) -> str:
    return entries.add("", wanted, {})[0]


def _head(machine: Machine, row: AgentRow, path: str) -> entries.Head:
    return next(
        (head for place, head in row.head.items() if standing.place_of(machine, row, place) == path), {}
    )


# --- on record ------------------------------------------------------------------------------------------


def _done(machine: Machine, row: AgentRow) -> Done:
    return record.load(machine).agents.get(row.name, Done())


def _made(machine: Machine, row: AgentRow, path: str) -> tuple[entries.Path, ...]:
    return _done(machine, row).made.get(path, ())


def _note(machine: Machine, row: AgentRow, done: Done | None) -> None:
    """Put on record what was done for an agent; without that its folders go, if nothing is in them."""
    known = record.load(machine)
    if done is None:
        for folder in reversed(_done(machine, row).folders):
            disk.remove_empty(folder)
    else:
        made = _make_data(machine)
        known = msgspec.structs.replace(known, folders=(*known.folders, *made))
    record.save(machine, record.noted(known, row.name, done))


def _make_data(machine: Machine) -> list[str]:
    try:
        return disk.make_folders(machine.data)
    except OSError as error:
        raise IntegrationError(f"{machine.data} cannot be made: {error.strerror}") from error
