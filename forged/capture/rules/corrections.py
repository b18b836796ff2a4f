"""Make the text of a new version from a correction and the statement that it changes.

A correction may leave out its subject ("No, two spaces, please."), change one of several values, or change
one part of a statement; the other parts stay. Pure; raises nothing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from forged.capture.answers import topic_of, with_subject
from forged.capture.rules.durability import Kind, kinds_in
from forged.capture.rules.slots import UNSPACED, pair_signs, shape_of, slots_of, word_lists, words_in
from forged.text.linear import CJK

# Characters of a text that another value may change in place.
_SHORT, _PART_CHANGED = 110, 90
# Marks and words between the parts of a statement, each of which may have a value, and most parts.
_PARTS = re.compile(r"[,;，；、]\s*|[.。]\s|\s(?:and|und|y|e|et)\s|[和与]|(?<!ご)と")
_AND, _MOST_PARTS = re.compile(r"^(?:and|und|y|e|et|but|aber|pero|mais|mas)\s", re.IGNORECASE), 4
# The beginning of a part that follows from another one.
_SO = re.compile(r"(?:sonst|otherwise|or else|else|si no|sinon|senão)\b|否则|でないと", re.IGNORECASE)
# Share of a part's subject that a correction has if it is about that part.
_ABOUT = 0.5
# Most words and characters of a correction without a subject, and how one may begin.
_FEW_WORDS, _FEW_CHARS = 7, 50
_NO = re.compile(r"(?:no|nope|nein|nee|non|não|いいえ|いや|不)\b|不[，,]", re.IGNORECASE)
# The same of fragments that last; words of the first one and of all, and pairs of characters of all.
_FRAGMENTS_WORDS, _FRAGMENTS_CHARS, _FIRST_WORDS, _ALL_WORDS, _ALL_PAIRS = 10, 70, 3, 3, 8
_FRAGMENT = re.compile(r"[.,:;!?。，！：；、–—]\s*|\s-\s")
_LASTING: frozenset[Kind] = frozenset({"onward", "always"})
_POLITE = re.compile(
    r"please|pl[sz]|thanks|thx|rather|instead|bitte|lieber|doch|danke|porfa|favor|mejor|gracias|plutôt|merci|stp"
    r"|svp|plaît|melhor|obrigad[oa]|请|お願|願い"
)


def new_version(newer: str, older: str, content: str) -> str:
    """Return the text of the version by which a correction replaces an older statement.

    `content` is the correction as it is kept. Without a subject it gets the older one's value or subject.
    """
    is_without_subject = is_fragment(newer) and not pair_signs(newer, older).words
    if swapped := _with_other_value(newer, older, anyway=is_without_subject):
        return swapped
    if is_without_subject:
        return with_subject(topic_of(older), content)
    return " ".join(filter(None, (content, _rest_of(newer, older))))


def is_made_of(version: str, content: str) -> bool:
    """Return True if a text is a correction with the subject or with other parts of an older statement."""
    return version.startswith(f"{content} ") or version.endswith(f": {content}")


def _with_other_value(newer: str, older: str, *, anyway: bool) -> str:
    """Return the older text with the newer one's value if that has no subject or changes one of several."""
    swap = _one_other_value(newer, older) if max(len(newer), len(older)) <= _SHORT else None
    if swap is None:
        return ""
    is_part = bool(_other_values(older, swap.gone) - _other_values(newer, swap.fresh))
    # A longer statement has a subject of its own.
    is_part = is_part and len(newer) <= _PART_CHANGED
    is_part = is_part and len(_value_pattern(swap.gone).findall(older)) == 1
    return swap.text if is_part or anyway or is_bare(newer) else ""


def _rest_of(newer: str, older: str) -> str:
    """Return the parts of an older statement with values that a newer one, about another part, leaves."""
    new, parts = slots_of(newer), [_AND.sub("", each.strip(" .。")) for each in _PARTS.split(older)]
    parts = [each for each in parts if each]
    is_over = new.retracts or new.ends or slots_of(older).is_temporary
    if is_over or not 1 < len(parts) <= _MOST_PARTS:
        return ""
    shared = [sum(map(new.index.has_related, slots_of(part).topics)) for part in parts]
    most = max(shared)
    if not most or shared.count(most) > 1:
        return ""
    changed = parts[shared.index(most)]
    # Another value of the kind that the newer text has shows that a part is changed.
    if max(_other_value(newer, each) for each in parts) > _other_value(newer, changed):
        return ""
    gone = _other_values(changed, "") - _other_values(newer, "")
    is_other_rule = pair_signs(newer, changed).leaves or pair_signs(newer, changed).flips
    if is_other_rule or not (gone or slots_of(changed).names_without(new)):
        return ""
    staying = [
        part
        for part, count in zip(parts, shared, strict=True)
        if part != changed and _stays(part, count, newer) and not any(map(slots_of(part).text.count, gone))
    ]
    end = "。" if older.endswith("。") else "."
    return " ".join(f"{each[:1].upper()}{each[1:]}{end}" for each in staying)


