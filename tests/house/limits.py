"""Limits of the counts: read `limits.toml`, compare it with a measurement, and lower it."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.house import counts
from tests.house.sources import REPO, Source
from tests.house.stage import PROCESSES, Flow, Walk

FILE = Path(__file__).with_name("limits.toml")


class Numbers(msgspec.Struct, frozen=True):
    """Numbers of one process in a flow."""

    files: int
    packages: int
    switches: int
    lines: int


# Tolerance of a recording above and below the limit, because a busy machine differs from an idle one.
_ROOM = {"files": (2, 0.0), "packages": (0, 0.0), "switches": (0, 0.10), "lines": (0, 0.03)}


class Limits(msgspec.Struct, frozen=True):
    """`rules` are chosen and stay; `source` and `flows` are measurements, which only go down."""

    rules: dict[str, int] = {}
    source: dict[str, int] = {}
    flows: dict[str, Numbers] = {}


class Measured(NamedTuple):
    """One measurement; `flows` is empty where none was recorded."""

    rules: dict[str, int]
    source: dict[str, int]
    flows: dict[str, Numbers]


def load(file: Path = FILE) -> Limits:
    return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Limits)


def of_sources(sources: dict[str, Source]) -> Measured:
    lengths = [each.lines for each in sources.values()]
    functions = counts.function_lengths(sources)
    rules = {
        "module lines, p90": counts.p90(lengths),
        "module lines, max": max(lengths),
        "function lines, p90": counts.p90(functions),
    }
    source = {
        "names in doors": counts.doors(sources).total(),
        "public class names with two meanings": len(counts.double_meanings(sources)),
        "mirrored structs": len(counts.mirrored(sources)),
        "modules with one importer": sum(not each.is_row for each in counts.singles(sources)),
        "daemon paths in handlers": len(counts.daemon_paths(sources)),
        "function lines, max": max(functions),
    }
    return Measured(rules, source, {})


def of_flows(flows: Sequence[Flow]) -> dict[str, Numbers]:
    """Return the numbers of flows with limits, by `title: process`, for each process that has any."""
    return {
        f"{flow.title}: {process}": _numbers(walk)
        for flow in flows
        if flow.has_limit
        for process in PROCESSES
        if (walk := getattr(flow, process)).files
    }


def _numbers(walk: Walk) -> Numbers:
    every = (*walk.files, *walk.data)
    return Numbers(len(every), len({_package(file) for file in every}), walk.switches, lines_of(every))


def _package(file: str) -> str:
    """Return the folder `forged/<name>` of a file; files directly in `forged` are one package."""
    parts = file.split("/")
    return "/".join(parts[: 2 if len(parts) > 2 else 1])


def lines_of(files: Sequence[str]) -> int:
    return sum((REPO / _below(file)).read_bytes().count(b"\n") for file in files)


def _below(file: str) -> str:
    return f"client/{file}" if file.startswith("forged_client/") else file


def medians(recordings: Sequence[Mapping[str, Numbers]]) -> dict[str, Numbers]:
    """Return the median of each number over the recordings with this process."""
    names = dict.fromkeys(name for each in recordings for name in each)
    return {name: _median([each[name] for each in recordings if name in each]) for name in names}


def _median(several: Sequence[Numbers]) -> Numbers:
    return Numbers(*(statistics.median_low(getattr(each, name) for each in several) for name in _ROOM))


def exceeded(measured: Measured, limits: Limits) -> list[str]:
    """Return a sentence for each number above its limit, and for each without one."""
    return [text for text in _compared(measured, limits) if text.startswith("above")]


def slack(measured: Measured, limits: Limits) -> list[str]:
    """Return a sentence for each limit clearly above the measurement, and for each unused one."""
    return [text for text in _compared(measured, limits) if not text.startswith("above")]


def _compared(measured: Measured, limits: Limits) -> Iterator[str]:
    for name, number in measured.rules.items():
        if number > limits.rules[name]:
            yield f"above: {name} is {number}, at most {limits.rules[name]}"
    yield from _both(measured.source, limits.source)
    if measured.flows:
        yield from _both(measured.flows, limits.flows)


def _both(measured: Mapping[str, int | Numbers], limits: Mapping[str, int | Numbers]) -> Iterator[str]:
    for name, number in measured.items():
        if name in limits:
            yield from _differing(name, number, limits[name])
        else:
            yield f"above: {name} has no limit"
    yield from (f"nothing: {name} is measured no more" for name in limits if name not in measured)


def _differing(name: str, measured: int | Numbers, limit: int | Numbers) -> Iterator[str]:
    if isinstance(measured, Numbers):
        for part, (files, share) in _ROOM.items():
            had, most = getattr(measured, part), getattr(limit, part)
            yield from _outside(f"{name}, {part}", had, most, files + most * share)
    elif isinstance(limit, int):
        yield from _outside(name, measured, limit, 0)


def _outside(name: str, measured: int, limit: int, room: float) -> Iterator[str]:
    if measured > limit + room:
        yield f"above: {name} {measured}, at most {limit}" + (f" and {room:g}" if room else "")
    elif measured < limit - room:
        yield f"below: {name} {measured}, the limit is {limit}"


def lowered(measured: Measured, limits: Limits) -> Limits:
    """Return limits as low as the measurement. None is raised; a new number gets a limit."""
    source = {name: min(number, limits.source.get(name, number)) for name, number in measured.source.items()}
    flows = {name: _lower(number, limits.flows.get(name, number)) for name, number in measured.flows.items()}
    return Limits(limits.rules, source, flows or limits.flows)


def _lower(one: Numbers, other: Numbers) -> Numbers:
    pairs = zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    return Numbers(*starmap(min, pairs))


def write(limits: Limits, file: Path = FILE) -> None:
    """Write the tables below the comment at the start of the file."""
    head = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    tables = [
        *("", "[rules]", *_rows(limits.rules)),
        *("", "[source]", *_rows(limits.source)),
        *("", "[flows]", *_rows({name: _inline(numbers) for name, numbers in limits.flows.items()})),
    ]
    file.write_text("\n".join([*head, *tables]) + "\n", encoding="utf-8")


def _rows(table: Mapping[str, int | str]) -> list[str]:
    return [f'"{name}" = {value}' for name, value in table.items()]


def _inline(numbers: Numbers) -> str:
    fields = msgspec.structs.asdict(numbers).items()
    return "{ " + ", ".join(f"{field} = {number}" for field, number in fields) + " }"
