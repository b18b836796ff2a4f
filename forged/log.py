"""Logging: lines on stderr, rate limited by kind, and a log file of bounded size.

A kind is a log message with any arguments. Ten lines of a kind are written in a minute; the rest is counted
and reported later. A line has at most 8,000 characters. stderr may be the log file, shared by several
processes. Therefore it is never renamed: its last 8 MB are copied to `<name>.1`, and it is emptied.
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
"""Size at which the log file is rotated; one old file of at most this size is kept."""

_A_MINUTE = 10
_MINUTE_S = 60.0
_KINDS = 512
_LONGEST = 8_000
_STDERR = 2
_PRIORITY = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}


class LogSettings(msgspec.Struct, frozen=True):
    """Level and form of the log: `file` is rotated if stderr is that file; `journal`: journald reads it."""

    level: str = "info"
    file: str = ""
    journal: bool = False


def begin(settings: LogSettings) -> None:
    """Configure logging of the whole process: limited lines on stderr, also for uncaught exceptions."""
    handler = LogHandler(settings)
    logging.basicConfig(level=settings.level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda broken: _log_uncaught(
        broken.exc_type, broken.exc_value, broken.exc_traceback
    )
    sys.unraisablehook = lambda broken: _log_uncaught(broken.exc_type, broken.exc_value, broken.exc_traceback)


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, traceback: TracebackType | None
) -> None:
    """Log an exception that nothing caught, except for an interrupt or an exit."""
    if error is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit)):
        logging.getLogger("forged").error("uncaught %s", kind.__name__, exc_info=(kind, error, traceback))


class _KindCount(msgspec.Struct):
    """Count of log lines of one kind in the minute that began with its first one."""

    began: float
    level: int
    seen: int = 0


class RateLimiter:
    """Lets ten log lines a minute pass for each kind, by logger and first line, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[tuple[str, str], _KindCount] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        """Count a log record of its kind; return True if it may be written, as one of ten in a minute."""
        key = (record.name, str(record.msg).partition("\n")[0])
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                del self._kinds[next(iter(self._kinds))]
            kind = self._kinds[key] = _KindCount(self._clock(), record.levelno)
        kind.seen += 1
        return kind.seen <= _A_MINUTE

    def take_summaries(self, *, all_of_them: bool = False) -> list[logging.LogRecord]:
        """Return log records that count the lines left out in past minutes, or all; reset them."""
        now = self._clock()
        over = [key for key, kind in self._kinds.items() if all_of_them or now >= kind.began + _MINUTE_S]
        return [summary for key in over if (summary := _summary_of(key, self._kinds.pop(key))) is not None]


def _summary_of(key: tuple[str, str], kind: _KindCount) -> logging.LogRecord | None:
    """Return the log line that counts the lines of a kind beyond ten in a minute; None without any."""
    name, sentence = key
    if kind.seen <= _A_MINUTE:
        return None
    summary = f"and {kind.seen - _A_MINUTE:,} more within a minute: {sentence}"
    return logging.LogRecord(name, kind.level, "", 0, summary, (), None)


class LogHandler(logging.Handler):
    """Log handler that writes rate-limited lines to stderr and rotates the log file."""

    def __init__(self, settings: LogSettings, limiter: RateLimiter | None = None) -> None:
        super().__init__()
        self._limiter = limiter or RateLimiter()
        self._journal = settings.journal
        self._file = settings.file if _is_stderr(settings.file) else ""
        form = (
            "%(name)s %(message)s" if settings.journal else "%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        self.setFormatter(logging.Formatter(form))
        self._rotate_if_large()

    def emit(self, record: logging.LogRecord) -> None:
        """Write counts of lines left out before, then the record if its kind is within limits."""
        for summary in self._limiter.take_summaries():
            self._write(summary)
        if self._limiter.passes(record):
            self._write(record)

    def close(self) -> None:
        """Write the counts of lines suppressed until now, and close the handler."""
        for summary in self._limiter.take_summaries(all_of_them=True):
            self._write(summary)
        super().close()

    def _write(self, record: logging.LogRecord) -> None:
        """Write one record, shortened if it is very long; rotate the log file if it is large."""
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - wrong arguments, or a repr that fails
            text = f"{record.name} a line that cannot be written: {record.msg!r}"
        if len(text) > _LONGEST:
            text = f"{text[: _LONGEST // 2]}\n[...]\n{text[-_LONGEST // 2 :]}"
        if self._journal:
            text = f"<{_PRIORITY.get(record.levelname, 6)}>" + text.replace("\n", "\n ")
        _write_line(f"{text}\n".encode(errors="backslashreplace"))
        self._rotate_if_large()

    def _rotate_if_large(self) -> None:
        """Rotate the log file if stderr is that file and over its limit."""
        if self._file and os.fstat(_STDERR).st_size > MOST_BYTES:
            rotate(self._file)


def _write_line(line: bytes) -> None:
    """Write a line to stderr, in one piece if possible, so that lines of processes do not mix."""
    with contextlib.suppress(OSError):  # the reader is gone or the disk is full
        while line:
            line = line[os.write(_STDERR, line) :]


def _is_stderr(path: str) -> bool:
    """Return True if stderr is the regular file at this path, so that it may be rotated."""
    try:
        there, ours = os.lstat(path), os.fstat(_STDERR)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(there.st_mode) and (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def rotate(path: str) -> None:
    """Copy the last 8 MB of a larger log to `PATH.1`, empty the log; several processes may do so.

    Lines written at that moment are lost. On a full disk the old file is lost.
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
            _copy_end(log, size - MOST_BYTES, f"{path}.1", flags)
            os.ftruncate(log, 0)
    finally:
        os.close(log)


def _copy_end(log: int, start: int, path: str, flags: int) -> None:
    """Copy up to 8 MB of the log, from `start` on, to the file at `path`; failures are ignored."""
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
