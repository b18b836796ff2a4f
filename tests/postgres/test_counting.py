"""Answers are counted in place: a moved row would be added to the vector graph again."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged.memory import Scope
from tests.postgres.meeting import Machine, a_meeting, alike
from tests.postgres.meeting import running as running_machines
from tests.postgres.rows import row, running
from tests.support.clock import eventually
from tests.support.postgres import Database
from tests.support.scratch_server import ScratchServer


@pytest.mark.parametrize("scope", [Scope.USER, Scope.AGENT])
async def test_a_row_that_is_counted_stays_on_its_page(database: Database, tmp_path: Path, scope: Scope):
    rows = [
        row(scope, "ada", f"{number:03}", content="A memory of a sentence or ten. " * 20)
        for number in range(200)
    ]

    def pages() -> dict[str, int]:
        found = database.sql(f"SELECT id, (ctid::text::point)[0]::int FROM forged.{scope}_memories")
        return dict(found)

    async with running(database, tmp_path) as shared:
        await shared.put(rows)
        before = pages()
        for _ in range(3):
            shared.count_used(rows)
            await shared.send_counts()

        assert len(set(before.values())) > 10
        assert pages() == before
        counted = database.sql(f"SELECT DISTINCT access_count FROM forged.{scope}_memories")
        assert counted == [(3,)]


def test_the_server_counts_answers_from_files_of_all_machines(server: ScratchServer, tmp_path: Path):
    meeting = a_meeting(server, "forged_counting")
    one, other = (Machine(name, tmp_path, meeting, scopes="user") for name in ("one", "other"))
    with running_machines(one, other):
        one.remember("The bird is called Pip.")
        alike(one, other, count=1)
        for machine in (one, other, other):
            eventually(lambda machine=machine: machine.recalled("How is the bird called?"))
        counted = "SELECT access_count FROM forged.user_memories"
        eventually(lambda: meeting.sql(counted)[0][0] >= 3)
        assert meeting.sql("SELECT last_accessed > created_at FROM forged.user_memories") == [(True,)]
