"""Recognise what a person says to the memory: forget something, what do you have, or do not keep this.

A request by a wording of `requests.toml` is read from one sentence, in seven languages. Other short messages
are scored by linear functions of their words and of the signs that those wordings give. They are in
`memory_requests.bin`, which `tests/training/requests.py` makes. Raises msgspec.MsgspecError for an invalid
file.
"""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec

from forged.capture.authorship import parts_of, pieces
from forged.capture.rules.requests import (
    LANGUAGES,
    NAMING,
    Kind,
    Signs,
    Verb,
    asks,
    form_of,
    matches,
    read_request,
)
from forged.capture.text_patterns import is_item, plain
from forged.text.linear import LinearFunction, Weights, hashed_features, log_sum
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "memory_requests.bin")
# Longest message, in characters, that is scored: those of the training are not longer.
MOST_SCORED = 300
# Longest message that may speak to the memory by a wording.
_MOST_TO_MEMORY = 600
# What a message may ask for; a request to keep something is another, and most ask for nothing.
ASKED: tuple[Verb | Literal["refuse"], ...] = ("forget", "ask", "refuse")
KEEP, NOTHING = "keep", "none"
# Wordings that are features of a message, and those of verbs that remove.
_SIGNS: tuple[Kind, ...] = (
    *("polite", "question", "not", "refuses", "all", "forgets", "drops", "unlearns", "forget", "holds"),
    *("fact", "erase", "kept", "known", "mentioned", "prefers", "recalls", "looks_up", "here", "it", "shown"),
    *("points", "outdated", "for_now", "told_to", "machine"),
)
_REMOVES: frozenset[Kind] = frozenset({"erase", "forget", "unlearns"})
# Of these wordings a request needs one, or its score is not even taken.
_NEEDED: tuple[Kind, ...] = ("speaks", "cuts")
_POINTING: tuple[Kind, ...] = ("shown", "points", "outdated")
_OF_WORK: tuple[Kind, ...] = ("for_now", "told_to", "machine")
_LOOKS: frozenset[Kind] = frozenset({"recalls", "looks_up"})
_QUOTED = re.compile(r""" "[^"\n]*" | «[^»\n]*» | „[^“”\n]*[“”] | 「[^」\n]*」 | 『[^』\n]*』 """, re.VERBOSE)
# Words of a subject: letters of a word that count, words, and runs of Han and kana.
_STEM, _WORDS, _RUNS = 5, re.compile(r"[a-z0-9à-ɏ]+"), re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
# Ends of clauses; a comma before a subordinate clause is none.
_BREAKS = re.compile(
    r"[,;–—，；、]"
    r"(?! ?(?:dass|was|wie|wer|wo|que|qu'|ce qu|lo que|o que|that|what|which)\b)|[.!?。！？](?=\s|$)| - "
)
_LAST, _ONLY_POINTING = 6, frozenset({"shown", "points"})


class SaidToMemory(msgspec.Struct, frozen=True):
    """A sentence that speaks to the memory: verb, subject (it may be a fact), words around the request.

    `points`: to a memory of the session, maybe by its `place` in a reply (-1: last); `only_points`: no name.
    `surety`: of a request that no wording says, its nats above the bar.
    """

    verb: Verb
    sentence: str
    topic: str
    around: str = ""
    is_fact: bool = False
    points: bool = False
    place: int = 0
    only_points: bool = False
    surety: float = math.inf


