"""Counts and flows as text, for the terminal and for the architecture page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from tests.house import counts
from tests.house.limits import Limits, Measured, Numbers, lines_of
from tests.house.sources import Source
from tests.house.stage import PROCESSES, Flow, Walk

BEGIN, END = "<!-- limits: written by `make house WRITE=1`, begin -->", "<!-- limits: end -->"
_FIELDS = Numbers.__struct_fields__


def of_sources(sources: dict[str, Source], measured: Measured, limits: Limits) -> str:
    """Return each count with its limit, then the counts without one."""
    doors, singles = counts.doors(sources), counts.singles(sources)
    paths, (largest, names) = counts.daemon_paths(sources), doors.most_common(1)[0]
    notes = {
        "names in doors": f"largest {largest.removesuffix('=')} with {names}",
        "modules with one importer": f"{len(singles)} with {sum(each.lines for each in singles):,} lines, "
        f"{sum(each.is_row for each in singles)} of them rows of registries",
        "daemon paths in handlers": f"{len({tuple(path.split('.')[:2]) for path in paths})} cut to two names",
    }
    rows = [f"{'counts':<40}{'now':>8}{'limit':>8}"]
    for table, most in ((measured.source, limits.source), (measured.rules, limits.rules)):
        for name, number in table.items():
            rows.append(f"{name:<40}{number:>8}{most.get(name, '-'):>8}  {notes.get(name, '')}".rstrip())
    rows.append(f"{'modules':<40}{len(sources):>8}")
    rows.append(f"{'lines':<40}{sum(each.lines for each in sources.values()):>8}")
    rows.append(f"{'functions':<40}{len(counts.function_lengths(sources)):>8}")
    rows.append(f"{'words in docstrings':<40}{counts.docstring_words(sources):>8}")
    return "\n".join(rows) + "\n"


def names(sources: dict[str, Source]) -> str:
    """List the names behind each count, one a line."""
    doubles = counts.double_meanings(sources).items()
    return "\n".join(
        [
            *_list("doors", (f"{name} {number}" for name, number in counts.doors(sources).most_common())),
            *_list(
                "class names with two meanings", (f"{name}: {', '.join(where)}" for name, where in doubles)
            ),
            *_list("mirrored structs", map(" / ".join, counts.mirrored(sources))),
            *_list("modules with one importer", map(_single, counts.singles(sources))),
            *_list("daemon paths", sorted(counts.daemon_paths(sources))),
            *_list("modules by lines", _longest(sources)),
        ]
    )


def _list(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield title
    yield from (f"  {line}" for line in lines)
    yield ""


def _single(single: counts.Single) -> str:
    row = " (row of a registry)" if single.is_row else ""
    return f"{single.module}: {single.importer}, {single.lines} lines{row}"


def _longest(sources: dict[str, Source]) -> Iterator[str]:
    for each in sorted(sources.values(), key=lambda each: -each.lines)[:20]:
        yield f"{each.name.removesuffix('=')} {each.lines}"


def of_flow(flow: Flow) -> str:
    """Return all walks of a flow: files in order of the first entry, calls, place in the request."""
    return "\n".join([flow.title, *(line for name in PROCESSES for line in _rows(flow, name)), ""])


def _rows(flow: Flow, process: str) -> Iterator[str]:
    walk: Walk = getattr(flow, process)
    if not walk.files:
        return
    code, text = lines_of(walk.files), lines_of(walk.data)
    yield f"  {process}: {len(walk.files)} modules, {code} lines; {len(walk.data)} text files, {text} lines"
    for file in walk.files:
        place = f"{walk.own.index(file) + 1:>3}" if file in walk.own else "   "
        yield f"    {place} {walk.calls[file]:>5}  {file}"
    yield from (f"              {file}, {lines_of([file])} lines" for file in walk.data)
    if walk.sometimes:
        yield f"    in one run or two, not counted: {', '.join(walk.sometimes)}"


def of_flows(flows: dict[str, Numbers], limits: Limits) -> str:
    """Return the numbers of each flow with their limits."""
    rows = [f"{'flow: process':<34}" + "".join(f"{field:>20}" for field in _FIELDS)]
    for name, numbers in flows.items():
        most = limits.flows.get(name)
        cells = (f"{getattr(numbers, field)} of {getattr(most, field, '-')}" for field in _FIELDS)
        rows.append(f"{name:<34}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(rows) + "\n"


def section(limits: Limits) -> str:
    lines = ["| count | at most |", "|---|---|"]
    lines += [f"| {name} | {number} |" for name, number in (limits.rules | limits.source).items()]
    lines += ["", f"| flow: process | {' | '.join(_FIELDS)} |", f"|---|{'---|' * len(_FIELDS)}"]
    for name, numbers in limits.flows.items():
        lines.append(f"| {name} | {' | '.join(map(str, msgspec.structs.astuple(numbers)))} |")
    return "\n".join([BEGIN, *lines, END])


def section_of(page: Path) -> str:
    """Return the section of a page. Raises ValueError if the page has no markers."""
    text = page.read_text(encoding="utf-8")
    match = re.search(f"{re.escape(BEGIN)}.*?{re.escape(END)}", text, re.DOTALL)
    if match is None:
        raise ValueError(f"{page} has no section between {BEGIN!r} and {END!r}")
    return match[0]


def write(limits: Limits, page: Path) -> None:
    """Replace the section of a page. Raises ValueError if the page has no markers."""
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(section_of(page), section(limits)), encoding="utf-8")
