"""What a turn continues: whether a message stands alone, and if not, what it goes on from.

In goes the window of a conversation; out comes the text that the newest message is asked together with: the
user's previous message, the end of the assistant's answer without its code, and the message again. Nothing
comes out for a message that says for itself what it is about, for one that says nothing ("ok, thanks"), for
one that begins with laughter, which is an aside, or where nothing was said before. Nothing is raised.

"do it", "and the tests?" and "what about rows with nothing in them" name nothing that a memory could be found
by; what they continue does. A pasted error says for itself what it is about, better than the names in it do
and better than what was said before. Where a message goes on from a long one, which mostly is a pasted error
or a log, the words at both ends count and of what is between them the names: of files, functions, exceptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from forged.conversation import Utterance
from forged.text.pieces import CJK
from forged.text.word_lists import lines, words

_ALONG = frozenset(words("along"))
_ALONG_CJK = frozenset(lines("along_cjk"))
_GOES_ON = frozenset(words("goes_on"))
_LEADS_ON = frozenset(words("leads_on"))
_CJK_LEADS = tuple(words("leads_on_cjk"))
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_NAMED = re.compile(r"\w[./_:\\]\w|\d{2,}|[a-z][A-Z]|[(){}<>=`]")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LAUGHS = re.compile(r"\W*(?:(?:lol|lmao|rofl|(?:ha|he|ja|ah){2,}h?|k{3,})\b|哈哈|呵呵|笑)", re.IGNORECASE)
_SEES = re.compile(r"\W*(?:ah|oh)+\W+(?:yes|yeah|yep|ja|sí|si|oui|sim)\W*", re.IGNORECASE)
_BETWEEN_CJK = re.compile(r"[\s、。,，.!！?？~〜…]+")
# Words of a message that are too few to say what it is about, and of one that leans on what was said.
_SHORT, _SHORT_CJK, _LEANING, _LEANING_CJK = 5, 8, 25, 40
# Characters of what the assistant said last, and of each end of what the user said before; names between
# these, and characters of one.
_END, _SIDE, _NAMES, _LONGEST_NAME = 300, 300, 8, 80
_NAME = re.compile(r"\b(?:[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)+|[^\W\d]*[a-z][A-Z]\w*|[^\W\d_]+(?:_\w+)+)")


def says_nothing(message: str) -> bool:
    """Whether a message has no content that a memory could be about: thanks, consent, a greeting."""
    if _SEES.fullmatch(message):
        return True
    if CJK.search(message):
        return all(not part or part.lower() in _ALONG_CJK for part in _BETWEEN_CJK.split(message))
    return all(word in _ALONG for word in _words(message))


def only_goes_on(message: str) -> bool:
    """Whether a message only asks for more of the same: "go on", "yes, do it"."""
    return all(word in _ALONG or word in _GOES_ON for word in _words(message)) and not CJK.search(message)


def before(window: Sequence[Utterance]) -> str:
    """What the newest user message goes on from, the message included; "" where it stands alone."""
    place = next((n for n in reversed(range(len(window))) if window[n].role == "user"), -1)
    if place < 1 or not leans(message := window[place].text):
        return ""
    answers = [each.text for each in window[:place] if each.role == "assistant"][-1:]
    asked = [each.text for each in window[:place] if each.role == "user"][-1:]
    ends = [_CODE.sub(" ", text).strip()[-_END:] for text in answers]
    return "\n".join((*map(_shortened, asked), *ends, message))


def _shortened(text: str) -> str:
    """Both ends of a long text, and the names between them."""
    if len(text) <= 2 * _SIDE:
        return text
    found = _NAME.findall(text[_SIDE:-_SIDE])
    names = dict.fromkeys(name for name in found if len(name) <= _LONGEST_NAME)
    return "\n".join((text[:_SIDE], *list(names)[:_NAMES], text[-_SIDE:]))


def goes_on(window: Sequence[Utterance]) -> bool:
    """Whether the user said something before the newest message."""
    return sum(each.role == "user" for each in window) > 1


def leans(message: str) -> bool:
    """Whether a message can only be understood by what was said before it."""
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
    """Yield the words of a message, of which most are never asked for: a log may be pasted into it."""
    return (found[0].lower().replace("’", "'") for found in _WORD.finditer(message))