def requests_to_memory(text: str, *, may_point: bool = False) -> tuple[SaidToMemory, ...]:
    """Return a message's sentences that ask the memory to forget, or for what it has; none if in doubt.

    Doubtful are long messages, lists, pasted text, and orders of scripts and of agents. `may_point`: the
    message before asked the memory.
    """
    found = pieces(text) if len(text) <= _MOST_TO_MEMORY else ()
    if not found or any(piece.author != "typed" or any(map(is_item, piece.lines)) for piece in found):
        return ()
    parts = [part for piece in found for part in parts_of(piece)]
    asked = _by_wording(parts, may_point=may_point) if may_point or matches("speaks", text) else []
    if not asked and (scored := asked_by_words(text)) is not None and scored.kind != "refuse":
        part = parts[scored.likeliest_of(parts)]
        asked = [(SaidToMemory(scored.kind, part, plain(text), surety=scored.surety), text)]
    if any(matches("job", around) for _, around in asked):
        return ()
    is_of_here = any(matches("here", each) for each in parts)
    said = (each for each, _ in asked if each is not None)
    return tuple(each for each in said if not (is_of_here and each.verb == "ask"))


def _by_wording(parts: Sequence[str], *, may_point: bool) -> list[tuple[SaidToMemory | None, str]]:
    """Return the requests in sentences by their wordings, with the text around them; [] without any."""
    parts = [*parts]
    for at, part in reversed([*enumerate(parts)]):
        if at and matches("it", part) and not parts[at - 1].rstrip().endswith(("?", "？")):
            parts[at - 1 : at + 1] = [f"{parts[at - 1].rstrip(' .!。！')}, {part.lstrip()}"]
    asked = [said_to_memory(part, may_point=may_point) for part in parts]
    around = [part if each is None else each.around for part, each in zip(parts, asked, strict=True)]
    return [*zip(asked, around, strict=True)] if any(asked) else []


def said_to_memory(sentence: str, *, may_point: bool = False) -> SaidToMemory | None:
    """Return what a sentence asks of the memory, with its subject; None if it asks nothing of it.

    `may_point`: the message before asked the memory, so "forget that one" is about its answer.
    """
    said = plain(sentence)
    blanked = without_quoted(said)
    sign = form_of("points").search(blanked)
    found = read_request(blanked) or (_read_pointing(blanked) if may_point and sign else None)
    if found is None:
        return None
    verb, start, end, kinds = found
    around = f"{said[:start]}.\n{said[end:]}"
    if verb == "ask" or not (sign or matches("shown", blanked)):
        return SaidToMemory(verb, sentence, _topic(said, start, end), around, "fact" in kinds)
    nth, topic = form_of("nth").search(sign[0] if sign else blanked), _without_pointing(said)
    place = (nth is not None and nth.lastindex) or 0
    place, alone = -1 if place == _LAST else place, not _ONLY_POINTING.isdisjoint(kinds)
    return SaidToMemory(verb, sentence, topic, around, points=True, place=place, only_points=alone)


def _read_pointing(said: str) -> tuple[Verb, int, int, tuple[Kind, ...]] | None:
    """Return the place of a verb that removes what a plain sentence points to."""
    signs = (Signs(said, language) for language in LANGUAGES)
    verbs = (
        (each.span("forget") or each.span("erase"))
        for each in signs
        if each.span("points") and not each.span("holds") and not each.span("fact")
    )
    found = next(filter(None, verbs), None)
    return None if found is None else ("forget", *found, ("points",))


def _without_pointing(said: str) -> str:
    """Return a plain text without the words that point to a memory, and those that it is outdated."""
    for kind in _POINTING:
        said = form_of(kind).sub(" ", said)
    return said


def without_quoted(text: str) -> str:
    """Return a text with blanks in place of the words of its quotations: they are not the person's."""
    return _QUOTED.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    """Return a quotation with blanks in place of its words."""
    return found[0][0] + " " * (len(found[0]) - 2) + found[0][-1]


def _topic(said: str, start: int, end: int) -> str:
    """Return the subject of a request: its clause if that names something, else the text before it."""
    edges = [0, *(each.end() for each in _BREAKS.finditer(said)), len(said)]
    first = max(edge for edge in edges if edge <= start)
    last = min(edge for edge in edges if edge >= end)
    return said[first:last] if _names_something(said[first:last]) else said[:first]


