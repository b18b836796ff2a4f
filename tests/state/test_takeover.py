"""What 0.1.0 left is taken over once: nothing is lost and nothing comes twice, whatever is killed."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from forged.state import digest
from forged.state.takeover import BACKUP
from tests.state.conftest import a_governor, event, opened, raw
from tests.state.stepped import killed_at_every_call

OLD = Path(__file__).parents[1] / "data/state-0.1.0/state"
ID = [event(number).id for number in range(9)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    shutil.copytree(OLD, tmp_path / "state")
    return tmp_path / "state"


async def everything(directory: Path) -> dict[str, object]:
    governor = a_governor()
    async with opened(directory, governor) as state:
        assert not state.problem
        dead = await state.events.dead()
        return {
            "waiting": [
                (item.id, item.kind, [said.text for said in item.window]) for item in state.events.left()
            ],
            "decided": {
                each: [document.memory.content for document in found]
                for each in ID
                if (found := state.events.documents(each)) is not None
            },
            "dead": {
                item.event.id: (item.reason, [document.memory.id for document in item.documents or ()])
                for item in dead
            },
            "forgotten": state.forgotten.digests(),
            "paused": (state.pauses.reason(("/srv/any",)), *state.pauses.listed()),
            "spent": [(day.purpose, day.calls, day.failed, day.tokens) for day in governor.accounts()],
            "warnings": state.warnings,
        }


def expected(directory: Path) -> dict[str, object]:
    unreadable = f"unreadable; its file is in {directory / BACKUP} for 7 days"
    return {
        "waiting": [
            (ID[1], "compaction", ["waits", "noted"]),
            (ID[2], "explicit", ["waits and is decided upon", "noted"]),
            (ID[3], "explicit", []),
            (ID[4], "turn", ["a turn that waited at a stop", "noted"]),
        ],
        "decided": {ID[2]: ["What was decided about two."], ID[3]: ["What was decided about three."]},
        "dead": {
            ID[5]: ("5 calls failed, the last: no", ["mem_five"]),
            ID[6]: ("the worker died 3 times over it: signal SIGKILL", []),
            ID[7]: ("5 calls failed, the last: no", []),
            ID[8]: (unreadable, []),
        },
        "forgotten": {digest("/srv/repo", "Use tabs."), digest("/srv/repo", "Deploy on Fridays.")},
        "paused": ("", "/srv/other"),
        "spent": [("capture", 1, 0, 7), ("hyde", 2, 1, 110)],
        "warnings": (),
    }


async def test_every_event_is_kept_once_and_all_that_was_known(directory):
    before = {
        path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }

    assert await everything(directory) == expected(directory)
    assert await everything(directory) == expected(directory)

    backup = directory / BACKUP
    assert {
        path.relative_to(backup): path.read_bytes() for path in backup.rglob("*") if path.is_file()
    } == before
    assert sorted(os.listdir(directory)) == ["state-0.1.0", "state.db"]


async def test_take_over_that_is_killed_is_finished_by_the_next_start(tmp_path):
    script = f"""
import shutil
from forged.state.damage import open_whole
from forged.state.takeover import take_over
def prepare(directory):
    shutil.copytree({str(OLD)!r}, directory, dirs_exist_ok=True)
def act(directory):
    connection = open_whole(directory + "/state.db", directory + "/state.copy")
    take_over(connection, directory)
    connection.close()
