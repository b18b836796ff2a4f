"""Output of forgectl: data on stdout, messages on stderr, all safe for a terminal.

Strangers write memories, paths and error texts. Characters that move the cursor, set the title or clipboard,
hide text or change its direction are printed in a visible form; newline and tab stay. Lines of data are
escaped before they are coloured. JSON is one object in one line, with `schema_version` first. A closed pipe
ends the process with 141, an output that cannot be written with 74 and a sentence.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TextIO

import msgspec

from forged.cli.exits import BROKEN_PIPE, NOT_WRITTEN
from forged.text import local_time as times
from forged_client.protocol import Reply

SCHEMA_VERSION = 1

_COLOURS = {"good": "32", "warn": "33", "bad": "31", "strong": "1"}
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
_BAR_CELLS = 20  # the text after it needs the rest of the line
_FAST = 10.0

_DANGEROUS = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f"  # C0 and DEL, without tab and newline
    "\x80-\x9f"  # C1: one-character CSI, OSC and their kin
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi marks, embeddings, overrides, isolates
    "\u00ad\u034f\u115f\u1160\u180b-\u180f\u3164\ufeff\uffa0"  # soft hyphen, fillers, joiners
    "\u200b-\u200d\u2060-\u2065\u206a-\u206f"  # zero width
    "\u2028\u2029\ufff9-\ufffb"  # line separators, interlinear annotation
    "\ufe00-\ufe0d\U000e0000-\U000e0fff"  # tags and variation selectors: hidden ASCII (emoji ones stay)
    "\U0001d173-\U0001d17a"  # invisible musical format
    "\ud800-\udfff"  # lone surrogates: no encoding can print them
    "]"
)
_DANGEROUS_IN_LINE = re.compile(_DANGEROUS.pattern[:-1] + "\t\n]")


def escape(text: str) -> str:
    """Escape text for a terminal, newline and tab apart: controls as `^[`, hidden as `<U+202E>`."""
    return _DANGEROUS.sub(_visible_form, text)


def escape_line(text: str) -> str:
    """Escape one line for a terminal, where newline and tab are controls, too."""
    return _DANGEROUS_IN_LINE.sub(_visible_form, text)


def escape_json(encoded: str) -> str:
    """Escape control and hidden characters in JSON text as JSON escapes, so that its value stays."""
    return _DANGEROUS.sub(_json_escape, encoded)


def _visible_form(match: re.Match[str]) -> str:
    """Return a control or hidden character in visible form: `^[`, `M-^[` or `<U+202E>`."""
    code = ord(match.group())
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)
    if code < 0xA0:
        return "M-^" + chr((code - 0x80) ^ 0x40)
    return f"<U+{code:04X}>"


def _json_escape(match: re.Match[str]) -> str:
    """Return a control or hidden character as JSON escapes, which mean the same character."""
    units = match.group().encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


# --- words ---------------------------------------------------------------------------------------------


class Painter(msgspec.Struct, frozen=True):
    """Puts escaped text into the colour of a state (good, warn, bad), if `on`; else leaves it as it is."""

    on: bool = False

    def __call__(self, colour: str, text: str) -> str:
        """Return the text in the named colour (good, warn, bad, strong); unchanged if colours are off."""
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.on else text


def span(seconds: float) -> str:
    """Format a duration in its largest unit, rounded down: `45 s`, `3 h`."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(max(seconds, 0))} s"


def local_time(time: str) -> str:
    """Format an RFC 3339 time as local time to the minute, escaped."""
    return escape_line(times.local_time(time))


def pace(rate: float, left_s: float | None) -> str:
    """Format a rate of embedding and the time left: `4.4 texts/s, 3 min left`; "" without a rate."""
    if not rate:
        return ""
    number = f"{rate:,.0f}" if rate >= _FAST else f"{rate:.2g}"
    return f"{number} texts/s" + (f", {span(left_s)} left" if left_s is not None else "")


def project_name(top: str) -> str:
    """Return a repository's name by its top folder, which may be `project/.bare` or `project.git`."""
    above, name = os.path.split(top)
    return os.path.basename(above) if name in {".git", ".bare"} else name.removesuffix(".git")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: `1 memory`, `2,000 memories`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Iterable[str]) -> str:
    """Join names into one line, `a, b`, escaped, as others may have written them."""
    return ", ".join(map(escape_line, names))


