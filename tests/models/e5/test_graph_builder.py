"""The converter process: its resources, and that a partial result is never used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from forged.models.e5 import cache
from forged.models.e5.cache import EngineError
from forged.models.e5.graph_builder import GraphBuild
from tests.support.clock import PATIENCE_S, eventually
from tests.support.provider import needs_onnxruntime

OF = "model 1"
PEAK_MB = 500

# What `python -m` runs, and then the process's own peak.
MEASURED = """
import re, sys
from forged.models.e5.graph_builder import main
main(*sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1))
"""


def process(program: str, path: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, path, str(folder), OF]
    env = {"PYTHONPATH": ":".join(sys.path), "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


@pytest.mark.long
@needs_onnxruntime
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux's /proc")
def test_it_is_made_by_a_process_of_its_own_within_500_mb_and_two_at_once_make_it_once(path, tmp_path):
    both = [process(MEASURED, path, tmp_path) for _ in range(2)]

    peaks = [int(each.communicate(timeout=PATIENCE_S)[0]) >> 10 for each in both]

    assert [each.returncode for each in both] == [0, 0]
    assert max(peaks) <= PEAK_MB
    assert cache.load(str(tmp_path), OF) is not None
    assert len(os.listdir(tmp_path)) == len({"graph", "weights", "words", "made.json", "lock"})
    assert min(peaks) < max(peaks) / 1.5, "the second found it made"


@pytest.mark.long
@needs_onnxruntime
def test_what_a_killed_maker_left_is_never_used_and_goes(path, tmp_path):
    killed = process(
        "import sys; from forged.models.e5.graph_builder import main; main(*sys.argv[1:])", path, tmp_path
    )
    eventually(lambda: list(tmp_path.glob("*.words")))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert cache.load(str(tmp_path), OF) is None
    (tmp_path / ".forged-0123.tmp").write_bytes(b"half a file")

    GraphBuild().make(path, str(tmp_path), OF)

    made = cache.load(str(tmp_path), OF)
    assert made is not None
    assert set(os.listdir(tmp_path)) == {*made.files, "made.json", "lock"}


def test_what_is_stopped_ends_at_once_and_makes_nothing_more(tmp_path):
    build, message = GraphBuild(), list[str]()

    def make() -> None:
        with pytest.raises(EngineError) as caught:
            build.make("model", str(tmp_path), OF)
        message.append(str(caught.value))

    with cache.exclusive(str(tmp_path)):  # the process waits for this
        waiting = threading.Thread(target=make)
        waiting.start()
        eventually(lambda: build._process)
        build.stop()
        waiting.join(PATIENCE_S)
    make()

    assert message == ["its maker ended with -9", "the daemon stops"]
