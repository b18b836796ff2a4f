"""P16: what the daemon holds in memory, beside the matrix that it cannot do without."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import corpus
from daemons import Caller, prepared, serving
from measuring import Broken, Figure, plain_environment, process, rss_mib

from forged_client import protocol

_MEMORIES = 10_000
_MATRIX = f"""
import numpy, sys
rows = numpy.random.default_rng(1).standard_normal(({_MEMORIES}, {corpus.DIMENSION}), dtype=numpy.float32)
print("ready", flush=True)
sys.stdin.read()
"""


def daemon() -> Sequence[Figure]:
    """Resident memory with both legs of 10,000 memories, after searches; against numpy and the matrix."""
    with prepared() as daemon:
        corpus.write(daemon.repo, _MEMORIES)
        with serving(daemon, stub=True):
            caller = Caller(daemon.socket)
            caller.call(protocol.Rebuild(id=2, workspace=str(daemon.repo), wait=True))
            for number in range(20):
                reply = caller.call(
                    protocol.Retrieve(id=3, workspace=str(daemon.repo), hypotheses=corpus.hypotheses(number))
                )
                assert isinstance(reply, protocol.Retrieved)
                if reply.legs != ("lexical", "dense"):
                    raise Broken(f"only {reply.legs} answered")
            ours = rss_mib(daemon.pid)
            caller.close()
    env = plain_environment(OPENBLAS_NUM_THREADS="1")
    command = [sys.executable, "-c", _MATRIX]
    with process(command, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        floor = rss_mib(child.pid)
    raw = {"daemon": f"{ours:.1f} MiB", "numpy and matrix": f"{floor:.1f} MiB"}
    return [Figure("RSS / numpy and the matrix", ours / floor, 2.6, raw)]
