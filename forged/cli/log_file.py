"""The log of a daemon that a client started, read while the daemon writes it.

In: the path of the log. Out: its last lines, and whole lines as they come. The daemon does not rename its log
when it is long but copies its end to `<name>.1` and empties it; whoever follows finds in that copy what came
between its last look and the cut. A log that is not there yet is an empty one. Nothing is raised but OSError
for a file that cannot be read.
"""

from __future__ import annotations

_REMEMBERED = 512


class LogFile:
    """A log and how far it has been read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read = 0
        self._before = b""  # the end of what was read, by which a cut is noticed and found in the copy
        self._begun = b""  # of a line that is not whole yet

    def last(self, number: int) -> list[str]:
        """The last lines, with those of the old log where this one has too few."""
        lines = self.more()
        if len(lines) < number:
            lines = _lines(_content(f"{self._path}.1")) + lines
        return lines[-number:] if number else []

    def more(self) -> list[str]:
        """The lines that have come since the last look."""
        whole, end, self._begun = (self._begun + self._news()).rpartition(b"\n")
        return _lines(whole + end)

    def _news(self) -> bytes:
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
                    news, self._read = self._cut_off() + anew, len(anew)
        except FileNotFoundError:
            return b""
        self._before = (self._before + news)[-min(_REMEMBERED, self._read) :] if self._read else b""
        return news

    def _cut_off(self) -> bytes:
        """What was written after the last look and copied away before this one."""
        copy = _content(f"{self._path}.1")
        at = copy.rfind(self._before) if self._before else -1
        return copy[at + len(self._before) :] if at >= 0 else b""


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").splitlines()
