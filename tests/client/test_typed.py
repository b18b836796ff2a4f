"""First decoding of a class by several threads at once, which crashes msgspec without `resolved`."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forged
import forged_client
from tests.support.clock import PATIENCE_S

_PACKAGES = [Path(package.__file__).parent for package in (forged, forged_client)]
# Threads change places after each few instructions, so what can happen between them happens.
_AT_ONCE = """
import os, sys, threading
import msgspec
from forged_client import framing, protocol
from forged_client.typed import resolved

sys.setswitchinterval(1e-6)

def at_once(count, work):
    barrier = threading.Barrier(count)
    def run():
        barrier.wait()
        work()
    threads = [threading.Thread(target=run) for _ in range(count)]
    for each in threads:
        each.start()
    return threads

def nested():
    inner = msgspec.defstruct("Inner", [(f"f{at}", dict[str, tuple[int, ...]], {}) for at in range(20)])
    fields = [("many", tuple[inner, ...]), ("one", inner), ("named", dict[str, inner])]
    return msgspec.defstruct("Outer", fields)

DATA = {"many": [{"f3": {}}], "one": {"f5": {}}, "named": {"x": {"f7": {"k": [1]}}}}
"""
_CONVERT = """
for _ in range(500):
    kind = nested()
    for each in at_once(4, lambda: msgspec.convert(DATA, resolved(kind))):
        each.join()
"""
_REPLIES = """
def encoded(kind):
    try:
        return [framing.encode(kind())[framing.HEADER_BYTES:]]
    except TypeError:  # a reply with a field that has no default
        return []

bodies = [body for kind in protocol.REPLIES for body in encoded(kind)]
assert bodies
for each in at_once(12, lambda: [framing.decode_reply(body) for body in bodies]):
    each.join()
"""
_FORK = """
for _ in range(200):
    kind = nested()
    threads = at_once(2, lambda: msgspec.convert(DATA, resolved(kind)))
    if not (child := os.fork()):
        msgspec.convert(DATA, resolved(kind))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    for each in threads:
        each.join()
"""


@pytest.mark.parametrize(
    ("script", "runs"), [(_CONVERT, 1), (_REPLIES, 6), (_FORK, 1)], ids=["convert", "replies", "fork"]
)
def test_the_first_decoding_of_a_class_can_be_in_several_threads(script, runs):
    for _ in range(runs):
        command = [sys.executable, "-c", _AT_ONCE + script]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            try:
                _, printed = process.communicate(timeout=PATIENCE_S)
            finally:  # a forked child outlives it if the fork did not wait
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode == 0, printed[-2000:]


def _kinds(call: ast.Call) -> list[ast.expr]:
    """Return the type that a call decodes to, if it is a call of msgspec that decodes to a class."""
    name = ast.unparse(call.func)
    if name in ("msgspec.json.Decoder", "msgspec.msgpack.Decoder"):
        positional = call.args[:1]
    elif name == "msgspec.convert":
        positional = call.args[1:2]
    elif name.endswith(".decode"):
        positional = []
    else:
        return []
    return [*positional, *(each.value for each in call.keywords if each.arg == "type")]


def test_every_decoder_is_made_of_a_resolved_class():
    found, wrong = 0, []
    for path in (path for package in _PACKAGES for path in sorted(package.rglob("*.py"))):
        if path.name == "typed.py":
            continue
        for call in (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call)):
            for kind in _kinds(call):
                found += 1
                if not (isinstance(kind, ast.Call) and ast.unparse(kind.func) == "resolved"):
                    wrong.append(f"{path}:{call.lineno}: {ast.unparse(kind)}")
    assert found > 30
    assert not wrong, f"`resolved(...)` is missing: {wrong}"
