"""Flows as text: tables for a person, and the section of a page that a test holds against a new recording.

The section stands between two markers and holds, for each flow and process, the files that were entered:
first those of the request's own task, in its order, then the others by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.walks.stage import PROCESSES, Flow, Walk

BEGIN, END = "<!-- flows: written by `make flows`, begin -->", "<!-- flows: end -->"
_LEGEND = (
    "Files of which a function ran, not counting imports; a file that only holds values is not entered. "
    "Numbers are the order of the request's own task, dots the rest."
)
Sets = dict[tuple[str, str], frozenset[str]]
"""The files of a flow and process, by the title of the flow and the name of the process."""


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


def sets(flows: Sequence[Flow]) -> Sets:
    walked = {
        (flow.title, name): frozenset(getattr(flow, name).files) for flow in flows for name in PROCESSES
    }
    return {key: files for key, files in walked.items() if files}


def section(flows: Sequence[Flow]) -> str:
    lines = [_LEGEND, "", "| flow | client | daemon | worker |", "|---|---|---|---|"]
    for flow in flows:
        counts = " | ".join(f"{len(getattr(flow, name).files) or '-'}" for name in PROCESSES)
        lines.append(f"| {flow.title} | {counts} |")
    for flow in flows:
        lines += ["", f"### {flow.title}"]
        for name in PROCESSES:
            lines += _listed(name, getattr(flow, name))
    return "\n".join([BEGIN, *lines, "", END])


def _listed(process: str, walk: Walk) -> Iterator[str]:
    if walk.files:
        yield ""
        yield f"{process}, {len(walk.files)} files:"
        yield ""
        yield from (f"{place}. `{file}`" for place, file in enumerate(walk.own, 1))
        yield from (f"- `{file}`" for file in sorted(set(walk.files) - set(walk.own)))


def write(page: Path, flows: Sequence[Flow]) -> None:
    """Replace the section of a page. Raises ValueError if the page has no markers."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(_section_of(page), section(flows)), encoding="utf-8")


def read(page: Path) -> Sets:
    """What the section of a page says. Raises ValueError if the page has no markers."""
    found: dict[tuple[str, str], set[str]] = {}
    title = process = ""
    for line in _section_of(page).splitlines():
        if line.startswith("### "):
            title = line.removeprefix("### ")
        elif heading := re.fullmatch(r"(\w+), \d+ files:", line):
            process = heading[1]
        elif item := re.fullmatch(r"(?:\d+\.|-) `(.+)`", line):
            found.setdefault((title, process), set()).add(item[1])
    return {key: frozenset(files) for key, files in found.items()}


def _section_of(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    match = re.search(f"{re.escape(BEGIN)}.*?{re.escape(END)}", text, re.DOTALL)
    if match is None:
        raise ValueError(f"{page} has no section between {BEGIN!r} and {END!r}")
    return match[0]
