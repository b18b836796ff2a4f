"""What the local model gives out as `layers`: a row in which some of its layers stand side by side.

The last layer says what a text is about and is its vector as a query; those before it say more of how it is
said. Each is of unit length before the whole row is made so. Nothing is raised.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forged.config import LOCAL

LAYERS = (5, 8, 11)
"""Which ones, counted from 0."""


def gives_layers(key: str, engine: str) -> bool:
    """Return whether an embedder of this key, run by this engine, has layers to give out."""
    return key.startswith(f"{LOCAL}\n") and engine.startswith("onnxruntime")


def query_vectors(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the last layer of each row, of unit length."""
    last = rows[:, first_layers(rows).shape[1] :]
    vectors: NDArray[np.float32] = last / np.linalg.norm(last, axis=1, keepdims=True)
    return vectors


def first_layers(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the layers before the last of each row."""
    return rows[:, : rows.shape[1] // len(LAYERS) * (len(LAYERS) - 1)]
