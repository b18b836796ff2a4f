"""The shared engine and plain pgvector, each on a PostgreSQL of its own, timed inside this commit.

    python engine_inside.py CASE [WORD...]

A driver, as inside.py is. It prints `ready`, and then for every line on stdin the figure of a round. A wrong
answer ends it with a sentence on stderr; exit code 64 means that this commit has no such engine.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import commits
import corpus
import daemons
import docstrings
import frames
import msgspec
import numpy as np
import stores
import vectors
from loads import load
from numpy.typing import NDArray
from processes import Missing, directory
from sampling import NOT_DRIVEN, Probe, answer, median_of

try:
    import engine_tables
    from engine_tables import Engine, Plain
except ImportError as error:
    print(f"cannot import what it measures: {error}", file=sys.stderr)
    sys.exit(NOT_DRIVEN)

REAL, QUERIES, _ROUND = 10_000, 500, 100
_TOP = 10
_FEW = 500  # rows of an owner; for more the graph is searched
_READY_S = 20.0
_CALLS = 64  # of each client; fewer end before the last client has begun
_KINDS: dict[str, Callable[[str], Engine | Plain]] = {"engine": Engine, "plain": Plain}


def four(count: str, kind: str) -> Probe:
    """Measure the median of a recall's four statements, in one round trip."""
    store = stores.store(int(count))
    tables = _loaded(kind, store.parts)
    if kind == "engine" and (wrong := wrong_of_four(tables, store)):
        sys.exit(wrong[0])
    asked = itertools.cycle(store.asked)
    return lambda: median_of(lambda: tables.ask(next(asked)), len(store.asked))


def recalls(count: str, how: str) -> Probe:
    """Measure the median of whole recalls by a daemon, or of their four statements."""
    store = stores.store(int(count))
    asked = [_in_words(each, number) for number, each in enumerate(store.asked)]
    tables = _loaded("engine", store.parts)
    if how == "statements":
        each = itertools.cycle(asked)
        return lambda: median_of(lambda: tables.ask(next(each)), len(asked))
    caller = _daemon(tables.url)
    requests = [_recall(each, number) for number, each in enumerate(asked)]
    deadline = time.monotonic() + _READY_S
    while wrong := [problem for request in requests if (problem := lacks(caller.call(request)))]:
        if time.monotonic() > deadline:
            sys.exit(wrong[0])
    turns = itertools.cycle(requests)
    return lambda: median_of(lambda: caller.call(next(turns)), len(requests))


def clients(count: str, many: str) -> Probe:
    """Measure recalls a second of so many connections, each in a closed loop of its own process."""
    store = stores.store(int(count))
    tables = _loaded("engine", store.parts)

    def connection(number: int) -> Callable[[], object]:
        own, asked = engine_tables.connected(tables.url), itertools.cycle(store.asked[number % 64 :])
        return lambda: tables.ask(next(asked), own)

    return lambda: load(connection, int(many), _CALLS).per_second


def rare(count: str, kind: str) -> Probe:
    """Measure the median search for ten pieces with a mark that twenty of all pieces have."""
    store = stores.store(int(count))
    tables, right = _loaded(kind, store.parts), marked(store)
    found = [set(tables.of_organization(asked.vector, _TOP, stores.RARE_FILTER)) for asked in store.asked]
    if kind == "engine" and found != right:
        sys.exit(f"a filter that {stores.RARE} rows pass found {[len(some) for some in found]} of ten")
    asked = itertools.cycle(store.asked)

    def ask() -> None:
        tables.of_organization(next(asked).vector, _TOP, stores.RARE_FILTER)

    return lambda: median_of(ask, len(store.asked))


def load_rows(count: str, kind: str) -> Probe:
    """Measure rows a second of loading a store: COPY, then the index of its vectors."""
    store, url = stores.store(int(count)), _server()
    numbers = itertools.count()

    def round_() -> float:
        with _database(url, next(numbers)) as own:
            took = _KINDS[kind](own).load(store.parts)
        return int(count) / (took.copied_s + took.indexed_s)

    return round_


