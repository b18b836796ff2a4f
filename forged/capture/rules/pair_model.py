"""Model of statement pairs: scores a newer statement as the replacement of an older one.

The judge is a small network over `judge_features`. With vectors it also reads two linear functions: of a
replacement, and of related texts. `make linear-models` trains all of them. Raises msgspec.MsgspecError for
an invalid file, and ValueError for vectors of another size than in training.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.rules.durability import SIGNS, VETOES, kinds_in
from forged.capture.rules.slots import (
    PairSigns,
    SlotTable,
    are_parallel,
    gives_up,
    pair_signs,
    signs_of_clauses,
    slots_of,
    unknown_words,
)
from forged.capture.text_patterns import places_in
from forged.models import LAYERS
from forged.text.linear import CJK, SIZE, feature_weight
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "replacement.bin")
RowsOf = Mapping[str, bytes]
NO_ROWS: RowsOf = {}
Floats = NDArray[np.float32]
# Letters of a word's beginning that make a feature.
_BEGINNING = 4
_PIECES = re.compile(r"[^\W_]+|[?!:]")
# Characters and words of a long text, characters of a beginning, least share of the subject in a clause with
# another value; signs of the strongest clause, and the place among them of a value that the text gives up.
_LONG, _MANY, _AT_FIRST, _SAME, _GIVEN_UP = 300, 8, 20, 0.3, 5
_OF_CLAUSES = attrgetter("shared", "led", "value", "number", "version", "name", "rest", "leaves", "flips")


class PairLine(msgspec.Struct, frozen=True):
    """Linear weights for text pairs: signs; vectors (int16) and words (int8), with their scales."""

    signs: tuple[float, ...]
    alike: tuple[float, ...] = ()
    places: bytes = b""
    places_step: float = 0.0
    pieces: bytes = b""
    pieces_step: float = 0.0


class PairNetwork(msgspec.Struct, frozen=True):
    """Weights of a network with one hidden layer (float32), and the bars of its score.

    `bar` is the least score of a replacement, `proposed` that of one proposed by a model, and `doubted` that
    of a possible one, which a person should see.
    """

    bar: float
    proposed: float
    doubted: float
    hidden: bytes
    output: bytes


class PairFile(msgspec.Struct, frozen=True):
    """Contents of the shipped pair model: weights, a hash of its data, the name of the vectors' model."""

    data: str
    engine: str
    replaces: PairLine
    related: PairLine
    network: PairNetwork
    word_network: PairNetwork


class PairScore(NamedTuple):
    """Score in nats of a replacement, and what vectors say for it and for one subject, if there are any."""

    judged: float
    replaces: float = math.inf
    related: float = math.inf


@functools.cache
def pair_model() -> PairModel:
    """Return the shipped model of statement pairs, read once."""
    with open(FILE, "rb") as file:
        return PairModel(msgspec.msgpack.decode(file.read(), type=resolved(PairFile)))


class PairModel:
    """Judges pairs of a newer and an older text as replacements, with vectors or by words alone."""

    def __init__(self, file: PairFile) -> None:
        self._replaces, self._related = _LoadedPairLine(file.replaces), _LoadedPairLine(file.related)
        self.by_rows, self.by_words = PairJudge(file.network), PairJudge(file.word_network)

    def judge(self, rows: RowsOf) -> PairJudge:
        """Return the judge for texts with vectors, or that for texts without."""
        return self.by_rows if rows else self.by_words

    def scores(self, newer: str, older: Sequence[str], rows: RowsOf = NO_ROWS) -> list[PairScore]:
        """Return the scores of a replacement for each older text, by the judge that fits `rows`."""
        if not older:
            return []
        form = np.array([judge_features(newer, each) for each in older], np.float32)
        if not rows:
            return [PairScore(score) for score in self.by_words.scores(form)]
        replaces, related = self.lines(newer, older, rows)
        found = self.by_rows.scores(np.hstack([form, replaces[:, None], related[:, None]]))
        return [*map(PairScore, found, replaces.tolist(), related.tolist())]

    def lines(self, newer: str, older: Sequence[str], rows: RowsOf) -> tuple[Floats, Floats]:
        """Return the values of both functions of vectors for each older text."""
        form = np.array([sign_features(newer, each) for each in older], np.float32)
        table = np.frombuffer(b"".join(rows[each] for each in (*older, newer)), np.float32)
        table = table.reshape(len(older) + 1, -1)
        dense = np.hstack([vector_features(np.broadcast_to(table[-1], table[:-1].shape), table[:-1]), form])
        pieces = [word_buckets(newer, each) for each in older]
        return tuple(each.values(dense, form.shape[1], pieces) for each in (self._replaces, self._related))  # type: ignore[return-value]


