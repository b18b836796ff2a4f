"""Read the slots of a statement, and compare two statements by subject and slots.

Input: a newer and an older text. Output: signs between 0 and 1. The lists of names, units and phrases are in
`slots.toml`. Pure, raises nothing; some 0.2 ms for a pair of short texts. Callers pass the `opening` of a
long text, since the time grows with it.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise

import msgspec

from forged.capture.text_patterns import WordIndex, are_related

FILE = os.path.join(os.path.dirname(__file__), "slots.toml")
_PAIRED = "\u3005-\u3007\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff"
UNSPACED = "\u3005-\u3007\u3041-\u30fe\u3400-\u4dbf\u4e00-\u9fff"
WORD = re.compile(rf"[{_PAIRED}]+|--?[a-z][\w-]*|\.?[^\W{_PAIRED}]+(?:[-._/'][^\W{_PAIRED}]+)*/?\+*")
_NUMBER = re.compile(
    rf"(?:(?<![\w.])|(?<=[{UNSPACED}]))(?P<named>[^\W\d{_PAIRED}]{{2,}}[ -])?"
    r"v?(?P<number>\d+(?:[.,:]\d+)*)(?!\w*[-_]\w)\s?(?P<unit>%|[^\W\d_]+)?"
)
# A host name, never starting inside a longer name, which would take quadratic time.
_HOST = re.compile(
    r"(?<!\w)(?<!\w[.-])[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|de|es|fr|io|dev|local|internal|test|example)\b"
)
_PERSON = re.compile(
    r"\b(?:herrn?|frau|mrs?|ms|sra?|señora?|mme|monsieur|madame)\.? ([^\W\d]{2,})|([^\W\d]{1,4})さん"
)
_SHAPE = re.compile(r"(?P<clock>\d{1,2}:\d\d$)|(?P<version>\d+\.\d+)")
_PURPOSE = re.compile(
    r"\b(?:for|für|fürs|para|pour|pra)\s+(?:(?:the|our|die|den|das|el|la|los|las|le|les|o|a|os|as)\s+)?([^\W\d]+)"
)
# "The port of the gateway": the owner of a thing, if named after it; "axis x": the letter of one of several.
_BELONGS = re.compile(
    r"\b([^\W\d]{4,})(?= (?:of|de|del|do|da|dos|das|des|du|d'|der|vom|von|zum|zur|beim"
    r"|al|a(?= l[ao]s? )|ao|à|aux?)\s?(?:(?:the|our|el|la|los|las|le|les|l'|der|den|dem)\s?)?([^\W\d]{3,}))"
)
_LETTERED = re.compile(r"\b([^\W\d]{4,}) ([b-df-hj-np-tv-xz])(?![\w.'’+#])")
# Digits of a number that is a port unless its kind is named.
_PORT_DIGITS = 4
_LETTER = rf"[^\W{UNSPACED}]"
_IS_LETTER, _ENDING = re.compile(_LETTER), re.compile(rf"[^\W\d{UNSPACED}]*")
_IS_UNSPACED, _BLANK = re.compile(rf"[{_PAIRED}\u30a1-\u30fe]"), re.compile(r"\s")
_IS_PAIRED = re.compile(rf"[{_PAIRED}]")
# Marks between clauses; most compared clauses; words, or bytes without blanks, of one that says something.
_ENDS = re.compile(r"(?<=[.!?;:,])\s+|\.\.+|\n|\s[-–—]\s|[。，；！？、]|\bbtw\b")
_MOST_CLAUSES, _CLAUSE_WORDS, _CLAUSE_BYTES = 16, 3, 15
# Share of the longer one's words that two statements of one form have in one order; an unknown name.
_FORM, _NAME = 0.3, re.compile(r"[A-Z\d]")
# A name in an open slot by its spelling: a path, an identifier, a capital, or Latin letters in unspaced text.
_NAMED = re.compile(
    rf"(?<![\w./-])(?:[\w.-]*/[\w./-]+|[^\W\d_]+(?:[\d_]|[.-](?=\w))[\w.-]*|[A-Z\u00c0-\u00de][^\W\d_]+)"
    rf"|(?<=[{UNSPACED}\s])[A-Za-z][\w./-]+(?=\s?[{UNSPACED}])|[\u30a1-\u30fe]{{2,}}(?=さん)|[\u4e00-\u9fff]{{1,3}}(?=さん)"
)
_BARE_TOPICS, _MANY_WORDS = 1, 4


class PairSigns(msgspec.Struct, frozen=True):
    """Signs for and against a replacement of an older text by a newer one, each from 0 to 1."""

    shared: float = 0.0  # share of the older one's subject words in the newer one
    led: float = 0.0  # the first of these is among them
    value: float = 0.0  # another value of one list
    number: float = 0.0  # another number of one kind
    version: float = 0.0  # another number after the same name, such as "node 16" and "node 22"
    strange: float = 0.0  # share of the newer one's first words that the older one lacks
    given_up: float = 0.0  # the older one's value is named with a sign of change
    change: float = 0.0
    adds: float = 0.0
    flips: float = 0.0  # one forbids and the other does not
    leaves: float = 0.0  # a prohibition ends
    apart: float = 0.0  # each is about one of two neighbouring things
    name: float = 0.0  # another name in an open slot: a person, host, path or identifier of no list
    rest: float = 0.0  # share of the older one's subject words, without such a name, in the newer one
    words: float = 0.0  # number of these words; four and more are 1
    retracts: float = 0.0  # the newer one takes back what was said
    ends: float = 0.0  # the newer one says that something is over
    bare: float = 0.0  # the newer one has no subject of its own
    restates: float = 0.0  # share of its subject words that the older one has too, if a slot differs
    expires: float = 0.0  # the older one holds for a time, and the newer one says that something is over


def pair_signs(newer: str, older: str, ignored: frozenset[str] = frozenset()) -> PairSigns:
    """Compare two statements as wholes, and return the signs of a replacement.

    The `ignored` words do not count for `rest`, as too many texts of the store have them.
    """
    found, said = _signs_and_subject(newer, older)
    if ignored.isdisjoint(said):
        return found
    rest = [is_shared for word, is_shared in said.items() if word not in ignored]
    share, words = sum(rest) / max(1, len(rest)), min(1.0, sum(rest) / _MANY_WORDS)
    return msgspec.structs.replace(found, rest=share, words=words)


@functools.lru_cache(maxsize=1024)
def _signs_and_subject(newer: str, older: str) -> tuple[PairSigns, dict[str, bool]]:
    """Return the signs of a pair, and the older one's subject words: True for those that both have."""
    new, old = slots_of(newer), slots_of(older)
    common = [new.index.has_related(word) for word in old.topics]
    values = _value_change(new.values, old.values)
    numbers = _value_change(new.numbers, old.numbers)
    named = bool(values) and any(each in new.text for found in old.values.values() for each in found)
    named = named or names_number(new.numbers, old.numbers)
    gone, fresh = old.names_without(new), new.names_without(old)
    name = _name_change(gone, fresh, new, old)
    # Of several names that differ, any may be the subject.
    said = dict(zip(old.topics, common, strict=True))
    for word in gone if name == 1 else ():
        said.pop(word, None)
    rest = said.values()
    version = float(_is_new_version(new.numbers, old.numbers))
    return PairSigns(
        shared=sum(common) / max(1, len(common)),
        led=float(bool(common) and common[0]),
        value=values,
        number=numbers,
        version=version,
        strange=_strange_share(new.topics[:3], old),
        given_up=float(named and new.change),
        change=float(new.change),
        adds=float(new.adds),
        flips=float(new.denies != old.denies),
        leaves=float(old.denies and new.leaves),
        apart=float(
            _is_apart(new.subjects, old.subjects) or _is_for_another(new, old) or _is_of_another(new, old)
        ),
        name=name,
        rest=sum(rest) / max(1, len(rest)),
        words=min(1.0, sum(rest) / _MANY_WORDS),
        retracts=float(new.retracts),
        ends=float(new.ends),
        bare=float(new.is_bare),
        restates=_restated_share(new, old, fresh) if max(values, numbers, version, name) == 1 else 0.0,
        expires=float(new.ends and old.is_temporary),
    ), said


