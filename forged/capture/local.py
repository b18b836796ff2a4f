"""Propose without a chat model, beyond the rules: choices of the head, and requests.

In: an event and what the rules keep of it. Out: further proposals in the person's words, and the requests of
which nothing can be kept, with reasons. Of a request that says nothing of its own ("note that down") its
neighbour is kept. With rows of the local model the head sees more. Raises what asking for rows raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from forged.capture.authorship import Statement
from forged.capture.head import (
    Head,
    Judge,
    Leanings,
    Unit,
    around_of,
    asking,
    best_of,
    chosen,
    head,
    score,
    units,
)
from forged.capture.rules.engine import presentable, proposals_in, scope_of, still_meant, without_lead_ins
from forged.capture.rules.lasting import Veto, speaks_against
from forged.capture.rules.requests import asks, behind_request, beside_request, letters, without_request
from forged.capture.values import Classified, Classifier, KnownMemory, Proposal, Refused
from forged.memory import Origin, Scope
from forged.state import Event

# Characters of a message that is kept whole but for what speaks against it, and of what is kept of a longer
# one; and the sentences behind a request that may say more of it.
BRIEF, LONG, _MORE = 160, 300, 2
# Letters that say something, one of Han or kana as much as two; and behind a colon or with a number.
_SAYS, _LEAST, _NAMES = 22, 12, 4
_NAMED = re.compile(r"[:：].*[^\W_]|\d", re.DOTALL)
# What speaks against a sentence's being part of a request beside it.
_UNRELATED: frozenset[Veto] = frozenset({"question", "irony", "order"})

# The event's id and texts to rows of float32, or to nothing.
VectorsFor = Callable[[str, Sequence[str]], Sequence[bytes]]
# Of one event; each takes some milliseconds of the daemon's.
_MOST_TEXTS = 48
# How much must speak for its being a request and for its being worth keeping, where a wording of
# `requests.toml` says so: with rows, by words, and where it has fewer letters than that, in which the head
# sees little.
_WORDED_BAR, _WORDED_BAR_BY_WORDS, _PLAIN_BAR, _PLAIN = 4.0, 3.0, -5.0, 50
# Of what could only replace something: the least of all, that below which it is in doubt (below 0, as the
# head has learnt from agents' lives that hardly anything lasts), and what a nat below that counts: who comes
# back to a thing with another word about it means it to last, however they put it.
_LEAST_LIKELY, _DOUBT = -6.0, -0.5
_COUNTS = 0.2
# What speaks against what is in doubt outright, or somewhat, and how much.
_AGAINST: frozenset[Veto] = frozenset({"question", "doubt", "irony"})
_SOMEWHAT: frozenset[Veto] = frozenset({"hearsay", "moment"})
_A_LITTLE = 0.3
# What the words say of whom a unit is about, against the head.
_WORDS_SAY = 2.0


class LocalAnswers:
    """Judges what was typed by its rows, or by its words alone; by the shipped head unless told otherwise."""

    def __init__(self, vectors: VectorsFor | None, judge: Callable[[], Head] | None = None) -> None:
        self._vectors = vectors
        self._judge = judge

    def more(self, event: Event, said: Sequence[Statement], kept: Sequence[Proposal]) -> Classified:
        """Return which of `kept` is no request's, what of `said` is kept beyond it, and refused requests."""
        requests, found, judge, judged = self._judged(event, said)
        wanted = chosen(found, lambda text: judged[text].keep, judge.bar)
        asked, refused = _asked(requests, found, judged, judge)
        free = [*asked, *(unit for unit in wanted if not _is_part(unit, asked))]
        stays = tuple(
            msgspec.structs.replace(each, why="rule")
            for each in kept
            if not any(_is_of(each, unit.text) for unit in asked)
        )
        refused = tuple(each for each in refused if not any(_is_of(one, each.text) for one in stays))
        proposals = (
            _proposal(unit, judged, "request" if unit in asked else "head")
            for unit in free
            if unit in asked or not any(_is_of(each, unit.text) for each in kept)
        )
        sure = tuple(each for each in proposals if each.content)
        # By words alone too much is likely.
        likely = _likely(found, judged, (*stays, *sure)) if judge.sees_rows else ()
        return Classified((*stays, *sure, *likely), author=Origin.TYPED, refused=refused)

    def asked(self, event: Event) -> Classified:
        """Return what comes of explicit requests alone, of a headless event of worded ones."""
        requests, found, judge, judged = self._judged(event, still_meant(event))
        scope = Scope.REPO if event.headless else None
        found = tuple(unit for unit in found if unit.message in requests or not event.headless)
        asked, refused = _asked(requests, found, judged, judge, by_rules=True)
        proposals = tuple(_proposal(unit, judged, "request", scope) for unit in asked)
        return Classified(proposals, author=Origin.TYPED, refused=refused)

    def _judged(
        self, event: Event, said: Sequence[Statement]
    ) -> tuple[dict[int, Unit], tuple[Unit, ...], Judge, dict[str, Leanings]]:
        """What is worded as a request of what is surely the person's, its units, who judges, and how."""
        sure = [each for each in said if not each.is_mixed]
        found, requests = units(sure), requests_of(sure)
        texts = list(dict.fromkeys(text for unit in found for text in unit.texts()))
        rows = self._vectors(event.id, texts) if self._vectors and 0 < len(texts) <= _MOST_TEXTS else ()
        has_rows, shipped = len(rows) == len(texts), (self._judge or head)()
        judge = shipped.by_rows if has_rows else shipped.by_words
        leanings = map(judge.leanings, texts, rows if has_rows else [b""] * len(texts))
        return requests, found, judge, dict(zip(texts, leanings, strict=True))