class PairJudge:
    """Network over the features of pairs with its weights unpacked, ready to compute."""

    def __init__(self, network: PairNetwork) -> None:
        self.bar, self.proposed, self.doubted = network.bar, network.proposed, network.doubted
        self._output = np.frombuffer(network.output, np.float32)
        self._hidden = np.frombuffer(network.hidden, np.float32).reshape(-1, len(self._output) - 1)

    def scores(self, form: Floats) -> list[float]:
        """Return the score in nats of each pair, a row of features."""
        hidden = np.maximum(form @ self._hidden[:-1] + self._hidden[-1], 0)
        found: list[float] = (hidden @ self._output[:-1] + self._output[-1]).tolist()
        return found


class _LoadedPairLine:
    """Linear function of text pairs with its weights unpacked, ready to compute."""

    def __init__(self, line: PairLine) -> None:
        self._signs = np.array(line.signs, np.float32)
        places = np.frombuffer(line.places, np.int16) * np.float32(line.places_step)
        self._rows = np.concatenate([np.array(line.alike, np.float32), places])
        self._pieces = np.frombuffer(line.pieces, np.int8) * np.float32(line.pieces_step)

    def values(self, dense: Floats, signs: int, pieces: Sequence[Sequence[int]]) -> Floats:
        """Return the function's value for each pair; the last columns of `dense` are `signs`."""
        width = len(self._rows)
        if width > dense.shape[1] - signs:
            raise ValueError(f"{dense.shape[1] - signs} numbers of rows for a line of {width}")
        found: Floats = dense[:, :width] @ self._rows + dense[:, -signs:] @ self._signs
        return found + np.array([self._word_sum(each) for each in pieces], np.float32)

    def _word_sum(self, places: Sequence[int]) -> float:
        """Return the scaled sum of the weights of a pair's word features."""
        if not len(self._pieces) or not places:
            return 0.0
        return float(self._pieces[list(places)].sum()) * feature_weight(len(places))


def slot_sign(found: PairSigns) -> float:
    """Return the strongest sign of another value in the same slot."""
    return max(found.value, found.number, found.version, found.name)


def pair_features(found: PairSigns) -> dict[str, float]:
    """Return by name the features of a text pair that get weights: signs and products of two."""
    slot, about, near = slot_sign(found), min(1.0, 2 * found.shared), 1 - found.strange
    change = max(found.change, found.ends)
    named: dict[str, float] = msgspec.structs.asdict(found)
    named |= {"about": about, "near": near, "slot_change": slot * change, "slot_shared": slot * found.shared}
    for name, value in (
        ("slot", slot),
        ("change", change),
        ("flips", found.flips),
        ("retracts", found.retracts),
        ("ends", found.ends),
        ("bare", found.bare * slot),
    ):
        pairs = (("about", about), ("rest", found.rest), ("near", near), ("led", found.led))
        named |= {f"{name}_{other}": value * each for other, each in pairs}
    return named


def sign_features(newer: str, older: str) -> tuple[float, ...]:
    """Return the signs of a newer and an older text as features; the last one is always 1."""
    found = pair_signs(newer, older)
    are_related = any((found.shared, found.given_up, found.value, found.number, found.version))
    return (*pair_features(found).values(), float(are_related), 1.0)


