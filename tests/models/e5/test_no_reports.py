"""No report leaves the machine: the libraries of the local model contact no host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S
from tests.support.provider import needs_onnxruntime

pytestmark = needs_onnxruntime

_RUN = "import forged.models.e5.encoder, onnxruntime"


@pytest.mark.long
def test_onnxruntime_writes_no_report_of_this_machine_and_no_number_for_it(home, tmp_path):
    """It has done both when its import returns: an identifier and a report, to be sent from a thread."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[3])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert done.returncode == 0, done.stderr
    assert [file for file in home.rglob("*") if file.is_file()] == []
