"""Size, speed and recall of the shared engine, as tables for the manual.

    python tests/bench/engine_report.py curve [ROWS]       recall and cost of a larger ef_search
    python tests/bench/engine_report.py sizes ROWS...      loading, size, and recalls of 1 to 64 connections
    python tests/bench/engine_report.py engine ROWS...     the same without plain tables, for very many rows

The curve uses real sentences' vectors with noise around them, once with the graphs as they are made (half
precision) and once with whole numbers; sizes use generated vectors. Each table has the load of the machine.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import engine_inside
import engine_tables
import stores
from engine_tables import Engine, Plain
from loads import Load, load
from processes import directory
from sampling import p99, timed

_EF = (20, 40, 60, 80, 100, 150, 200, 400)
_CONNECTIONS = (1, 4, 16, 64)
_CALLS = {Engine: 64, Plain: 16}  # of each connection; a plain one takes seconds for some
_MIB = 1024 * 1024


def main() -> int:
    what, *numbers = sys.argv[1:] or [""]
    if what == "curve":
        _curve(int(numbers[0]) if numbers else 100_000)
    elif what in {"sizes", "engine"} and numbers:
        for number in numbers:
            _size(int(number), (Engine, Plain) if what == "sizes" else (Engine,))
    else:
        print(__doc__, file=sys.stderr)
        return 64
    return 0


def _curve(count: int) -> None:
    rows, queries = engine_inside.real(count)
    print(f"{count:,} vectors, {len(queries)} queries, ten nearest; {_load()}\n")
    print("| tables | ef_search | found | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for tables in _each_tables((stores.organization(rows),), (Engine, Plain)):
        for ef in _EF:
            engine_tables.set_ef(tables.connection, ef)
            found = engine_inside.share_found(tables, rows, queries)
            took = sorted(timed(partial(tables.of_organization, query, 10)) for query in queries)
            print(
                f"| {_name(tables)} | {ef} | {found:.3f} | {_ms(took[len(took) // 2])} | {_ms(p99(took))} |"
            )
    print(f"\n{_load()}")


def _size(count: int, kinds: Sequence[type[Engine | Plain]]) -> None:
    store = stores.store(count)
    print(f"\n{count:,} rows; {_load()}\n", flush=True)
    for tables in _each_tables(store.parts, kinds):
        for many in _CONNECTIONS:
            got = load(partial(_asking, tables, store), many, _CALLS[type(tables)])
            print(f"| {_name(tables)} | {many} connections | {_of_load(got)} |", flush=True)
        took = sorted(timed(partial(_rare, tables, asked)) for asked in store.asked)
        least = min(len(_rare(tables, asked)) for asked in store.asked)
        print(f"| {_name(tables)} | rare filter, {least} of 10 | {_times(took)} |")
    print(f"\n{_load()}", flush=True)


def _each_tables(
    parts: Sequence[stores.Part], kinds: Sequence[type[Engine | Plain]]
) -> Iterator[Engine | Plain]:
    """Yield loaded tables of each kind, and print the loading."""
    for kind in kinds:
        with directory() as folder:
            folder.chmod(0o711)
            with engine_tables.server(folder / "pg") as server:
                tables = kind(server.url())
                took = tables.load(parts)
                sizes = (took.row_bytes, took.graph_bytes, took.other_bytes)
                shown = ", ".join(f"{size / _MIB:,.0f}" for size in sizes)
                print(
                    f"{_name(tables)}: copied in {took.copied_s:.1f} s, indexed in {took.indexed_s:.1f};"
                    f" MiB of rows, graphs, other indexes: {shown}; {_load()}",
                    flush=True,
                )
                yield tables


def _asking(tables: Engine | Plain, store: stores.Store, number: int) -> Callable[[], object]:
    own = engine_tables.connected(tables.url, settings=tables.settings)
    asked = itertools.cycle(store.asked[number:])
    return lambda: tables.ask(next(asked), own)


def _rare(tables: Engine | Plain, asked: stores.Asked) -> list[str]:
    return tables.of_organization(asked.vector, 10, stores.RARE_FILTER)


def _of_load(got: Load) -> str:
    return f"{_ms(got.median_s)} | {_ms(got.p99_s)} | {got.per_second:.0f}"


def _name(tables: Engine | Plain) -> str:
    return type(tables).__name__.lower()


def _times(took: list[float]) -> str:
    """Return median and p99 of sorted seconds."""
    return f"{_ms(took[len(took) // 2])} | {_ms(p99(took))}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f}"


def _load() -> str:
    return "load " + " ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
