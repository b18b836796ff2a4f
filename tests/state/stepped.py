"""A child process that is killed before every system call that changes a disk.

One child for each call: what lies between two such calls leaves the same behind as the second.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from tests.files import syscalls

CALLS = ("open", "fsync", "link", "unlink", "rename", "mkdir")

_RUNNER = """
import sys
from tests.state.stepped import run_steps
{script}
run_steps(prepare, act, sys.argv[1])
"""


def killed_at_every_call(script: str, top: Path) -> dict[Path, str]:
    """Run `prepare(directory)` and then `act(directory)` once for every call that the second makes.

    Returns the directory that each killed child left, and the call that it was about to make. The last
    child is not killed: its call is "". A write is also killed in its middle.
    """
    child = syscalls.run(_RUNNER.format(script=script), str(top))
    assert child.returncode == 0, child.stderr
    return {top / name: call for name, call in json.loads(child.stdout.splitlines()[-1]).items()}


def run_steps(prepare: Callable[[str], None], act: Callable[[str], None], top: str) -> None:
    """In the child: it has one thread, so that it may fork, and has imported everything once."""
    master = f"{top}/prepared"
    os.makedirs(master)
    prepare(master)
    reported = {}
    for step in itertools.count(1):
        directory = f"{top}/{step:03}"
        shutil.copytree(master, directory, symlinks=True)
        call = _killed(act, directory, step)
        reported[f"{step:03}"] = call
        if not call:
            break
    shutil.rmtree(master)
    sys.stdout.write(json.dumps(reported) + "\n")


def _killed(act: Callable[[str], None], directory: str, step: int) -> str:
    """Name of the call before which a child of ours was killed, "" if it came to its end before."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _arm(step, writer)
        try:
            act(directory)
        except BaseException:  # noqa: BLE001 - a forked child must not go on as its parent
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        call = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert (call and os.WIFSIGNALED(status)) or status == 0, f"{directory}: {call} {status}"
    return call


def _arm(step: int, writer: int) -> None:
    """Kill this process at its call number `step` from now on."""
    count = itertools.count(1)
    write = os.write

    def die(name: str) -> None:
        write(writer, name.encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def stepped(*args: object, **kwargs: object) -> object:
            if (name != "open" or opens_new(*args)) and next(count) == step:
                die(name)
            return call(*args, **kwargs)

        return stepped

    def opens_new(_: object, flags: int, *__: object) -> bool:
        return bool(flags & os.O_CREAT)

    def torn(fd: int, data: bytes) -> int:
        if next(count) == step:
            die("write")
        if next(count) == step:
            write(fd, bytes(data)[: len(data) // 2])
            die("half a write")
        return write(fd, data)

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    os.write = torn
