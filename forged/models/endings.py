"""How a chat reply ended: whether there is an answer in it, or else the word and the sentence for why not.

In goes what came of a reply (`ModelReply`), out comes a `Flaw`, or None for an answer. Providers name the end
of a reply in words of their own (`length`, `MAX_TOKENS`, `model_length`, `content_filter: SAFETY`,
`refusal`), so a word is known by its parts. An unknown word, or none, says nothing against a text that is
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from forged.text.thoughts import begins_in_a_thought, shows_the_end_of_a_thought, without_thoughts

# What a word for the end of a reply speaks of, the surest first. A call of a tool is no end of the text.
_ENDS = (
    ("filtered", re.compile(r"filter|safety|prohib|block|recitation|spii|sensitive|guard|toxic|inspect")),
    ("refused", re.compile(r"refus")),
    ("", re.compile(r"tool|function")),
    ("cut", re.compile(r"length|max|limit|window|exceed|trunc")),
    ("server", re.compile(r"error|abort|cancel|insufficient|overload|fail")),
)
_TOLD = {
    "filtered": "a filter of the endpoint blocked the answer",
    "refused": "the model refused to answer",
    "cut": "the reply was cut at its length limit",
    "server": "the endpoint ended the reply early",
    "empty": "the reply is empty",
}


class Flaw(msgspec.Struct, frozen=True):
    """Why a reply is no answer: refused, filtered, cut, empty, or server where the endpoint broke it off."""

    reason: str
    told: str


class ModelReply(msgspec.Struct, frozen=True):
    """One reply, whole or as far as it came.

    `finish` is the endpoint's word for its end, `refused` and `called` say that the model refused or called a
    tool, `whole` that nothing is missing of it.
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
        """The text without thoughts. One that the chat template began is not to be told before its end."""
        return without_thoughts(self.content)

    @property
    def lines(self) -> str:
        """The answer with the line end that it may close with."""
        return f"{self.answer}\n" if self.content.endswith("\n") else self.answer

    @property
    def is_told_apart(self) -> bool:
        """Whether it is certain that the answer holds no thought: a thought was seen beside or before it."""
        return bool(self.thoughts and self.answer) or shows_the_end_of_a_thought(self.content)

    @property
    def begins_in_thought(self) -> bool:
        """Whether the chat template began a thought, of which the text shows the end alone."""
        return begins_in_a_thought(self.content)


def flaw_of(said: ModelReply) -> Flaw | None:
    """Return why this is no answer, or None if it is one, be it in the thoughts (see `text_of`)."""
    if reason := _reason(said):
        before = " before an answer came" if reason == "cut" and not said.answer else ""
        return Flaw(reason, _TOLD[reason] + before)
    if text_of(said) or not said.whole:
        return None
    if said.called:
        return Flaw("empty", "the model called a tool instead of answering")
    if said.content.strip():
        return Flaw("empty", "the model used its whole reply for reasoning")
    return Flaw("empty", _TOLD["empty"])


def text_of(said: ModelReply) -> str:
    """Return the answer. Some servers put it where thoughts belong; they are used if it is nowhere else."""
    if said.answer or not said.whole or _reason(said):
        return said.answer
    return without_thoughts(said.thoughts)


def breaks_off(said: ModelReply) -> bool:
    """Whether more would have come."""
    return not said.whole or _reason(said) in ("filtered", "cut", "server")


def without_doubt(said: ModelReply, clear: Callable[[str], bool]) -> ModelReply:
    """Leave out what may be a thought: of a text that breaks off, and where there is nothing but thoughts.

    `clear` tells of a text whether it can be none.
    """
    if breaks_off(said):
        sure = said.is_told_apart or clear(said.lines)
        return said if sure else msgspec.structs.replace(said, content="", whole=False)
    if said.answer or clear(f"{said.thoughts}\n"):
        return said
    return msgspec.structs.replace(said, thoughts="")


def _reason(said: ModelReply) -> str:
    if said.refused:
        return "refused"
    finish = said.finish.lower()
    return next((reason for reason, words in _ENDS if words.search(finish)), "")
