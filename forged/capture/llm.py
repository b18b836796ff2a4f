"""Classifier that asks a chat model for proposals.

It counts its own attempts, because the daemon's limits are in calls and tokens. A second attempt follows a
passing failure, a reply cut at its limit, or a window that is too long (then with half of it). A reply that
is no answer fails like a call. Of a reply that was cut twice, the complete memories are kept. The prompt is
in forged/text/prompts/classifier*.md. The conversation is data between marks that its text cannot contain.
The marks depend on the first message only, so that providers can cache the beginning of a growing window.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import time
from collections.abc import Callable, Sequence

import msgspec

from forged import conversation
from forged.capture import model_reply
from forged.capture.authorship import pieces_of, quote_pasted_lines
from forged.capture.values import CallFailed, Classified, KnownMemory, Usage
from forged.conversation import Utterance
from forged.errors import ProviderError, SizeRefused
from forged.memory import Category, Relationship, Scope
from forged.models import ChatModel, Completion, Prompt, Purpose
from forged.state import Event
from forged.text import prompts
from forged.text.tokens import estimate

logger = logging.getLogger(__name__)

# Characters of one listed memory, and bytes of the whole list. With instructions and schema they take 1,500
# tokens.
_LINE_LIMIT = 120
_LIST_LIMIT = 1_430
_LABEL_LIMIT = 40
# A line that looks like the beginning of another speaker's message; it gets a quotation mark.
_SPEAKER = re.compile(r"^(?=[ \t]*(?:user|assistant|system)[ \t]*:)", re.IGNORECASE | re.MULTILINE)

SYSTEM = prompts.text("classifier")
_ASK = prompts.template("classifier.ask")

_EDGE: dict[str, object] = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "relationship": {"type": "string", "enum": list(Relationship)},
    },
    "required": ["id", "relationship"],
    "additionalProperties": False,
}
_STRINGS: dict[str, object] = {"type": "array", "items": {"type": "string"}}
_MEMORY: dict[str, object] = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "scope": {"type": "string", "enum": [Scope.REPO, Scope.USER, Scope.AGENT]},
        "category": {"type": "string", "enum": list(Category)},
        "supersedes": {"type": "string"},
        "related": {"type": "array", "items": _EDGE},
        "cues": _STRINGS,
        "evidence": _STRINGS,
        "entities": _STRINGS,
        "relations": _STRINGS,
        "importance": {"type": "number"},
    },
    "required": [
        *("content", "scope", "category", "supersedes", "related"),
        *("cues", "evidence", "entities", "relations", "importance"),
    ],
    "additionalProperties": False,
}
# Strict modes need an object at the root and all properties required. Some servers do not know nullable
# types.
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"memories": {"type": "array", "items": _MEMORY}},
    "required": ["memories"],
    "additionalProperties": False,
}
# Memories of the prompt's example, which small models copy into their answer.
_EXAMPLE = frozenset(
    proposal.content for proposal in model_reply.read(SYSTEM.partition("Example:")[2]).proposals
)
_CODE = re.compile(r"`([^`]+)`")

_PASSING = frozenset({"timeout", "unreachable", "server", "cut"})
# Failures that may have cost tokens; a refused request has not.
_WORKED_ON = frozenset({"timeout", "server", "bad_reply"})


class _ReplyCutShort(CallFailed):
    """Raised if a reply was cut at a length limit; `found` has the memories that are complete in it."""

    def __init__(self, error: ProviderError, found: Classified) -> None:
        super().__init__(error, found.usage)
        self.found = found


class LlmClassifier:
    """Lets a chat model propose memories from a conversation; retries itself (`model`: `retries=0`)."""

    def __init__(
        self,
        model: ChatModel,
        *,
        backoff_s: float = 1.0,
        may_go_on: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`may_go_on` tells by an event's id if the event may be sent once more unchanged."""
        self._model = model
        self._may_go_on = may_go_on
        self._backoff_s = backoff_s
        self._schema: dict[str, object] | None = SCHEMA

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Ask the model for proposals, with retries until the deadline; an empty window needs no call.

        Raises CallFailed with the usage of all attempts.
        """
        if not event.window:
            return Classified()
        window, schema, spent, left = event.window, self._schema, Usage(), attempts
        was_cut = False
        if time.monotonic() >= deadline:
            raise CallFailed(_timeout_error(), spent)
        while True:
            user, left = _prompt_for(event, window, known), left - 1
            try:
                prompt = Prompt(SYSTEM, user, Purpose("capture", event.tops), schema)
                found = await self._ask(event, prompt, deadline)
            except ProviderError as error:
                failure, spent = error, spent + _spent_on(error, user)
                if was_cut and isinstance(error, _ReplyCutShort) and error.found.proposals:
                    return msgspec.structs.replace(error.found, usage=spent, cut=str(error))
                was_cut = isinstance(error, _ReplyCutShort)
                halve = isinstance(error, SizeRefused) and window is event.window
                pause_s = 0.0 if halve else self._pause_s(error)
                if left < 1 or pause_s is None or time.monotonic() + pause_s >= deadline:
                    raise CallFailed(error, spent) from error
                # Some servers answer 500 to a schema. If the call works without one, no schema is sent any
                # more.
                schema = None if error.status == 500 and not halve else schema
            else:
                self._schema = schema
                return msgspec.structs.replace(found, usage=spent + found.usage)
            logger.debug("retry event=%s halved=%s pause_s=%.2f", event.id, halve, pause_s)
            window = _newer_half(window) if halve else window
            await asyncio.sleep(pause_s)
            if not self._may_go_on(event.id):
                raise CallFailed(failure, spent)

    async def _ask(self, event: Event, prompt: Prompt, deadline: float) -> Classified:
        """Ask the model once within the deadline, and return the proposals of its reply."""
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                completion = await self._model.complete(prompt, deadline=deadline)
        except TimeoutError as error:
            raise _timeout_error() from error
        return _read_completion(event, completion)

    def _pause_s(self, error: ProviderError) -> float | None:
        """Return the seconds to wait after a failed call before another, or None if it would not help."""
        if error.reason == "rate_limited":
            return error.retry_after_s
        if error.reason not in _PASSING:
            return None
        jitter = random.uniform(0.75, 1.0)  # noqa: S311 - spreads callers out, hides nothing
        return self._backoff_s * jitter if error.retry_after_s is None else error.retry_after_s


def _prompt_for(event: Event, window: Sequence[Utterance], known: Sequence[KnownMemory]) -> str:
    """Return the user prompt for an event; `window` is its window or the newer half of it."""
    begun = event.begun if window[0] is event.window[0] else window[0] not in event.window
    return user_prompt(window, known, begun=begun, goes_on=event.goes_on)


def _timeout_error() -> ProviderError:
    """Return the error for a deadline that has passed."""
    return ProviderError("the classifier model gave no answer in time", reason="timeout")


def _read_completion(event: Event, completion: Completion) -> Classified:
    """Return a completion's proposals. Raises CallFailed with its cost if failed, cut or no answer."""
    usage = Usage(1, completion.prompt_tokens, completion.completion_tokens)
    if completion.failure == "cut":
        is_whole_in_part = model_reply.begins_with_json(completion.text)
        found = _proposals_in(event, completion.text if is_whole_in_part else "", usage)
        raise _ReplyCutShort(completion.error(), found)
    if completion.failure:
        raise CallFailed(completion.error(), usage)
    found = _proposals_in(event, completion.text, usage)
    if not found.is_answer:
        raise CallFailed(_unreadable_error(found.malformed), usage)
    logger.debug(
        "classified event=%s proposals=%d malformed=%d tokens=%d",
        event.id,
        len(found.proposals),
        found.malformed,
        usage.tokens,
    )
    return found


