"""Closing runs: a set in a folder called `sealed` judges, so it is measured seldom and never in secret.

Each run over one is a line in `closing-runs.md`, which lies beside the set's own folder, from before it
begins; its figures are added when it has ended. A fourth run over a set is refused, as is any that is not
said to be a closing run. Raises DatasetError.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from forged.evaluation.dataset import DatasetError

SEALED, RECORD, MOST = "sealed", "closing-runs.md", 3
_HEAD = "| date (UTC) | commit | set | command | figures |\n|---|---|---|---|---|\n"


def begin(paths: Iterable[Path], command: str, *, closing: bool) -> tuple[Path, ...]:
    """Note the run for each sealed set among `paths`; returns the sealed folders."""
    found = tuple(folder for path in paths if (folder := _sealed(path.resolve())) is not None)
    for folder in found:
        if not closing:
            raise DatasetError(f"{folder} is sealed: it is for the closing runs alone (--closing)")
        if _runs(folder) >= MOST:
            raise DatasetError(f"{folder} has had its {MOST} closing runs ({_record(folder)})")
    for folder in found:
        _note(folder, command)
    return found


def end(folder: Path, figures: str) -> None:
    """Add what the run came to that was begun last for this set."""
    rows = _record(folder).read_text().splitlines(keepends=True)
    last = max(place for place, row in enumerate(rows) if _is_of(row, folder))
    rows[last] = rows[last].replace("| began |", f"| {_plain(figures)} |")
    _record(folder).write_text("".join(rows))


def _sealed(path: Path) -> Path | None:
    return next((each for each in (path, *path.parents) if each.name == SEALED), None)


def _record(folder: Path) -> Path:
    return folder.parent.parent / RECORD


def _runs(folder: Path) -> int:
    record = _record(folder)
    return sum(_is_of(row, folder) for row in record.read_text().splitlines()) if record.exists() else 0


def _is_of(row: str, folder: Path) -> bool:
    return row.split(" | ")[2:3] == [folder.parent.name]


def _note(folder: Path, command: str) -> None:
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    row = f"| {when} | {_commit(folder)} | {folder.parent.name} | `{_plain(command)}` | began |\n"
    with _record(folder).open("a") as record:
        record.write(("" if record.tell() else _HEAD) + row)


def _commit(folder: Path) -> str:
    """The commit that is measured; a mark if files differ from it."""
    asked = ["git", "-C", str(folder), "-c", "core.fsmonitor=false"]
    asked += ["describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "no commit"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
