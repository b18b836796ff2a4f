"""Outcome of a chat reply: an answer, or a failure by the provider's finish reason.

Takes a `ModelReply`, returns a `ReplyFailure`, or None for an answer. Providers have different words for the
end of a reply (`length`, `MAX_TOKENS`, `model_length`, `content_filter: SAFETY`, `refusal`), so a word is
matched by its parts. An unknown word, or none, is no evidence against a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from forged.text.think_blocks import begins_in_a_thought, shows_the_end_of_a_thought, without_thoughts

# Patterns of finish reasons, the most certain first. A tool call is no end of the text.
_ENDS = (
    ("filtered", re.compile(r"filter|safety|prohib|block|recitation|spii|sensitive|guard|toxic|inspect")),
    ("refused", re.compile(r"refus")),
    ("", re.compile(r"tool|function")),
    ("cut", re.compile(r"length|max|limit|window|exceed|trunc")),
    ("server", re.compile(r"error|abort|cancel|insufficient|overload|fail")),
)
_MESSAGES = {
    "filtered": "a filter of the endpoint blocked the answer",
    "refused": "the model refused to answer",
    "cut": "the reply was cut at its length limit",
    "server": "the endpoint ended the reply early",
    "empty": "the reply is empty",
}


class ReplyFailure(msgspec.Struct, frozen=True):
    """The reason that a reply is no answer: refused, filtered, cut, empty, or server (broken off)."""

    reason: str
    message: str


class ModelReply(msgspec.Struct, frozen=True):
    """One reply of a chat model, complete or as far as it has arrived.

    `finish` is the endpoint's finish reason. `refused` and `called`: the model refused or called a tool.
    `whole`: the reply is complete.
    """

    content: str = ""
    thoughts: str = ""
    finish: str = ""
    refused: bool = False
    called: bool = False
    whole: bool = True
    usage: object = None

    @property
    def answer(self) -> str:
        """Return the text without reasoning; reasoning that the template opened is known only at its end."""
        return without_thoughts(self.content)

    @property
    def lines(self) -> str:
        """Return the answer without reasoning, with a final line break if the reply ends with one."""
        return f"{self.answer}\n" if self.content.endswith("\n") else self.answer

    @property
    def has_separate_reasoning(self) -> bool:
        """Return True if the answer certainly has no reasoning: some came before it or in its own field."""
        return bool(self.thoughts and self.answer) or shows_the_end_of_a_thought(self.content)

    @property
    def starts_in_reasoning(self) -> bool:
        """Return True if the chat template opened the reasoning, so that the text shows only its end."""
        return begins_in_a_thought(self.content)


def failure_of(reply: ModelReply) -> ReplyFailure | None:
    """Return the reason that a reply is no answer; None for an answer, or a reply not whole yet."""
    if reason := _failure_reason(reply):
        before = " before an answer came" if reason == "cut" and not reply.answer else ""
        return ReplyFailure(reason, _MESSAGES[reason] + before)
    if text_of(reply) or not reply.whole:
        return None
    if reply.called:
        return ReplyFailure("empty", "the model called a tool instead of answering")
    if reply.content.strip():
        return ReplyFailure("empty", "the model used its whole reply for reasoning")
    return ReplyFailure("empty", _MESSAGES["empty"])


def text_of(reply: ModelReply) -> str:
    """Return a reply's answer; if a whole reply has none, the one in its reasoning field (some servers)."""
    if reply.answer or not reply.whole or _failure_reason(reply):
        return reply.answer
    return without_thoughts(reply.thoughts)


def is_truncated(reply: ModelReply) -> bool:
    """Return True if a reply is not whole, or was filtered, cut or broken off by the endpoint."""
    return not reply.whole or _failure_reason(reply) in ("filtered", "cut", "server")


def without_possible_reasoning(reply: ModelReply, clear: Callable[[str], bool]) -> ModelReply:
    """Return a reply without text that may be reasoning: cut-off text, or thoughts alone.

    `clear` returns True for a text that cannot be reasoning.
    """
    if is_truncated(reply):
        sure = reply.has_separate_reasoning or clear(reply.lines)
        return reply if sure else msgspec.structs.replace(reply, content="", whole=False)
    if reply.answer or clear(f"{reply.thoughts}\n"):
        return reply
    return msgspec.structs.replace(reply, thoughts="")


def _failure_reason(reply: ModelReply) -> str:
    """Return the failure that a reply's finish reason or refusal shows; empty for none."""
    if reply.refused:
        return "refused"
    finish = reply.finish.lower()
    return next((reason for reason, words in _ENDS if words.search(finish)), "")
