"""Train the small-talk model, a part of `make linear-models`, and print its scores.

Learnt from `tests/data/chat/learn.tsv`, from sentences and messages that the head learns from, where the kind
`chat` stands against all others, and from the turns of agents' lives. Nothing is learnt from `judge.tsv`, and
no bar is chosen by it: that comes from five parts, each judged by who has not seen it (a store's turns are in
one part); of those written as work and of the lives' others at most 5 in 1,000 each reach it. The same data
and engine give the same file.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.models import split_layers
from forged.text.chat import FILE, LONGEST, ChatDetector, ChatFile, ChatWeights, signs
from forged.text.linear import SIZE, Weights
from tests.training import data
from tests.training.fitting import Floats, Rows, fit
from tests.training.train_linear_model import vectors_of

CHAT = data.DATA / "chat"
LEARN, JUDGE = CHAT / "learn.tsv", CHAT / "judge.tsv"
FOLDS, FALSE = 5, 0.005
# Lines that were written for this, and turns of lives, count as so many of the others.
_NEAR = 8.0


class Turn(NamedTuple):
    """A message; `group` of those by which the bar is chosen, or none; `part` by what it is told apart."""

    text: str
    is_chat: bool
    group: str
    part: str


def labelled(file: Path) -> Iterator[tuple[str, bool]]:
    """The lines of a file of chat and work."""
    for line in file.read_text().splitlines():
        _, label, text = line.split("\t")
        yield text, label == "chat"


def turns() -> list[Turn]:
    """All that is learnt from."""
    found = [Turn(text, chat, "written", text) for text, chat in labelled(LEARN)]
    for folder in (data.STATEMENTS, data.NEAR, data.PLAIN):
        found += [Turn(one.text, one.kind == "chat", "", one.text) for one in data.sentences(folder)]
    for said in (data.messages("dev"), data.messages("asking"), data.typed()):
        found += [Turn(one.text, one.kind == "chat", "", one.text) for one in said]
    found += lives()
    return [one._replace(text=one.text.strip()) for one in found if 0 < len(one.text.strip()) <= LONGEST]


def lives() -> Iterator[Turn]:
    """What people typed in agents' lives."""
    for line in data.SESSIONS.read_bytes().splitlines():
        session = msgspec.json.decode(line, type=data.Session)
        for turn in session.turns:
            group = "" if turn["kind"] == "aside" else "lives"  # an aside wants nothing either
            yield Turn(str(turn["user"]), turn["kind"] == "chat", group, session.store)


def digest() -> str:
    """Return a hash of all that is learnt from."""
    read = [LEARN, data.SAID, data.ASKING, data.SESSIONS, *sorted(data.TYPED.glob("*/*.tsv"))]
    read += [file for folder in (data.STATEMENTS, data.NEAR, data.PLAIN) for file in data.files(folder)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in read)).hexdigest()


def trained(found: Sequence[Turn], rows: Rows, size: int) -> ChatWeights:
    """Return the line that these teach, with no bar: of pieces where there is a table, else of rows."""
    right = np.array([(one.is_chat, not one.is_chat) for one in found], np.float32)
    weights = np.array([1.0 if not one.group else _NEAR for one in found])
    chat, work = fit(rows, right, weights, size=size)
    return ChatWeights(0.0, chat.less(work).weights())


def bar_of(found: Sequence[Turn], leanings: NDArray[np.float64]) -> float:
    """The least that of no group more than 5 in 1,000 reach that are not chat; never below even odds."""
    bar = 0.0
    for group in {one.group for one in found} - {""}:
        mine = [at for at, one in enumerate(found) if one.group == group and not one.is_chat]
        work = sorted(map(float, leanings[mine]), reverse=True)
        bar = max(bar, work[int(FALSE * len(work))] if work else 0.0)
    return bar


def learnt(found: Sequence[Turn], rows: Rows, size: int) -> ChatWeights:
    """Return the line of all, with the bar of the parts; prints how they fare."""
    part = np.array([crc32(one.part.encode()) % FOLDS for one in found])
    leanings = np.zeros(len(found))
    for each in range(FOLDS):
        seen, unseen = np.flatnonzero(part != each), np.flatnonzero(part == each)
        judge = _chat(trained([found[int(one)] for one in seen], rows.take(seen), size), size)
        for one in unseen:
            leanings[one] = judge.score(found[int(one)].text, [] if size else rows.vectors[one].tolist())
    bar = bar_of(found, leanings)
    for group in ("written", "lives", ""):
        for is_chat in (True, False):
            mine = [at for at, one in enumerate(found) if (one.group, one.is_chat) == (group, is_chat)]
            what = f"{group or 'others'}, {'chat' if is_chat else 'not'}"
            taken = int((leanings[mine] > bar).sum())
            print(f"{'words' if size else 'rows'}: {what}: {taken} of {len(mine)} at {bar:.2f}", flush=True)
    return msgspec.structs.replace(trained(found, rows, size), bar=bar)


def _chat(line: ChatWeights, size: int) -> ChatDetector:
    none = ChatWeights(0.0, Weights(b"", 1.0, ()))
    return ChatDetector(ChatFile("", "", *((line, none) if size else (none, line))))


def reported(file: ChatFile, rows: Floats, lines: Sequence[tuple[str, bool]]) -> None:
    """Print what becomes of the lines that judge."""
    judge = ChatDetector(file)
    for name in ("words", "rows"):
        for label in (True, False):
            mine = [at for at, (_, chat) in enumerate(lines) if chat is label]
            hit = sum(
                judge.score(lines[at][0], rows[at].tolist() if name == "rows" else ()) > 0 for at in mine
            )
            print(f"judge, by {name}: {hit} of {len(mine)} of {'chat' if label else 'work'} taken for chat")


def main() -> None:
    found, lines = turns(), list(labelled(JUDGE))
    texts = [one.text for one in found]
    by_text, engine = asyncio.run(vectors_of([*texts, *(text for text, _ in lines)]))
    vectors, _ = split_layers(np.array([by_text[text] for text in (*texts, *(text for text, _ in lines))]))
    nothing = np.zeros((len(found), 0), np.float32)
    by_words = learnt(found, Rows(texts, nothing, signs), SIZE)
    by_row = learnt(found, Rows(texts, vectors[: len(found)], signs), 0)
    file = ChatFile(digest(), engine, by_words, by_row)
    reported(file, vectors[len(found) :], lines)
    written = msgspec.msgpack.encode(file)
    Path(sys.argv[1] if len(sys.argv) > 1 else FILE).write_bytes(written)
    print(f"{len(written)} bytes, {len(found)} texts, {engine}")


if __name__ == "__main__":
    main()
