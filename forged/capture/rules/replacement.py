"""Decide which earlier statement of a store a newer one replaces.

Input: texts of one scope, and their vectors if any (of a long text, of its `opening`). Output: the place of
the replaced text, or None, and if a person should decide. A replacement needs evidence in the wording, or
near vectors, and a score of `pair_model` above a bar, which grows with the number of texts that have
evidence. A wrong one hides a valid memory and a missed one shows both, so doubt means no replacement.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import chain, takewhile
from typing import Literal, NamedTuple

import numpy as np

from forged.capture.rules.corrections import is_bare, is_fragment
from forged.capture.rules.durability import Veto, is_vetoed, kinds_in
from forged.capture.rules.pair_model import NO_ROWS, RowsOf, pair_model, slot_sign
from forged.capture.rules.slots import (
    PairSigns,
    SlotTable,
    are_parallel,
    clauses,
    gives_up,
    is_about_the_same,
    is_clause,
    lists_in,
    names_number,
    pair_signs,
    says_something,
    slots_of,
    word_lists,
)
from forged.capture.text_patterns import opening, without_commits_and_dates
from forged.models import split_layers

_NAMES = re.compile(r"\w[\w.-]*\w|\w")
_SENTENCE = 3  # words of a sentence that says something by itself
# Least share of the older text's subject that the newer one names, and with the other polarity.
_SAME_SLOT, _SAME_RULE = 0.3, 0.5
# Two shared words among the four that count most.
_TWO_WORDS = 0.5
# Most nearest sentences of the store that vectors alone may show to be replaced.
_NEAREST = 4
# Lists of which a text that introduces something names values.
_MANY_LISTS = 3
# Most texts with evidence that are judged, those with most in common first.
_MOST_JUDGED = 16
# Characters of a text that is judged as a whole.
_BRIEF = 160
# Most sentences of a text; texts and share of a store above which a word is too common.
_MOST_SENTENCES, _FEW_TEXTS, _COMMON = 6, 3, 0.08
# Vetoes of a sentence that settles nothing.
_OPEN: frozenset[Veto] = frozenset({"question", "doubt", "irony"})
_SENTENCES = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\n+")

# How the wording shows a replacement: a bare correction of the only value of its list ("No, ruff, please."),
# another value of such a list, the name that is given up, a sign of change about most of the same subject,
# another value or the other polarity there, one of both about two words of the subject, or about one word, or
# nothing but the vectors of two near sentences.
Evidence = Literal[
    "bare", "list", "given_up", "change", "value", "far_change", "far_value", "one_word", "vectors"
]
# Nats by which the bar is higher for each evidence: the bars are those of pairs, and these of whole stores.
_RAISED: dict[Evidence, float] = {
    "bare": -1.0,
    "list": -0.03,
    "given_up": -1.0,
    "change": 0.1,
    "value": 0.4,
    "far_change": 0.9,
    "far_value": 2.3,
    "one_word": 0.9,
    "vectors": 2.7,
}
# Least values of what vectors say for a replacement, and for one subject.
_LEAST: dict[Evidence, tuple[float, float]] = {
    "bare": (-math.inf, -math.inf),
    "list": (-math.inf, 0.0),
    "change": (-math.inf, 1.5),
    "far_change": (0.0, 1.5),
    "one_word": (2.0, 1.5),
    "vectors": (2.5, 3.0),
}
_LEAST_OF_OTHERS = 0.5, 2.0
_PLAIN: frozenset[Evidence] = frozenset({"bare", "list", "given_up"})
# Evidence for a model's proposal that needs no common word of the subject.
_NAMED: frozenset[Evidence] = frozenset({"bare", "given_up", "vectors"})
# Nats by which other evidence counts less in a sentence that reports a state, tells of the moment, or points
# to another one.
_REPORTS: dict[Veto, float] = {"report": 2.0, "moment": 0.5, "pointing": 1.0}
# Vetoes of an order for this once, and nats by which other evidence counts less in it.
_FOR_ONCE: frozenset[Veto] = frozenset({"moment", "order"})
_ONCE = 3.0
# Evidence that names a change, and nats by which other evidence counts less in an answer, or against what was
# said in the same session: who goes on talking adds more than changes.
_SAID: frozenset[Evidence] = frozenset({"bare", "given_up", "change"})
_RECENT = 1.5
# Nats by which evidence counts less where there are no vectors.
_NO_VECTORS: dict[Evidence, float] = {
    "list": 0.3,
    "change": 0.0,
    "value": 0.4,
    "far_change": -0.9,
    "far_value": 0.0,
    "one_word": 0.3,
}
# Nats by which the bar of a change is higher in a store without vectors.
_BY_WORDS, _CHANGES = 0.5, frozenset[Evidence]({"change", "far_change"})
# Nats by which another value of a list counts less if the texts have no word of their subjects in common.
_NO_SUBJECT = 0.8
# Nats by which evidence counts more against a text on whose subject the session announced a change.
_ANNOUNCED = 3.0
# Nats by which the bar is higher for two sentences of more characters, which share words by accident.
_LONG, _BOTH = 2.0, 240
# Weight of the logarithm of a store's size against one common word, which more texts share by accident.
_ACCIDENT = 0.45
# Least value of what vectors say for one subject of a few fragments, and a statement of a small store or the
# only one.
_LEAST_OF_FRAGMENT, _LEAST_OF_ONLY = -0.3, -1.5
# The share of what is higher in a store that counts against its only statement, and the number of statements
# from which all counts: the more there are, the likelier is one near by accident.
_OF_ONLY, _MANY_TEXTS = 0.2, 15
# Least margin of a bare correction, before all that counts against it.
_BARE = 1.5


class Judgement(NamedTuple):
    """Place of the text that is replaced, the evidence, and how far its score is above the bar.

    Below the bar it is doubtful, which a person should decide, if `doubt` is above 0.
    """

    place: int
    evidence: Evidence
    margin: float
    doubt: float = 0.0
    shared: float = 0.0

    @property
    def is_doubtful(self) -> bool:
        """Return True for a possible replacement, which a person should decide."""
        return self.margin <= 0 < self.doubt

    @property
    def is_near(self) -> bool:
        """Return True for a statement that says more about the same subject."""
        return self.doubt <= 0 and self.shared >= _SAME_RULE


def replaced_by(
    newer: str,
    older: Sequence[str],
    *,
    rows: RowsOf = NO_ROWS,
    penalty: float = 0.0,
    penalties: Sequence[float] = (),
) -> int | None:
    """Return the index of the text among `older` that `newer` replaces, or None.

    `penalty`, and `penalties` of each older text, raise the bar.
    """
    found = judged(newer, older, rows=rows, penalty=penalty, penalties=penalties)
    return found.place if found is not None and found.margin > 0 else None


def judged(
    newer: str,
    older: Sequence[str],
    *,
    rows: RowsOf = NO_ROWS,
    penalty: float = 0.0,
    penalties: Sequence[float] = (),
    recent: Collection[int] = (),
    chains: Sequence[str] = (),
    announced: str = "",
    is_answer: bool = False,
) -> Judgement | None:
    """Return the likeliest replacement of a text among `older`, which has a positive margin if it is sure.

    Sentences are judged, as a long text settles several things. Returns None if nothing shows a replacement.
    A text without a vector is too far from the others. The `recent` places are of the same session,
    `chains` has the chain of each older text, and `announced` is a message that announces a change. An
    answer to an agent's question settles something new more often than it changes something.
    """
    rows = rows if opening(newer) in rows else NO_ROWS
    amended = {
        place
        for place, text in enumerate(older)
        if announced and place not in recent and is_about_the_same(announced, opening(text))
    }
    shown = evident(newer, older, rows, chains, amended)
    judge = pair_model().judge(rows)
    among = len({pair.place for pair, evidence in shown.items() if evidence != "vectors"})
    against = penalty + math.log(max(1, among))
    best: Judgement | None = None
    for said in dict.fromkeys(pair.said for pair in shown):
        pairs = [pair for pair in shown if pair.said == said]
        vetoes = kinds_in("veto", said)
        passing = sum(more for veto, more in _REPORTS.items() if veto in vetoes)
        passing += _ONCE * vetoes.issuperset(_FOR_ONCE)
        scores = pair_model().scores(said, [pair.was for pair in pairs], rows)
        for pair, score in zip(pairs, scores, strict=True):
            least = _LEAST.get(shown[pair], _LEAST_OF_OTHERS)
            if score.replaces < least[0] or score.related < least[1]:
                continue
            margin = score.judged - judge.bar - _raised(shown[pair], len(older), has_rows=bool(rows))
            margin -= _NO_SUBJECT * (shown[pair] == "list" and not pair_signs(pair.said, pair.was).rest)
            # The judge reads the subject, which a bare correction leaves out.
            margin = max(margin, _BARE) if shown[pair] == "bare" else margin
            margin -= against + (0.0 if shown[pair] in _PLAIN else passing)
            margin -= penalties[pair.place] if penalties else 0.0
            margin -= _RECENT * ((is_answer or pair.place in recent) and shown[pair] not in _SAID)
            margin += _ANNOUNCED * (pair.place in amended and not passing)
            margin -= _LONG * (len(pair.said) + len(pair.was) > _BOTH)
            margin -= _ACCIDENT * math.log(len(older)) * (shown[pair] == "one_word")
            if best is None or margin > best.margin:
                doubt = margin + judge.bar - judge.doubted
                shared = pair_signs(pair.said, pair.was).rest
                best = Judgement(pair.place, shown[pair], margin, doubt, shared)
    return best


def _raised(evidence: Evidence, texts: int, *, has_rows: bool) -> float:
    """Return the nats by which the bar is higher for evidence in a store of so many texts."""
    raised, share = _RAISED[evidence], min(1.0, _OF_ONLY + (1 - _OF_ONLY) * math.log(texts, _MANY_TEXTS))
    if has_rows:
        return raised * share if raised > 0 else raised
    return raised + _NO_VECTORS.get(evidence, 0.0) + _BY_WORDS * share * (evidence in _CHANGES)


def judge_fragment(
    newer: str, older: Sequence[str], others: Sequence[str], rows: RowsOf = NO_ROWS
) -> Judgement | None:
    """Return the replacement by a correction without a subject in a store of few statements, or None.

    It is about the only one of the store, or the one that has most to do with it by vectors: not about the
    `others`, which are in another scope.
    """
    texts = [opening(each) for each in older]
    has_rows = bool(rows) and all(each in rows for each in (newer, *texts))
    known = [opening(each) for each in others if not has_rows or opening(each) in rows]
    if not is_fragment(newer) or not texts or len(texts) > (_FEW_TEXTS if has_rows else 1 - len(known)):
        return None
    scores = pair_model().scores(newer, [*texts, *known], rows if has_rows else NO_ROWS)
    related = [each.related if has_rows else 0.0 for each in scores]
    place = max(range(len(related)), key=related.__getitem__)
    margin = related[place] - (_LEAST_OF_FRAGMENT if len(texts) > 1 else _LEAST_OF_ONLY)
    return Judgement(place, "bare", margin) if margin > 0 and place < len(texts) else None


@functools.lru_cache(maxsize=1024)
def sentences_in(text: str) -> tuple[str, ...]:
    """Return the sentences of a long text's opening that say something, or the opening of a brief text."""
    text = opening(text)
    if len(text) <= _BRIEF:
        return (text,)
    found = tuple(each for each in _SENTENCES.split(text)[:_MOST_SENTENCES] if says_something(each))
    return found if len(found) > 1 else (text,)


