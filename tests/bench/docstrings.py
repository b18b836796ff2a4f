"""Real sentences and their vectors by the local model: docstrings of the standard library.

    python tests/bench/docstrings.py [COUNT]

They come with every Python, are free to use, and are about one domain, as a team's memories are. The same
Python gives the same texts. The vectors are cached in build/bench, under a name with the texts' hash and the
model's, because 10,000 of them take a minute or more.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import hashlib
import random
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from processes import HERE, Missing

SEED = 4
_KEPT_IN = HERE.parents[1] / "build" / "bench"
_SHORTEST, _LONGEST = 30, 400  # characters of a paragraph: one or a few sentences
_CHUNK = 64

Vectors = NDArray[np.float32]


def texts(count: int) -> tuple[str, ...]:
    """Return so many different paragraphs, drawn by the seed. Raises Missing if there are fewer."""
    found = _all()
    if len(found) < count:
        raise Missing(f"the standard library of this Python has {len(found)} paragraphs, not {count}")
    return tuple(random.Random(SEED).sample(found, count))


def vectors(said: Sequence[str], kind: str) -> Vectors:
    """Return unit rows of the local model for texts, cached. Raises Missing without the model."""
    try:
        from forged.models import Purpose
        from forged.models.local import local_embedder
    except ImportError as error:
        raise Missing(f"the local model is not here: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        embedder = local_embedder(Path(folder))
        name = hashlib.sha256("\n".join((embedder.key, kind, *said)).encode()).hexdigest()[:16]
        kept = _KEPT_IN / f"e5-{len(said)}-{name}.npy"
        if not kept.exists():
            rows = asyncio.run(_embedded(embedder, list(said), kind, Purpose("doctor")))
            _KEPT_IN.mkdir(parents=True, exist_ok=True)
            half = kept.with_suffix(".half.npy")
            np.save(half, rows)
            half.replace(kept)
    return np.load(kept)


async def _embedded(embedder, said: list[str], kind: str, purpose: object) -> Vectors:
    try:
        parts = [
            await embedder.embed(said[at : at + _CHUNK], kind, purpose=purpose)
            for at in range(0, len(said), _CHUNK)
        ]
    finally:
        await embedder.aclose()
    rows = np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@functools.cache
def _all() -> list[str]:
    return sorted({text for file in _sources() for text in _paragraphs(file)})


def _sources() -> Iterator[Path]:
    top = Path(sysconfig.get_path("stdlib"))
    for file in sorted(top.rglob("*.py")):
        parts = set(file.relative_to(top).parts)
        if not parts & {"site-packages", "test", "tests", "idle_test"}:
            yield file


def _paragraphs(file: Path) -> Iterator[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for part in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
                text = " ".join(part.split())
                if _SHORTEST <= len(text) <= _LONGEST and ">>>" not in text:
                    yield text


if __name__ == "__main__":
    rows = vectors(texts(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000), "passage")
    print(
        f"{rows.shape[0]:,} x {rows.shape[1]}, mean cosine {float(rows.mean(axis=0) @ rows.mean(axis=0)):.3f}"
    )
