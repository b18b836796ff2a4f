"""`forged serve` that embeds each text once: rows of its model are kept in the file BENCH_ROWS.

So a round measures forged and not the model, with the model's own rows. It runs in the environment of either
commit, from this checkout. Exit code 64 means that the commit has no such model.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as forged.__main__ does, before numpy


def keep_rows(model: type[Any], file: str) -> None:
    """Make a model in this process look up the rows of its texts before it embeds them."""
    import numpy as np

    encode, lock = model._encode_call, threading.Lock()
    rows = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
    rows.execute("PRAGMA synchronous=OFF")
    rows.execute("CREATE TABLE IF NOT EXISTS rows (kind TEXT, text TEXT, row BLOB, PRIMARY KEY (kind, text))")

    def known(kind: str, texts: list[str]) -> list[Any]:
        found = (rows.execute("SELECT row FROM rows WHERE (kind, text) = (?, ?)", (kind, t)) for t in texts)
        return [cursor.fetchone() for cursor in found]

    def encoded(self: object, texts: list[str], kind: str) -> object:
        with lock:
            held = known(kind, texts)
        missing = [text for text, row in zip(texts, held, strict=True) if row is None]
        if missing:
            new = zip(missing, encode(self, missing, kind), strict=True)
            added = [(kind, text, np.asarray(row, np.float32).tobytes()) for text, row in new]
            with lock:
                rows.executemany("INSERT OR IGNORE INTO rows VALUES (?, ?, ?)", added)
                held = known(kind, texts)
        return np.stack([np.frombuffer(row, np.float32) for (row,) in held])

    model._encode_call = encoded


def main() -> None:
    try:
        from forged.__main__ import main as forged
        from forged.models.in_process import InProcessEmbedder

        keep_rows(InProcessEmbedder, os.environ["BENCH_ROWS"])
    except (ImportError, AttributeError) as error:
        print(f"cannot import what it runs: {error}", file=sys.stderr)
        sys.exit(64)
    sys.argv = ["forged", "serve", "--log-level", "warning"]
    forged()


if __name__ == "__main__":
    main()