def may_replace(newer: str, older: str, *, rows: RowsOf = NO_ROWS) -> bool:
    """Return True if the texts support a replacement that a model proposes: by the bar of typed ones."""
    newer, older = opening(newer), opening(older)
    if not says_something(older):
        return True
    rows = rows if newer in rows and older in rows else NO_ROWS
    judge, found = pair_model().judge(rows), judged(newer, [older], rows=rows)
    if found is not None:
        return found.margin > 0 and (found.evidence in _NAMED or is_about_the_same(newer, older))
    return (
        _ends_otherwise(newer, older) and pair_model().scores(newer, [older], rows)[0].judged > judge.proposed
    )


def is_evident(newer: str, older: str) -> bool:
    """Return True if the wording of a newer and an older text shows a replacement."""
    return bool(evident(newer, [older]))


class SentencePair(NamedTuple):
    """A sentence of the newer text, one of the older text at a place, and that place."""

    said: str
    was: str
    place: int


class _ReadText(NamedTuple):
    """Opening of a text with its slots, and its sentences: as said, without commits and dates, and slots."""

    opening: str
    whole: SlotTable
    sentences: tuple[tuple[str, str, SlotTable], ...]


@functools.lru_cache(maxsize=1024)
def _read_text(text: str) -> _ReadText:
    """Return all of a text that others are compared with."""
    plain = ((each, without_commits_and_dates(each)) for each in sentences_in(text))
    return _ReadText(
        opening(text), slots_of(opening(text)), tuple((was, bare, slots_of(bare)) for was, bare in plain)
    )