def found(count: str) -> Probe:
    """Measure the share of the ten nearest pieces that is found, over a hundred queries."""
    rows, queries = real(int(count))
    tables = _loaded("engine", (stores.organization(rows),))
    rounds = itertools.cycle(range(0, QUERIES, _ROUND))

    def round_() -> float:
        at = next(rounds)
        return share_found(tables, rows, queries[at : at + _ROUND])

    return round_


def real(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return rows, 10,000 of real sentences and the rest near to them, and other real queries."""
    texts = docstrings.texts(REAL + QUERIES)
    rows = docstrings.vectors(texts[:REAL], "passage")
    return vectors.noisy(rows, count), docstrings.vectors(texts[REAL:], "query")


def share_found(tables: Engine | Plain, rows: vectors.Vectors, queries: vectors.Vectors) -> float:
    """Return the found share of the ten nearest rows of each query, by an exact search."""
    ids = [tables.of_organization(query, _TOP) for query in queries]
    numbers = [{int(name.rpartition("_")[2]) for name in some} for some in ids]
    return vectors.recall(numbers, vectors.nearest(rows, queries, _TOP))


def lacks(reply: object) -> str:
    """Return the defect of a daemon's answer, "" if it has at least ten of the server's rows."""
    recalled = frames.recalled(reply)
    ours = recalled.roots.count("shared")
    if recalled.is_degraded or ours < _TOP:
        return f"{ours} rows of the server came; {recalled.status} ({recalled.reason})"
    return ""


def wrong_of_four(tables: Engine | Plain, store: stores.Store) -> list[str]:
    """Return the defects of recalls: for an owner with few rows, no nearest row may be missing."""
    wrong = []
    for asked in store.asked:
        answered = tables.ask(asked)
        for part in store.parts[:-1]:
            owner = asked.owners[part.scope]
            right = part.nearest_of(owner, asked.vector, stores.LIMITS[part.scope])
            if answered[part.scope] != right and part.count_of(owner) <= _FEW:
                wrong.append(f"{part.scope}: {answered[part.scope]} was found, and {right} is nearest")
    return wrong


def marked(store: stores.Store) -> list[set[str]]:
    """Return the ten right answers to each query, of the twenty rows with the mark."""
    part = store.parts[-1]
    rows = sorted(part.marked)
    best = vectors.nearest(part.vectors[rows], np.stack([asked.vector for asked in store.asked]), _TOP)
    return [{part.id(rows[at]) for at in some} for some in best.tolist()]


def _in_words(asked: stores.Asked, number: int) -> stores.Asked:
    """Return the same owners with the vector that the daemon's embedder has for a query."""
    return msgspec.structs.replace(asked, vector=corpus.vector(_query(number)))


def _query(number: int) -> str:
    return f"q{number} is what is looked for"


def _recall(asked: stores.Asked, number: int) -> object:
    owners = {scope: owner for scope, owner in asked.owners.items() if owner}
    return frames.recall(_query(number), owners, _READY_S)


def _daemon(url: str) -> daemons.Caller:
    """Return a connection to a daemon that shares all scopes, until this process ends."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    daemon = stack.enter_context(daemons.prepared(commits.this()))
    daemon.settings = {
        "FORGED_SHARED__URL": url,
        "FORGED_SHARED__SCOPES": "session,user,agent,org",
        "FORGED_MEMORY__EMBEDDING_MODEL": "bench",
    }
    return stack.enter_context(daemons.serving(daemon, stub=True))


def _loaded(kind: str, parts: Sequence[stores.Part]) -> Engine | Plain:
    tables = _KINDS[kind](_server().url())
    tables.load(parts)
    return tables


def _server() -> engine_tables.ScratchServer:
    """Return a server that ends with this process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = stack.enter_context(directory())
    folder.chmod(0o711)  # the server may be another user, and has a folder of its own in it
    return stack.enter_context(engine_tables.server(folder / "pg"))


@contextlib.contextmanager
def _database(server: engine_tables.ScratchServer, number: int) -> Iterator[str]:
    """Yield the URL of a database of its own, for the block."""
    name = f"round{number}"
    with engine_tables.connected(server.url()) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield server.url(database=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


if __name__ == "__main__":
    try:
        answer((four, recalls, clients, rare, load_rows, found))
    except Missing as missing:
        sys.exit(str(missing))
