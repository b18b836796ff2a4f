"""Parse the output of an agent's program: a reply with its tokens, or the reason that there is none.

Pure functions over the output. Each agent has its own output format (`Form`), and no agent's exit code alone
is reliable. A success is exit code 0, a text that is not empty, and no error next to it. Colour codes and
text before JSON are ignored. Raises ProviderError with the reasons of an endpoint.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import msgspec

from forged.errors import ProviderError
from forged.models import Completion
from forged.models.error_sanitizing import SensitiveTexts, sanitized
from forged.models.programs.process import ProcessResult
from forged.text.think_blocks import without_thoughts
from forged.text.tokens import estimate
from forged_client.typed import resolved

_Form = TypeVar("_Form")
Form = Literal["claude", "codex", "gemini", "opencode", "text"]

_COLOUR = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_STATUS = re.compile(
    r"\b(?:error|status|code|http)\D{0,20}\b([45][0-9]{2})\b|\b([45][0-9]{2}) [A-Z{]", re.IGNORECASE
)
_OF_LOGIN = re.compile(
    r"(?i)log(?:ged)? ?in|sign(?:ed)? ?in|api.?key|auth|credential|unauthori[sz]ed|GEMINI_API_KEY"
)
_OF_LIMIT = re.compile(r"(?i)rate.?limit|usage limit|limit reached|quota|too many requests|exhausted")
_OF_FAILURE = re.compile(
    r"(?i)\berror|fail|invalid|cannot|unable|denied|not (?:found|logged|set)|\b[45][0-9]{2}\b"
)
_MOST_LINES = 50
_BY_STATUS = {401: "auth", 402: "auth", 403: "auth", 408: "timeout", 429: "rate_limited", 400: "bad_input"}
_PRINTS_ITS_FAILURE = ("[API Error:", "API Error:")
_NOT_STARTED = 127


class ProgramReply(msgspec.Struct, frozen=True):
    """Parsed output of a program: its text and tokens, or `error`, a sentence, with an HTTP `status`."""

    text: str = ""
    error: str = ""
    status: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def completion_of(name: str, form: Form, ended: ProcessResult, sent: tuple[str, ...]) -> Completion:
    """Parse a program's output by its form into a completion, failed if empty. Raises ProviderError."""
    if ended.printed is None:
        raise ProviderError(f"{name} printed too much for an answer", reason="bad_reply")
    reply = _FORMS[form](_plain_text(ended.printed))
    if ended.code and not reply.error:
        message = _plain_text(ended.complained) or reply.text
        reply = _FORMS[form](message)
        reply = reply if reply.error else msgspec.structs.replace(reply, error=message)
    if reply.error or ended.code:
        raise _make_error(name, ended.code, reply, sent)
    text = without_thoughts(_COLOUR.sub("", reply.text)).strip()
    return Completion(
        text,
        reply.prompt_tokens or estimate(*sent),
        reply.completion_tokens or estimate(reply.text),
        failure="" if text else "empty",
        message="" if text else f"{name}: the reply is empty",
    )


def _make_error(name: str, code: int, reply: ProgramReply, sent: tuple[str, ...]) -> ProviderError:
    """Return a program's failure as an error with its reason, which repeats no text that was sent."""
    status = reply.status or _http_status(reply.error)
    if code == _NOT_STARTED:
        return ProviderError(
            f"{name} cannot be started: {_quotable_line(reply.error, sent)}", reason="unreachable"
        )
    if code < 0:
        return ProviderError(f"{name} was ended by {_signal_name(-code)}", reason="server")
    message = _quotable_line(reply.error, sent) or f"exit code {code}"
    return ProviderError(f"{name}: {message}", reason=_failure_reason(status, reply.error), status=status)


def _failure_reason(status: int, message: str) -> str:
    """Return the error reason by the HTTP status, else by words of the message."""
    if status:
        return _BY_STATUS.get(status, "server" if status >= 500 else "bad_reply")
    if _OF_LIMIT.search(message):
        return "rate_limited"
    return "auth" if _OF_LOGIN.search(message) else "server"


def _http_status(message: str) -> int:
    """Return the HTTP status that a message names; 0 for none."""
    found = _STATUS.search(message)
    return int(found[1] or found[2]) if found else 0


def _quotable_line(message: str, sent: tuple[str, ...]) -> str:
    """Return the first line about a failure that is safe to quote, else any safe line, or ""."""
    lines = [
        sanitized(line, SensitiveTexts(sent)) for line in message.splitlines()[:_MOST_LINES] if line.strip()
    ]
    return next((line for line in lines if _OF_FAILURE.search(line)), next(filter(None, lines), ""))


def _signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _plain_text(printed: bytes) -> str:
    """Return output as text without colour codes."""
    return _COLOUR.sub("", printed.decode(errors="replace")).replace("\r\n", "\n")


# --- output formats ----------------------------------------------------------------------------------


