"""Reader of the daemon's log file that can follow it while the daemon writes.

The daemon does not rename a long log: it copies the end to `<name>.1` and empties the file. A reader finds
the lines before the cut in that copy. A missing log is an empty one. Raises OSError for an unreadable file.
"""

from __future__ import annotations

_REMEMBERED = 512


class LogFile:
    """Reader of the daemon's log that can follow it, also when the daemon cuts it in between."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._before = b""  # the end of what was read, by which a cut is noticed and found in the copy
        self._begun = b""  # of a line that is not whole yet

    def read_last(self, number: int) -> list[str]:
        """Read the log to its end; return the last lines, if too few also those of the old log."""
        lines = self.read_new()
        if len(lines) < number:
            lines = _decode_lines(_read_bytes(f"{self._path}.1")) + lines
        return lines[-number:] if number else []

    def read_new(self) -> list[str]:
        """Return the lines of the log that were completed since the last read."""
        whole, end, self._begun = (self._begun + self._read_new_bytes()).rpartition(b"\n")
        return _decode_lines(whole + end)

    def _read_new_bytes(self) -> bytes:
        """Read the log from the last position, with what was moved to the copy if it was cut."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._read - len(self._before))
                found = file.read()
                if found.startswith(self._before):
                    news = found.removeprefix(self._before)
                    self._read += len(news)
                else:  # emptied, or another file
                    file.seek(0)
                    anew = file.read()
                    news, self._read = self._read_cut_off() + anew, len(anew)
        except FileNotFoundError:
            return b""
        self._before = (self._before + news)[-min(_REMEMBERED, self._read) :] if self._read else b""
        return news

    def _read_cut_off(self) -> bytes:
        """Return the part of the log, now in the copy `.1`, that was not read before the cut."""
        copy = _read_bytes(f"{self._path}.1")
        at = copy.rfind(self._before) if self._before else -1
        return copy[at + len(self._before) :] if at >= 0 else b""


def _read_bytes(path: str) -> bytes:
    """Read a log file whole; a missing one is empty."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _decode_lines(content: bytes) -> list[str]:
    """Split the bytes of a log into lines of text, with a replacement for invalid UTF-8."""
    return content.decode(errors="replace").splitlines()