def distinct(texts: Sequence[str]) -> list[str]:
    """Return the texts without those that are part of another, longer one."""
    return [text for text in texts if not any(text in other and text != other for other in texts)]


def shown_fields(fields: Mapping[str, str]) -> list[str]:
    """Return a line `name value`, escaped, for each field that has a value."""
    return [f"{name} {escape_line(value)}" for name, value in fields.items() if value]


# --- streams -------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print lines, escaped already, on stdout; end the process with an exit code if that fails."""
    _write_stdout(text + "\n")


def say_escaped(text: str) -> None:
    """Print text on stdout, escaped, with a final newline added on a terminal only."""
    stream: TextIO | None = sys.stdout
    is_terminal = stream is not None and stream.isatty()
    _write_stdout(escape(text) + ("\n" if is_terminal and not text.endswith("\n") else ""))


def say_json(value: msgspec.Struct | Mapping[str, object]) -> None:
    """Print one line of JSON with `schema_version`, without a reply's `id`, and with characters escaped."""
    fields = dict(plain_data(value))
    if isinstance(value, Reply):
        del fields["id"]
    encoded = msgspec.json.encode({"schema_version": SCHEMA_VERSION, **fields})
    _write_stdout(escape_json(encoded.decode()) + "\n")


def plain_data(value: Any) -> Any:
    """Convert structs to dictionaries for JSON, default values included, which the wire leaves out."""
    if isinstance(value, msgspec.Struct):
        return {name: plain_data(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {name: plain_data(each) for name, each in value.items()}
    return list(map(plain_data, value)) if isinstance(value, list | tuple) else value


def tell(message: str) -> None:
    """Escape a message, print it on stderr; a broken pipe ends the process, other errors do not."""
    try:
        _write_and_flush(sys.stderr, escape_line(message) + "\n")
    except BrokenPipeError:
        redirect_to_null(sys.stderr)
        sys.exit(BROKEN_PIPE)
    except OSError:
        redirect_to_null(sys.stderr)


def progress(doing: str, done: int, total: int, suffix: str = "") -> str:
    """Format progress: `embedding 20/40, 3 min left`, or only `embedding` without a total."""
    return escape_line(doing) + (f" {done:,}/{total:,}" if total else "") + (f", {suffix}" if suffix else "")


class ProgressBar:
    """Progress on stderr: one line that is drawn again or, where that is impossible, some lines of text."""

    def __init__(self, redraws: bool) -> None:
        self._redraws = redraws
        self._last: object = None

    def draw(self, doing: str, done: int, total: int, suffix: str = "") -> None:
        """Draw bar, numbers and suffix over the last ones; do nothing if stderr cannot be redrawn."""
        if not self._redraws:
            return
        full = _BAR_CELLS * done // total if total else 0
        self._last = "#" * full + "." * (_BAR_CELLS - full)
        sys.stderr.write(f"\r[{self._last}] {progress(doing, done, total, suffix)}\x1b[K")
        sys.stderr.flush()

    def tell_instead(self, line: str, once: object) -> None:
        """Print a line if stderr has no bar, unless the last call had the same key `once`."""
        if not self._redraws and once != self._last:
            self._last = once
            tell(line)

    def wipe(self) -> None:
        """Erase the progress bar from stderr, if one was drawn."""
        if self._redraws and self._last is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def exit_for_output_error(error: OSError) -> NoReturn:
    """End the process after stdout failed: silently for a closed pipe, else with a message."""
    redirect_to_null(sys.stdout)
    if isinstance(error, BrokenPipeError):
        sys.exit(BROKEN_PIPE)
    tell(f"forgectl: the output could not be written: {error.strerror}")
    sys.exit(NOT_WRITTEN)


def _write_stdout(text: str) -> None:
    """Write text to stdout and flush it; end the process with an exit code if that fails."""
    try:
        _write_and_flush(sys.stdout, text)
    except OSError as error:
        exit_for_output_error(error)


def _write_and_flush(stream: TextIO | None, text: str) -> None:
    """Write to a stream and flush it. Raises OSError, also for a closed stream."""
    if stream is None:  # closed before the process started
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    stream.write(text)
    stream.flush()


def redirect_to_null(stream: TextIO | None) -> None:
    """Redirect a broken stream to /dev/null, so that Python's flush at exit does not fail again."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
