"""Question and answer of a retrieval, and messages that continue earlier ones.

"do it" and "and the tests?" hold no words of a memory; the text that they continue does. So such a message is
searched together with the user's previous message and the end of the assistant's answer (`context_of`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec

from forged.conversation import Utterance, last_user_text
from forged.stores import Ranked
from forged.text.linear import CJK
from forged.text.word_lists import lists

_LISTS = {name: text.split() for name, text in lists("follow_ups").items()}
_ALONG = frozenset(_LISTS["along"])
_ALONG_CJK = frozenset(_LISTS["along_cjk"])
_GOES_ON = frozenset(_LISTS["goes_on"])
_LEADS_ON = frozenset(_LISTS["leads_on"])
_CJK_LEADS = tuple(_LISTS["leads_on_cjk"])
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAMED = re.compile(r"\w[./_:\\]\w|\d{2,}|[a-z][A-Z]|[(){}<>=`]")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LAUGHS = re.compile(r"\W*(?:(?:lol|lmao|rofl|(?:ha|he|ja|ah){2,}h?|k{3,})\b|哈哈|呵呵|笑)", re.IGNORECASE)
_SEES = re.compile(r"\W*(?:ah|oh)+\W+(?:yes|yeah|yep|ja|sí|si|oui|sim)\W*", re.IGNORECASE)
_BETWEEN_CJK = re.compile(r"[\s、。,，.!！?？~〜…]+")
# Words of a message too short to name a subject, and of one that may depend on an earlier one.
_SHORT, _SHORT_CJK, _LEANING, _LEANING_CJK = 5, 8, 25, 40
# Characters of the assistant's last answer, and of each end of the user's message before it; of a long one,
# mostly a pasted error or log, also so many names between its ends, and characters of one name.
_END, _SIDE, _NAMES, _LONGEST_NAME = 300, 300, 8, 80
_NAME = re.compile(r"\b(?:[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)+|[^\W\d]*[a-z][A-Z]\w*|[^\W\d_]+(?:_\w+)+)")


class Ask(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One retrieval request: queries or messages, limits, deadline and the session's context.

    window: the messages since the last summary.
    message: the last user message, of a very long one the end; the direct strategy's query.
    hypotheses: the caller's own queries, in place of a model's.
    deadline: `time.monotonic()` seconds.
    min_generation: the number that the maps must have reached, 0 for any.
    context: the text that the message continues, with the message; "" for a message with content of its own.
    turn: the number of a session's turn since its pinned memories came, 0 without a session.
    pinned: keys of memories that this turn injects anyway.
    explains: rejected memories are wanted as well.
    rated: each memory of an ungated list gets a confidence label.
    in_context: keys (root, id) of memories in the session's context, with the turn of each; not found again.
    """

    window: tuple[Utterance, ...] = ()
    message: str
    hypotheses: tuple[str, ...] = ()
    top_k: int
    hop_depth: int
    deadline: float
    min_generation: int = 0
    context: str = ""
    turn: int = 0
    explains: bool = False
    pinned: frozenset[tuple[str, str]] = frozenset()
    in_context: Mapping[tuple[str, str], str] = {}
    rated: bool = False

    @classmethod
    def about(cls, window: tuple[Utterance, ...], **fields: Any) -> Ask:
        """Make a request about the newest user message of a window; `fields` are the other fields."""
        return cls(window=window, message=last_user_text(window), context=context_of(window), **fields)

    @property
    def own_queries(self) -> tuple[str, ...]:
        """The caller's hypotheses, and the message if it is not blank or is the only query."""
        said = dict.fromkeys(filter(str.strip, (*self.hypotheses, self.message)))
        return tuple(said) or (self.message,)

    @cached_property
    def says_nothing(self) -> bool:
        """True if the message has no content that a memory could be about, such as thanks."""
        return says_nothing(self.message)

    @cached_property
    def is_idle(self) -> bool:
        """True if the message has no content, or asks to continue without an earlier message."""
        return self.says_nothing or (only_continues(self.message) and not has_earlier_message(self.window))


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a retrieval: status, reason, memories found and rejected, before the budget cuts them.

    `status` is ok, empty, not_ready, timeout or error. `degraded` marks a fallback of `auto`, or a store that
    could not be searched. `ranked` is best first. `rejected` were near the top and are not in it. `partial`
    is a sentence: the reason for fewer hypotheses.
    """

    status: str
    reason: str = ""
    ranked: tuple[Ranked, ...] = ()
    rejected: tuple[Ranked, ...] = ()
    strategy: str = ""
    indexes: tuple[str, ...] = ()
    hypotheses: tuple[str, ...] = ()
    generation: int = 0
    degraded: bool = False
    partial: str = ""

    def __post_init__(self) -> None:
        """Keep memories of `ranked` out of `rejected`, and let none be twice in `rejected`."""
        if self.rejected:
            came = {each.key for each in self.ranked}
            stayed = {each.key: each for each in reversed(self.rejected)}
            others = [each for key, each in reversed(stayed.items()) if key not in came]
            msgspec.structs.force_setattr(self, "rejected", tuple(others))


# --- follow-ups -----------------------------------------------------------------------------------------


def says_nothing(message: str) -> bool:
    """Return True if a message has no content that a memory could be about: thanks, consent, a greeting."""
    if _SEES.fullmatch(message):
        return True
    if CJK.search(message):
        return all(not part or part.lower() in _ALONG_CJK for part in _BETWEEN_CJK.split(message))
    return all(word in _ALONG for word in _words(message))


def only_continues(message: str) -> bool:
    """Return True if a message only asks to continue: "go on", "yes, do it"."""
    return all(word in _ALONG or word in _GOES_ON for word in _words(message)) and not CJK.search(message)


def context_of(window: Sequence[Utterance]) -> str:
    """Return the text that the newest user message continues, with that message; "" if it has none.

    A message has no such context if it names its subject (also a pasted error), has no content or begins with
    laughter.
    """
    place = next((n for n in reversed(range(len(window))) if window[n].role == "user"), -1)
    if place < 1 or not is_elliptical(message := window[place].text):
        return ""
    answers = [each.text for each in window[:place] if each.role == "assistant"][-1:]
    asked = [each.text for each in window[:place] if each.role == "user"][-1:]
    ends = [_CODE.sub(" ", text).strip()[-_END:] for text in answers]
    return "\n".join((*map(_shorten, asked), *ends, message))


def _shorten(text: str) -> str:
    """Return the two ends of a long text, and names between them; a short text as it is."""
    if len(text) <= 2 * _SIDE:
        return text
    found = _NAME.findall(text[_SIDE:-_SIDE])
    names = dict.fromkeys(name for name in found if len(name) <= _LONGEST_NAME)
    return "\n".join((text[:_SIDE], *list(names)[:_NAMES], text[-_SIDE:]))


def has_earlier_message(window: Sequence[Utterance]) -> bool:
    """Return True if the user sent a message before the newest one."""
    return sum(each.role == "user" for each in window) > 1


def is_elliptical(message: str) -> bool:
    """Return True if a message seems to need an earlier one: it is short, or its start leads on."""
    if says_nothing(message) or _LAUGHS.match(message):
        return False
    if CJK.search(message):
        size = len(_BETWEEN_CJK.sub("", message))
        leads = message.lstrip().startswith(_CJK_LEADS)
        return size <= _SHORT_CJK or (leads and size <= _LEANING_CJK)
    said = [*islice(_words(message), _LEANING + 1)]
    if len(said) <= _SHORT:
        return True
    return len(said) <= _LEANING and not _NAMED.search(message) and not _LEADS_ON.isdisjoint(said[:3])


def _words(message: str) -> Iterator[str]:
    """Yield the words of a message lazily: a long log may be pasted into it."""
    return (found[0].lower().replace("’", "'") for found in _WORD.finditer(message))
