"""One call of forgectl: its surroundings, a question to the daemon within them, and the answer on the screen.

An `Invocation` is made once at the entry (the only place here that may look at the process's directory and
environment) and handed down, so that a test can call every verb with surroundings of its own. The client is
asked in its strict form: what an agent must not notice is exactly what a person at a terminal wants to read.
Whatever goes wrong is raised as `Stop`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

import msgspec

from forged.cli.exits import NOT_DONE, Stop
from forged.cli.terminal import Painter, say, say_json, tell
from forged.errors import ConfigError
from forged_client import errors
from forged_client.client import Client
from forged_client.protocol import Explained, Found, Memories, R, Reply, Request, Retrieved

_MOST_DIGITS = 6
SYSTEM_PROGRAMS = ("/usr/bin", "/bin", "/run/current-system/sw/bin")

_WORDS: tuple[tuple[type[errors.ClientError], str], ...] = (
    (errors.AddressError, "configuration"),
    (errors.DaemonAbsent, "not_running"),
    (errors.DeadlineExceeded, "timeout"),
    (errors.ProtocolMismatch, "protocol_mismatch"),
    (errors.FrameTooLarge, "frame_too_large"),
)


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """`workspace` is absolute; `executable` is what autostart may run; `interactive`: a person can answer.

    `timeout_s` covers a whole call. `programs` are the folders where the system keeps systemctl and its kin,
    which are never looked for in PATH. `width` is that of the terminal on stdout, 0 where there is none.
    """

    workspace: str
    environ: Mapping[str, str]
    executable: str | None = None
    autostart: bool = True
    timeout_s: float = 10.0
    as_json: bool = False
    interactive: bool = False
    watch_period_s: float = 2.0
    log_period_s: float = 0.2
    programs: tuple[str, ...] = SYSTEM_PROGRAMS
    width: int = 0

    def redraws(self, stream: TextIO | None) -> bool:
        """Whether the stream is open and ends on a terminal that knows escape sequences."""
        return stream is not None and stream.isatty() and self.environ.get("TERM") != "dumb"

    def colour(self, stream: TextIO | None) -> bool:
        """Whether to colour: NO_COLOR, then FORCE_COLOR, then a terminal that is not dumb."""
        if self.environ.get("NO_COLOR"):
            return False
        return self.environ.get("FORCE_COLOR", "0") not in {"", "0"} or self.redraws(stream)

    @property
    def paint(self) -> Painter:
        """The colours of stdout."""
        return Painter(self.colour(sys.stdout))


def of_process(directory: str, environ: Mapping[str, str]) -> Invocation:
    """The invocation of this process.

    The daemon that belongs to this forgectl is the script beside the interpreter. Where there is none it is
    the one that last ran.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "forged")
    return Invocation(
        workspace=directory,
        environ=environ,
        executable=beside if os.path.exists(beside) else None,
        interactive=sys.stdin is not None and sys.stdin.isatty(),
        width=_width(sys.stdout, environ),
    )


def _width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    """Cells in a line of the terminal that a stream ends on, or of COLUMNS; 0 where it is no terminal."""
    if stream is None or not stream.isatty():
        return 0
    if (said := environ.get("COLUMNS", "")).isdecimal() and len(said) < _MOST_DIGITS:
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def stdin_text() -> str:
    """All of stdin, read as UTF-8 whatever the locale says, with LF as line end. Raises Stop."""
    if sys.stdin is None:
        raise Stop("usage", "stdin is closed, and the text was to come from it")
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        wrong = f"stdin is not UTF-8 at byte {error.start}; nothing was done"
        raise Stop("usage", f"{wrong}: convert it first, for example with `iconv -t UTF-8`") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- to the daemon -------------------------------------------------------------------------------------