"""
    left = killed_at_every_call(script, tmp_path / "killed")

    for place in left:
        assert await everything(place) == expected(place), left[place]
    assert {"rename", "mkdir"} <= set(left.values())


async def test_what_was_taken_over_and_done_does_not_come_back_though_its_file_could_not_be_moved(
    directory, monkeypatch
):
    """A daemon that can write its file and cannot move others: rare, and still each event is done once."""
    real = os.rename

    def stubborn(source: str, target: str, **options: int) -> None:
        if ".event" in str(source):
            raise PermissionError(13, "Permission denied")
        real(source, target, **options)

    monkeypatch.setattr(os, "rename", stubborn)
    async with opened(directory) as state:
        assert "permission denied" in state.problem
    monkeypatch.undo()

    assert await everything(directory) == expected(directory)


async def test_files_that_cannot_be_read_today_stay_with_all_that_belongs_to_them_and_are_named(directory):
    spool = directory / "spool"
    (spool / f"{ID[2]}.documents").write_bytes(b"forged-documents 2\n?")
    (spool / f"{ID[1]}.event").unlink()
    (spool / f"{ID[1]}.event").symlink_to(directory / "elsewhere")
    os.mkfifo(spool / f"{event(10).id}.event")
    (spool / "notes.txt").write_text("mine")
    (spool / ".forged-0123.tmp").write_text("half an event that nobody was told of")

    found = await everything(directory)

    assert [item[0] for item in found["waiting"]] == [ID[3], ID[4]]
    warnings = "\n".join(found["warnings"])
    assert "written by a newer forged (format 2)" in warnings
    assert "another file of the same event stays" in warnings
    assert "not a regular file" in warnings
    assert sorted(os.listdir(spool)) == sorted(
        [f"{ID[1]}.event", f"{ID[2]}.documents", f"{ID[2]}.event", f"{event(10).id}.event", "notes.txt"]
    )


@pytest.mark.parametrize(
    ("name", "data"),
    [("event", b""), ("event", b"forged-event 1\n{}"), ("event", b"\0" * 4096), ("documents", b"torn")],
)
async def test_damaged_files_are_among_the_dead_as_they_were(directory, name, data):
    (directory / f"spool/{ID[1]}.{name}").write_bytes(data)

    found = await everything(directory)

    reason = "its journal is unreadable" if name == "documents" else expected(directory)["dead"][ID[8]][0]
    assert found["dead"][ID[1]] == (reason, [])
    assert ID[1] not in [item[0] for item in found["waiting"]]


async def test_torn_dead_file_takes_no_event_out_of_what_waits(directory):
    (directory / f"dead/{ID[7]}.dead").write_bytes(b"forged-dead 1\n{")

    found = await everything(directory)

    assert ID[7] in [item[0] for item in found["waiting"]]
    assert ID[7] not in found["dead"]


async def test_damaged_event_that_was_decided_is_finished_from_what_was_decided(directory):
    (directory / f"spool/{ID[2]}.event").write_bytes(b"torn")

    found = await everything(directory)

    assert (ID[2], "explicit", []) in found["waiting"]
    assert ID[2] in found["decided"]


@pytest.mark.parametrize("data", [b"", b"{", b'{"tops":["/w"]}', b'{"everywhere":"no","tops":[]}'])
async def test_pauses_that_cannot_be_read_hold_everywhere_until_a_person_acts(directory, data):
    (directory / "paused.json").write_bytes(data)

    for found in (await everything(directory), await everything(directory)):
        assert found["paused"] == found["warnings"]
    assert "`forgectl resume --all` ends that" in found["warnings"][0]


async def test_damaged_costs_and_lines_cost_nothing_else(directory):
    (directory / "cost.json").write_bytes(b"{")
    with (directory / "forgotten").open("ab") as file:
        file.write(b"\xff\xfe\n" + b"a" * 32 + b"b 1234567890\n")

    found = await everything(directory)

    assert found == {**expected(directory), "spent": []}


async def test_backup_ends_after_a_week_and_with_what_is_forgotten(directory):
    async with opened(directory) as state:
        state._end_backups(time.time() - 7 * 24 * 3600)
        assert (directory / BACKUP).exists()
        state._end_backups(time.time() + 1)
        assert not (directory / BACKUP).exists()

    shutil.copytree(OLD, directory, dirs_exist_ok=True)
    async with opened(directory) as state:
        assert b"was being given up" in raw(directory / BACKUP)
        for item in await state.events.dead():
            await state.events.drop(item.event.id)
        await state.erase_traces()
        assert b"was being given up" not in raw(directory)
