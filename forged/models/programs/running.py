"""One call of a program: a text on its standard input, what it printed on its standard output.

In goes a command, an environment and a folder that has been made for it; out comes `Ended`. The program has
an empty directory and a TMPDIR in that folder, a session of its own, and nothing of it or of the folder is
left when the call is over, is cancelled, or its process is killed (see `guard`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import msgspec

_GUARD = str(Path(__file__).with_name("guard.py"))
_MOST_PRINTED = 4 << 20
_MOST_ERRORS = 64 << 10
_CHUNK = 64 << 10
_FORGOTTEN_S = 86_400.0


class Ended(msgspec.Struct, frozen=True):
    """What a program came to: exit code (negative: a signal), what it printed and what it complained.

    `printed` is None where that was too much.
    """

    code: int
    printed: bytes | None
    complained: bytes


def make_folder(scratch: str) -> str:
    """Return a new folder of ours alone in `scratch`, with the directories `work` and `tmp`. Raises OSError.

    What was left there by a machine that went down is removed after a day.
    """
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    for entry in os.scandir(scratch):
        if entry.stat(follow_symlinks=False).st_mtime < time.time() - _FORGOTTEN_S:
            rmtree(entry.path, ignore_errors=True)
    folder = mkdtemp(prefix="call-", dir=scratch)
    for name in ("work", "tmp"):
        os.mkdir(os.path.join(folder, name), 0o700)
    return folder


async def run(command: Sequence[str], env: Mapping[str, str], folder: str, text: str) -> Ended:
    """Run a program to its end. Cancelled, it ends it, which takes half a second at most."""
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", _GUARD, str(theirs), folder, *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=os.path.join(folder, "work"),
            env={**env, "TMPDIR": os.path.join(folder, "tmp")},
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        rmtree(folder, ignore_errors=True)
        raise
    finally:
        os.close(theirs)
    try:
        _, printed, complained = await asyncio.gather(
            _feed(process, text), _read(process.stdout, _MOST_PRINTED), _read(process.stderr, _MOST_ERRORS)
        )
        whole = printed if len(printed) <= _MOST_PRINTED else None
        return Ended(await process.wait(), whole, complained)
    finally:
        os.close(ours)
        await asyncio.shield(process.wait())


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may answer without reading it all
        process.stdin.write(text.encode())
        await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader | None, most: int) -> bytes:
    """Read to the end; of what is over `most` bytes one chunk is kept."""
    assert stream is not None
    kept = bytearray()
    while chunk := await stream.read(_CHUNK):
        if len(kept) <= most:
            kept += chunk
    return bytes(kept)
