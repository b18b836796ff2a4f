"""Remove text that its author does not want remembered ("off the record", "forget that ...").

Input: a user's message. Output: a `CutMessage`. It runs before a message is queued, stored or sent: no rule,
model or file sees the text. `without_repeats` removes it from the assistant's answers. Verbs of memory opt
out whatever their object, but "never store tokens in plain text" stays. Pasted text opts nothing out. The
wordings are those of `rules.requests`. Raises nothing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from forged.capture.authorship import MessagePiece, parts_of, pieces
from forged.capture.memory_requests import Asked, asked_by_words
from forged.capture.rules.durability import Veto, is_vetoed
from forged.capture.rules.requests import (
    asks,
    begins_by_asking,
    forgets,
    form_of,
    letters_in,
    matches,
    names_memory,
)
from forged.capture.text_patterns import plain, words_said
from forged.text.forgetting import sentences_in

# Letters of a sentence that says more than an opt-out, and words of a clause that may be a statement.
_SAYS, _CLAUSE = 12, 3
# Marks and blanks at the end of a sentence.
_END = re.compile(r"[.!?…。！？]*\s*$")
# Lead-in of a replacement value, and vetoes against its lasting.
_ASKED = "Remember: "
_PASSING: frozenset[Veto] = frozenset({"question", "doubt", "order"})
_NOW = re.compile(r"\b(?:now|jetzt|ahora|maintenant|desormais|agora)\b|现在|今は")
_MARKS = " ,;:–—，：；、-"
# End of a sentence that points to the next one.
_POINTS_ON, _COLON = re.compile(r"[:：]\s*$"), re.compile(r"\s*[:：]")
_CLAUSES = re.compile(
    r"([,;:–—，：；、]\s*(?!\s|(?:dass|was|wie|wer|wo|que|qui|ce que)\b)| - |"
    r"\s(?=(?:but|and|aber|und|pero|y|mais|et|mas|e|sondern|so)\s)|(?<=が)|(?<=けど))"
)
_JOINS = re.compile(r"^\s*(?:but|and|aber|und|pero|y|mais|et|mas|e|sondern|so|但是?|でも)?\s*", re.IGNORECASE)
# Words with a capital letter inside a sentence, or with a number.
_NAMES = re.compile(r"(?<=[^\s.!?:;\"'(] )[^\W\d_a-z][^\W_]+|\b[^\W_]*\d[\w.]*")
# Share of an opted-out text's words that make another sentence a repetition.
_AGAIN = 0.5


class CutMessage(msgspec.Struct, frozen=True):
    """Rest of a message without opted-out text and requests to forget, and the parts that were cut.

    `points_before`: the message opts out the one before it.
    """

    text: str
    opted_out: tuple[str, ...] = ()
    forgets: tuple[str, ...] = ()
    points_before: bool = False


def cut_opted_out(text: str) -> CutMessage:
    """Cut opted-out text and requests to forget out of a message; return the rest and the parts."""
    asked = asked_by_words(text)
    if asked is None and not matches("cuts", text):
        return CutMessage(text)
    found = [_OptOutPiece(piece) for piece in pieces(text)]
    if not any(each.opt_outs or each.to_forget for each in found):
        if asked is None or asked.kind == "ask" or not all(each.parts for each in found):
            return CutMessage(text)
        _cut_asked(found, asked)
    outside = [_cut_opt_out(found, piece, at) for piece in found for at in piece.opt_outs]
    opted_out = tuple(part for piece in found for part in piece.opted_out)
    for piece in found:
        piece.cut_forgotten()
        piece.cut_repeats(opted_out)
    forgets = tuple(part for piece in found for part in piece.forgets)
    left = "\n\n".join(filter(None, (piece.left for piece in found)))
    opted_out = tuple(part for piece in found for part in piece.opted_out)
    return CutMessage(left, opted_out, forgets, any(outside) and not left.strip())


def _cut_asked(found: Sequence[_OptOutPiece], asked: Asked) -> None:
    """Cut what a message asks for in no known wording: its request to forget, or all but requests to keep."""
    places = [(piece, at) for piece in found for at in range(len(piece.parts))]
    piece, at = places[asked.likeliest_of([piece.parts[at] for piece, at in places])]
    if asked.kind == "forget":
        piece.to_forget.append(at)
        return
    for each in found:
        each.remove_all()
    piece.remove_whole(at)


@functools.cache
def prepare() -> None:
    """Compile all wordings of opt-outs and requests ahead (some 0.1 s), so that no message waits for it."""
    cut_opted_out("Don't remember any of this: it is so. Forget that it is so, we use another.")


class OptOut(msgspec.Struct, frozen=True):
    """Words of an opted-out text, and the names among them."""

    words: frozenset[str]
    names: frozenset[str]

    def is_said_in(self, text: str, *, by_name: bool = False) -> bool:
        """Return True if a text repeats half of the opted-out words, or with `by_name` one of the names."""
        said = words_said((plain(text),))
        share = len(self.words & said)
        return bool(by_name and self.names & said) or (share > 0 and share >= _AGAIN * len(self.words))


def opt_out_of(text: str) -> OptOut:
    """Return the words of an opted-out text, to recognise repetitions; the opt-out's own are left out."""
    words = frozenset(word for word in words_said((_without_opt_out(text),)) if any(map(str.isalnum, word)))
    return OptOut(words, words & words_said(each.lower() for each in _NAMES.findall(text)))


