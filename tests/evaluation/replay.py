"""Tables of measured.md that the repository's own sets give again: `make eval` without arguments.

Each table has its command and the beginning of a SHA-256 sum over the files of its sets. A test compares the
sums of measured.md with the files, so that no figure is quoted for other data.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping
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
_TITLE = re.compile(r"\n(?=`make eval)")
_DIGITS = 10
_QUOTED = re.compile(r'`make eval ARGS="([^"]+)"`, data `([0-9a-f]+)`')
_BOTH = ("--model", "auto", "--model", "builtin:lexical")
_DATA = "tests/data"
Command = tuple[str, ...]
COMMANDS: tuple[Command, ...] = (
    (f"{_DATA}/said/more", *_BOTH),
    (f"{_DATA}/minds/dev", f"{_DATA}/minds/more", *_BOTH),
    (f"{_DATA}/stores/dev", f"{_DATA}/stores/more", *_BOTH),
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


def quoted(page: str) -> dict[Command, str]:
    """Return the commands of a page with the sums of the data that they were measured with."""
    return {tuple(shlex.split(command)): data for command, data in _QUOTED.findall(page)}


def chosen(paths: Iterable[str]) -> tuple[Command, ...]:
    """Return the commands that measure one of these sets, or all without any."""
    places = {each.rstrip("/") for each in paths}
    return tuple(each for each in COMMANDS if not places or places & set(each))


def table(command: Command, report: Report) -> str:
    """Return the figures of a command in Markdown, below its name and its data."""
    title = f'`make eval ARGS="{shlex.join(command)}"`, data `{data_sum(command)}`, commit {_commit()}:'
    return "\n".join((title, "", *_table(report)))


def written(page: str, tables: Mapping[Command, str]) -> str:
    """Return a page with these tables in its section, which keeps its other tables of COMMANDS."""
    before, heading, rest = page.partition(f"{HEADING}\n")
    section, mark, after = rest.partition("\n## ")
    opening, *blocks = _TITLE.split(section)
    held = {each: block.strip() for block in blocks for each in quoted(block)} | dict(tables)
    kept = [held[each] for each in COMMANDS if each in held]
    return f"{before}{heading}" + "\n\n".join((opening.rstrip(), *kept)) + f"\n{mark}{after}"


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
    labels = SESSION_ROWS if report.lived.sessions else INJECTED_ROWS if report.asked else {}
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
    """Return the commit that is measured, with a mark if files differ from it; the manual may."""
    asked = ["git", "-C", str(REPO), "-c", "core.fsmonitor=false"]
    named = subprocess.run([*asked, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    differs = subprocess.run([*asked, "diff", "--quiet", "HEAD", "--", ".", ":!forged/docs"])
    return (named.stdout.strip() or "unknown") + ("-dirty" if differs.returncode else "")
