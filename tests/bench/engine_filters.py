"""Documents found with a filter by a granted role: hits of an exact search, and time, as a table.

    python tests/bench/engine_filters.py ROWS...             fresh, analysed and vacuumed tables
    python tests/bench/engine_filters.py --builds 3 ROWS     and with the graph built twice more

Pieces have the vectors of real paragraphs and of rows between them (vectors.py), and texts of 2,000 bytes, as
pieces of documents have by default. The server does not vacuum or analyse by itself. `side` is a filter that
depends on the vector: half of the rows pass, and for some questions few of them are near.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import docstrings
import engine_tables
import msgspec
import numpy as np
import vectors
from engine_inside import QUERIES, REAL
from engine_tables import Engine
from numpy.typing import NDArray
from processes import directory
from sampling import timed

from forged.memory import Scope
from forged.postgres.connecting import connect
from forged.postgres.roles import RowOwner, grant

ROLE = "reader"
QUESTIONS, MOST = 12, 5
_ROUNDS = 10
_TEXT_BYTES = 2_000
_AS_NEAR = 1e-6  # two distances that differ by less are equal: the server adds in another order


class Filter(msgspec.Struct, frozen=True, eq=False):
    """A filter of pieces, and which pieces pass it."""

    name: str
    wanted: Mapping[str, Any]
    passing: NDArray[np.bool_]


class Pieces(msgspec.Struct, frozen=True, eq=False):
    """Pieces of documents with vectors and metadata, as a `Part` that an engine loads."""

    vectors: vectors.Vectors
    texts: Sequence[str]
    filters: tuple[Filter, ...]
    scope: str = "org"

    def rows(self) -> Iterator[tuple[str, str, str, dict[str, Any], NDArray[np.float32]]]:
        """Yield owner, id, content, metadata, vector."""
        for number, vector in enumerate(self.vectors):
            metadata = {"topic": f"t{number % 97}", "path": f"docs/{number // 20}.md"}
            for each in self.filters:
                if each.passing[number]:
                    metadata |= each.wanted
            yield "", self.id(number), self.texts[number % len(self.texts)], metadata, vector

    def id(self, number: int) -> str:
        return f"mem_org_{number:09d}"

    def hits(self, asked: Filter, query: NDArray[np.float32], found: Sequence[str]) -> int:
        """Return how many found pieces pass and are no further than the last of an exact search."""
        distances = np.where(asked.passing, 1 - self.vectors @ query, np.inf)
        furthest = np.sort(distances)[MOST - 1]
        numbers = {int(name.rpartition("_")[2]) for name in found}
        return sum(bool(distances[number] <= furthest + _AS_NEAR) for number in numbers)


def pieces(rows: vectors.Vectors, texts: Sequence[str], seed: int = 7) -> Pieces:
    """Return pieces with metadata that filters of every kind of value find: ten of them, 1 %, half, ..."""
    count = len(rows)
    place = np.random.default_rng(seed).permutation(count)
    apart = rows - rows[:10_000].mean(axis=0)
    side = apart @ np.linalg.svd(apart[:2_000], full_matrices=False)[2][0]
    made = (
        Filter("10 rows", {"pinned": True}, place < 10),
        Filter("1 %", {"part": 1.5}, place % 100 == 0),
        Filter("4,900", {"team": "ops"}, place < 4_900),
        Filter("5,100", {"tags": ["a", 2]}, place < 5_100),
        Filter("half", {"lang": "en"}, place % 2 == 1),
        Filter("side", {"side": 1}, side > np.median(side)),
    )
    return Pieces(rows, texts, made)


def long_texts(parts: Sequence[str]) -> list[str]:
    """Return texts of 2,000 bytes, each of paragraphs that follow one another."""
    joined = " ".join(parts)
    starts = range(0, len(joined) - _TEXT_BYTES, 600)
    return [joined[at : at + _TEXT_BYTES] for at in starts]


def granted(tables: Engine, url: str) -> Engine:
    """Return the same tables for a role that was granted a user, so that row level security is active."""
    tables.connection.execute(f"CREATE ROLE {ROLE} LOGIN")

    async def grants() -> None:
        async with await connect(engine_tables.server_settings(tables.url)) as connection:
            await grant(connection, ROLE, [RowOwner(Scope.USER, "ada")])

    asyncio.run(grants())
    return Engine(url, is_migrated=True)


def measured(
    reader: Engine, stored: Pieces, queries: vectors.Vectors
) -> Iterator[tuple[str, int, float, float]]:
    """Yield each filter's name, hits, and seconds of a search: of the server's CPU, and at the median."""
    for asked in stored.filters:
        found = [reader.of_organization(query, MOST, asked.wanted) for query in queries]
        hits = sum(stored.hits(asked, *each) for each in zip(queries, found, strict=True))
        began = _cpu_s(reader)
        times = [
            timed(partial(reader.of_organization, query, MOST, asked.wanted))
            for _ in range(_ROUNDS)
            for query in queries
        ]
        yield asked.name, hits, (_cpu_s(reader) - began) / len(times), statistics.median(times)


def _cpu_s(reader: Engine) -> float:
    """Return the seconds that the server's process of a connection has run; other programs do not count."""
    pid = reader.connection.info.backend_pid
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def states(tables: Engine, builds: int) -> Iterator[str]:
    """Yield the states of loaded tables, one after the other."""
    yield "fresh"
    tables.connection.execute("ANALYZE")
    yield "analysed"
    tables.connection.execute("VACUUM")
    yield "vacuumed"
    for build in range(2, builds + 1):
        tables.build_graphs()
        yield f"graph {build}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="+", type=int, metavar="ROWS")
    parser.add_argument("--builds", type=int, default=1)
    options = parser.parse_args()
    texts = docstrings.texts(REAL + QUERIES)
    real = docstrings.vectors(texts[:REAL], "passage")
    queries = docstrings.vectors(texts[REAL:], "query")[:QUESTIONS]
    for count in options.rows:
        _report(pieces(vectors.mixed(real, count), long_texts(texts)), queries, options.builds)
    return 0


def _report(stored: Pieces, queries: vectors.Vectors, builds: int) -> None:
    """Print a row of the table for each state of tables with these pieces."""
    of = len(queries) * MOST
    names = [f"{each.name} ({each.passing.sum():,})" for each in stored.filters]
    print(f"\n| {len(stored.vectors):,} pieces; hits of {of}; CPU, p50 ms | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|", flush=True)
    with directory() as folder:
        folder.chmod(0o711)
        with engine_tables.server(folder / "pg", autovacuum="off") as server:
            tables = Engine(server.url())
            took = tables.load([stored], vacuumed=False)
            reader = granted(tables, server.url(ROLE))
            for state in states(tables, builds):
                cells = [
                    f"{hits}; {cpu_s * 1e3:.1f}, {took_s * 1e3:.1f}"
                    for _, hits, cpu_s, took_s in measured(reader, stored, queries)
                ]
                print(f"| {state}; {_load()} | {' | '.join(cells)} |", flush=True)
            print(f"\ncopied in {took.copied_s:.0f} s, graph built in {took.indexed_s:.0f}", flush=True)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
