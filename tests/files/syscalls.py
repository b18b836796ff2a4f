"""Injected failures of system calls in a child process, without changes to forged's code."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE_S

REPO = Path(__file__).parents[2]

# Numbers of x86-64; the architecture is part of the filter.
NUMBERS = {"write": 1, "fsync": 74, "linkat": 265, "renameat2": 316}
_ARCHITECTURE = 0xC000003E
_ARCHITECTURE_AT, _ARGUMENT_AT = 4, 16
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2

needs_seccomp = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="seccomp filter is written for x86-64 Linux",
)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a child that can import the repo, for filters cannot be taken off again."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join((str(REPO), str(REPO / "client")))},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def fail(descriptor: int | None = None, **errors: int) -> None:
    """From now on, in this process, the named calls fail with these errno values.

    With `descriptor` only those whose first argument it is.
    """
    program = [
        _step(_LOAD, _ARCHITECTURE_AT),
        _step(_JUMP_IF_EQUAL, _ARCHITECTURE, 1, 0),
        _step(_RETURN, _ALLOW),
    ]
    for name, code in errors.items():
        refuse = [_step(_RETURN, _ERRNO | code)]
        if descriptor is not None:
            refuse = [_step(_LOAD, _ARGUMENT_AT), _step(_JUMP_IF_EQUAL, descriptor, 0, 1), *refuse]
        program += [_step(_LOAD, 0), _step(_JUMP_IF_EQUAL, NUMBERS[name], 0, len(refuse)), *refuse]
    code = b"".join([*program, _step(_RETURN, _ALLOW)])
    buffer = ctypes.create_string_buffer(code)
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp is not available")


def _step(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)
