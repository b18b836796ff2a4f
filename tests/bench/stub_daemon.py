"""`forged serve` with an embedder without cost, so that forged is measured and not a model.

A driver: it runs in the environment of its own commit. It writes the number of embedded passages into the
file BENCH_EMBEDDED: a count that is independent of the daemon's own counters. A capture worker imports this
module again, as it does the daemon's own entry point, so imports of the daemon alone come when it serves.
Exit code 64 means that this commit has no such daemon.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as forged.__main__ does, before numpy


class StubEmbedder:
    """Vectors by hash; those of queries are cached, because a model's time is not the subject."""

    key = "bench"
    chunk = 64
    replaceable = False  # as a model in this process, which no other model can replace
    gives_layers = False
    health = renamed = None
    engine = engine_note = ""

    def __init__(self, counted_in: Path) -> None:
        self._counted_in = counted_in
        self._passages = 0
        self._queries: dict[str, object] = {}

    async def prepare(self) -> None:
        pass

    async def embed(
        self,
        texts: list[str],
        kind: str = "passage",
        *,
        purpose: object = None,
        deadline: float | None = None,
    ) -> object:
        import corpus
        import numpy as np

        if kind == "passage":
            self._count(len(texts))
            return corpus.vectors(texts)
        for text in texts:
            if text not in self._queries:
                self._queries[text] = corpus.vector(text)
        return np.stack([self._queries[text] for text in texts])

    def _count(self, passages: int) -> None:
        self._passages += passages
        self._counted_in.write_text(str(self._passages))

    def is_cut(self, _: str) -> bool:
        return False

    async def aclose(self) -> None:
        """Do nothing; no resource is open."""


def main() -> None:
    import asyncio
    import logging
    import sys

    try:
        from forged import config
        from forged.daemon import app, models
    except ImportError as error:
        print(f"cannot import what it runs: {error}", file=sys.stderr)
        sys.exit(64)
    logging.basicConfig(level="WARNING")
    stub = models.Models(embedder=StubEmbedder(Path(os.environ["BENCH_EMBEDDED"])), chat=None)
    taking_over = {"replace": True} if "--replace" in sys.argv else {}
    asyncio.run(app.serve(config.load(os.environ), dict(os.environ), models=stub, **taking_over))


if __name__ == "__main__":
    main()