@contextmanager
def daemon(call: Invocation) -> Iterator[Client]:
    """A client for several questions, closed at the end. Raises Stop for whatever the client raises."""
    try:
        with Client(
            timeout_s=call.timeout_s,
            autostart=call.autostart,
            executable=call.executable,
            strict=True,
            name="forgectl",
        ) as client:
            yield client
    except errors.ClientError as error:
        raise _stop_of(error, call) from error


def check_read(reply: Reply) -> None:
    """End a reading verb whose answer never came; say on stderr what was odd about one that did.

    `disabled` is a state and no failure: the verb goes on with nothing to show.
    """
    if reply.status not in {"ok", "empty", "disabled"}:
        raise Stop(reply.status, remark(reply))
    if reply.status == "disabled" or reply.reason:
        tell(f"forgectl: {remark(reply)}")


def check_done(reply: Reply) -> None:
    """End a writing verb that did not do what it was told, whatever the state is called."""
    if reply.status != "ok":
        raise Stop(reply.status, remark(reply))


def ask(call: Invocation, request: Request[R], check: Callable[[Reply], None] = check_read) -> R:
    """The daemon's reply to the only question of a verb, checked."""
    with daemon(call) as client:
        reply = client.ask(request)
    check(reply)
    return reply


def remark(reply: Reply) -> str:
    """What a person is told beside an answer, or instead of one."""
    told = reply.reason or reply.status.replace("_", " ")
    if reply.status == "ok":
        return f"answered, though not in full: {told}"
    return f"memory is disabled: {told}" if reply.status == "disabled" else told


def _stop_of(error: errors.ClientError, call: Invocation) -> Stop:
    if isinstance(error, errors.RequestFailed):
        if not call.workspace:
            return Stop(error.code, "the current directory is gone; say --workspace PATH")
        if error.code == "unknown_verb":
            return Stop(
                error.code, f"{error.message}: it is of an older forged, `forgectl restart` replaces it"
            )
        return Stop(error.code, error.message)
    if isinstance(error, errors.DaemonEnded) and error.exit_code == os.EX_CONFIG:
        return Stop("configuration", _complaint(call) or str(error))
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "unavailable")
    if word == "not_running":
        return Stop(word, f"forged is not running, `forgectl ping` starts it: {error}")
    return Stop(word, str(error))


def _complaint(call: Invocation) -> str:
    """What is wrong with the configuration, as the daemon said it to its log."""
    from forged import config  # noqa: PLC0415 - the fast verbs do without it

    try:
        config.load(call.environ)
    except ConfigError as error:
        return str(error)
    return ""


# --- to the screen -------------------------------------------------------------------------------------


def show(call: Invocation, value: msgspec.Struct | Mapping[str, object], lines: Iterable[str]) -> None:
    """The value as JSON if that was asked for, else its lines; nothing when there are none."""
    if call.as_json:
        say_json(value)
    elif text := "\n".join(lines):
        say(text)


def tell_notice(call: Invocation, reply: Retrieved | Found | Explained | Memories) -> None:
    """What the reply has to say to the person beside the data; in JSON it is a field."""
    if reply.notice and not call.as_json:
        tell(f"forgectl: {reply.notice}")


def show_found(
    call: Invocation,
    found: msgspec.Struct | Mapping[str, object],
    pages: Sequence[str],
    missing: Sequence[str],
    sentence: str,
) -> None:
    """Print the pages of ids that were asked for; exit code 1, with the sentence, if some are missing.

    With `--json` the reply itself names the missing ids, unless nothing was found.
    """
    if pages or not missing:
        show(call, found, ("\n\n".join(pages),))
    if missing and pages and call.as_json:
        sys.exit(NOT_DONE)
    if missing:
        raise Stop("not_found", sentence)


def report(stop: Stop, *, as_json: bool) -> int:
    """Say why a verb ended, in the form that was asked for; returns the exit code."""
    if as_json:
        say_json({"error": {"code": stop.word, "message": str(stop)}})
    else:
        tell(f"forgectl: {stop}")
    return stop.exit_code