def evident(
    newer: str,
    older: Sequence[str],
    rows: RowsOf = NO_ROWS,
    chains: Sequence[str] = (),
    amended: Collection[int] = (),
) -> dict[SentencePair, Evidence]:
    """Return the evidence that sentences of a newer text replace some of the older texts of a store.

    Parallel statements ("commits in English", "notes in German") show nothing, nor does giving up something
    else. A word that much of the store has says nothing about the subject. A value of a list that only one
    text of the store uses needs no common word; versions of one of the `chains` count once. The `amended`
    places are of texts whose subject is being changed, which is a sign of change.
    """
    said = [each for each in sentences_in(newer) if each in rows or not rows]
    read = [*map(_read_text, older)]
    known = zip(chains or map(str, range(len(older))), read, strict=True)
    users = Counter(
        kind for _, kind in {(chain, kind) for chain, each in known for kind in each.whole.values}
    )
    common = _common_words([each.whole for each in read]).union(word_lists().units)
    there = [(place, each) for place, each in enumerate(read) if not rows or each.opening in rows]
    compared = [
        (place, *each) for place, text in there for each in text.sentences if not rows or each[0] in rows
    ]
    found = dict[SentencePair, tuple[PairSigns, frozenset[str]]]()
    for one in said:
        lists = slots_of(one).values if is_bare(one) else lists_in(one)
        alone, newer = frozenset(kind for kind in lists if users[kind] == 1), without_commits_and_dates(one)
        new = slots_of(newer)
        needs_word = not (alone or new.change)
        for place, was, before, old in compared:
            if needs_word and not new.index.may_share(old.index):
                continue
            if _may_be_related(new, old, slots_of(was).values, common, alone):
                signs = pair_signs(newer, before, common)
                if _are_related(signs, was, alone):
                    found[SentencePair(one, was, place)] = signs, alone
    likely = sorted(found, key=lambda pair: -found[pair][0].rest - slot_sign(found[pair][0]))[:_MOST_JUDGED]
    shown = {
        pair: _evidence(pair.said, pair.was, *found[pair], is_announced=pair.place in amended)
        for pair in likely
    }
    by_wording = {pair: evidence for pair, evidence in shown.items() if evidence is not None}
    near = (pair for one in said for pair in _nearest(one, compared, rows) if pair not in by_wording)
    related = by_wording | {pair: "vectors" for pair in near if _are_comparable(pair.said, pair.was)}
    settled = {one for one in {pair.said for pair in related} if _settles(one)}
    return {pair: evidence for pair, evidence in related.items() if pair.said in settled}


