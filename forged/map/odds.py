"""What words say: how likely a message was written with a row in mind.

In go the postings of some queries; out comes `Odds`, the log likelihood ratio of each row under each query,
in nats. For each stem of a query the row speaks with some share, or the prior of everyday messages does; the
number of rows is taken off, as the best of them was looked for. Nothing is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.map.lexical import Matches
from forged.text.everyday import MESSAGES, WORDS
from forged.text.terms import Terms, are_stems, distinct, terms

# A term of the message comes from the row with this share, else from the prior; 0.25-0.6 are alike. Of a long
# message only so many terms speak of a memory: a pasted log must not drown them.
_TERM_SHARE, _MAX_TERMS = 0.4, 5.0
# Share of a term that no everyday message has (3e-5 to 3e-4 are alike), the least share of a common word, and
# what a short row counts as.
_RAREST, _COMMON = 1e-4, 5e-4
_SHORTEST = 8
LEAST, MOST = -2.0, 10.0
"""Limits of the odds: more than 10 nats is a text quoted in another, and other words prove nothing."""


class Odds(msgspec.Struct, frozen=True, eq=False):
    """`rows[leg]` are float64 (queries, rows), before the size of the store is taken off."""

    rows: tuple[NDArray[np.float64], ...]
    sizes: tuple[int, ...]
    queries: int

    @classmethod
    def of(cls, matches: Matches) -> Odds:
        prior = _prior_of(matches.terms)
        rows = tuple(_of_leg(matches, number, prior) for number in range(len(matches.legs)))
        return cls(rows, tuple(leg.size for leg in matches.legs), len(matches.stem_ends))

    def best(self, legs: Sequence[int] | None = None) -> NDArray[np.float64]:
        """Log odds that each query was written with the best of the rows in mind, (queries,)."""
        numbers = range(len(self.rows)) if legs is None else legs
        size = sum(self.sizes[number] for number in numbers)
        if not size:
            return np.full(self.queries, LEAST)
        best = [self.rows[number].max(axis=1, initial=-np.inf) for number in numbers]
        odds: NDArray[np.float64] = np.max(best, axis=0)
        return odds - float(np.log(size))

    def of_rows(self, leg: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Of some rows of a leg, (queries, n), within the limits."""
        known = self.rows[leg]
        found, there = np.full((self.queries, len(rows)), LEAST), rows < known.shape[1]
        found[:, there] = limited(known[:, rows[there]] - float(np.log(max(sum(self.sizes), 1))))
        return found


def limited(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    within: NDArray[np.float64] = np.clip(odds, LEAST, MOST)
    return within


def _of_leg(matches: Matches, number: int, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    leg = matches.legs[number]
    in_row = 1 / np.maximum(leg.lengths, _SHORTEST)
    odds = np.zeros((len(matches.stem_ends), len(in_row)))
    for query in range(len(odds)):
        odds[query] = _of_query(matches, number, query, prior, in_row)
    return odds


def _of_query(
    matches: Matches, number: int, query: int, prior: NDArray[np.float64], in_row: NDArray[np.float64]
) -> NDArray[np.float64] | float:
    """Log likelihood ratio of a leg's rows, in nats; `in_row` is the share of one term in each row."""
    first, last = matches.begins[query], matches.stem_ends[query]
    if first == last:
        return 0.0
    share = min(_TERM_SHARE, _MAX_TERMS / (last - first))
    lengths = matches.hits[number][query].lengths[: last - first]
    rows = matches.hits[number][query].rows[: lengths.sum()]
    gains = in_row.take(rows)
    gains /= np.repeat(prior[first:last], lengths)
    np.maximum(gains, 1, out=gains)
    gains *= share / (1 - share)
    sums = np.bincount(rows, np.log1p(gains, out=gains), len(in_row))
    gone = matches.legs[number].gone
    if gone is not None:
        sums[gone] = 0
    return np.asarray(sums + (last - first) * np.log1p(-share), np.float64)


def _prior_of(wanted: Terms) -> NDArray[np.float64]:
    """Share of each term in what is said every day; the rarest has one as well."""
    known, share = _prior()
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[at] == wanted, np.maximum(share[at], _RAREST), _RAREST)


@cache
def _prior() -> tuple[Terms, NDArray[np.float64]]:
    said, counts = np.unique(_stems(MESSAGES), return_counts=True)
    common = _stems(WORDS)
    known = distinct(np.concatenate((said, common)))
    share = np.zeros(len(known))
    share[np.searchsorted(known, common)] = _COMMON
    at = np.searchsorted(known, said)
    share[at] = np.maximum(share[at], counts / counts.sum())
    return known, share


def _stems(texts: Sequence[str]) -> Terms:
    found = np.concatenate([terms(text) for text in texts])
    return found[are_stems(found)]