def _other_value(newer: str, older: str) -> float:
    """Return the strongest sign of another value or number of one kind in two texts."""
    found = pair_signs(newer, older)
    return max(found.value, found.number, found.version)


def _stays(part: str, shared: int, newer: str) -> bool:
    """Return True if a part with so many words of a newer text says something that this does not change."""
    read = slots_of(part[:1].lower() + part[1:])  # the capital of a sentence is no name
    is_named = any(value in slots_of(newer).text for found in read.values.values() for value in found)
    depends = read.reasons or _SO.match(part) or kinds_in("veto", part)
    return read.has_slots and not (depends or is_named) and shared <= _ABOUT * len(read.topics)


def is_bare(text: str) -> bool:
    """Return True for a few words of correction that leave their subject out."""
    read = slots_of(text)
    is_brief = len(text.split()) <= _FEW_WORDS and len(text) <= _FEW_CHARS
    return is_brief and read.is_bare and bool(read.denies or read.change or _NO.match(text))


def is_fragment(text: str) -> bool:
    """Return True for a value without a subject that lasts from now on ("Mermaid, please. For good.")."""
    if len(text.split()) > _FRAGMENTS_WORDS or len(text) > _FRAGMENTS_CHARS:
        return False
    if _LASTING.isdisjoint(kinds_in("sign", text)) and not (_NO.match(text) and slots_of(text).change):
        return False
    parts = _FRAGMENT.split(_without_change(text))
    first = next(filter(_content_words, parts), "").split()
    said = [*map(_content_words, parts)]
    words = {word for part in said for word in part}
    if any(map(CJK.search, words)):
        return 0 < len(words) <= _ALL_PAIRS
    return len(parts) > 1 and 0 < len(words) <= _ALL_WORDS and len(first) <= _FIRST_WORDS


def _without_change(text: str) -> str:
    """Return a text in lower case without words of change."""
    return word_lists().phrases["change"].sub(" ", text.casefold())


def _content_words(part: str) -> tuple[str, ...]:
    """Return the words of a part of a text in lower case that name something."""
    named = (word for word in words_in(part) if word not in word_lists().stop)
    return tuple(word for word in named if not (_POLITE.fullmatch(word) or _NO.fullmatch(word)))


class _Swap(NamedTuple):
    """Text with one value replaced, the value that is gone, and the fresh one, in lower case."""

    text: str
    gone: str
    fresh: str


def _one_other_value(newer: str, older: str) -> _Swap | None:
    """Return the older text with the newer one's value in the one slot that both fill, or None."""
    ours, theirs = _slots_by_kind(newer), _slots_by_kind(older)
    differing = [
        (min(gone), min(fresh))
        for kind, was in theirs.items()
        # "Parquet, not CSV" names both.
        if len(fresh := ours.get(kind, set()) - was) == 1
        and len(gone := _of_the_subject(newer, older, was - ours.get(kind, set()) or was)) == 1
    ]
    if len(differing) != 1:
        return None
    old, new = differing[0]
    spelled = _spelling_of(new, newer)
    text = _value_pattern(old).sub(lambda _: spelled, older) if spelled else older
    return _Swap(text, old, new) if text != older else None


def _of_the_subject(newer: str, older: str, values: set[str]) -> set[str]:
    """Return those of several values of an older text that its part nearest to the newer text names."""
    if len(values) < 2:
        return values
    shared = {part: pair_signs(newer, part).words for part in _PARTS.split(older)}
    best = [part for part, words in shared.items() if words and words == max(shared.values())]
    return {each for each in values if len(best) == 1 and _value_pattern(each).search(best[0])}


def _other_values(text: str, value: str) -> set[str]:
    """Return all values, numbers and names of a text but one."""
    return {each for found in _slots_by_kind(text).values() for each in found} - {value}


def _slots_by_kind(text: str) -> dict[str, set[str]]:
    """Return the values, numbers and open names of a text by list, kind of number or shape."""
    read = slots_of(text)
    found = {kind: set(each) for kind, each in (*read.values.items(), *read.numbers.items())}
    for name in read.names:
        if shape_of(name) == "path":
            found.setdefault("path", set()).add(name)
    return found


def _value_pattern(value: str) -> re.Pattern[str]:
    """Compile a pattern of a value as it is spelled, whole."""
    return re.compile(
        rf"(?<![^\W{UNSPACED}.]){'[ -]?'.join(map(re.escape, value.split()))}(?![^\W{UNSPACED}])",
        re.IGNORECASE,
    )


def _spelling_of(value: str, text: str) -> str:
    """Return a value as a text spells it, or ""."""
    found = _value_pattern(value).search(text)
    return found[0] if found else ""
