"""Find names at their places in a text, each in one piece: a word, or several that belong together.

A name of several words is made of capitalised ones (Ada Lovelace, Grace van der Berg), ends in a number or
letter (Policy 7, ISO 27001:2022, Service A), or is a group's (the data platform team). Whether a number
belongs to the word before it is decided by the words around it, in `name_words.toml`. Pure, and linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

import msgspec

from forged.entities.name_forms import (
    LETTER,
    NEXT_SENTENCE,
    NUMBER,
    is_numbered,
    name_words,
    named_by_code,
    named_by_word,
    number_after,
)
from forged.entities.names import LONGEST_NAME, TECHNOLOGIES, entity_id
from forged.memory import Entity
from forged.text.word_lists import lists

# One token: a fence or address, a marked name, or a word.
_TOKEN = re.compile(
    r"(?P<skipped>```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>`]*+|\S{1,64}@[\w.-]+)"
    r"|\[\[(?P<page>[^\[\]|#\n]{1,120})(?:#[^\[\]|\n]{0,120})?(?:\|(?P<alias>[^\[\]\n]{1,120}))?\]\]"
    r"|`(?P<code>[^`\n]{1,120})`"
    rf"|(?P<word>(?:[OD]['’](?=[A-ZÀ-Ö]))?[{LETTER}0-9_.~/@$][{LETTER}0-9_./~@+-]{{0,119}}(?:\(\))?)",
    re.DOTALL,
)
_SENTENCE_BEGINS = re.compile(
    r"(?:\A|[.!?:;\n][\"')\]]*|^[ \t]*(?:[-*#>|+]+|\d{1,3}[.)]))\s*[\"'“„«(\[*_]*\Z", re.MULTILINE
)
# End of a long line that goes on in the next one.
_WRAPPED = re.compile(r"\n(?<=[^\n]{60}\n)(?!\d+[.)]\s)(?=\w)")

# Between the numbers of several names.
_AND = re.compile(r"(?:,|,? (?:and|or|und|oder|et|ou|y|o|e)| &) ")
_TICKET = re.compile(r"(?!UTC|GMT)[A-Z]{2,10}-\d+(?:-\d+)*")
_SMALL_BEFORE = re.compile(rf"(?:^|[^\w./-])([{LETTER}]{{3,30}}) \Z")
_GROUP_WORDS = rf"((?:[{LETTER}0-9-]{{2,24}} ){{1,3}})\Z"
_GROUP_BEFORE = re.compile(rf"\b(?:[Tt]he|[Oo]ur|[Aa]n?|[Tt]heir|[Mm]y|[Yy]our|[Ii]ts) {_GROUP_WORDS}")
_GROUP_BEGINS = re.compile(rf"(?:\A|[.!?:;\n]\s+){_GROUP_WORDS}")
_HYPHENED = re.compile(r"[a-z][a-z0-9]+(?:-[a-z0-9]+){1,4}")
_FARTHEST_BACK = 80
_LARGE_NOUNS = frozenset(lists("names")["with_large_nouns"].split())
_LONGEST_GAP = 16


class NameSpan(msgspec.Struct, frozen=True):
    """Possible name at its place in a text; if not `sure`, only a relation shows that it is one.

    `large`: only its capital shows it. `continues` one with a capital before it, `goes_on` in one behind it.
    `small`: it is written like an ordinary word, and no name if a noun follows, as in "read-only replicas".
    `inside`: a sure name in it, that counts in its place if it is none. `each`: the word that other numbers
    behind it belong to as well, as in "Policies 7 and 8".
    """

    start: int
    end: int
    entity: Entity
    alias: str = ""
    sure: bool = True
    large: bool = False
    continues: bool = False
    goes_on: bool = False
    small: bool = False
    inside: Entity | None = None
    each: str = ""


def unwrapped(text: str) -> str:
    """Return a text with a blank for each line break inside a paragraph of long lines."""
    return _WRAPPED.sub(" ", text)


def name_spans(text: str) -> Sequence[NameSpan]:
    """Return possible names in a text in order; none overlaps another."""
    return _NameFinder(text).find()


class _NameFinder:
    """Finder of the names in one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list[NameSpan]()

    def find(self) -> list[NameSpan]:
        """Return the names in the text."""
        end, small_names = 0, name_words().small_names
        for token in _TOKEN.finditer(self._text):
            kind, word = token.lastgroup, token[0]
            is_ordinary = word.islower() and word.isalpha() and word not in small_names
            if is_ordinary or token.start() < end or kind == "skipped":
                continue
            span = self._word(token.start(), word) if kind == "word" else _marked(token)
            if span is not None and len(span.entity.name) <= LONGEST_NAME:
                end = span.end
                self._append(span)
        return self._found

    def _append(self, span: NameSpan) -> None:
        """Append a name, joined with the one before it if both are one."""
        before = self._found[-1] if self._found else None
        if before is not None and before.goes_on and span.continues and self._are_one(before, span):
            name = Entity(self._text[before.start : span.end])
            inside = before.entity if before.sure else before.inside
            self._found[-1] = msgspec.structs.replace(span, start=before.start, entity=name, inside=inside)
        else:
            self._found.append(span)

    def _are_one(self, before: NameSpan, span: NameSpan) -> bool:
        """Return True if two capitalised words are one name by the text between them."""
        if span.end - before.start > LONGEST_NAME:
            return False
        gap = self._text[before.end : span.start]
        return gap == " " or (len(gap) < _LONGEST_GAP and name_words().inside.fullmatch(gap) is not None)

    def _word(self, start: int, word: str) -> NameSpan | None:
        """Return the name that a word of prose is, begins or ends, or None."""
        bare = word.rstrip(".,-/") or word
        if bare.isdecimal() or (bare[0].isdigit() and NUMBER.fullmatch(f" {bare}")):
            return self._next_number(start) or self._small_with_number(start)
        if bare.lower() in name_words().groups:
            return self._group(start, bare)
        begins = word[0].isupper() and self._begins_sentence(start)
        entity = named_by_word(word, begins=begins)
        if entity is not None:
            span = NameSpan(start, start + len(bare), entity)
            return self._with_version(span) if entity.type in {"technology", "name"} else span
        if _HYPHENED.fullmatch(bare):
            return self._hyphened(start, bare)
        return self._large(start, bare, begins=begins) if bare[:1].isupper() else None

    def _begins_sentence(self, start: int) -> bool:
        """Return True if the word at `start` begins a sentence."""
        return _SENTENCE_BEGINS.search(self._text, max(0, start - 24), start) is not None

    @cached_property
    def _has_large_nouns(self) -> bool:
        """True if the text is in a language that writes all nouns large, so that a capital shows nothing."""
        return len(_LARGE_NOUNS.intersection(self._text.split())) > 1

    # --- names with a number ------------------------------------------------------------------------------

    def _with_version(self, span: NameSpan) -> NameSpan:
        """Return a technology's name with the version behind it, if there is one."""
        found = number_after(self._text, span.entity.name, span.end)
        if found is None or not found["digits"]:
            return msgspec.structs.replace(span, goes_on=not self._has_large_nouns)
        name = f"{span.entity.name} {found['digits'].lstrip('vV')}"
        return NameSpan(span.start, found.end(), Entity(name, span.entity.type))

    def _hyphened(self, start: int, word: str) -> NameSpan | None:
        """Return the name that a word with hyphens may be, such as that of a service, or None."""
        if name_words().no_parts.fullmatch(word):
            return None
        end = start + len(word)
        found = number_after(self._text, word, end)
        if found is not None and (found["digits"] or "")[:1] in {"v", "V"}:
            return NameSpan(start, found.end(), Entity(self._text[start : found.end()]))
        return NameSpan(start, end, Entity(word), sure=False, small=True)

    def _large(self, start: int, word: str, *, begins: bool) -> NameSpan | None:
        """Return the name that a capitalised word may be, with the number behind it, or None."""
        folded, end = word.lower(), start + len(word)
        letters = word.replace("-", "").replace("'", "").replace("’", "")
        if (
            not letters.isalnum()
            or folded in name_words().no_names
            or (begins and folded in name_words().openers)
        ):
            return None
        if _TICKET.fullmatch(word):
            return NameSpan(start, end, Entity(word))
        if self._is_initial(start, word):
            return None
        found = number_after(self._text, word, end) if len(word) > 1 else None
        if found is None and self._text[end : end + 2].strip(" #").isdecimal():
            return None  # part of a name, or of an amount
        if found is None:
            return NameSpan(start, end, Entity(word), sure=False, large=True, continues=True, goes_on=True)
        if folded in name_words().counted:
            return None
        if folded in name_words().plurals and found["digits"]:
            return self._one_of_many(start, word, found)
        kind = "technology" if found["digits"] and folded in TECHNOLOGIES else ""
        sure = is_numbered(self._text, word, found) or not (begins or self._has_large_nouns)
        name = Entity(self._text[start : found.end()], kind)
        return NameSpan(start, found.end(), name, sure=sure, continues=not kind and not self._has_large_nouns)

    def _is_initial(self, start: int, word: str) -> bool:
        """Return True if a letter is the initial in a person's name: Ada M. Lovelace."""
        before = self._found[-1] if self._found else None
        if len(word) > 1 or before is None or not before.goes_on or before.end != start - 1:
            return False
        is_first = before.entity.name.isalpha() and before.entity.name.lower() not in name_words().lettered
        return is_first and NEXT_SENTENCE.match(self._text, start + 1) is not None

    def _one_of_many(self, start: int, word: str, found: re.Match[str]) -> NameSpan:
        """Return the first name of "Policies 7 and 8"."""
        singular = name_words().plurals[word.lower()]
        each = singular.capitalize() if word[0].isupper() else singular
        return NameSpan(start, found.end(), Entity(f"{each} {found['digits']}"), each=each)

    def _next_number(self, start: int) -> NameSpan | None:
        """Return the name with the number at `start` behind another one: "Policies 7 and 8"."""
        before = self._found[-1] if self._found else None
        if before is None or not before.each or not _AND.fullmatch(self._text, before.end, start):
            return None
        found = number_after(self._text, before.each, start - 1)
        if found is None or not found["digits"]:
            return None
        return NameSpan(start, found.end(), Entity(f"{before.each} {found['digits']}"), each=before.each)

    def _small_with_number(self, start: int) -> NameSpan | None:
        """Return the name of a word in small letters before the number at `start`: policy 7."""
        found = _SMALL_BEFORE.search(self._text, max(0, start - 32), start)
        if found is None or not found[1].islower() or found[1] in name_words().uncounted:
            return None
        if self._found and self._found[-1].end > found.start(1):
            return None
        number = number_after(self._text, found[1], start - 1)
        if number is None:
            return None
        if found[1] in name_words().plurals:
            return self._one_of_many(found.start(1), found[1], number)
        name = Entity(self._text[found.start(1) : number.end()])
        return NameSpan(found.start(1), number.end(), name, sure=found[1] in name_words().numbered)

    # --- names of groups ----------------------------------------------------------------------------------

    def _group(self, start: int, word: str) -> NameSpan | None:
        """Return the name of a group of people that ends in this word, or None: Platform Team."""
        if word[0].isupper() and number_after(self._text, word, start + len(word)) is not None:
            return self._large(start, word, begins=self._begins_sentence(start))
        first = self._group_start(start)
        if first == start and word[0].islower():
            return None
        inside = None
        while self._found and self._found[-1].start >= first:
            covered = self._found.pop()
            inside = covered.entity if covered.sure else inside
        is_large, end = word[0].isupper(), start + len(word)
        return NameSpan(
            first,
            end,
            Entity(self._text[first:end]),
            sure=False,
            large=True,
            continues=is_large,
            goes_on=is_large,
            small=True,
            inside=inside,
        )

    def _group_start(self, start: int) -> int:
        """Return the start of the words before "team" that name it: up to an article, or one name."""
        text = self._text
        place = max(0, start - _FARTHEST_BACK), start
        found = _GROUP_BEFORE.search(text, *place) or _GROUP_BEGINS.search(text, *place)
        if found is not None and _is_group_name(found[1].lower().split()):
            return found.start(1)
        before = self._found[-1] if self._found else None
        if before is None or before.end != start - 1 or text[before.end] != " ":
            return start
        return start if before.entity.type in {"path", "page", "identifier"} else before.start


def _marked(token: re.Match[str]) -> NameSpan | None:
    """Return the name in backticks or double brackets, or None."""
    if token["code"]:
        entity = named_by_code(token["code"])
    else:
        entity = Entity(" ".join(token["page"].split()), "page")
    alias = (token["alias"] or "").strip()
    return NameSpan(token.start(), token.end(), entity, alias) if entity and entity_id(entity.name) else None


def _is_group_name(words: Sequence[str]) -> bool:
    """Return True if these words before "team" name it: none is a verb, and the last no adjective."""
    none = name_words().function | name_words().openers | name_words().no_names
    return words[-1] not in name_words().no_groups and none.isdisjoint(words)
