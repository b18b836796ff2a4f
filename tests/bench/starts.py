"""P14 and the client's import: what it costs to start."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec

import corpus
from daemons import Caller, Daemon, prepared, serving
from measuring import Broken, Figure, in_turn, ms, p50, plain_environment, process, timed

from forged_client import protocol

_FILES = 1_000
_ROUNDS = 9
_IMPORTED = re.compile(r"^import time: .*\| +([\w.]+)$", re.MULTILINE)


def daemon() -> Sequence[Figure]:
    """P14: from the daemon's start to its first right retrieve, against importing what it imports."""
    with prepared() as daemon:
        corpus.write(daemon.repo, _FILES)
        packages = _imported_by(daemon)
        bare = [sys.executable, "-c", f"import {', '.join(packages)}"]

        def import_only() -> None:
            subprocess.run(bare, env=plain_environment(), check=True)

        taken: list[float] = []
        imports: list[float] = []
        for _ in range(_ROUNDS):
            imports.append(timed(import_only))
            began = time.perf_counter()
            with serving(daemon):
                _retrieved(daemon)
                taken.append(time.perf_counter() - began)
    foreign = " ".join(name for name in packages if name not in sys.stdlib_module_names)
    raw = {
        "first retrieve": ms(p50(taken)),
        "bare import": ms(p50(imports)),
        "of": f"{foreign} and {len(packages) - len(foreign.split())} of the standard library",
    }
    return [Figure("start to first retrieve / bare import", p50(taken) / p50(imports), 1.6, raw)]


def _imported_by(daemon: Daemon) -> list[str]:
    """Packages and modules of others that a daemon has imported when it has answered a retrieve."""
    log = daemon.home / "imports"
    command = [sys.executable, "-X", "importtime", *daemon.command(stub=False)[1:]]
    with open(log, "wb") as errors, process(command, daemon.environment(), cwd="/", stderr=errors):
        _retrieved(daemon)
    tops = {name.partition(".")[0] for name in _IMPORTED.findall(log.read_text())}
    ours = {"forged", "forged_client", "sitecustomize", "usercustomize"}
    return sorted(top for top in tops - ours if top[0] != "_" and find_spec(top))


def _retrieved(daemon: Daemon) -> None:
    number = _FILES // 2
    caller = Caller(daemon.socket)
    reply = caller.call(
        protocol.Retrieve(id=2, workspace=str(daemon.repo), hypotheses=corpus.hypotheses(number))
    )
    caller.close()
    assert isinstance(reply, protocol.Retrieved)
    if corpus.name(number) not in {hit.id for hit in reply.memories}:
        raise Broken(f"the first retrieve answered {reply.status} {reply.reason}")


def client() -> Sequence[Figure]:
    """`import forged_client` and its Client (the import alone is lazy), against a bare interpreter."""
    codes = {
        "forged_client.Client": ["-I", "-c", "from forged_client import Client"],
        "import forged_client": ["-I", "-c", "import forged_client"],
        "bare": ["-I", "-S", "-c", "pass"],
    }

    def started(words: list[str]) -> None:
        subprocess.run([sys.executable, *words], env=plain_environment(), check=True)

    taken = in_turn({name: lambda words=words: started(words) for name, words in codes.items()}, 2 * _ROUNDS)
    raw = {name: ms(p50(seconds)) for name, seconds in taken.items()}
    ratio = p50(taken["forged_client.Client"]) / p50(taken["bare"])
    return [Figure("from forged_client import Client / python -I -S -c pass", ratio, 5.5, raw)]