def _names_something(text: str) -> bool:
    """Return True if a text has words that requests do not have in common."""
    return bool(subject_words(text) - request_scorer().frame)


def subject_words(text: str) -> frozenset[str]:
    """Return the words of a text's subject, cut to five letters: none of those that make a request."""
    said = form_of("frame").sub(" ", plain(text))
    found = {word[:_STEM].removesuffix("s") or word for word in _WORDS.findall(said)}
    for run in _RUNS.findall(said):
        found |= {run[at : at + 2] for at in range(max(len(run) - 1, 1))}
    return frozenset(found)


class RequestWeights(msgspec.Struct, frozen=True):
    """Contents of the shipped file: bars and weights by what is asked, and common words of requests.

    `frame` has the beginnings of words that many requests have in common; they name no subject. `data` is a
    hash of the training data.
    """

    data: str
    bars: dict[str, float]
    lines: dict[str, Weights]
    frame: tuple[str, ...]


class RequestScorer:
    """Scores a message as a request to the memory, in nats: above 0 means likelier than not."""

    def __init__(self, weights: RequestWeights) -> None:
        self.data, self.bars, self.frame = weights.data, weights.bars, frozenset(weights.frame)
        self._lines = {name: LinearFunction(each) for name, each in weights.lines.items()}

    def scores(self, message: str) -> dict[str, float]:
        """Return the score of a message as each kind of request."""
        places, form = hashed_features(message), request_features(message)
        found = {name: line.value((), places, form) for name, line in self._lines.items()}
        return {
            name: found[name] - log_sum(score for other, score in found.items() if other != name)
            for name in ASKED
        }


@functools.cache
def request_scorer() -> RequestScorer:
    """Return the shipped scorer of requests, read once."""
    with open(FILE, "rb") as file:
        return RequestScorer(msgspec.msgpack.decode(file.read(), type=resolved(RequestWeights)))


class Asked(NamedTuple):
    """Likely request of a message to the memory, with the nats by which it is above the bar."""

    kind: Verb | Literal["refuse"]
    surety: float

    def likeliest_of(self, parts: Sequence[str]) -> int:
        """Return the index of the part of the message that most likely asks for it."""
        return max(range(len(parts)), key=lambda at: request_scorer().scores(parts[at])[self.kind])


@functools.lru_cache(64)  # a message is read at its prompt and at the end of its turn
def asked_by_words(message: str) -> Asked | None:
    """Return what a short message likely asks of the memory, by its words, or None."""
    if len(message) > MOST_SCORED or not any(matches(kind, message) for kind in _NEEDED):
        return None
    scorer = request_scorer()
    scores = scorer.scores(without_quoted(message))
    best = max((Asked(kind, scores[kind] - scorer.bars[kind]) for kind in ASKED), key=attrgetter("surety"))
    return best if best.surety > 0 and (best.kind == "refuse" or _may_ask(best.kind, message)) else None


def _may_ask(verb: Verb, message: str) -> bool:
    """Return True if a message names a subject, and no order about the work at hand if it is to forget."""
    said = plain(message)
    if verb == "forget" and any(matches(kind, said) for kind in _OF_WORK):
        return False
    return _names_something(_without_pointing(said))


def request_features(message: str) -> tuple[float, ...]:
    """Return signs of a request in a message: wordings, and which come together; the last is always 1."""
    said = plain(message)
    found = {kind for kind in _SIGNS if form_of(kind).search(said)}
    removes, names = not found.isdisjoint(_REMOVES), not found.isdisjoint(NAMING)
    is_asked, is_question = asks(message), "?" in message or "？" in message
    request = read_request(said)
    together = (
        removes and names and "holds" not in found,
        removes and not names,
        is_question and names,
        not found.isdisjoint(_LOOKS) and names,
        "refuses" in found and is_asked,
        request is not None and request[0] == "forget",
        request is not None and request[0] == "ask",
    )
    return (*(kind in found for kind in _SIGNS), is_asked, is_question, *together, 1.0)