def _nearest(
    said: str, compared: Sequence[tuple[int, str, str, SlotTable]], rows: RowsOf
) -> list[SentencePair]:
    """Return the pairs of a sentence and those of a store that are nearest to it by vectors."""
    pairs = [SentencePair(said, was, place) for place, was, _, _ in compared] if said in rows else []
    if not pairs:
        return []
    table = np.frombuffer(b"".join(rows[pair.was] for pair in pairs), np.float32).reshape(len(pairs), -1)
    _, last = split_layers(table)
    _, own = split_layers(np.frombuffer(rows[said], np.float32)[None])
    best = np.argsort(-(last @ own[0]), kind="stable")[:_NEAREST]
    return [pairs[place] for place in best]


def _are_comparable(newer: str, older: str) -> bool:
    """Return True for two brief sentences that are not parallel statements about two things."""
    is_brief = max(len(newer), len(older)) <= _BOTH
    return is_brief and not pair_signs(newer, older).apart and not are_parallel(newer, older)


def _may_be_related(
    new: SlotTable, old: SlotTable, lists: Collection[str], common: frozenset[str], alone: frozenset[str]
) -> bool:
    """Return False in microseconds if two texts share no subject and no list; `lists` are the older one's."""
    if new.index.may_share(old.index) and any(
        word not in common and new.index.has_related(word) for word in old.topics
    ):
        return True
    may_give_up = new.change and (
        not new.values.keys().isdisjoint(old.values) or names_number(new.numbers, old.numbers)
    )
    return may_give_up or not alone.isdisjoint(lists)


