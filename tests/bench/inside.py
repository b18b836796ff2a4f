"""Internals without a socket: forged's own search, gate, scan and observer, timed inside this commit.

    python inside.py CASE [WORD...]

A driver: the only file of the bench, with stub_daemon.py, that imports forged itself. So a commit that moves
its modules adapts this file and can still be measured by another. It prints `ready`, and then for every line
on stdin the seconds of one call, the median of a round. A wrong answer ends it with a sentence on stderr;
exit code 64 means that this commit lacks something that the case needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import corpus
import numpy as np
from sampling import Probe, answer, median_of, p99, timed

try:
    from forged.files.frontmatter import parse
    from forged.files.roots import Root
    from forged.files.scan import scan as look
    from forged.map import (
        Baseline,
        MapPart,
        Ranked,
        Traits,
        VectorMap,
        build_dense,
        build_lexical,
        evidence_threshold,
        gate_decisions,
        score_search,
        search_maps,
    )
    from forged.map.chains import NO_CHAINS
    from forged.memory import Memory, Scope
    from forged.models import Purpose
    from forged.models.local import local_embedder
    from forged.text.english import EVERYDAY_MESSAGES
    from forged.text.terms import terms
    from forged_client import Observer
except ImportError as error:
    print(f"cannot import what it measures: {error}", file=sys.stderr)
    sys.exit(64)

_QUERIES, _TOP, _ASKED = 5, 10, 16
_PASSAGES = 16
_WINDOW_BYTES, _TURNS = 1_500_000, 200


def search(count: str, dimension: str) -> Probe:
    """Search random rows by five vectors alone; the ten best must be the right ones."""
    rows = corpus.units(1, int(count), int(dimension))
    queries = corpus.units(2, _QUERIES, int(dimension))
    best = np.concatenate(
        [(queries @ rows[at : at + 4096].T).max(axis=0) for at in range(0, len(rows), 4096)]
    )
    right = set(np.argsort(-best)[:_TOP].tolist())
    maps = [_map(_memories(len(rows), alike=True), rows, words=False)]
    del rows

    def ask() -> list[Ranked]:
        return search_maps(maps, texts=(), vectors=queries, lexical_weight=0).best(_TOP)

    found = {candidate.row for candidate in ask()}
    if found != right:
        sys.exit(f"recall is {len(found & right) / _TOP}, exact search must give 1.0")
    return lambda: median_of(ask, max(3, 300_000 // len(best)))


def both_indexes(count: str, queries: str) -> Probe:
    """Search by words and vectors, as a retrieve does: another text each time, in turn."""
    memories = _memories(int(count))
    maps = [_map(memories, corpus.vectors([memory.content for memory in memories]), words=True)]
    asked = [corpus.hypotheses(number * 50, int(queries)) for number in range(_ASKED)]
    vectors = [corpus.vectors(texts) for texts in asked]
    message = 0 if queries == "1" else None
    turns = iter(range(10**9))

    def ask() -> None:
        turn = next(turns) % _ASKED
        search_maps(maps, texts=asked[turn], vectors=vectors[turn], lexical_weight=0.3, message=message).best(
            _TOP
        )

    return lambda: median_of(ask, _ASKED)


def dense_part(count: str, judged: str) -> Probe:
    """Search by six vectors alone, or (`judged` is 1) also with the gate."""
    memories = _memories(int(count))
    maps = [_map(memories, corpus.vectors([memory.content for memory in memories]), words=False)]
    everyday = corpus.vectors(EVERYDAY_MESSAGES)
    baseline = Baseline.of("bench", everyday, everyday)
    texts = corpus.hypotheses(7, 6)
    vectors = corpus.vectors(texts)

    def ask() -> None:
        found = search_maps(maps, texts=texts, vectors=vectors, lexical_weight=0)
        best = found.best(_TOP)
        if judged == "1":
            gate_decisions(score_search(found, baseline), best, evidence_threshold(0.95), most=_TOP)

    return lambda: median_of(ask, 30)


def local_passages() -> Probe:
    """Measure passages a second by the local model, one core; the first call loads it."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    texts, loop = corpus.units(_PASSAGES), asyncio.new_event_loop()

    def embed(some: list[str]) -> None:
        loop.run_until_complete(embedder.embed(some, purpose=Purpose("doctor")))

    with tempfile.TemporaryDirectory() as folder:
        embedder = local_embedder(Path(folder))
        embed(texts[:1])
    return lambda: _PASSAGES / timed(lambda: embed(texts))


