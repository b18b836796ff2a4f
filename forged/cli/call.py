"""Context of one forgectl call, requests to the daemon, and output of replies.

The entry point creates the `Invocation`; only it reads the directory and environment of the process.
Tests pass their own. The client is strict, because a person needs the errors that an agent must not see.
Each failure is raised as `Stop`.
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
    """Context of one forgectl call: workspace, environment, timeout, JSON or text, and terminal.

    `workspace` is absolute. `executable` is the program that autostart may run. `interactive` means that a
    person can answer. `timeout_s` is the limit for the whole call. `programs` are the folders of systemctl
    and similar programs, which are never looked up in PATH. `width` is 0 if stdout is not a terminal, or one
    of unknown width; `shows_terminal` tells them apart.
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
    shows_terminal: bool = False

    def can_redraw(self, stream: TextIO | None) -> bool:
        """Return True if a stream is a terminal with escape sequences, as TERM is not `dumb`."""
        return stream is not None and stream.isatty() and self.environ.get("TERM") != "dumb"

    def is_coloured(self, stream: TextIO | None) -> bool:
        """Return True if a stream gets colours, by NO_COLOR, FORCE_COLOR, or if it is a terminal."""
        if self.environ.get("NO_COLOR"):
            return False
        return self.environ.get("FORCE_COLOR", "0") not in {"", "0"} or self.can_redraw(stream)

    @property
    def paint(self) -> Painter:
        """Painter for stdout, which adds colours only where stdout shows them."""
        return Painter(self.is_coloured(sys.stdout))


def of_process(directory: str, environ: Mapping[str, str]) -> Invocation:
    """Build the Invocation of this process from its directory, environment and streams.

    The daemon of this installation is the script `forged` in the folder of the interpreter.
    Without it, autostart uses the daemon that ran last.
    """
    script = os.path.join(os.path.dirname(sys.executable), "forged")
    return Invocation(
        workspace=directory,
        environ=environ,
        executable=script if os.path.exists(script) else None,
        interactive=sys.stdin is not None and sys.stdin.isatty(),
        width=_width(sys.stdout, environ),
        shows_terminal=sys.stdout is not None and sys.stdout.isatty(),
    )


def _width(stream: TextIO | None, environ: Mapping[str, str]) -> int:
    """Return the width of stdout's terminal in cells, COLUMNS first; 0 without a terminal."""
    if stream is None or not stream.isatty():
        return 0
    if (columns := environ.get("COLUMNS", "")).isdecimal() and len(columns) < _MOST_DIGITS:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except OSError:
        return 0


def stdin_text() -> str:
    """Read all of stdin as UTF-8 in any locale, with LF as line end. Raises Stop if closed or invalid."""
    if sys.stdin is None:
        raise Stop("usage", "no text on stdin, which is closed")
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        wrong = f"stdin is not UTF-8 at byte {error.start}; nothing was done"
        raise Stop("usage", f"{wrong}: convert it first, for example with `iconv -t UTF-8`") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


# --- to the daemon -------------------------------------------------------------------------------------


@contextmanager
def open_client(call: Invocation) -> Iterator[Client]:
    """Open a client by the call's options, for a `with` block in which its errors become Stop."""
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
    """Raise Stop unless a reply is ok, empty or disabled; print its reason, if any, on stderr.

    `disabled` is a state and not a failure; the command goes on with an empty result.
    """
    if reply.status not in {"ok", "empty", "disabled"}:
        raise Stop(reply.status, status_sentence(reply))
    if reply.status == "disabled" or reply.reason:
        tell(f"forgectl: {status_sentence(reply)}")


def check_done(reply: Reply) -> None:
    """Raise Stop with a reply's reason unless its status is ok; empty and disabled raise, too."""
    if reply.status != "ok":
        raise Stop(reply.status, status_sentence(reply))


def ask(call: Invocation, request: Request[R], check: Callable[[Reply], None] = check_read) -> R:
    """Send a request to the daemon by a new client; return the reply if `check` accepts it."""
    with open_client(call) as client:
        reply = client.ask(request)
    check(reply)
    return reply


def status_sentence(reply: Reply) -> str:
    """Return a reply's reason as a sentence for a person, or the words of its status if it has none."""
    reason = reply.reason or reply.status.replace("_", " ")
    return f"memory is disabled: {reason}" if reply.status == "disabled" else reason


def _stop_of(error: errors.ClientError, call: Invocation) -> Stop:
    """Convert a client's error into a Stop with error code and, for some, a command that helps."""
    if isinstance(error, errors.RequestFailed):
        if not call.workspace:
            return Stop(
                error.code, "the current directory no longer exists; name another with --workspace PATH"
            )
        if error.code == "unknown_verb":
            return Stop(
                error.code, f"{error.message}: it is an older version; `forgectl restart` replaces it"
            )
        return Stop(error.code, error.message)
    if isinstance(error, errors.DaemonEnded) and error.exit_code == os.EX_CONFIG:
        return Stop("configuration", _configuration_error(call) or str(error))
    word = next((word for kind, word in _WORDS if isinstance(error, kind)), "unavailable")
    if word == "not_running":
        return Stop(word, f"forged is not running; `forgectl ping` starts it ({error})")
    return Stop(word, str(error))


def _configuration_error(call: Invocation) -> str:
    """Load the configuration that the daemon could not use; return its error, "" if there is none."""
    from forged import config  # noqa: PLC0415 - the fast verbs do without it

    try:
        config.load(call.environ)
    except ConfigError as error:
        return str(error)
    return ""


# --- to the screen -------------------------------------------------------------------------------------


def show(call: Invocation, value: msgspec.Struct | Mapping[str, object], lines: Iterable[str]) -> None:
    """Print the result of a command on stdout: as JSON with `--json`, else as lines, if any."""
    if call.as_json:
        say_json(value)
    elif text := "\n".join(lines):
        say(text)


def tell_notice(call: Invocation, reply: Retrieved | Found | Explained | Memories) -> None:
    """Print the notice of a reply, if any, on stderr; not with `--json`, where it is a field."""
    if reply.notice and not call.as_json:
        tell(f"forgectl: {reply.notice}")


def show_found(
    call: Invocation,
    found: msgspec.Struct | Mapping[str, object],
    pages: Sequence[str],
    missing: Sequence[str],
    sentence: str,
) -> None:
    """Print the texts found for ids; if ids are missing, end with exit code 1 and the sentence.

    With `--json` the reply itself names the missing ids, unless nothing was found.
    """
    if pages or not missing:
        show(call, found, ("\n\n".join(pages),))
    if missing and pages and call.as_json:
        sys.exit(NOT_DONE)
    if missing:
        raise Stop("not_found", sentence)


def report(stop: Stop, *, as_json: bool) -> int:
    """Print the Stop of a command, on stderr or as JSON on stdout; return the exit code."""
    if as_json:
        say_json({"error": {"code": stop.word, "message": str(stop)}})
    else:
        tell(f"forgectl: {stop}")
    return stop.exit_code