def without_repeats(text: str, opted_out: Sequence[OptOut], *, by_name: bool) -> str:
    """Return a text without sentences that repeat opted-out text; requests to remember stay."""

    def is_repeat(part: str) -> bool:
        return any(each.is_said_in(part, by_name=by_name) for each in opted_out) and not asks(part)

    return "".join(part for part in sentences_in(text) if not is_repeat(part))


def is_opted_out(content: str, opted_out: Sequence[OptOut], prompts: Sequence[str]) -> bool:
    """Return True if a text repeats what the session's opt-outs or a person's prompts opted out."""
    fresh = (opt_out_of(text) for prompt in prompts for text in cut_opted_out(prompt).opted_out)
    return any(each.is_said_in(content) for each in chain(opted_out, fresh))


class _OptOutPiece:
    """Cuts opted-out text and requests to forget out of one piece of a message."""

    def __init__(self, piece: MessagePiece) -> None:
        self._whole = piece.text
        self.parts = parts_of(piece) if piece.author in {"typed", "unsure"} else []
        self._left: list[str | None] = [*self.parts]
        self.forgets: list[str] = []
        seen = [plain(part) for part in self.parts]
        refusing = (at for at, part in enumerate(seen) if form_of("refuses").search(part))
        self.opt_outs = [at for at in refusing if not form_of("unlearns").search(seen[at])]
        forgetting = (at for at, part in enumerate(seen) if forgets(part))
        self.to_forget = [at for at in forgetting if at not in self.opt_outs]

    @property
    def left(self) -> str:
        """Return the text of the piece that is left after all cuts."""
        if not self.parts or self._left == self.parts:
            return self._whole
        return "".join(part for part in self._left if part).strip()

    @property
    def opted_out(self) -> Iterator[str]:
        """Yield the text that was removed from the piece as opted out, without requests to forget."""
        for part, left in zip(self.parts, self._left, strict=True):
            if left != part and part not in self.forgets and part.strip():
                yield part.replace(left.strip(), "").strip() if left else part.strip()

    def remove(self, at: int) -> None:
        """Remove the sentence at an index, except its clauses that ask to keep something else."""
        self._left[at] = _requests_in(self.parts[at])

    def remove_whole(self, at: int) -> None:
        """Remove the sentence at an index, even if it seems to ask for something."""
        self._left[at] = None

    def remove_from(self, at: int, step: int) -> bool:
        """Remove sentences from `at` in direction `step` until one asks to remember; return True if any."""
        begin = at
        while 0 <= at < len(self.parts) and not asks(self.parts[at]):
            if at not in self.opt_outs:
                self._left[at] = None
            at += step
        return at != begin

    def remove_all(self) -> None:
        """Remove all sentences of the piece except opt-outs and requests to remember."""
        for at, part in enumerate(self.parts):
            if at not in self.opt_outs and not asks(part):
                self._left[at] = None

    def cut_forgotten(self) -> None:
        """Move requests to forget into `forgets`; clauses that state something stay."""
        for at in self.to_forget:
            if self._left[at] is not None:
                self.forgets.append(self.parts[at])
                self._left[at] = _without_forgotten(self.parts[at])

    def cut_repeats(self, opted_out: Sequence[str]) -> None:
        """Remove sentences that repeat one of the opted-out texts, except requests to remember."""
        words = [opt_out_of(text) for text in opted_out] if self.parts else []
        for at, part in enumerate(self._left):
            is_whole = part is not None and part == self.parts[at]
            if part and is_whole and any(each.is_said_in(part) for each in words):
                self._left[at] = part if asks(part) else None