class _TokenCounts(msgspec.Struct, frozen=True):
    """Token counts, by every name that they have in the output formats of the programs."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int = 0
    input: int = 0
    output: int = 0
    prompt: int = 0
    candidates: int = 0


class _ClaudeResult(msgspec.Struct, frozen=True):
    """JSON document that Claude Code prints: the text or an error, and token counts."""

    is_error: bool
    result: str = ""
    usage: _TokenCounts = _TokenCounts()
    api_error_status: int | None = None


def _parse_claude(printed: str) -> ProgramReply:
    """Return the reply, or the error, in the output of Claude Code."""
    for one in _decode_documents(printed, _ClaudeResult):
        used = one.usage
        tokens = used.input_tokens + used.cache_creation_input_tokens + used.cache_read_input_tokens
        error = (one.result or "it failed") if one.is_error else ""
        return ProgramReply(one.result, error, one.api_error_status or 0, tokens, used.output_tokens)
    return _unknown_format(printed)


class _ErrorMessage(msgspec.Struct, frozen=True):
    """Error object with a sentence, in the output of Codex, Gemini CLI and OpenCode."""

    message: str = ""


class _CodexItem(msgspec.Struct, frozen=True):
    """Item of a Codex event, such as a message of the agent."""

    kind: str = msgspec.field(name="type", default="")
    text: str = ""


class _CodexEvent(msgspec.Struct, frozen=True):
    """Event that Codex prints, one a line: an item, token counts or an error."""

    kind: str = msgspec.field(name="type")
    item: _CodexItem = _CodexItem()
    usage: _TokenCounts = _TokenCounts()
    error: _ErrorMessage = _ErrorMessage()
    message: str = ""


def _parse_codex(printed: str) -> ProgramReply:
    """Return the last message and tokens in the output of Codex; an error if the turn failed."""
    text, error, used, seen = "", "", _TokenCounts(), False
    for one in _decode_documents(printed, _CodexEvent):
        seen = True
        if one.kind == "item.completed" and one.item.kind == "agent_message":
            text = one.item.text
        elif one.kind == "turn.completed":
            used = one.usage
        elif one.kind == "turn.failed":
            error = one.error.message or "the turn failed"
    return (
        ProgramReply(text, error, 0, used.input_tokens, used.output_tokens)
        if seen
        else _unknown_format(printed)
    )


class _GeminiModel(msgspec.Struct, frozen=True):
    """Token counts of one model in the statistics of Gemini CLI."""

    tokens: _TokenCounts = _TokenCounts()


class _GeminiStats(msgspec.Struct, frozen=True):
    """Statistics of Gemini CLI, by model."""

    models: dict[str, _GeminiModel] = {}


class _GeminiResult(msgspec.Struct, frozen=True):
    """JSON document that Gemini CLI prints: the text or an error, and statistics."""

    session_id: str = ""
    response: str | None = None
    error: _ErrorMessage | None = None
    stats: _GeminiStats | None = None


def _parse_gemini(printed: str) -> ProgramReply:
    """Return the reply or error in the output of Gemini CLI, with the tokens of all its models."""
    for one in _decode_documents(printed, _GeminiResult):
        used = [model.tokens for model in (one.stats or _GeminiStats()).models.values()]
        error = (one.error.message or "it failed") if one.error else ""
        tokens = sum(each.prompt for each in used), sum(each.candidates for each in used)
        return ProgramReply(one.response or "", error, 0, *tokens)
    return _unknown_format(printed)


class _OpenCodeError(msgspec.Struct, frozen=True):
    """Error in an event of OpenCode: its name, and a sentence."""

    name: str = ""
    data: _ErrorMessage = _ErrorMessage()


class _OpenCodePart(msgspec.Struct, frozen=True):
    """Text and token counts in one event that OpenCode prints."""

    text: str = ""
    tokens: _TokenCounts = _TokenCounts()


class _OpenCodeEvent(msgspec.Struct, frozen=True):
    """Event that OpenCode prints, one a line: text and token counts, or an error."""

    kind: str = msgspec.field(name="type")
    part: _OpenCodePart = _OpenCodePart()
    error: _OpenCodeError | None = None


def _parse_opencode(printed: str) -> ProgramReply:
    """Return the reply in the output of OpenCode: text and tokens of all events, and any error."""
    text, error, tokens, seen = "", "", [0, 0], False
    for one in _decode_documents(printed, _OpenCodeEvent):
        seen = True
        text += one.part.text if one.kind == "text" else ""
        tokens = [tokens[0] + one.part.tokens.input, tokens[1] + one.part.tokens.output]
        if one.error is not None:
            error = one.error.data.message or one.error.name or "it failed"
    return ProgramReply(text, error, 0, *tokens) if seen else _unknown_format(printed)


def _parse_text(printed: str) -> ProgramReply:
    """Return plain output as the reply, and as its error too if it begins with "API Error:"."""
    message = printed.strip()
    return ProgramReply(message, message if message.startswith(_PRINTS_ITS_FAILURE) else "")


def _unknown_format(printed: str) -> ProgramReply:
    """Return a reply whose error is the whole output, for output that has another format."""
    return ProgramReply(error=printed.strip())


def _decode_documents(printed: str, kind: type[_Form]) -> Iterator[_Form]:
    """Yield the JSON documents of a type in an output: from the first brace to the end, or line by line."""
    decode = msgspec.json.Decoder(resolved(kind)).decode
    start = printed.find("{")
    whole = printed[start:] if start >= 0 else ""
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        yield decode(whole)
        return
    for line in whole.splitlines():
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            yield decode(line)


_FORMS: dict[Form, Callable[[str], ProgramReply]] = {
    "claude": _parse_claude,
    "codex": _parse_codex,
    "gemini": _parse_gemini,
    "opencode": _parse_opencode,
    "text": _parse_text,
}
