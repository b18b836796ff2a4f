"""The package's door: every name is there, and numpy is not imported before a name needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from forged import map as door
from tests.support.clock import PATIENCE_S


def test_every_name_of_the_door_is_there():
    assert [name for name in door.__all__ if not hasattr(door, name)] == []


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="no attribute 'search_files'"):
        _ = door.search_files


def test_the_chains_are_had_without_numpy():
    """The capture worker imports them, and every module more is memory that it holds for good."""
    code = "import sys; from forged import map; print(map.build_chains(()).head_of, 'numpy' in sys.modules)"

    said = subprocess.check_output([sys.executable, "-c", code], text=True, timeout=PATIENCE_S)

    assert said.split() == ["{}", "False"]