def _restated_share(new: SlotTable, old: SlotTable, fresh: set[str]) -> float:
    """Return the share of the newer one's subject words, without fresh names, that the older one has."""
    words = [word for word in new.topics if word not in fresh]
    return sum(map(old.index.has_related, words)) / len(words) if words else 1.0


def signs_of_clauses(newer: str, older: str) -> list[PairSigns]:
    """Return signs of both texts and of all pairs of their clauses, except pairs about two things."""
    whole = pair_signs(newer, older)
    if whole.apart:
        return []
    ours, theirs = (newer, *clauses(newer)), (older, *clauses(older))
    found = [pair_signs(one, other) for one in ours for other in theirs]
    return [each for each in found if not each.apart]


@functools.lru_cache(maxsize=256)
def clauses(text: str) -> tuple[str, ...]:
    """Return the first clauses of a text that say something by themselves."""
    parts = (part.strip() for part in _ENDS.split(text))
    return tuple(islice((part for part in parts if part != text and is_clause(part)), _MOST_CLAUSES))


def is_clause(part: str) -> bool:
    """Return True if a text has as many words as a clause that says something by itself."""
    is_unspaced = not part.isascii() and len(part.encode()) >= _CLAUSE_BYTES
    return is_unspaced or len(part.split()) >= _CLAUSE_WORDS


