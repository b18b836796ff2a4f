"""The model in float32 and numpy, as plainly as it can be written: what both engines are measured by."""

from __future__ import annotations

import math

import numpy as np

from forged.models.e5.encoder import weights
from forged.models.e5.model_file import ModelFile


class Unrounded:
    """Windows of tokens to unit rows, from the weights as they are."""

    def __init__(self, model: ModelFile) -> None:
        self.model = model
        self.width = model.width
        self.words = model.blocks("emb.word", model.words)
        self.places = model.floats("emb.pos").reshape(-1, self.width) + model.floats("emb.type")[: self.width]
        self.layers = [
            {
                part: (self.matrix(f"l{layer}.{part}"), model.floats(f"l{layer}.{part}.b"))
                for part in ("q", "k", "v", "ao", "fi", "fo")
            }
            for layer in range(model.layers)
        ]

    def __call__(self, tokens: list[int]) -> np.ndarray:
        tokens = [self.model.begin, *tokens, self.model.end]
        x = self.normed(weights(self.words[tokens]) + self.places[: len(tokens)], "emb.ln")
        for number, layer in enumerate(self.layers):
            x = self.normed(x + self.by(layer["ao"], self.attended(x, layer)), f"l{number}.aln")
            inner = self.by(layer["fi"], x)
            inner *= 0.5 * (1 + np.vectorize(math.erf, otypes=[np.float32])(inner / np.float32(math.sqrt(2))))
            x = self.normed(x + self.by(layer["fo"], inner), f"l{number}.oln")
        row = x.mean(axis=0)
        return row / np.linalg.norm(row)

    def matrix(self, name: str) -> np.ndarray:
        return weights(self.model.blocks(f"{name}.w", len(self.model.floats(f"{name}.b"))))

    def by(self, layer: tuple[np.ndarray, np.ndarray], x: np.ndarray) -> np.ndarray:
        return x @ layer[0].T + layer[1]

    def attended(self, x: np.ndarray, layer: dict[str, tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        size = self.width // self.model.heads
        q, k, v = (self.by(layer[part], x).reshape(len(x), -1, size).swapaxes(0, 1) for part in "qkv")
        worth = q @ k.swapaxes(1, 2) / math.sqrt(size)
        worth = np.exp(worth - worth.max(axis=-1, keepdims=True))
        return (worth / worth.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(x), -1)

    def normed(self, x: np.ndarray, name: str) -> np.ndarray:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.model.epsilon)
        return x * self.model.floats(f"{name}.w") + self.model.floats(f"{name}.b")