def judge_features(newer: str, older: str) -> tuple[float, ...]:
    """Return the features of a pair that the judge reads: signs, also of clauses, and form."""
    new, old, found = slots_of(newer), slots_of(older), signs_of_clauses(newer, older)
    whole, gives = pair_signs(newer, older), gives_up(newer, older)
    most = [max(each) for each in zip(*map(_OF_CLAUSES, found), strict=True)] or [0.0] * 9
    most.insert(_GIVEN_UP, whole.given_up if found else 0.0)
    return (
        *pair_features(whole).values(),
        *most,
        min((each.strange for each in found), default=1.0),
        max((min(each.restates, each.rest) for each in found), default=0.0),
        max((each.restates for each in found if each.rest >= _SAME), default=0.0),
        max((each.expires * each.rest for each in found), default=0.0),
        float(old.is_temporary),
        *map(float, (gives is True, gives is False, are_parallel(newer, older))),
        *(min(len(each), _LONG) / _LONG for each in (newer, older)),
        *_kinds(newer),
        *_word_counts(new, old),
    )


def _kinds(newer: str) -> tuple[float, ...]:
    """Return 1 for each kind of sign for or against keeping that a statement has, else 0."""
    vetoes, signs = kinds_in("veto", newer), kinds_in("sign", newer)
    return (*(float(each in vetoes) for each in VETOES), *(float(each in signs) for each in SIGNS))


def _word_counts(new: SlotTable, old: SlotTable) -> Iterator[float]:
    """Yield shares and counts, up to 1, of known and unknown words, values and names of two statements."""
    unknown = unknown_words(new, old)
    others = [at for word, at in places_in(new.text) if word in unknown]
    yield from (min(2, len(others)) / 2, float(any(at < _AT_FIRST for at in others)))
    yield len(unknown) / max(1, len(new.topics))
    yield from (min(len(each), _MANY) / _MANY for each in (unknown, old.topics))
    yield from map(float, (new.reasons, bool(new.values or new.numbers), bool(old.values or old.numbers)))
    yield float(bool(new.numbers and old.numbers))
    for ours, theirs in ((new.numbers, old.numbers), (new.values, old.values)):
        yield float(any(not found.isdisjoint(ours.get(kind, ())) for kind, found in theirs.items()))
    for names in (new.names_without(old), old.names_without(new), new.names & old.names):
        yield min(2, len(names)) / 2


def word_buckets(newer: str, older: str) -> tuple[int, ...]:
    """Return the hashed table indexes of a pair's word features, each once, in order."""
    return tuple(sorted({crc32(piece.encode()) % SIZE for piece in _word_features(newer, older)}))


def vector_features(newer: Floats, older: Floats) -> Floats:
    """Return features of pairs of vectors (newer, older), one pair a row.

    First comes the similarity of each layer, then products and differences, then both vectors.
    """
    new, old = _by_layer(newer), _by_layer(older)
    alike = new * old
    parts = (alike, np.abs(new - old), new, old)
    found: Floats = np.hstack([alike.sum(2), *(part.reshape(len(newer), -1) for part in parts)])
    return found


def shared_feature_count(row: int) -> int:
    """Return how many vector features, the first ones, combine both vectors of width `row`."""
    return len(LAYERS) + 2 * row


def _by_layer(rows: Floats) -> Floats:
    """Split vectors into the layers of the local model, and normalise each."""
    layers = rows.reshape(len(rows), len(LAYERS), -1)
    found: Floats = layers / np.maximum(np.linalg.norm(layers, axis=2, keepdims=True), np.float32(1e-9))
    return found


def _word_features(newer: str, older: str) -> Iterator[str]:
    """Yield features of two texts: words of one or both, and word pairs and first word of the newer."""
    said = _tokens(newer)
    new, old = set(_words_and_beginnings(said)), set(_words_and_beginnings(_tokens(older)))
    yield from (f"n{word}" for word in new - old)
    yield from (f"o{word}" for word in old - new)
    yield from (f"b{word}" for word in new & old)
    yield from (f"g{one} {other}" for one, other in pairwise(said))
    yield from (f"^{word}" for word in said[:1])


def _tokens(text: str) -> list[str]:
    """Return the words and marks of a text in lower case, with digits as 0."""
    return _PIECES.findall(re.sub(r"\d", "0", text.lower()))


def _words_and_beginnings(said: list[str]) -> Iterator[str]:
    """Yield words and their beginnings; without blanks, characters and pairs of them."""
    for word in said:
        if CJK.search(word):
            yield from word
            yield from (one + other for one, other in pairwise(word))
        else:
            yield from (word, word[:_BEGINNING])
