"""The log: lines for people on stderr, few of a kind, and a file that stays small.

Of a kind (a sentence with any values) ten lines are written in a minute, and later how many more there were.
A line has at most 8,000 characters. stderr may be our log file, whose descriptor several processes share: so
it is not renamed, but its last 8 MB are copied to `<name>.1` and it is emptied.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import msgspec

MOST_BYTES = 8_000_000
"""Size of the log file from which on it is cut; one old file of at most that size stays beside it."""

_A_MINUTE = 10
_MINUTE_S = 60.0
_KINDS = 512
_LONGEST = 8_000
_STDERR = 2
_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class LogSettings(msgspec.Struct, frozen=True):
    """The log `file` that is ours to cut, if stderr is that one; `journal`: journald wants own priorities."""

    level: str = "info"
    file: str = ""
    journal: bool = False


def begin(settings: LogSettings) -> None:
    """Log as the settings say, from now on and for all of the process."""
    handler = Lines(settings)
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    sys.excepthook = _uncaught
    threading.excepthook = lambda broken: _uncaught(broken.exc_type, broken.exc_value, broken.exc_traceback)
    sys.unraisablehook = lambda broken: _uncaught(broken.exc_type, broken.exc_value, broken.exc_traceback)


def _uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    if error is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit)):
        logging.getLogger("forged").error(
            "uncaught error in %s", kind.__name__, exc_info=(kind, error, traceback)
        )


class _Kind(msgspec.Struct):
    """Lines of one kind since the first one of this minute."""

    began: float
    level: int
    seen: int = 0


class Few:
    """Ten lines of a kind a minute; a kind is a logger and the first line of a sentence without values."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], _Kind] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        key = (record.name, str(record.msg).partition("\n")[0])
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[key] = _Kind(self._clock(), record.levelno)
        kind.seen += 1
        return kind.seen <= _A_MINUTE

    def untold(self, *, all_of_them: bool = False) -> list[logging.LogRecord]:
        """What was left out in minutes that are over, or in any, as lines; it is told once."""
        now = self._clock()
        over = [key for key, kind in self._kinds.items() if all_of_them or now >= kind.began + _MINUTE_S]
        return [told for key in over if (told := _rest(key, self._kinds.pop(key))) is not None]


def _rest(key: tuple[str, str], kind: _Kind) -> logging.LogRecord | None:
    name, sentence = key
    if kind.seen <= _A_MINUTE:
        return None
    told = f"and {kind.seen - _A_MINUTE:,} more within a minute: {sentence}"
    return logging.LogRecord(name, kind.level, "", 0, told, (), None)


class Lines(logging.Handler):
    """Writes records to stderr; what it cannot write is lost, and nobody hears of it."""

    def __init__(self, settings: LogSettings, few: Few | None = None) -> None:
        super().__init__()
        self._few = few or Few()
        self._journal = settings.journal
        self._file = settings.file if _is_stderr(settings.file) else ""
        form = (
            "%(name)s %(message)s" if settings.journal else "%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        self.setFormatter(logging.Formatter(form))
        self._keep_small()

    def emit(self, record: logging.LogRecord) -> None:
        for told in self._few.untold():
            self._write(told)
        if self._few.passes(record):
            self._write(record)

    def close(self) -> None:
        """Say what is untold yet."""
        for told in self._few.untold(all_of_them=True):
            self._write(told)
        super().close()

    def _write(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - values that do not fit their sentence, or whose repr fails
            text = f"{record.name} a line that cannot be written: {record.msg!r}"
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]}\n[...]\n{text[-_LONGEST // 2 :]}"
        if self._journal:
            text = f"<{_PRIORITY.get(record.levelname, 6)}>" + text.replace("\n", "\n ")
        _put(f"{text}\n".encode(errors="backslashreplace"))
        self._keep_small()

    def _keep_small(self) -> None:
        if self._file and os.fstat(_STDERR).st_size > MOST_BYTES:
            cut(self._file)


def _put(line: bytes) -> None:
    """In one piece as far as the system takes it, so that lines of several processes do not mix."""
    with contextlib.suppress(OSError):  # nobody reads, or the disk is full: no reason to end
        while line:
            line = line[os.write(_STDERR, line) :]


def _is_stderr(path: str) -> bool:
    """Whether a regular file at this path is where stderr goes."""
    try:
        there, ours = os.lstat(path), os.fstat(_STDERR)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(there.st_mode) and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def cut(path: str) -> None:
    """Copy the end of the log to its old file and empty it; of several processes one does it, once.

    What another one writes within that moment is lost; so is the old file when the disk is full.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        log = os.open(path, os.O_RDWR | flags)
    except OSError:
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX)
        size = os.fstat(log).st_size
        if size > MOST_BYTES:
            _copy(log, size - MOST_BYTES, f"{path}.1", flags)
            os.ftruncate(log, 0)
    finally:
        os.close(log)


def _copy(log: int, start: int, path: str, flags: int) -> None:
    """Up to 8 MB from `start` on."""
    try:
        old = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | flags, 0o600)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(old).st_mode):
                os.write(old, os.pread(log, MOST_BYTES, start))
    finally:
        os.close(old)