def scan(top: str, count: str) -> Probe:
    """Read and parse a whole store."""
    root = Root(top, Scope.REPO)
    found = look(root)
    if len(found.memories) != int(count) or found.problems:
        sys.exit(f"{len(found.memories)} memories and {len(found.problems)} problems")
    del found
    return lambda: median_of(lambda: look(root), 1)


def rescan(top: str) -> Probe:
    """Rescan a store without changes."""
    root = Root(top, Scope.REPO)
    before = look(root)
    if look(root, before) is not before:
        sys.exit("a rescan of unchanged files made a new snapshot")
    return lambda: median_of(lambda: look(root, before), 3)


def turn_complete(form: str, address: str, workspace: str) -> Probe:
    """Measure an agent's delay after 99 of 100 turns, as its window grows to 1.5 MB."""
    threading.Thread(target=_go_on, daemon=True).start()
    sessions, messages = iter(range(10**9)), list(_messages(form))

    def round_() -> float:
        observer = Observer(workspace, f"s{next(sessions)}", address=address)
        window, waits = messages[:-_TURNS], []
        for message in messages[-_TURNS:]:
            window.append(message)
            time.sleep(0.002)  # like an agent that waits for its model
            waits.append(timed(lambda: observer.on_turn_complete(window)))
        if not observer.close(10):
            sys.exit(f"not delivered: {dict(observer.counts)}")
        return p99(waits)

    return round_


def window_as_json(form: str) -> Probe:
    """Write the same window as JSON once, as an agent does that keeps its sessions."""
    window = list(_messages(form))
    return lambda: median_of(lambda: json.dumps(window), 10)


def first_judged() -> Probe:
    """Measure the rules' CPU seconds for one message, in a process without compiled patterns."""
    code = (
        "import asyncio, time\n"
        "from forged.capture.local_classifier import LocalClassifier\n"
        "from forged.capture.rules.engine import RuleClassifier\n"
        "from forged.capture.rules.replacement import replaced_by\n"
        "from forged.conversation import Utterance\n"
        "from forged.state import Event\n"
        "began = time.process_time()\n"
        "said = (Utterance('user', 'We use pnpm now, no longer yarn. Please remember that.'),)\n"
        "rules = RuleClassifier(lambda *_: (), LocalClassifier(lambda *_: ()).refine)\n"
        "event = Event(id='e', window=said, said_at=(1.0,))\n"
        "found = asyncio.run(rules.classify(event, (), deadline=1e9, attempts=1))\n"
        "replaced_by(found.proposals[0].content, ['We use yarn.'])\n"
        "print(time.process_time() - began)\n"
    )
    return lambda: float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def _messages(form: str) -> Iterator[dict[str, object]]:
    size, number = 0, 0
    while size < _WINDOW_BYTES:
        text = "\n".join(corpus.memory(number + at).content for at in range(4))
        content = text if form == "openai" else [{"type": "text", "text": text}]
        yield {"role": ("user", "assistant")[number % 2], "content": content}
        size, number = size + len(text.encode()), number + 1


def _go_on() -> None:
    while True:
        sum(range(100))


def _memories(count: int, *, alike: bool = False) -> tuple[Memory, ...]:
    """Return memories as read from their files; with `alike` all have one text, which is faster to make."""
    files = (corpus.memory(0 if alike else number).file for number in range(count))
    named = (
        file.replace(b"id: mem_000000", b"id: mem_%06d" % number, 1) if alike else file
        for number, file in enumerate(files)
    )
    return tuple(parse(file, "repo", corpus.name(number)) for number, file in enumerate(named))


def _map(memories: tuple[Memory, ...], rows: np.ndarray, *, words: bool) -> VectorMap:
    lexical = build_lexical([terms(memory.content) for memory in memories]) if words else None
    return VectorMap(
        root="/bench",
        scope="repo",
        generation=1,
        memories=memories,
        parts=(MapPart(memories, lexical, build_dense("bench", rows), Traits.of(memories)),),
        chains=NO_CHAINS,
    )


if __name__ == "__main__":
    answer(
        (
            first_judged,
            search,
            both_indexes,
            dense_part,
            local_passages,
            scan,
            rescan,
            turn_complete,
            window_as_json,
        )
    )
