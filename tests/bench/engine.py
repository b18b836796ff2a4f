"""Rows of the shared engine: time and results of a recall's statements, against plain pgvector.

Plain is one table with one HNSW index, the same rows, the same server's settings. `engine_report.py` prints
the absolute numbers: sizes, times, and the recall and cost of a larger `hnsw.ef_search`.
"""

from __future__ import annotations

from functools import partial

from judging import Goal
from row import Row, fixed
from row import inside as _inside

inside = partial(_inside, driver="engine_inside.py")

ROWS = (
    Row(
        "engine-found-100k",
        "share of the ten nearest of 100,000 pieces that is found, real sentences and noise / all of them",
        Goal(0.95, "what is shipped as hnsw.ef_search finds nearly all", at_least=True),
        inside("found", 100_000),
        fixed(1.0),
        unit="share",
        warm_up=False,
        slow=True,
    ),
    *(
        Row(
            f"engine-four-{name}",
            f"a recall's four statements p50, {count:,} rows / the same by plain pgvector",
            Goal(1.0, "an owner's rows lie together, so more scopes cost no more"),
            inside("four", count, "engine"),
            inside("four", count, "plain"),
            slow=count > 10_000,
        )
        for name, count in (("10k", 10_000), ("100k", 100_000), ("1m", 1_000_000))
    ),
    Row(
        "engine-daemon",
        "recall through the daemon p50, 10,000 rows, vector known / its four statements alone",
        Goal(1.5, "an agent waits for the server and hardly for us"),
        inside("recalls", 10_000, "daemon"),
        inside("recalls", 10_000, "statements"),
    ),
    *(
        Row(
            f"engine-rare-{name}",
            f"ten of the {count // 4:,} pieces, filtered by a mark of twenty, p50 / by plain pgvector",
            Goal(1.0, "a filter that few rows pass is answered by its own index"),
            inside("rare", count, "engine"),
            inside("rare", count, "plain"),
            slow=count > 10_000,
        )
        for name, count in (("10k", 10_000), ("400k", 400_000))
    ),
    Row(
        "engine-load",
        "10,000 rows moved in, rows a second / by plain pgvector",
        Goal(0.8, "partitions and more indexes cost at most a quarter", at_least=True),
        inside("load-rows", 10_000, "engine"),
        inside("load-rows", 10_000, "plain"),
        unit="/s",
        warm_up=False,
    ),
    Row(
        "engine-clients",
        "recalls a second of 64 connections, 100,000 rows / of 4",
        Goal(0.8, "who waits in a longer line is served as fast", at_least=True),
        inside("clients", 100_000, 64),
        inside("clients", 100_000, 4),
        unit="/s",
        slow=True,
    ),
)
