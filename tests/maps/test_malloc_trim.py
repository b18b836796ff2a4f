"""Memory that a build has freed is returned to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.clock import PATIENCE_S

# In a process of its own: what this one has allocated before would blur the sizes. The small blocks that
# stay lie between those that are freed, so that the C library does not return these by itself.
PROGRAM = """
from pathlib import Path
from forged.maps.builds import trim_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

mixed = [bytearray(60_000 if number % 2 else 600) for number in range(2_000)]
del mixed[1::2]
before = resident()
trim_memory()
assert resident() < before / 2, (before, resident())
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_freed_memory_goes_back_to_the_system():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=PATIENCE_S)

    assert done.returncode == 0, done.stderr