def _proposals_in(event: Event, text: str, usage: Usage) -> Classified:
    """Read a reply's proposals; copies of the prompt's example are dropped and count as malformed."""
    answer, said = model_reply.read(text), conversation.as_text(event.window)
    proposals = tuple(proposal for proposal in answer.proposals if not _is_copied(proposal.content, said))
    malformed = answer.malformed + len(answer.proposals) - len(proposals)
    return Classified(proposals, usage, malformed, answer.is_answer)


def _unreadable_error(malformed: int) -> ProviderError:
    """Return the error for a reply that is no answer; it quotes nothing, as that may be private."""
    if malformed:
        return ProviderError(
            f"the classifier model's reply had {malformed} elements, none of them a memory",
            reason="unreadable",
        )
    return ProviderError(
        "the classifier model's reply contains no JSON; a reply without memories must be []",
        reason="unreadable",
    )


def _is_copied(content: str, said: str) -> bool:
    """Return True if a proposal is the prompt's example and the conversation does not say it."""
    return content in _EXAMPLE and not any(code in said for code in _CODE.findall(content))


def _spent_on(error: ProviderError, user: str) -> Usage:
    """Return the cost of a failed attempt; without a count of the endpoint it is estimated."""
    if isinstance(error, CallFailed):
        return error.usage
    return Usage(1, estimate(SYSTEM, user) if error.reason in _WORKED_ON else 0)


def _newer_half(window: Sequence[Utterance]) -> tuple[Utterance, ...]:
    """Return the newest messages of a window up to half of its characters."""
    return conversation.window(window, max(1, sum(len(utterance.text) for utterance in window) // 2))


def user_prompt(
    window: Sequence[Utterance], known: Sequence[KnownMemory], *, begun: bool = False, goes_on: bool = False
) -> str:
    """Return the user prompt: the window between marks, then existing memories, nearest first.

    `window` is not empty. Its first message may continue an earlier one (`begun`), and its last one may be
    continued (`goes_on`). The list of memories ends at its size limit.
    """
    mark = f"======== {hashlib.sha256(window[0].text.encode('utf-8', 'replace')).hexdigest()[:12]} ========"
    shown = [each.text for each in window]
    for place, pieces in pieces_of(window, begun=begun, goes_on=goes_on):
        shown[place] = quote_pasted_lines(window[place].text, pieces)
    said = conversation.as_text(
        [Utterance(each.role, _SPEAKER.sub("> ", text)) for each, text in zip(window, shown, strict=True)]
    )
    existing = f"EXISTING MEMORIES\n{_memory_list(known)}\n\n" if known else ""
    return _ASK.substitute(mark=mark, said=said, existing=existing)


def _memory_list(known: Sequence[KnownMemory]) -> str:
    """Return the prompt's list of existing memories, cut at its size limit."""
    lines: list[str] = []
    room = _LIST_LIMIT
    for head in known:
        line = _memory_line(head)
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _memory_line(head: KnownMemory) -> str:
    """Return a memory's line in the prompt's list: id, scope, category and first line, shortened."""
    label = f"{_single_line(head.scope, _LABEL_LIMIT)}/{_single_line(head.category, _LABEL_LIMIT)}"
    return f"- [{_single_line(head.id, _LINE_LIMIT)}] ({label}) {_single_line(head.first_line, _LINE_LIMIT)}"


def _single_line(text: str, limit: int) -> str:
    """Cut a text to `limit` characters in one line, with blanks for control characters."""
    return "".join(c if c.isprintable() else " " for c in text[:limit]).strip()
