"""What is known of models and vectors beyond one indexer: the next one has it, here or in another daemon.

Between two processes it goes with the parcels: each is labelled with its model's vectors of the public
sentences, by which the next daemon knows the model, and with the model's baseline. A parcel that contradicts
others is not taken.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec
import numpy as np

from forged.map import Baseline
from forged.maps.parcel import Parcel, Parcels, Unusable
from forged.models import Vectors

logger = logging.getLogger(__name__)


class _Model(msgspec.Struct, frozen=True):
    """One model on a label: the key of its embedder, its number, rows of float32 with so many numbers."""

    embedder: str
    number: int
    dimension: int
    sentences: bytes
    baseline: bytes


class Remembered:
    """What outlives a configuration.

    By the key of an embedder what its models made of the sentences, and when the last one was allowed to
    embed everything anew; by the key of a model what it makes of everyday messages; vectors by root.
    """

    def __init__(self) -> None:
        self.models: dict[str, dict[int, Vectors]] = {}
        self.renewed_at: dict[str, float] = {}
        self.baselines: dict[str, Baseline] = {}
        self.parcels = Parcels()

    def receive(self, descriptors: Iterable[int]) -> tuple[str, ...]:
        """Take over what another daemon packed; whose vectors that are. What is unusable is logged."""
        names = []
        for descriptor in descriptors:
            try:
                parcel = Parcel(descriptor)
                self._learn(parcel)
            except (Unusable, msgspec.MsgspecError, ValueError) as error:
                logger.warning("vectors not taken over, their texts are embedded anew error=%s", error)
                continue
            self.parcels.put(parcel)
            names.append(parcel.label.root)
        return tuple(names)

    def told(self, embedder: str, key: str) -> bytes:
        """What a label says of the model `key`, one of those behind an embedder's key."""
        number = int(key.removeprefix(embedder).removeprefix("\n#") or 0)
        sentences, baseline = self.models.get(embedder, {}).get(number), self.baselines.get(key)
        found = sentences if sentences is not None else baseline.messages if baseline is not None else None
        dimension = found.shape[1] if found is not None else 0
        return msgspec.msgpack.encode(
            _Model(embedder, number, dimension, _packed(sentences), _packed(_stacked(baseline)))
        )

    def _learn(self, parcel: Parcel) -> None:
        """Raises ValueError, MsgspecError, Unusable."""
        model = msgspec.msgpack.decode(parcel.label.known, type=_Model)
        if model.sentences:
            rows = _rows(model.sentences, model.dimension)
            known = self.models.setdefault(model.embedder, {}).setdefault(model.number, rows)
            if not np.array_equal(known, rows):
                raise Unusable("its model has the number of another one")
        if model.baseline:
            rows, key = _rows(model.baseline, model.dimension), parcel.label.key
            self.baselines.setdefault(key, Baseline(key, rows[0], rows[1], rows[2:4], rows[4:]))


def _stacked(baseline: Baseline | None) -> Vectors | None:
    if baseline is None:
        return None
    means = (baseline.query_mean, baseline.passage_mean)
    return np.vstack([*means, baseline.dropped_axes, baseline.messages])


def _packed(rows: Vectors | None) -> bytes:
    return b"" if rows is None else np.ascontiguousarray(rows, np.float32).tobytes()


def _rows(packed: bytes, dimension: int) -> Vectors:
    """Raises ValueError when there are no whole rows."""
    if dimension <= 0:
        raise ValueError("its model has vectors without numbers")
    return np.frombuffer(packed, np.float32).reshape(-1, dimension).copy()
