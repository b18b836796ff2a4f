"""Exit codes of forgectl, which follow sysexits and the LSB status codes.

The words are the codes of the wire's `failed` reply and of the JSON error object.
"""

from __future__ import annotations

OK = 0
NOT_DONE = 1  # the answer is no: no such memory, or the person declined
USAGE = 2
NOT_RUNNING = 3
UNAVAILABLE = 69
NOT_WRITTEN = 74
TRY_AGAIN = 75
NOT_PERMITTED = 77
CONFIGURATION = 78
INTERRUPTED = 130
BROKEN_PIPE = 141

EXPLAINED = (
    (OK, "done"),
    (NOT_DONE, "not done: not found, a conflict, a secret in the text, or you answered no"),
    (USAGE, "wrong usage: an unknown command, option or value"),
    (NOT_RUNNING, "the daemon is not running"),
    (UNAVAILABLE, "the daemon, or something that it needs, is not available"),
    (NOT_WRITTEN, "the output could not be written"),
    (TRY_AGAIN, "try again later: timeout, not ready yet, or busy"),
    (NOT_PERMITTED, "not permitted"),
    (CONFIGURATION, "the configuration has an error"),
)

_BY_WORD = {
    **dict.fromkeys(("invalid", "usage", "frame_too_large"), USAGE),
    **dict.fromkeys(("not_found", "conflict", "declined", "secret", "forgotten"), NOT_DONE),
    **dict.fromkeys(("timeout", "not_ready", "busy"), TRY_AGAIN),
    "not_running": NOT_RUNNING,
    "not_written": NOT_WRITTEN,
    "not_permitted": NOT_PERMITTED,
    "configuration": CONFIGURATION,
}


class Stop(Exception):  # noqa: N818 - an ending, not always an error
    """Exception that ends a command with a sentence; its error code `word` sets the exit code."""

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self.word = word

    @property
    def exit_code(self) -> int:
        """Exit code of the process for the error code `word`; 69 for an unknown one."""
        return _BY_WORD.get(self.word, UNAVAILABLE)
