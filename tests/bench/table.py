"""All rows of the bench, in the order in which they run.

P1 to P16 are goals that were set, from prototypes and peers, before the implementation; this file documents
them. None is softened to fit the results.
"""

from __future__ import annotations

import agents
import captured
import edits
import engine
import fairness
import footprint
import growth
import pings
import rebuilds
import scans
import searches
import starts
import turns
import warm
import writes
from row import Row

ROWS: tuple[Row, ...] = (
    *pings.ROWS,
    *turns.ROWS,
    *searches.ROWS,
    *fairness.ROWS,
    *scans.ROWS,
    *rebuilds.ROWS,
    *edits.ROWS,
    *starts.ROWS,
    *agents.ROWS,
    *writes.ROWS,
    *captured.ROWS,
    *footprint.ROWS,
    *growth.ROWS,
    *warm.ROWS,
    *engine.ROWS,
)


class UnknownRow(Exception):  # noqa: N818 - reads as its subject
    """No row has this name."""


def chosen(names: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of these names, all for `all`, the fast ones for none. Raises UnknownRow."""
    unknown = set(names) - {row.name for row in ROWS} - {"all"}
    if unknown:
        raise UnknownRow(", ".join(sorted(unknown)))
    if "all" in names:
        return ROWS
    return tuple(row for row in ROWS if (row.name in names if names else not row.slow))