def _settles(text: str) -> bool:
    """Return True if a sentence of a text is no question, doubt or irony."""
    return any(not is_vetoed(each, _OPEN) for each in _SENTENCES.split(text) if each)


def _common_words(older: Sequence[SlotTable]) -> frozenset[str]:
    """Return the subject words that too many texts of a store have to tell them apart."""
    counts = Counter(chain.from_iterable(each.topics for each in older))
    most = max(_FEW_TEXTS, len(older) * _COMMON)
    return frozenset(word for word, count in counts.items() if count > most)


def _are_related(found: PairSigns, older: str, alone: frozenset[str]) -> bool:
    """Return True if two texts share their subject, a given-up value, or a list that no other text uses."""
    return not found.apart and bool(
        found.rest or found.given_up or not alone.isdisjoint(slots_of(older).values)
    )


def _evidence(
    newer: str,
    older: str,
    whole: PairSigns,
    alone: frozenset[str],
    *,
    is_announced: bool = False,
) -> Evidence | None:
    """Return the evidence in a pair of sentences that are related, or None."""
    named = gives_up(newer, older)
    signs = whole.given_up, whole.change, whole.ends, whole.retracts, whole.leaves
    is_said = bool(named or is_announced or any(signs))
    lists_much = len(lists_in(newer)) >= _MANY_LISTS and not whole.rest
    is_list = whole.value == 1 and not lists_much and not alone.isdisjoint(slots_of(older).values)
    is_brief = max(len(newer), len(older)) <= _BRIEF
    is_other_value = max(whole.value, whole.number, whole.version) == 1
    is_near = whole.rest >= _SAME_RULE or (is_brief and (whole.words >= _TWO_WORDS or is_other_value))
    if named is False or not (is_list or is_said or is_near):
        return None
    takes_back = named or whole.ends or whole.retracts or (whole.flips and not slot_sign(whole))
    if not takes_back and are_parallel(newer, older):
        return None
    if is_list:
        return "bare" if is_bare(newer) else "list"
    if (named or whole.given_up) and whole.rest >= _SAME_SLOT:
        return "given_up"
    if whole.rest >= _SAME_RULE and is_said:
        return "change"
    # A number after one word says nothing by itself ("Hello 1.", "Hello 2.").
    says_it = whole.words >= _TWO_WORDS or is_clause(newer) or is_clause(older)
    if not (is_said or whole.flips or (says_it and _clauses_differ(newer, older))):
        return None
    if whole.rest >= _SAME_RULE:
        return "value"
    if not (is_brief or is_announced):
        return None
    if whole.words >= _TWO_WORDS:
        return "far_change" if is_said else "far_value"
    # A word of change is no subject, and a few words are no statement ("Python 3.9.").
    if not is_about_the_same(newer, older) or not is_clause(newer):
        return None
    return "one_word" if is_said or is_other_value else None


def _clauses_differ(newer: str, older: str) -> bool:
    """Return True if two texts or clauses of them fill one slot with two values, without dates."""
    ours, theirs = (
        [each for each in (text, *clauses(text)) if slots_of(each).has_slots]
        for text in map(without_commits_and_dates, (newer, older))
    )
    pairs = (pair_signs(one, other) for one in ours for other in theirs)
    return any(slot_sign(found) and not found.apart for found in pairs)


def _ends_otherwise(newer: str, older: str) -> bool:
    """Return True if two sentences differ only in their last words."""
    new, old = (_NAMES.findall(text.casefold()) for text in (newer, older))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(new, old, strict=False)))
    return same >= _SENTENCE and max(len(new), len(old)) - same <= same
