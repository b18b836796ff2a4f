"""Closing runs: a set in a folder called `sealed` judges, so its runs are rare and recorded.

Each run over one is a line in `closing-runs.md`, which lies beside the set's own folder, from before it
begins; its figures are added when it has ended. A fourth run over a set is refused, as is any that is not
said to be a closing run, by whatever link or part of the folder it would be read; and so is a copy of it,
which would have no record. Raises DatasetError.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

from tests.evaluation import sealed
from tests.evaluation.dataset import DatasetError

SEALED, RECORD, MOST = "sealed", "closing-runs.md", 3
_HEAD = "| date (UTC) | commit | set | command | figures |\n|---|---|---|---|---|\n"


def allowed(paths: Iterable[Path], *, closing: bool) -> tuple[Path, ...]:
    """The sealed folders among the paths of a measurement, if it may read all of these."""
    places = tuple(paths)
    found = tuple(folder for path in places if (folder := _sealed_folder(path)) is not None)
    for folder in found:
        if not closing:
            raise DatasetError(f"{folder} is sealed: it is for the closing runs alone (--closing)")
        if _runs(folder) >= MOST:
            raise DatasetError(f"{folder} has had its {MOST} closing runs ({_record(folder)})")
    for path in places:
        if sealed.is_known(path) and (path.resolve() not in found or not _commit(path)):
            raise DatasetError(
                f"{path} holds what is sealed: only its own folder in the repository is measured"
            )
    return found


def begin(folders: Iterable[Path], command: str) -> None:
    """Note the run for each sealed folder."""
    for folder in folders:
        _note(folder, command)


def end(folder: Path, figures: str) -> None:
    """Add what the run came to that was begun last for this set."""
    rows = _record(folder).read_text().splitlines(keepends=True)
    last = max(place for place, row in enumerate(rows) if _is_of(row, folder))
    rows[last] = rows[last].replace("| began |", f"| {_plain(figures)} |")
    _record(folder).write_text("".join(rows))


def _sealed_folder(path: Path) -> Path | None:
    """The sealed folder that a path leads into, or a file of it does."""
    ways = [each.resolve() for each in (path, *sealed.files(path))]
    above = (each for way in ways for each in (way, *way.parents))
    return next((each for each in above if each.name == SEALED), None)


def _record(folder: Path) -> Path:
    return folder.parent.parent / RECORD


def _runs(folder: Path) -> int:
    record = _record(folder)
    return sum(_is_of(row, folder) for row in record.read_text().splitlines()) if record.exists() else 0


def _is_of(row: str, folder: Path) -> bool:
    return row.split(" | ")[2:3] == [folder.parent.name]


def _note(folder: Path, command: str) -> None:
    when = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
    row = f"| {when} | {_commit(folder) or 'none'} | {folder.parent.name} | `{_plain(command)}` | began |\n"
    with _record(folder).open("a") as record:
        record.write(("" if record.tell() else _HEAD) + row)


def _commit(folder: Path) -> str:
    """The commit that is measured, with a mark if files differ from it; nothing outside of a repository."""
    asked = ["git", "-C", str(folder), "-c", "core.fsmonitor=false"]
    asked += ["describe", "--always", "--dirty", "--exclude=*"]
    reported = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return reported.stdout.strip()


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "/").split())
