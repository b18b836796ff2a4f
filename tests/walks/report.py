"""Flows as text: tables for a person, and the section of a page that a test holds against a new recording.

The section stands between two markers and holds, for each flow and process, how many files every run entered.
Which files those are depends on timing here and there, so only their number is on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.walks.stage import PROCESSES, Flow, Walk

BEGIN, END = "<!-- flows: written by `make flows`, begin -->", "<!-- flows: end -->"
_LEGEND = (
    "How many files a flow enters in each of three runs; a file counts if a function of it ran. "
    "`make flows` prints which files they are, in the order of the request."
)
Counts = dict[tuple[str, str], int]
"""How many files a flow enters in a process, by the title of the flow and the name of the process."""


def table(flow: Flow) -> str:
    """All walks of a flow: files in order of the first entry, calls, place in the request's own order."""
    return "\n".join([f"{flow.title}", *(line for name in PROCESSES for line in _rows(flow, name)), ""])


def _rows(flow: Flow, process: str) -> Iterator[str]:
    walk: Walk = getattr(flow, process)
    if not walk.files:
        return
    calls = sum(walk.calls[file] for file in walk.files)
    yield f"  {process}: {len(walk.files)} files, {calls} calls, {walk.switches} switches between files"
    for file in walk.files:
        place = f"{walk.own.index(file) + 1:>3}" if file in walk.own else "   "
        yield f"    {place} {walk.calls[file]:>5}  {file}"
    if walk.sometimes:
        yield f"    in one run of three, not counted: {', '.join(walk.sometimes)}"


def summary(flows: Sequence[Flow]) -> str:
    """Files by process, and what may not be exceeded."""
    rows = [f"{'files entered':<24}{'client':>8}{'daemon':>8}{'worker':>8}  at most"]
    for flow in flows:
        counts = "".join(f"{len(getattr(flow, name).files) or '-':>8}" for name in PROCESSES)
        rows.append(f"{flow.title:<24}{counts}  {', '.join(_limits(flow))}")
    return "\n".join(rows)


def _limits(flow: Flow) -> Iterator[str]:
    for process, most in flow.most.items():
        count = len(getattr(flow, process).files)
        yield f"{process} {most}" + (f" (exceeded by {count - most})" if count > most else "")


def section(flows: Sequence[Flow]) -> str:
    lines = [_LEGEND, "", f"| flow | {' | '.join(PROCESSES)} |", f"|---|{'---|' * len(PROCESSES)}"]
    for flow in flows:
        counts = " | ".join(f"{len(getattr(flow, name).always) or '-'}" for name in PROCESSES)
        lines.append(f"| {flow.title} | {counts} |")
    return "\n".join([BEGIN, *lines, END])


def write(page: Path, flows: Sequence[Flow]) -> None:
    """Replace the section of a page. Raises ValueError if the page has no markers."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(_section_of(page), section(flows)), encoding="utf-8")


def read(page: Path) -> Counts:
    """What the section of a page says. Raises ValueError if the page has no markers."""
    found: Counts = {}
    for line in _section_of(page).splitlines():
        title, *counts = (cell.strip() for cell in line.strip("|").split("|"))
        for process, count in zip(PROCESSES, counts, strict=False):
            if count.isdecimal():
                found[title, process] = int(count)
    return found


def _section_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    match = re.search(f"{re.escape(BEGIN)}.*?{re.escape(END)}", text, re.DOTALL)
    if match is None:
        raise ValueError(f"{page} has no section between {BEGIN!r} and {END!r}")
    return match[0]
