"""Classify status, headers and body of an endpoint's reply as a `Fault`, or None. Pure functions.

Each provider has another form of error: `error` as object or text, in a list, at top level, as `detail`, or
inside a 200. A fault has the status, the provider's code and one cut sentence (`error_sanitizing`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

import msgspec

from forged.errors import ProviderError, SizeRefused
from forged.models.error_sanitizing import MAX_QUOTED, SensitiveTexts, sanitized

_MAX_ERROR_BYTES = 64 << 10  # a longer 200 is an answer, and decoding it twice would take time
_DEEPEST = 4
_MAX_RETRY_AFTER_S = 300.0


class Fault(msgspec.Struct, frozen=True):
    """Failure of one attempt at an endpoint: `reason` as in ProviderError, and if a `retry` may help."""

    reason: str
    message: str
    status: int = 0
    retry: bool = False
    retry_after_s: float | None = None
    too_large: bool = False

    def error(self) -> ProviderError:
        """Return the fault as an error: SizeRefused if a smaller request may pass."""
        kind = SizeRefused if self.too_large else ProviderError
        return kind(self.message, reason=self.reason, status=self.status, retry_after_s=self.retry_after_s)


# Words that a message needs before a smaller request is tried. A 4xx names the excess in some way, so one
# word is enough. A 500 has many other causes, so it must name size and excess. "Invalid input" and
# "disallowed special token" are about the content, whatever its size. "$.input" is the word of OpenAI for a
# list that is too long.
_SPEAKS_OF_SIZE = re.compile(r"(?i)batch|tokens\b|token (?:limit|count)|context|length|\$\.input")
_SPEAKS_OF_MATTER = re.compile(r"(?i)batch|input|token|context|length")
_SPEAKS_OF_EXCESS = re.compile(
    r"(?i)too (?:long|large|many|big)|maximum|max allowed|at most|exceed|larger than|limit is"
)
_SPEAKS_OF_MODEL = re.compile(
    r"(?is)model\b.*(?:not found|not exist|not load|not support|unknown|invalid)"
    r"|(?:invalid|unknown|unsupported|failed to load) model|no models? "
)
_SPEAKS_OF_KEY = re.compile(r"(?i)api.?key|unauthorized|authentication")
_EXCEEDS_A_MINUTE = re.compile(r"(?i)request too large")  # OpenAI: waiting for the next minute does not help
# Messages of servers for an unknown path.
_SPEAKS_OF_PATH = re.compile(
    r"(?i)^not found\W*$|page not found|unexpected endpoint|invalid url|cannot post"
    r"|(?:unknown|no|no such) (?:route|path|endpoint)\b"
)
_RETRIED = frozenset({408, 409, 429})


class _Complaint(msgspec.Struct, frozen=True):
    """An error in a reply's body, in one form for all providers: code, sentence, status, wait."""

    code: str = ""
    message: str = ""
    status: int = 0
    retry_after_s: float | None = None


def fault_of(
    where: str, status: int, headers: Mapping[str, str], body: bytes, unsaid: SensitiveTexts, *, now: float
) -> Fault | None:
    """Classify an endpoint's reply: return the fault that makes it no answer, or None if it is one.

    `where` is the endpoint as it may be shown. `headers` are looked up in lower case. `now` is
    `time.time()`.
    """
    complaint = _find_complaint(body) if status != 200 or _holds_error(body) else None
    if status == 200:
        if complaint is None:
            return None
        status = complaint.status
    complaint = complaint or _Complaint()
    reason, too_large = _classify(status, complaint)
    return Fault(
        reason=reason,
        message=_sentence(where, status, complaint, unsaid),
        status=status,
        retry=_may_retry(status, headers, too_large=too_large),
        retry_after_s=_retry_after(headers, complaint, now),
        too_large=too_large,
    )


def _classify(status: int, complaint: _Complaint) -> tuple[str, bool]:
    """Return the reason word for a status and an error, and True if a smaller request may pass."""
    message = f"{complaint.code} {complaint.message}"
    if status in (401, 402, 403, 407):
        return "auth", False
    if status == 429:
        return "rate_limited", bool(_EXCEEDS_A_MINUTE.search(message))
    if status == 408:
        return "timeout", False
    if status == 413:
        return "bad_input", True
    if status in (400, 422):
        return _classify_refusal(message)
    if status == 500 and _names_excess(message):
        return "bad_input", True  # llama.cpp, when an input exceeds its batch
    if status >= 500 and status != 501:
        return ("bad_input" if "NaN" in message else "server"), False  # Ollama, when a vector became NaN
    # 409 is a state of the server, as is an unknown error in a 200. All other statuses mean that the
    # address, the model or the server is wrong for this: a wrong path, a redirect, 501.
    unknown = status in (0, 200, 409) and not _SPEAKS_OF_PATH.search(complaint.message)
    return ("server" if unknown else "bad_reply"), False


def _classify_refusal(message: str) -> tuple[str, bool]:
    """Return the reason word for a 400 or 422, and True if a smaller request may pass."""
    # A certain size error goes first: a proxy quotes the whole error of its upstream, and "This model's
    # maximum context length ... invalid_request_error" is not about the model's name.
    if _names_excess(message):
        return "bad_input", True
    if _SPEAKS_OF_KEY.search(message):
        return "auth", False
    if _SPEAKS_OF_MODEL.search(message):
        return "bad_reply", False
    return "bad_input", bool(_SPEAKS_OF_SIZE.search(message) or _SPEAKS_OF_EXCESS.search(message))


