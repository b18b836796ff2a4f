"""What the worker keeps without a chat model and beyond the rules: what the head chooses, and requests.

In go an event and what the rules keep of it, out come further proposals in the person's own words, and the
requests of which nothing can be kept, each with its reason. A request that is recognised always comes to one
or the other. The head sees more where the local model has rows for it; where there are none it goes by words
and keeps less. It raises what asking for the rows raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from forged.capture.classifier import Classifier
from forged.capture.head.choosing import asking, best_of, chosen, score
from forged.capture.head.head import Head, Judge, Leanings, head
from forged.capture.head.units import Unit, units
from forged.capture.rules.asked import Request, letters, requests_of, scope_of_all
from forged.capture.rules.engine import presentable, proposals_in, still_meant, without_lead_ins
from forged.capture.rules.lasting import Veto, speaks_against
from forged.capture.rules.requests import behind_request
from forged.capture.statements import Statement
from forged.capture.values import Classified, KnownMemory, Proposal, Refused
from forged.memory import Origin, Scope
from forged.state import Event

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


class More(msgspec.Struct, frozen=True):
    """What of the rules' stays, what is kept beyond it, and what was asked for and is not."""

    kept: tuple[Proposal, ...] = ()
    proposals: tuple[Proposal, ...] = ()
    refused: tuple[Refused, ...] = ()


class LocalAnswers:
    """Judges what was typed by its rows, or by its words alone; by the shipped head unless told otherwise."""

    def __init__(self, vectors: VectorsFor, judge: Callable[[], Head] | None = None) -> None:
        self._vectors = vectors
        self._judge = judge

    def more(self, event: Event, said: Sequence[Statement], kept: Sequence[Proposal]) -> More:
        """Return which of `kept` is no request's, and what of `said` is kept beside it."""
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
            if unit in asked or not _is_kept(unit, kept)
        )
        sure = tuple(each for each in proposals if each.content)
        # By words alone too much is likely.
        likely = _likely(found, judged, (*stays, *sure)) if judge.sees_rows else ()
        return More(stays, (*sure, *likely), refused)

    def asked(self, event: Event) -> More:
        """Return what comes of explicit requests alone, of a headless event of worded ones."""
        requests, found, judge, judged = self._judged(event, still_meant(event))
        scope = Scope.REPO if event.headless else None
        found = tuple(unit for unit in found if unit.message in requests or not event.headless)
        asked, refused = _asked(requests, found, judged, judge, by_rules=True)
        return More((), tuple(_proposal(unit, judged, "request", scope) for unit in asked), refused)

    def _judged(
        self, event: Event, said: Sequence[Statement]
    ) -> tuple[dict[int, Request], tuple[Unit, ...], Judge, dict[str, Leanings]]:
        """What is worded as a request of what is surely the person's, its units, who judges, and how."""
        sure = [each for each in said if not each.is_mixed]
        found, requests = units(sure), requests_of(sure)
        texts = list(dict.fromkeys(text for unit in found for text in unit.texts()))
        rows = self._vectors(event.id, texts) if 0 < len(texts) <= _MOST_TEXTS else ()
        has_rows, shipped = len(rows) == len(texts), (self._judge or head)()
        judge = shipped.by_rows if has_rows else shipped.by_words
        leanings = map(judge.leanings, texts, rows if has_rows else [b""] * len(texts))
        return requests, found, judge, dict(zip(texts, leanings, strict=True))


class Overruled:
    """`Classifier` over another; where that keeps nothing of an explicit request the local answer stands."""

    def __init__(self, model: Classifier, local: LocalAnswers) -> None:
        self._model = model
        self._local = local

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return what the model proposes, or what was asked for. Raises CallFailed."""
        found = await self._model.classify(event, known, deadline=deadline, attempts=attempts)
        if found.proposals:
            return found
        more = self._local.asked(event)
        author = Origin.TYPED if more.proposals else found.author
        return msgspec.structs.replace(
            found, proposals=more.proposals, refused=(*found.refused, *more.refused), author=author
        )


class OfPeople:
    """`Classifier` over another for what people say; of what a script says only requests are kept."""

    def __init__(self, classifier: Classifier, local: LocalAnswers) -> None:
        self._classifier = classifier
        self._local = local

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return what the other proposes, or what a headless event asks for. Raises CallFailed."""
        if not event.headless:
            return await self._classifier.classify(event, known, deadline=deadline, attempts=attempts)
        more = self._local.asked(event)
        return Classified(more.proposals, author=Origin.TYPED, refused=more.refused)


def _asked(
    requests: dict[int, Request],
    found: Sequence[Unit],
    judged: dict[str, Leanings],
    judge: Judge,
    *,
    by_rules: bool = False,
) -> tuple[list[Unit], tuple[Refused, ...]]:
    """Return the unit to keep of each message that asks, and the messages that do not say what.

    `by_rules`: where no rules judge beside it, a request that they would keep is one.
    """
    taken: list[Unit] = []
    refused: list[Refused] = []
    worded_bar = _WORDED_BAR if judge.sees_rows else _WORDED_BAR_BY_WORDS
    for place in dict.fromkeys(unit.message for unit in found):
        here = [unit for unit in found if unit.message == place]
        request = requests.get(place)
        if request is None:
            is_asked = asking(here, judged) >= judge.asked_bar
            taken += [best_of(here, lambda text: judged[text].keep)] if is_asked else []
            continue
        unit = Unit(request.text, request.sentences, here[0].around)
        if not unit.text:
            said_so = " ".join(each.text for each in unit.sentences)
            refused.append(Refused(said_so, "it does not say what is to be remembered"))
        elif _meant(unit, judged) >= (_PLAIN_BAR if letters(unit.around) < _PLAIN else worded_bar) or (
            by_rules and proposals_in(unit.text)
        ):
            taken.append(unit)
        else:
            refused.append(Refused(unit.text, "it reads like something for this moment only"))
    return taken, tuple(refused)


def _meant(unit: Unit, judged: dict[str, Leanings]) -> float:
    """Return how much speaks for it that what is worded as a request is one."""
    return judged[unit.around].asks + max(judged[text].keep for text in unit.texts() if text in judged)


def _likely(
    found: Sequence[Unit], judged: dict[str, Leanings], sure: Sequence[Proposal]
) -> Iterator[Proposal]:
    """What may be worth keeping, for the case that it replaces something."""
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
    content = presentable(without_lead_ins(behind_request(unit.text)).text or unit.text)
    leaning = judged[unit.around]
    about_person = scope_of_all(unit.sentences) is Scope.USER
    for_person = leaning.user + (_WORDS_SAY if about_person else -_WORDS_SAY)
    scope = scope or (Scope.USER if for_person > 0 else Scope.REPO)
    return Proposal(content, scope, leaning.category(scope), why=why)


def _is_kept(unit: Unit, kept: Sequence[Proposal]) -> bool:
    """Whether the rules keep a part of it already."""
    return any(_is_of(each, unit.text) for each in kept)


def _is_of(kept: Proposal, text: str) -> bool:
    return kept.content.rstrip(".。").lower() in text.lower()
