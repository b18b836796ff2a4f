"""Tables of measured.md that the repository's own sets give again: `make eval` without arguments.

Each table has its command and the beginning of a SHA-256 sum over the files of its sets. A test compares the
sums of measured.md with the files, so that no figure is quoted for other data.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.evaluation import capture_trial, cases, sealed
from tests.evaluation.dataset import DatasetError
from tests.evaluation.lives import Lived
from tests.evaluation.tables import INJECTED_ROWS, SESSION_ROWS, cell
from tests.evaluation.trial import Outcome

REPO = Path(__file__).parents[2]
PAGE = REPO / "forged/docs/measured.md"
HEADING = "## Replayed"
_DIGITS = 10
_QUOTED = re.compile(r'`make eval ARGS="([^"]+)"`, data `([0-9a-f]+)`')
_BOTH = ("--model", "auto", "--model", "builtin:lexical")
_DATA = "tests/data"
COMMANDS = (
    (f"{_DATA}/said/more", *_BOTH),
    (f"{_DATA}/minds/dev", f"{_DATA}/minds/more", *_BOTH),
    (f"{_DATA}/stores/dev", *_BOTH),
    (f"{_DATA}/replies/dev", *_BOTH),
    (f"{_DATA}/talk/dev", *_BOTH),
    (f"{_DATA}/sessions/dev", "--mode", "append", *_BOTH),
    (f"{_DATA}/sessions/dev", "--mode", "block", *_BOTH),
    (f"{_DATA}/life", "--split", "dev", "--injected", *_BOTH),
    (f"{_DATA}/life", "--split", "dev", "--in-session", *_BOTH),
)
_GROUPS = ("all", "> 30")


class Report(msgspec.Struct, frozen=True):
    """A command's measurements: of questions the model and the outcome, and of the other sets all."""

    asked: tuple[tuple[str, Outcome], ...]
    lived: Lived


def data_sum(arguments: Iterable[str]) -> str:
    """Return the beginning of the sum over all files that a command reads. Raises DatasetError."""
    total = hashlib.sha256()
    for place in [REPO / each for each in arguments if each.startswith(f"{_DATA}/")]:
        more = [capture_trial.STORES] if (place / cases.OPENINGS).exists() else []
        for file in _files([place, *more]):
            total.update(f"{file.relative_to(REPO)}\n".encode())
            total.update(hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()[:_DIGITS]


def _files(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        found = sealed.files(place)
        if not found:
            raise DatasetError(f"{place} has no lists")
        yield from found


def title(arguments: Sequence[str]) -> str:
    """Return the line with which a table begins: its command and its data."""
    return f'`make eval ARGS="{shlex.join(arguments)}"`, data `{data_sum(arguments)}`'


def quoted(page: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the commands of a page with the sums of the data that they were measured with."""
    return [(tuple(shlex.split(command)), data) for command, data in _QUOTED.findall(page)]


def section(measure: Callable[[Sequence[str]], Report]) -> Iterator[str]:
    """Measure all commands, and yield the lines of the section."""
    yield from (HEADING, "", f"Commit {_commit()}. `make eval` prints this section, `--write` renews it.")
    for arguments in COMMANDS:
        yield from ("", f"{title(arguments)}:", "")
        yield from _table(measure(arguments))


def written(page: str, lines: Iterable[str]) -> str:
    """Return a page with these lines in the place of its section."""
    before, _, rest = page.partition(f"{HEADING}\n")
    after = rest.partition("\n## ")
    text = "\n".join(lines)
    return f"{before}{text}\n" + (f"\n## {after[2]}" if after[1] else "")


def _table(report: Report) -> Iterator[str]:
    """Return the figures of a command as a table, with a column for each model or group."""
    columns = dict[str, dict[str, str]]()
    for each in report.lived.capture:
        columns[f"{each.set}, {each.model}"] = dict(each.main)
    for each in report.lived.sessions:
        for group in each.summaries:
            if group.group in _GROUPS:
                columns[f"{each.model}, stores {group.group}"] = _cells(group, SESSION_ROWS)
    for model, outcome in report.asked:
        columns[model] = _cells(outcome.injected, INJECTED_ROWS)
    labels = SESSION_ROWS if report.lived.sessions else INJECTED_ROWS
    names = list(dict.fromkeys(name for rows in columns.values() for name in rows))
    yield f"| | {' | '.join(columns)} |"
    yield f"|{'---|' * (len(columns) + 1)}"
    for name in names:
        shown = [rows.get(name, "-") for rows in columns.values()]
        if set(shown) != {"-"}:
            yield f"| {labels.get(name, name).strip()} | {' | '.join(shown)} |"


def _cells(group: object, names: Iterable[str]) -> dict[str, str]:
    """Return the figures of a group by the names of its fields."""
    return {name: cell(getattr(group, name)) for name in names}


def _commit() -> str:
    asked = [
        "git",
        "-C",
        str(REPO),
        "-c",
        "core.fsmonitor=false",
        "describe",
        "--always",
        "--dirty",
        "--exclude=*",
    ]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