@functools.lru_cache(maxsize=1024)
def gives_up(newer: str, older: str) -> bool | None:
    """Return True if the newer text gives up a name that the older one has; None if it gives up no name.

    Only names count, as in "not with black": values, numbers, and words with a capital or a digit.
    """
    named = _given_up_by(newer)
    return any(_is_word_in(name, slots_of(older).text) for name in named) if named else None


@functools.lru_cache(maxsize=64)
def _given_up_by(text: str) -> frozenset[str]:
    """Return the names that a text gives up, in lower case."""
    read = slots_of(text)
    known = {word for each in (*read.values.values(), *read.numbers.values()) for word in each}
    return frozenset(
        name.casefold()
        for found in word_lists().given_up.finditer(text)
        if (name := next(filter(None, found.groups())).rstrip(".,;:!-/"))
        and (name.casefold() in known or _NAME.search(name))
    )


def _is_word_in(name: str, text: str) -> bool:
    """Return True if a text has a name as a whole word; without blanks, anywhere."""
    at = text.find(name)
    while at >= 0:
        if not (_IS_LETTER.match(text, at + len(name)) or (at and _IS_LETTER.match(text, at - 1))):
            return True
        at = text.find(name, at + 1)
    return False


def is_about_the_same(newer: str, older: str) -> bool:
    """Return True if two texts share a word that is no word of change."""
    ours, theirs = (_subject_words(slots_of(text)) for text in (newer, older))
    return any(are_related(one, other) for one in ours for other in theirs)


def _subject_words(read: SlotTable) -> list[str]:
    """Return the topic words of a statement, without words of change and units."""
    lists = word_lists()
    said = {word for found in lists.phrases["change"].finditer(read.text) for word in words_in(found[0])}
    return [word for word in read.topics if word not in said and word not in lists.units]


