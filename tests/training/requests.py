"""Trains what tells requests to the memory from all else, and finds the words that they have in common.

`make linear-models` runs it. It learns from tests/data/requests, and from messages and sentences of the other
training sets, which ask the memory for nothing unless a wording says so. Each fifth of the texts is judged by
functions that have not seen it; a bar is the lowest at which so few others are taken. Prints the curves.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.capture.memory_requests import (
    ASKED,
    FILE,
    KEEP,
    MOST_SCORED,
    NOTHING,
    RequestWeights,
    request_features,
    said_to_memory,
    subject_words,
    without_quoted,
)
from forged.capture.rules.requests import asks, forgets, matches
from forged.capture.text_patterns import plain
from forged.text.linear import SIZE
from tests.training import data
from tests.training.data import DATA, REQUESTS
from tests.training.fitting import Fitted, Floats, Rows, fit

KINDS = (*ASKED, KEEP, NOTHING)
# What an ordinary text counts: there are many, and all are of few kinds.
_ORDINARY = 0.5
# Of texts that look like requests, the share that may be taken for one of a kind; of ordinary ones, too.
FALSE_ALIKE = {"forget": 0.025, "ask": 0.01, "refuse": 0.02}
FALSE_ORDINARY = {"forget": 0.006, "ask": 0.004, "refuse": 0.004}
FALSE_KEEP = {"forget": 0.005, "ask": 0.01, "refuse": 0.006}
_PARTS = 5
# In how many requests, at least, a word of their frame is; in their memories it is less often.
_LEAST_FRAME, _TIMES = 3, 2


class Example(NamedTuple):
    """A message and what it asks for; `meant` is the memory that it means, if it does."""

    kind: str
    text: str
    meant: str = ""
    is_ordinary: bool = False

    def kinds(self) -> tuple[str, ...]:
        """Return what it may ask for: of what looks like a request to keep nobody knows whether it is one."""
        return (KEEP, NOTHING) if self.kind == NOTHING and asks(self.text) else (self.kind,)


def requests(folder: Path = REQUESTS) -> Iterator[Example]:
    """Yield the labelled messages."""
    for file in sorted(folder.rglob("*.tsv")):
        for line in file.read_text().splitlines():
            kind, text, meant = line.split("\t")
            assert kind in KINDS, line
            yield Example(kind, text, meant)


def ordinary() -> Iterator[Example]:
    """Yield short texts of the other sets that no wording takes for a request, and requests to keep."""
    said = (*data.messages(), *data.messages("asking"), *data.turns(), *data.typed())
    sentences = (*data.sentences(), *data.sentences(data.NEAR), *data.sentences(data.PLAIN))
    texts = [(each.text, each.kind) for each in (*said, *sentences)]
    for name in ("answers", "clauses"):
        for file in sorted((DATA / name).glob("*.tsv")):
            lines = (line.split("\t")[-1] for line in file.read_text().splitlines())
            texts += [(line.replace("[[", "").replace("]]", ""), "") for line in lines]
    for text, kind in {text.strip(): kind for text, kind in texts}.items():
        is_request = matches("refuses", text) or forgets(plain(text)) or said_to_memory(text) is not None
        if text and len(text) <= MOST_SCORED and not is_request:
            yield Example(KEEP if kind == "explicit" else NOTHING, text, is_ordinary=True)


def frame_of(found: list[Example]) -> tuple[str, ...]:
    """Return the beginnings of words that requests have in common, whatever memory they mean."""
    around, inside = Counter[str](), Counter[str]()
    for each in found:
        if each.meant:
            said, meant = subject_words(each.text), subject_words(each.meant)
            around.update(said - meant)
            inside.update(said & meant)
    is_frame = {
        word for word, count in around.items() if count >= _LEAST_FRAME and count > _TIMES * inside[word]
    }
    return tuple(sorted(is_frame))


def digest() -> str:
    """Return a hash of the labelled messages."""
    files = sorted(REQUESTS.rglob("*.tsv"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class Table(NamedTuple):
    """Examples as numbers: texts, signs, kinds and weights."""

    texts: list[str]
    form: NDArray[np.float32]
    kinds: NDArray[np.float32]
    weights: Floats

    @classmethod
    def of(cls, found: list[Example]) -> Table:
        texts = [without_quoted(each.text) for each in found]
        return cls(
            texts,
            np.array([request_features(text) for text in texts], np.float32),
            np.array([[kind in each.kinds() for kind in KINDS] for each in found], np.float32),
            np.array([_ORDINARY if each.is_ordinary else 1.0 for each in found], np.float32),
        )

    def take(self, which: NDArray[np.bool_]) -> Table:
        texts = [text for text, is_taken in zip(self.texts, which, strict=True) if is_taken]
        return Table(texts, self.form[which], self.kinds[which], self.weights[which])

    def rows(self) -> Rows:
        found = Rows(self.texts, np.zeros((len(self.texts), 0), np.float32), lambda _: (1.0,))
        found.form = self.form
        return found

    def fitted(self) -> list[Fitted]:
        return fit(self.rows(), self.kinds, self.weights, size=SIZE)


def scores_of(lines: list[Fitted], rows: Rows) -> Floats:
    """Return how much likelier each text is of each kind than of any other."""
    each = np.stack([line.of(rows) for line in lines], 1)
    share = np.exp(each - each.max(1, keepdims=True))
    share /= share.sum(1, keepdims=True)
    found: Floats = np.log(share / (1 - share + 1e-9))
    return found


def judged(table: Table) -> Floats:
    """Return the scores of all texts by functions that have not seen them."""
    parts = np.array([crc32(text.encode()) % _PARTS for text in table.texts])
    found = np.zeros((len(parts), len(KINDS)), np.float32)
    for part in range(_PARTS):
        found[parts == part] = scores_of(table.take(parts != part).fitted(), table.take(parts == part).rows())
    return found


def bar_of(kind: str, scores: Floats, right: NDArray[np.bool_], found: Sequence[Example]) -> float:
    """Return the lowest bar at which few enough others are taken; prints the share of the right ones."""
    is_ordinary = np.array([each.is_ordinary for each in found])
    is_keep = np.array([each.kind == KEEP for each in found])
    bars = []
    for most, others in (
        (FALSE_ALIKE[kind], ~right & ~is_ordinary),
        (FALSE_ORDINARY[kind], is_ordinary & ~is_keep),
        (FALSE_KEEP[kind], is_keep),
    ):
        ranked = np.sort(scores[others])[::-1]
        bars.append(float(ranked[int(most * len(ranked))]))
    taken = scores > max(bars)
    recall, false = (taken & right).sum() / right.sum(), (taken & ~right).sum()
    print(
        f"{kind}: recall {recall:.3f}, {false} others, bars {[round(each, 2) for each in bars]}", flush=True
    )
    return max(bars)


def main() -> None:
    labelled = [*requests()]
    found = [*labelled, *ordinary()]
    table = Table.of(found)
    scores, right = judged(table), table.kinds > 0
    bars = {kind: bar_of(kind, scores[:, place], right[:, place], found) for place, kind in enumerate(ASKED)}
    lines = {kind: line.weights() for kind, line in zip(KINDS, table.fitted(), strict=True)}
    weights = RequestWeights(digest(), bars, lines, frame_of(labelled))
    Path(FILE).write_bytes(msgspec.msgpack.encode(weights))


if __name__ == "__main__":
    main()