class WithRequests:
    """`Classifier` over another; of what a script says only requests are kept.

    Of a model that keeps nothing of an explicit request the local answer `overrules`.
    """

    def __init__(self, classifier: Classifier, local: LocalAnswers, *, overrules: bool = False) -> None:
        self._classifier = classifier
        self._local = local
        self._overrules = overrules

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return what the other proposes, or what was asked for. Raises CallFailed."""
        if event.headless:
            return self._local.asked(event)
        found = await self._classifier.classify(event, known, deadline=deadline, attempts=attempts)
        if found.proposals or not self._overrules:
            return found
        more = self._local.asked(event)
        author = Origin.TYPED if more.proposals else found.author
        return msgspec.structs.replace(
            found, proposals=more.proposals, refused=(*found.refused, *more.refused), author=author
        )


def _asked(
    requests: dict[int, Unit],
    found: Sequence[Unit],
    judged: dict[str, Leanings],
    judge: Judge,
    *,
    by_rules: bool = False,
) -> tuple[list[Unit], tuple[Refused, ...]]:
    """Return the unit to keep of each message that asks, and refusals; `by_rules`: what rules keep counts."""
    taken: list[Unit] = []
    refused: list[Refused] = []
    worded_bar = _WORDED_BAR if judge.sees_rows else _WORDED_BAR_BY_WORDS
    for place in dict.fromkeys(unit.message for unit in found):
        here = [unit for unit in found if unit.message == place]
        unit = requests.get(place)
        if unit is None:
            is_asked = asking(here, judged) >= judge.asked_bar
            taken += [best_of(here, lambda text: judged[text].keep)] if is_asked else []
            continue
        if not unit.text:
            said_so = " ".join(each.text for each in unit.sentences)
            refused.append(Refused(said_so, "the request does not say what to remember"))
        elif _meant(unit, judged) >= (_PLAIN_BAR if letters(unit.around) < _PLAIN else worded_bar) or (
            by_rules and proposals_in(unit.text)
        ):
            taken.append(unit)
        else:
            refused.append(Refused(unit.text, "looks like a one-off request"))
    return taken, tuple(refused)


def _meant(unit: Unit, judged: dict[str, Leanings]) -> float:
    return judged[unit.around].asks + max(judged[text].keep for text in unit.texts() if text in judged)


def _likely(
    found: Sequence[Unit], judged: dict[str, Leanings], sure: Sequence[Proposal]
) -> Iterator[Proposal]:
    likely = chosen(found, lambda text: judged[text].keep, _LEAST_LIKELY)
    for unit in likely:
        proposal = _proposal(unit, judged, "head")
        against = max(0.0, _DOUBT - score(unit, lambda text: judged[text].keep))
        is_said = any(_is_of(each, unit.text) or _is_in(proposal, each) for each in sure)
        if proposal.content and not is_said and not (against and speaks_against(unit.text, _AGAINST)):
            doubt = _COUNTS * against + _A_LITTLE * bool(against and speaks_against(unit.text, _SOMEWHAT))
            yield msgspec.structs.replace(proposal, only_replaces=True, doubt=doubt)


def _is_in(one: Proposal, other: Proposal) -> bool:
    return one.content.rstrip(".。").lower() in other.content.lower()


def _is_part(unit: Unit, asked: Sequence[Unit]) -> bool:
    return any(each.text in other.text for each in unit.sentences for other in asked)


def _proposal(unit: Unit, judged: dict[str, Leanings], why: str, scope: Scope | None = None) -> Proposal:
    content = presentable(without_lead_ins(behind_request(unit.text))[0] or unit.text)
    leaning = judged[unit.around]
    about_person = scope_of_all(unit.sentences) is Scope.USER
    for_person = leaning.user + (_WORDS_SAY if about_person else -_WORDS_SAY)
    scope = scope or (Scope.USER if for_person > 0 else Scope.REPO)
    return Proposal(content, scope, leaning.category(scope), why=why)


def _is_of(kept: Proposal, text: str) -> bool:
    return kept.content.rstrip(".。").lower() in text.lower()


def request_in(said: Sequence[Statement], before: str = "") -> Unit | None:
    """Return what a message asks to keep, with no text if it is not said; None where nobody asks."""
    places = [at for at, each in enumerate(said) if _asks(each)]
    if not places:
        return None
    at = places[0]
    first, last = at, at + 1
    is_brief = sum(len(each.text) for each in said) <= BRIEF
    says_nothing = said[at].asks_alone or letters(without_request(said[at].text)) < _SAYS
    while first > 0 and (is_brief or (says_nothing and at == first)) and _adds(said[first - 1]):
        first -= 1
    while last < len(said) and (is_brief or last - at <= _MORE) and _adds(said[last], said[first:last]):
        last += 1
    text = " ".join(each.text for each in said[first:last])
    if last - first == 1 and (said[at].asks_alone or not _says(text)):
        told = (each for each in (said[at].answers, before) if letters(each) >= _LEAST)
        text = f"{next(told, '')} {text}".strip()
    return Unit(text if _says(text) else "", tuple(said[first:last]), around_of(said))


def requests_of(said: Sequence[Statement]) -> dict[int, Unit]:
    """Return what is asked for in each message that asks, by the message's place."""
    found: dict[int, Unit] = {}
    before = ""
    for place in dict.fromkeys(each.message for each in said):
        mine = [each for each in said if each.message == place]
        if (request := request_in(mine, before)) is not None:
            found[place] = request
        before = mine[-1].text
    return found


def scope_of_all(sentences: Sequence[Statement]) -> Scope:
    """Whom sentences are about, but for the words in which they ask."""
    told = [each for each in sentences if letters(without_request(each.text)) >= _SAYS] or sentences
    return Scope.USER if any(_is_of_person(each.text) for each in told) else Scope.REPO


def _is_of_person(text: str) -> bool:
    return scope_of(without_request(text)) is scope_of(beside_request(text)) is Scope.USER


def _says(text: str) -> bool:
    """Whether there is something to keep in it beside the words that ask."""
    told = without_request(text)
    return letters(told) >= (_NAMES if _NAMED.search(told) else _LEAST)


def _asks(sentence: Statement) -> bool:
    return sentence.asks_alone or asks(sentence.text)


def _adds(sentence: Statement, to: Sequence[Statement] = ()) -> bool:
    if sum(len(each.text) for each in to) + len(sentence.text) > LONG:
        return False
    return _asks(sentence) or not speaks_against(sentence.text, _UNRELATED)