@functools.lru_cache(maxsize=1024)
def are_parallel(newer: str, older: str) -> bool:
    """Return True if two statements have one form and two subjects ("the gateway", "the worker").

    Also True for one order about two things ("keep functions", "keep files") without a sign of change.
    """
    new, old = (WORD.findall(text.casefold().replace("’", "'")) for text in (newer, older))
    blocks = difflib.SequenceMatcher(None, new, old, autojunk=False).get_opcodes()
    same = sum(end - begin for kind, begin, end, _, _ in blocks if kind == "equal")
    if same < _FORM * max(len(new), len(old)):
        return False
    read, was = slots_of(newer), slots_of(older)
    is_led = bool(was.topics) and any(are_related(was.topics[0], each) for each in read.topics)
    places = [
        place
        for place, (kind, a, b, c, d) in enumerate(blocks)
        if kind == "replace" and _are_others(new[a:b], old[c:d], read.topics, was.topics)
    ]
    is_order = bool(places) and places[0] == 1 and blocks[0][0] == "equal" and blocks[0][2] == 1
    return bool(places) and (not is_led or (is_order and not read.change))


def _are_others(new: Sequence[str], old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Return True if the differing words of two texts name two things."""
    said, was = ([w for w in run if w in topics] for run, topics in ((new, ours), (old, theirs)))
    return (
        bool(said and was)
        and not any(are_related(one, other) for one in said for other in theirs)
        and not any(are_related(one, other) for one in was for other in ours)
    )


def announces_change(text: str) -> bool:
    """Return True if a text announces a change of a decision."""
    return word_lists().amendment.search(text.casefold().replace("’", "'")) is not None


def says_something(text: str) -> bool:
    """Return True if a text has words, values or numbers to compare it by."""
    read = slots_of(text)
    return bool(read.topics or read.values or read.numbers)


def _value_change(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> float:
    """Return 1 for another value of a known kind, 0.5 for one of unknown kind, else 0."""
    for kind, values in old.items():
        fresh = new.get(kind, frozenset())
        if fresh - values and kind != "bare":
            return 1.0
    bare = new.get("bare", frozenset()) - old.get("bare", frozenset())
    return 0.5 if (bare and old) or ("bare" in old and new) else 0.0


def names_number(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the newer text repeats an old number and adds another one of its kind."""
    return any(found & new.get(kind, frozenset()) and new[kind] - found for kind, found in old.items())


def _is_new_version(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the same name has another version."""
    named = (kind for kind in old if kind.startswith("named "))
    return any(kind in new and new[kind].isdisjoint(old[kind]) for kind in named)


def unknown_words(new: SlotTable, old: SlotTable) -> list[str]:
    """Return the subject words of the newer statement that the older one lacks."""
    return [word for word in new.topics if not old.index.has_related(word)]


def _name_change(gone: set[str], fresh: set[str], new: SlotTable, old: SlotTable) -> float:
    """Return 1 if one name of a shape is replaced by another one, 0.5 if both begin their texts, else 0."""
    shapes = {shape_of(each) for each in gone} & {shape_of(each) for each in fresh}
    if not shapes or min(len(gone), len(fresh)) != 1:
        return 0.0
    leads = bool(old.topics and new.topics and old.topics[0] in gone and new.topics[0] in fresh)
    return 0.5 if leads else 1.0


def shape_of(name: str) -> str:
    """Return the shape of a name: a path, a dotted or numbered identifier, or a word."""
    if "/" in name:
        return "path"
    return "code" if re.search(r"[\d._-]", name) else "word"


def _strange_share(words: Sequence[str], old: SlotTable) -> float:
    """Return the share of words that the older statement lacks."""
    return sum(not old.index.has_related(word) for word in words) / max(1, len(words))


def _is_apart(new: Mapping[str, frozenset[str]], old: Mapping[str, frozenset[str]]) -> bool:
    """Return True if the texts name different things of one kind."""
    return any(
        kind in new and not any(a.startswith(b) or b.startswith(a) for a in found for b in new[kind])
        for kind, found in old.items()
    )


def _is_for_another(new: SlotTable, old: SlotTable) -> bool:
    """Return True if both texts name a purpose and they differ."""
    ours, theirs = ([w for w in found.purposes if w in found.topics] for found in (new, old))
    return bool(ours and theirs) and not any(are_related(one, other) for one in ours for other in theirs)


def _is_of_another(new: SlotTable, old: SlotTable) -> bool:
    """Return True if one kind of thing belongs to different owners in both texts."""
    for thing, owner in old.belongs:
        theirs = [each for same, each in new.belongs if are_related(thing, same) and each in new.topics]
        if theirs and owner in old.topics and owner not in new.text:
            return not any(are_related(owner, each) or each in old.text for each in theirs)
    return any(new.lettered.get(thing, letter) != letter for thing, letter in old.lettered.items())


class NameIndex:
    """Index that finds the names of several lists in a casefolded text: of each list the longest.

    `node*` may have any ending, and a blank in a name may be a hyphen. A name in Chinese or Japanese may
    begin anywhere. One look-up a word serves all lists; one pattern of all names takes seconds to compile.
    """

    def __init__(self, *lists: Sequence[str]) -> None:
        # By spelling: the index of its list, its rank there, and if it may have any ending.
        self._names: dict[str, dict[int, tuple[int, bool]]] = {}
        for place, names in enumerate(lists):
            for rank, name in enumerate(sorted(names, key=len, reverse=True)):
                is_open = name.endswith("*") and not _is_unspaced(name)
                for spelled in _spellings(name.rstrip("*")):
                    self._names.setdefault(spelled, {}).setdefault(place, (rank, is_open))
        self._count = len(lists)
        self._lengths = _lengths(self._names)
        firsts = dict.fromkeys(name[0] for name in self._names)
        spaced = [each for each in firsts if not _is_unspaced(each)]
        unspaced = [each for each in firsts if _is_unspaced(each)]
        starts = [f"(?<!{_LETTER})(?<!-){_character_class(spaced)}"] if spaced else []
        self._start = re.compile("|".join([*starts, *([_character_class(unspaced)] if unspaced else [])]))

    def found_in(self, low: str) -> Iterator[tuple[int, int, int]]:
        """Yield list, start and end of each name in a casefolded text; those of one list never overlap."""
        even, ends = _BLANK.sub(" ", low), [0] * self._count
        known = self._lengths.get
        for begins in self._start.finditer(low):
            start = begins.start()
            lengths = known(even[start : start + 3]) or known(even[start : start + 2]) or known(even[start])
            for place, (_, end) in self._best_at(low, even, start, lengths).items() if lengths else ():
                if start >= ends[place]:
                    ends[place] = end
                    yield place, start, end

    def replace(self, low: str, by: Mapping[str, str]) -> str:
        """Return a casefolded text with each found name replaced by its value in `by`."""
        parts, at = list[str](), 0
        for _, start, end in self.found_in(low):
            parts += [low[at:start], by[low[start:end]]]
            at = end
        return "".join([*parts, low[at:]]) if parts else low

    def _best_at(self, low: str, even: str, start: int, lengths: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return by list the rank and the end of the longest name that begins at `start`."""
        best = dict[int, tuple[int, int]]()
        for length in lengths:
            end = start + length
            if end > len(low) or (named := self._names.get(even[start:end])) is None:
                continue
            for place, (rank, is_open) in named.items():
                if place in best and best[place][0] < rank:
                    continue
                if is_open:
                    best[place] = rank, _ENDING.match(low, end).end()  # type: ignore[union-attr]
                elif _is_unspaced(low[start]) or not _IS_LETTER.match(low, end):
                    best[place] = rank, end
        return best


class _SlotLists(msgspec.Struct, frozen=True):
    """Word lists of slots.toml; `named` finds all values as list 0, then the subjects of each of `kinds`."""

    values: Mapping[str, str]
    open_values: tuple[tuple[str, str], ...]
    named: NameIndex
    kinds: tuple[str, ...]
    units: Mapping[str, str]
    digits: Mapping[str, str]
    number_words: NameIndex
    phrases: Mapping[str, re.Pattern[str]]
    amendment: re.Pattern[str]
    given_up: re.Pattern[str]
    stop: frozenset[str]
    general: frozenset[str]


def _phrase(name: str) -> cached_property[bool]:
    """Return a property that is True for a statement with a phrase of a list."""
    return cached_property(lambda table: word_lists().phrases[name].search(table.text) is not None)


class SlotTable:
    """Slots of a statement in lower case: topics, values and numbers by kind, purposes, signs of change.

    Most are read when first asked, as few pairs of statements have a subject in common.
    """

    def __init__(self, text: str) -> None:
        lists = word_lists()
        self._said = text
        self.text = low = lists.number_words.replace(text.casefold().replace("’", "'"), lists.digits)
        self.values, self.subjects = _values_and_subjects(low)
        self._taken = frozenset[str]().union(*self.values.values())
        said = (word for word in words_in(low) if word not in lists.stop and word not in self._taken)
        self.topics = tuple(dict.fromkeys(said))
        self.index = WordIndex(self.topics)

    change, adds, denies = _phrase("change"), _phrase("addition"), _phrase("denial")
    leaves, retracts, ends = _phrase("leave"), _phrase("retraction"), _phrase("end")
    is_temporary, reasons = _phrase("temporary"), _phrase("reason")
    purposes = cached_property[tuple[str, ...]](lambda table: tuple(_PURPOSE.findall(table.text)))
    belongs = cached_property[tuple[tuple[str, str], ...]](lambda table: tuple(_BELONGS.findall(table.text)))
    lettered = cached_property[Mapping[str, str]](lambda table: dict(_LETTERED.findall(table.text)))

    @cached_property
    def numbers(self) -> Mapping[str, frozenset[str]]:
        """Return the numbers of the statement by kind."""
        return _numbers(self.text)

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the statement that are no values, by their spelling."""
        return _names_in(self._said) - word_lists().stop - self._taken

    def names_without(self, other: SlotTable) -> set[str]:
        """Return the names of this statement that are no words of another one."""
        return {each for each in self.names if not other.index.has_related(each)}

    @property
    def has_slots(self) -> bool:
        """Return True for a text with values, numbers or names."""
        return bool(self.values or self.numbers or self.names)

    @property
    def is_bare(self) -> bool:
        """Return True for a text of values or few words, which leaves its subject out."""
        return len(self.topics) <= _BARE_TOPICS and self.has_slots


slots_of = functools.lru_cache(maxsize=4096)(SlotTable)  # a turn is compared with some hundred texts


def _names_in(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case, with a capital, a digit or a mark, as names have."""
    found = {each.strip("./'-").casefold() for each in _NAMED.findall(text)}
    return frozenset(each for each in found if len(each) > 1 and not each.isdigit())


def words_in(low: str) -> Iterable[str]:
    """Yield the words of a lower-case text that are not numbers; without blanks, pairs of characters."""
    for word in WORD.findall(low):
        if _IS_PAIRED.match(word):
            yield from (a + b for a, b in pairwise(word)) if len(word) > 1 else ()
        elif not word[0].isdigit() and len(word) > 1:
            yield word


def _values_and_subjects(low: str) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
    """Return the values and the subject names of a text, each by list."""
    values, subjects = dict[str, set[str]](), dict[str, set[str]]()
    for place, start, end in word_lists().named.found_in(low):
        said = low[start:end]
        if place:
            subjects.setdefault(word_lists().kinds[place - 1], set()).add(said.strip())
        elif name := _list_of_value(said):
            values.setdefault(name, set()).add(said)
    for match in _PERSON.finditer(low):
        values.setdefault("person", set()).add(match[1] or match[2][-2:])
    if hosts := _HOST.findall(low):
        values["host name"] = set(hosts)
    return _frozen(values), _frozen(subjects)


def _frozen(found: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    """Return the sets by name as frozen sets."""
    return {name: frozenset(each) for name, each in found.items()}


def lists_in(text: str) -> frozenset[str]:
    """Return the names of the lists of which a text names a value, without those of many subjects."""
    return frozenset(slots_of(text).values) - word_lists().general


@functools.lru_cache(maxsize=1024)
def _list_of_value(word: str) -> str:
    """Return the name of the list that has a value, or ""."""
    lists = word_lists()
    if word in lists.values:
        return lists.values[word]
    return next((name for start, name in lists.open_values if word.startswith(start)), "")


def _numbers(low: str) -> dict[str, frozenset[str]]:
    """Return a text's numbers by kind: kind of unit, port, word before, clock, version or bare."""
    found: dict[str, set[str]] = {}
    for match in _NUMBER.finditer(_HOST.sub(" ", low)):
        number, unit, named = match["number"], match["unit"] or "", (match["named"] or "").strip(" -")
        kind = _unit_kind(unit)
        said = f"{number} {unit}" if kind else number
        if not kind and number.isdigit() and len(number.lstrip("0")) >= _PORT_DIGITS:
            kind = "port"
        if not kind and named and named not in word_lists().stop:
            kind = f"named {named}"
        if not kind and (mark := _SHAPE.match(number)):
            kind = str(mark.lastgroup)
        found.setdefault(kind or "bare", set()).add(said)
    return _frozen(found)


def _unit_kind(word: str) -> str:
    """Return the kind of number that the word after it shows as its unit, or ""."""
    units = word_lists().units
    starts = (word, word[:2], word[:1]) if re.match(f"[{UNSPACED}]", word) else (word,)
    return next((units[each] for each in starts if each in units), "")


@functools.cache
def word_lists() -> _SlotLists:
    """Return the contents of slots.toml, read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    values = {name: kind for kind, names in file["values"].items() for name in names}
    digits = {word: digit for digit, words in file["digits"].items() for word in words}
    phrases = {name: _phrase_pattern(forms) for name, forms in file["phrases"].items()}
    return _SlotLists(
        digits=digits,
        number_words=NameIndex(tuple(digits)),
        values=values,
        open_values=tuple((name[:-1], kind) for name, kind in values.items() if name.endswith("*")),
        named=NameIndex(tuple(values), *file["subjects"].values()),
        kinds=tuple(file["subjects"]),
        units={unit: kind for kind, units in file["units"].items() for unit in units},
        amendment=phrases.pop("amendment"),
        phrases=phrases,
        given_up=re.compile("|".join(file["given_up"]["patterns"]), re.IGNORECASE),
        stop=frozenset(file["stop"]["words"].split()),
        general=frozenset(file["general"]["lists"]),
    )


def _is_unspaced(name: str) -> bool:
    """Return True if a name begins in a script without blanks."""
    return _IS_UNSPACED.match(name) is not None


def _spellings(name: str) -> Iterator[str]:
    """Yield all spellings of a name, with each blank kept or replaced by a hyphen."""
    parts = name.split(" ")
    for gaps in itertools.product(" -", repeat=len(parts) - 1):
        yield "".join(itertools.chain(*zip(parts, (*gaps, ""), strict=True)))


def _lengths(names: Iterable[str]) -> Mapping[str, tuple[int, ...]]:
    """Return the possible lengths of names, longest first, by their first three characters."""
    found: dict[str, set[int]] = {}
    for name in names:
        found.setdefault(name[:3], set()).add(len(name))
    return {
        start: tuple(sorted(lengths.union(*(found.get(start[:few], ()) for few in (1, 2))), reverse=True))
        for start, lengths in found.items()
    }


def _character_class(characters: Iterable[str]) -> str:
    """Return a regular expression for one of these characters."""
    return f"[{re.escape(''.join(characters))}]"


def _phrase_pattern(forms: Sequence[str]) -> re.Pattern[str]:
    """Compile a pattern of phrases that matches whole words; without blanks, anywhere."""
    paired = [form for form in forms if re.match(rf"[{_PAIRED}\u30a1-\u30fe]", form)]
    spaced = [form for form in forms if form not in paired]
    return re.compile(rf"(?<!\w)(?:{'|'.join(spaced)})(?!\w)" + "".join(f"|{form}" for form in paired))