def _names_excess(message: str) -> bool:
    """Return True if a message says that the input is too large."""
    return bool(_SPEAKS_OF_MATTER.search(message) and _SPEAKS_OF_EXCESS.search(message))


def _may_retry(status: int, headers: Mapping[str, str], *, too_large: bool) -> bool:
    """Return True if a retry may help: as the server says, else by the status."""
    message = headers.get("x-should-retry", "").lower()
    if message in ("true", "false"):
        return message == "true"
    return not too_large and (status in _RETRIED or (status >= 500 and status != 501))


def _holds_error(body: bytes) -> bool:
    """Return True if a 200 contains an error (OpenRouter, LM Studio)."""
    if len(body) > _MAX_ERROR_BYTES or not (b'"error"' in body or b'"detail"' in body):
        return False
    document = _first_item(_decode_json(body))
    if not isinstance(document, dict):
        return False
    answered = "data" in document or "choices" in document
    return bool(
        document.get("error")
        or document.get("object") == "error"
        or (document.get("detail") and not answered)
        or _choice_error(document)
    )


def _find_complaint(body: bytes) -> _Complaint | None:
    """Return the error in a body, as `error`, `detail`, at top level or in a list; None if none."""
    document = _first_item(_decode_json(body))
    if not isinstance(document, dict):
        return None
    found = document.get("error") or document.get("detail") or _choice_error(document) or document
    found = _first_item(found)
    if isinstance(found, str):
        return _Complaint(message=found[:MAX_QUOTED])
    if not isinstance(found, dict) or not ("message" in found or "code" in found or "msg" in found):
        return None
    code = found.get("code")
    named = next((v for v in (code, found.get("type"), found.get("status")) if isinstance(v, str)), "")
    return _Complaint(
        code=named if re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", named) else "",
        message=_message_of(found),
        status=_http_status(code),
        retry_after_s=_gemini_retry_delay(found.get("details")),
    )


def _first_item(document: object) -> object:
    """Return the first item of a list (as Gemini and FastAPI send), other values as they are."""
    if isinstance(document, list):
        return document[0] if document else None
    return document


def _choice_error(document: dict[str, object]) -> object:
    """Return the error that OpenRouter puts into a choice when the upstream failed in mid-answer."""
    choice = _first_item(document.get("choices"))
    return choice.get("error") if isinstance(choice, dict) else None


def _message_of(found: dict[str, object]) -> str:
    """Return the sentence of an error, and the upstream's message that OpenRouter passes on."""
    metadata = found.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    sentence = _nested_sentence(found.get("message") or found.get("msg"))
    return (f"{sentence}: {raw}" if isinstance(raw, str) else sentence)[:MAX_QUOTED]


def _nested_sentence(message: object) -> str:
    """Return a `message` as text, also one nested in objects as by LiteLLM and Mistral; or ""."""
    for _ in range(_DEEPEST):
        message = _first_item(message)
        if not isinstance(message, dict):
            break
        message = next(
            (message[key] for key in ("message", "msg", "error", "detail") if message.get(key)), ""
        )
    return message if isinstance(message, str) else ""


def _http_status(code: object) -> int:
    """Return the HTTP status inside an error, as a number or as text, else 0."""
    number = int(code) if isinstance(code, str) and re.fullmatch("[45][0-9]{2}", code) else code
    return number if type(number) is int and 400 <= number < 600 else 0


def _decode_json(body: bytes) -> object:
    """Return the decoded body; None if it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _gemini_retry_delay(details: object) -> float | None:
    """Return the seconds to wait that Gemini states in its error's details; None if it does not."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _seconds(delay.removesuffix("s"))
    return None


def _retry_after(headers: Mapping[str, str], complaint: _Complaint, now: float) -> float | None:
    """Return the seconds until a retry, from the headers, else from the error; None if not stated."""
    if (seconds := _seconds(headers.get("retry-after-ms", ""), unit=0.001)) is not None:
        return seconds
    stated = headers.get("retry-after", "")
    if (seconds := _seconds(stated)) is not None:
        return seconds
    try:
        return min(max(0.0, parsedate_to_datetime(stated).timestamp() - now), _MAX_RETRY_AFTER_S)
    except (ValueError, OverflowError):
        return complaint.retry_after_s


def _seconds(text: str, *, unit: float = 1.0) -> float | None:
    """Return a text as seconds, at most 300; None if it is no number."""
    try:
        seconds = float(text) * unit
    except ValueError:
        return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER_S) if math.isfinite(seconds) else None


def _sentence(where: str, status: int, complaint: _Complaint, unsaid: SensitiveTexts) -> str:
    """Return a fault's message: endpoint, status, code and the provider's sanitized sentence."""
    is_tellable = sanitized(complaint.code, unsaid) == complaint.code
    code = f" {complaint.code}" if complaint.code and is_tellable else ""
    # The message of a 401 adds nothing, and often holds a part of the refused key.
    message = "" if status == 401 else sanitized(complaint.message, unsaid)
    silent = status == 404 and not complaint.message
    wrong_path = silent or (status in (0, 404) and _SPEAKS_OF_PATH.search(complaint.message))
    hint = "; is /v1 missing in the base URL?" if wrong_path else ""
    return f"{where} answered {status or 'an error'}{code}" + (f": {message}" if message else "") + hint
