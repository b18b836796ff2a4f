"""Run one program under `guard`: a text on its standard input, its standard output as the result.

Takes a command, an environment and a new folder; returns a `ProcessResult`. The program has an empty
directory and a TMPDIR in that folder, and a session of its own. Its processes and its folder are gone when
the call ends, is cancelled, or this process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import msgspec

_GUARD = str(Path(__file__).with_name("guard.py"))
_MOST_PRINTED = 4 << 20
_MOST_ERRORS = 64 << 10
_LAST_WORDS_S = 0.2  # from the end of a program to the end of its output
_FORGOTTEN_S = 86_400.0


class ProcessResult(msgspec.Struct, frozen=True):
    """Result of a program: exit code (negative: a signal), output and error output.

    `printed` is None if the output was too long.
    """

    code: int
    printed: bytes | None
    complained: bytes


@contextlib.contextmanager
def call_folder(scratch: str) -> Iterator[str]:
    """Yield a new folder in `scratch` to the `with` block, then remove it; first remove old ones.

    It is private and has the directories `work` and `tmp`. Old: a day, after a crash. Raises OSError.
    """
    os.makedirs(scratch, mode=0o700, exist_ok=True)
    for entry in os.scandir(scratch):
        with contextlib.suppress(FileNotFoundError):  # of a call that ended meanwhile
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - _FORGOTTEN_S:
                rmtree(entry.path, ignore_errors=True)
    folder = mkdtemp(prefix="call-", dir=scratch)
    try:
        for name in ("work", "tmp"):
            os.mkdir(os.path.join(folder, name), 0o700)
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


async def run(command: Sequence[str], env: Mapping[str, str], folder: str, text: str) -> ProcessResult:
    """Run a program under `guard` and return its result; a cancelled call ends it within half a second.

    Output of a process that left the program's group is not awaited.
    """
    theirs, ours = os.pipe()
    try:
        transport, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: _GuardProtocol(text),
            *(sys.executable, "-I", "-S", _GUARD, str(theirs), folder, *command),
            cwd=os.path.join(folder, "work"),
            env={**env, "TMPDIR": os.path.join(folder, "tmp")},
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    try:
        await process.ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await process.read.wait()
    finally:
        os.close(ours)
        await asyncio.shield(process.ended.wait())
        transport.close()
    whole = bytes(process.printed) if len(process.printed) <= _MOST_PRINTED else None
    return ProcessResult(transport.get_returncode() or 0, whole, bytes(process.complained))


class _GuardProtocol(asyncio.SubprocessProtocol):
    """asyncio protocol of the guard process: writes its input, collects its output up to a limit.

    Output beyond the limit is dropped, except one chunk that shows the excess.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._streams = {1: _MOST_PRINTED, 2: _MOST_ERRORS}
        self.printed, self.complained = bytearray(), bytearray()
        self.ended, self.read = asyncio.Event(), asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write the text to the program's standard input."""
        assert isinstance(transport, asyncio.SubprocessTransport)
        its_input = transport.get_pipe_transport(0)
        assert isinstance(its_input, asyncio.WriteTransport)
        its_input.write(self._text.encode())  # it may answer without reading it all
        its_input.write_eof()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect output and error output, each up to its limit and one chunk more."""
        kept = self.printed if fd == 1 else self.complained
        if len(kept) <= self._streams[fd]:
            kept += data

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Set `read` when both outputs have ended."""
        self._streams.pop(fd, None)
        if not self._streams:
            self.read.set()

    def process_exited(self) -> None:
        """Set `ended`, for which the call waits."""
        self.ended.set()
