"""P4 and P7: exact search against faiss, and a whole retrieve over the socket against the bare search."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import corpus
import numpy as np
from daemons import Caller, prepared, serving
from measuring import HERE, Broken, Figure, in_turn, ms, needs, p50, plain_environment

from forged.map import chains, relevance, vector_map
from forged.map.baseline import Baseline
from forged.map.dense import DenseLeg, cosines_into
from forged.map.lexical import LexicalLeg
from forged.map.vector_map import Traits, VectorMap
from forged.text.everyday import MESSAGES
from forged.text.terms import terms
from forged_client import framing, protocol

_MEMORIES = 10_000
_QUERIES, _TOP = 5, 10
_ROUNDS, _CALLS = 20, 16


def against_faiss() -> Sequence[Figure]:
    """P4, in a process of its own, because faiss brings its own OpenMP and OpenBLAS; both on one thread."""
    needs(package="faiss")
    env = plain_environment(
        OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path)
    )
    command = [sys.executable, HERE / "searches.py"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise Broken(done.stderr.strip()[-400:])
    taken: dict[str, float] = json.loads(done.stdout)
    if taken["recall"] != 1.0:
        raise Broken(f"recall is {taken['recall']}, exact search must give 1.0")
    raw = {name: ms(taken[name]) for name in ("dense leg", "faiss", "whole search")}
    raw["recall"] = f"{taken['recall']}"
    return [Figure("5 queries p50 / faiss IndexFlatIP", taken["dense leg"] / taken["faiss"], 0.45, raw)]


def _compare_with_faiss() -> dict[str, float]:
    import faiss

    faiss.omp_set_num_threads(1)
    source = np.random.default_rng(1)
    rows = _units(source, _MEMORIES)
    queries = _units(source, _QUERIES)
    maps = [_map(rows, words=False)]
    index = faiss.IndexFlatIP(corpus.DIMENSION)
    index.add(rows)
    scores = (rows.astype(np.float64) @ queries.astype(np.float64).T).max(axis=1)
    right = set(np.argsort(-scores)[:_TOP].tolist())

    def leg() -> np.ndarray:
        """Cosines and the ten rows that are best under any query: what a leg adds to a search."""
        cosines = np.empty((_QUERIES, _MEMORIES), np.float32)
        cosines_into(cosines, maps[0].dense, queries)
        best = cosines.max(axis=0)
        top = np.argpartition(best, _MEMORIES - _TOP)[-_TOP:]
        return top[np.argsort(-best[top])]

    def search() -> list[vector_map.Candidate]:
        return vector_map.search(maps, texts=(), vectors=queries, k=_TOP, lexical_weight=0)

    cases: dict[str, Callable[[], object]] = {
        "dense leg": leg,
        "faiss": lambda: index.search(queries, _TOP),
        "whole search": search,
    }
    recalled = [len(set(leg().tolist()) & right), len({candidate.row for candidate in search()} & right)]
    taken = {name: p50(seconds) for name, seconds in in_turn(cases, 30, calls=5).items()}
    return {**taken, "recall": min(recalled) / _TOP}


def _units(source: np.random.Generator, count: int) -> np.ndarray:
    rows = source.standard_normal((count, corpus.DIMENSION), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _map(rows: np.ndarray, *, words: bool) -> VectorMap:
    memories = tuple(corpus.memory(number) for number in range(len(rows)))
    return VectorMap(
        root="/bench",
        scope="repo",
        generation=1,
        memories=memories,
        lexical=LexicalLeg.build([terms(memory.content) for memory in memories]) if words else None,
        dense=DenseLeg.build("bench", rows),
        chains=chains.NO_CHAINS,
        traits=Traits.of(memories),
    )


def over_the_socket() -> Sequence[Figure]:
    """P7: request in, injection out, for an agent that brings five hypotheses and a new turn each time.

    In process the same is asked: whether to answer, and with what.
    """
    asked = [corpus.hypotheses(number * 100) for number in range(_CALLS)]
    texts = [corpus.memory(number).content for number in range(_MEMORIES)]
    maps = [_map(corpus.vectors(texts), words=True)]
    vectors = [corpus.vectors(hypotheses) for hypotheses in asked]
    everyday = corpus.vectors(MESSAGES)
    background = Baseline.of("bench", everyday, everyday)
    turns = iter(range(10**9))

    with prepared() as daemon:
        corpus.write(daemon.repo, _MEMORIES)
        with serving(daemon, stub=True):
            caller = Caller(daemon.socket)
            caller.call(protocol.Rebuild(id=2, workspace=str(daemon.repo), wait=True))
            for number, hypotheses in zip(range(0, _CALLS * 100, 100), asked, strict=True):
                _check(caller.call(_retrieve(str(daemon.repo), hypotheses, next(turns))), number)

            def retrieve() -> None:
                turn = next(turns)
                caller.ask(framing.encode(_retrieve(str(daemon.repo), asked[turn % _CALLS], turn)))

            def search() -> None:
                turn = next(turns) % _CALLS
                vector_map.search(maps, texts=asked[turn], vectors=vectors[turn], k=_TOP, lexical_weight=0.3)

            def weigh() -> None:
                turn = next(turns) % _CALLS
                relevance.evidence(
                    maps, texts=asked[turn], vectors=vectors[turn], background=background, words=True
                )

            cases = {"over the socket": retrieve, "search": search, "gate": weigh}
            taken = {name: p50(seconds) for name, seconds in in_turn(cases, _ROUNDS, calls=_CALLS).items()}
            caller.close()
    ratio = taken["over the socket"] / (taken["search"] + taken["gate"])
    raw = {name: ms(seconds) for name, seconds in taken.items()}
    return [Figure("retrieve p50 / gate and search in process", ratio, 1.6, raw)]


def _retrieve(workspace: str, hypotheses: tuple[str, ...], turn: int) -> protocol.Retrieve:
    return protocol.Retrieve(
        id=turn + 3, workspace=workspace, session_id="bench", turn_id=f"turn{turn}", hypotheses=hypotheses
    )


def _check(reply: protocol.Reply, number: int) -> None:
    assert isinstance(reply, protocol.Retrieved)
    ids = [hit.id for hit in reply.memories]
    if corpus.name(number) not in ids or reply.legs != ("lexical", "dense"):
        raise Broken(f"status {reply.status}, legs {reply.legs}: {corpus.name(number)} is not among {ids}")


if __name__ == "__main__":
    print(json.dumps(_compare_with_faiss()))
