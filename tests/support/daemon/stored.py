"""Rows of a running daemon's `state.db`, from a copy, because the file belongs to the daemon alone."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path


def stored(state_dir: Path, *tables: str) -> list[str]:
    """Return the keys of the rows of these tables, each followed by a dot and the table."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "state.db"
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{state_dir / 'state.db'}{suffix}", f"{copy}{suffix}")
        with contextlib.closing(sqlite3.connect(copy)) as connection:
            return sorted(f"{row[0]}.{table}" for table in tables for row in _rows(connection, table))


def _rows(connection: sqlite3.Connection, table: str) -> list[tuple[str, ...]]:
    return connection.execute(f"SELECT * FROM {table}").fetchall()
