"""memsearch over the bench's memories: a peer library, so its cold start is a new process.

    python memsearch_peer.py index TOP COUNT     writes the memories, and indexes them
    python memsearch_peer.py ask TOP NUMBER      prints the sources of the ten best for a memory

Its OpenAI client is imported and made, as for any such endpoint, but not used. A stub embeds, as for forged,
with as many numbers as the named model has.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import corpus
import numpy as np

_TOP, _DIMENSION = 10, 1536


def _opened(top: Path) -> object:
    from memsearch import MemSearch

    opened = MemSearch(
        [top / "memory"],
        embedding_provider="openai",
        embedding_model="text-embedding-3-small",
        embedding_base_url="http://127.0.0.1:9/v1",
        embedding_api_key="none",
        milvus_uri=str(top / "memsearch.db"),
    )
    opened._embedder.embed = _embed
    return opened


async def _embed(texts: Sequence[str]) -> list[list[float]]:
    rows = np.zeros((len(texts), _DIMENSION), np.float32)
    rows[:, : corpus.DIMENSION] = corpus.vectors(texts)
    return rows.tolist()


def index(top: Path, count: int) -> None:
    (top / "memory").mkdir()
    for number in range(count):
        text = corpus.memory(number).content
        (top / "memory" / f"{corpus.name(number)}.md").write_text(text)
    indexed = asyncio.run(_opened(top).index())
    if indexed != count:
        sys.exit(f"memsearch indexed {indexed} of {count}")


def ask(top: Path, number: int) -> None:
    found = asyncio.run(_opened(top).search(corpus.opening(number), top_k=_TOP))
    print(*(Path(each["source"]).stem for each in found), flush=True)


if __name__ == "__main__":
    {"index": index, "ask": ask}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
