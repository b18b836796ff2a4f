"""Answers are counted in place: a moved row would be added to the vector graph again."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged.memory import Scope
from tests.postgres.rows import row, running
from tests.support.postgres import Database


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