def _cut_opt_out(found: Sequence[_OptOutPiece], piece: _OptOutPiece, at: int) -> bool:
    """Remove an opt-out and the text that it means; return True if that is an earlier message."""
    part = piece.parts[at]
    said = plain(part)
    match = form_of("refuses").search(said)
    assert match is not None
    piece.remove(at)
    if form_of("all").search(said):
        for each in found:
            each.remove_all()
    says_something = letters_in(_without_opt_out(part)) >= _SAYS
    points_on = _POINTS_ON.search(part) or form_of("follows").search(said) or _COLON.match(said, match.end())
    place = found.index(piece)
    if points_on and piece.remove_from(at + 1, 1):
        return False
    if points_on and not says_something:
        return not any(each.remove_from(0, 1) for each in found[place + 1 : place + 2])
    if says_something:
        return False
    if piece.remove_from(at - 1, -1):
        return False
    if any(each.remove_from(len(each.parts) - 1, -1) for each in reversed(found[:place]) if each.parts):
        return False
    return not piece.remove_from(at + 1, 1)


def _without_opt_out(sentence: str) -> str:
    """Return a sentence without the words of an opt-out."""
    return form_of("empty").sub(" ", form_of("refuses").sub(" ", plain(sentence)))


def _clauses(sentence: str) -> list[str]:
    """Split a sentence into clauses, each with its leading mark; joined they are the sentence."""
    found = _CLAUSES.split(sentence)
    return [found[0], *(mark + text for mark, text in zip(found[1::2], found[2::2], strict=True))]


def _requests_in(sentence: str) -> str | None:
    """Return an opt-out's clauses that ask to keep something, with those after them, or None."""
    kept: list[str] = []
    is_kept = False
    for clause in _clauses(sentence):
        if form_of("refuses").search(plain(clause)):
            is_kept = False
        elif begins_by_asking(_JOINS.sub("", clause.lstrip(_MARKS), count=1)):
            is_kept = True
        if is_kept:
            kept.append(clause)
    return _join_clauses(kept, sentence)


def _without_forgotten(sentence: str) -> str | None:
    """Return the clauses of a request to forget that state something new, as a request, or None."""
    clauses = _clauses(sentence)
    forgotten = [each for each in clauses if forgets(plain(each.lstrip(_MARKS)))]
    if not forgotten:  # the wording spans several clauses
        return None
    words, is_thing = words_said(forgotten), not names_memory(sentence)
    kept: list[str] = []
    is_kept = is_stated = False
    for clause in clauses:
        own = plain(clause.strip(_MARKS))
        if clause in forgotten:
            is_kept = False
        elif form_of("goes_on").match(own) or _NOW.search(own) or (is_thing and len(own.split()) >= _CLAUSE):
            is_kept = not words or len(words_said((clause,)) - words) > 0
            is_stated = is_kept and bool(form_of("states").match(own) or _NOW.search(own))
        if is_kept:
            kept.append(clause)
    left = _join_clauses(kept, sentence)
    return f"{_ASKED}{left}" if left and is_stated and not is_vetoed(left, _PASSING) else left


def _join_clauses(clauses: Sequence[str], sentence: str) -> str | None:
    """Join clauses into a sentence with the end mark of the original one; None without clauses."""
    if not clauses:
        return None
    text = _JOINS.sub("", "".join(clauses).lstrip(_MARKS), count=1).rstrip(f"{_MARKS}\n")
    end = _END.search(sentence)
    assert end is not None
    return text.rstrip(end[0]) + end[0]
