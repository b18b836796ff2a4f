"""Why an endpoint did not answer: its status and its words, judged into one `Fault`.

Every provider words its errors in another shape (ecosystem-anchors.md section 6, rule 6): `error` as object
or text, in a list, at top level, as `detail`, or inside a 200. What is kept is the status, the provider's
code and one cut sentence, and that only when it repeats nothing of what was sent: some echo the input, some
a part of the key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from forged.errors import ProviderError

_MAX_TOLD = 1_000  # judged by patterns, which take their time over 64 kB
_MAX_MESSAGE = 200
_MAX_RETRY_AFTER_S = 300.0
_ECHO = 8
_SHORTEST = 4


class SizeRefused(ProviderError):  # noqa: N818 - reads as what happened
    """The endpoint says that a request was too large; half of it may pass. Its reason is bad_input."""


class Fault(msgspec.Struct, frozen=True):
    """Why one attempt failed. `reason` as in ProviderError; `retry` says whether another may help."""

    reason: str
    message: str
    status: int = 0
    retry: bool = False
    retry_after_s: float | None = None
    too_large: bool = False

    def error(self) -> ProviderError:
        kind = SizeRefused if self.too_large else ProviderError
        return kind(self.message, reason=self.reason, status=self.status, retry_after_s=self.retry_after_s)


# What a message must speak of for a smaller request to be worth a try (rule 3).
_SPEAKS_OF_SIZE = re.compile(r"(?i)batch|input|token|too (?:long|large|many|big)|maximum|context|length")
_SPEAKS_OF_MODEL = re.compile(r"(?i)model\b.*(?:not found|not exist|not load|unknown|invalid)|no models? ")
_SPEAKS_OF_KEY = re.compile(r"(?i)api.?key|unauthorized|authentication")
_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")  # JSON within JSON
_RETRIED = frozenset({408, 409, 429})


class _Complaint(msgspec.Struct, frozen=True):
    """What an error body says, in whatever form: a code, a sentence, and a wait in seconds."""

    code: str = ""
    message: str = ""
    status: int = 0
    retry_after_s: float | None = None


def fault_of(
    where: str, status: int, headers: Mapping[str, str], body: bytes, sent: tuple[str, ...], *, now: float
) -> Fault | None:
    """Return why a reply is no answer, or None if it is one.

    Args:
        where: the endpoint as it may be shown.
        headers: of the reply; looked up in lower case.
        sent: texts and secrets that no message may repeat.
        now: `time.time()`, for a Retry-After that is a date.
    """
    complaint = _complaint(body) if status != 200 or _holds_error(body) else None
    if status == 200:
        if complaint is None:
            return None
        status = complaint.status
    complaint = complaint or _Complaint()
    reason, too_large = _judge(status, complaint)
    asked = _retry_after(headers, complaint, now)
    return Fault(
        reason=reason,
        message=_sentence(where, status, complaint, sent),
        status=status,
        retry=_may_retry(status, headers, too_large=too_large),
        retry_after_s=asked,
        too_large=too_large,
    )


def _judge(status: int, complaint: _Complaint) -> tuple[str, bool]:
    """Return the reason word, and whether a smaller request may pass."""
    told = f"{complaint.code} {complaint.message}"
    if status in (401, 402, 403, 407):
        return "auth", False
    if status == 429:
        return "rate_limited", False
    if status == 408:
        return "timeout", False
    if status == 413:
        return "bad_input", True
    if status in (400, 422):
        if _SPEAKS_OF_KEY.search(told):
            return "auth", False
        if _SPEAKS_OF_MODEL.search(told):
            return "bad_reply", False
        return "bad_input", bool(_SPEAKS_OF_SIZE.search(told))
    if status >= 500:
        # llama.cpp answers 500 when an input does not fit, Ollama when a vector came out as NaN.
        too_large = status == 500 and bool(_SPEAKS_OF_SIZE.search(told))
        return ("bad_input" if too_large or "NaN" in told else "server"), too_large
    # 409 is a state of the server; what is left is a wrong path, a redirect or an unknown error in a 200.
    return ("server" if status in (0, 200, 409) else "bad_reply"), False


def _may_retry(status: int, headers: Mapping[str, str], *, too_large: bool) -> bool:
    told = headers.get("x-should-retry", "").lower()
    if told in ("true", "false"):
        return told == "true"
    return not too_large and (status in _RETRIED or status >= 500)


def _holds_error(body: bytes) -> bool:
    """Whether a 200 is an error all the same (OpenRouter); such a body says so at its beginning."""
    document = _json(body) if b'"error"' in body[:512] else None
    return isinstance(document, dict) and bool(document.get("error") or document.get("object") == "error")


def _complaint(body: bytes) -> _Complaint | None:
    """Find the error in a body: `error` as object or text, in a list, at top level, or as `detail`."""
    document = _json(body)
    if isinstance(document, list):
        document = document[0] if document else None
    if not isinstance(document, dict):
        return None
    found = document.get("error") or document.get("detail") or document
    if isinstance(found, list):
        found = found[0] if found else ""
    if isinstance(found, str):
        return _Complaint(message=found[:_MAX_TOLD])
    if not isinstance(found, dict) or not ("message" in found or "code" in found or "msg" in found):
        return None
    code = found.get("code")
    named = next((v for v in (code, found.get("type"), found.get("status")) if isinstance(v, str)), "")
    return _Complaint(
        code=named if re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", named) else "",
        message=str(found.get("message") or found.get("msg") or "")[:_MAX_TOLD],
        status=code if type(code) is int and 400 <= code < 600 else 0,
        retry_after_s=_retry_delay(found.get("details")),
    )


def _json(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _retry_delay(details: object) -> float | None:
    """Read Gemini's wait, `"retryDelay": "34s"` in one of the error's details."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _seconds(delay.removesuffix("s"))
    return None


def _retry_after(headers: Mapping[str, str], complaint: _Complaint, now: float) -> float | None:
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    stated = headers.get("retry-after", "")
    if (seconds := _seconds(stated)) is not None:
        return seconds
    try:
        return min(max(0.0, parsedate_to_datetime(stated).timestamp() - now), _MAX_RETRY_AFTER_S)
    except (ValueError, OverflowError):
        return complaint.retry_after_s


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _sentence(where: str, status: int, complaint: _Complaint, sent: tuple[str, ...]) -> str:
    code = f" {complaint.code}" if complaint.code and not _repeats(complaint.code, sent) else ""
    # A refused key is echoed in part by some providers ("Incorrect API key provided: sk-ab**yz").
    told = "" if status in (401, 403) else quotable(complaint.message, sent)
    return f"{where} answered {status or 'an error'}{code}" + (f": {told}" if told else "")


def quotable(message: str, sent: tuple[str, ...]) -> str:
    """Return a provider's sentence, cut and printable, or nothing if it repeats any of `sent`."""
    printable = "".join(c if c.isprintable() else " " for c in message[:_MAX_TOLD])
    text = " ".join(printable.split())[:_MAX_MESSAGE]
    return "" if _repeats(text, sent) else text


def _repeats(message: str, sent: tuple[str, ...]) -> bool:
    """Whether 8 characters of the message, or a shorter text as a whole, come from what was sent.

    A text of one to three characters stands in every sentence and is nobody's secret.
    """
    said = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), message).casefold()
    pieces = {said[at : at + _ECHO] for at in range(len(said) - _ECHO + 1)}
    for text in (" ".join(text.casefold().split()) for text in sent):
        if _SHORTEST <= len(text) < _ECHO and text in said:
            return True
        if any(piece in text for piece in pieces):
            return True
    return False
