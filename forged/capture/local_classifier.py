"""Classifier without a chat model, beyond the rules: choices of the linear model, and requests.

Input: an event and the proposals of the rules. Output: further proposals in the person's words, and refused
requests with reasons. For a request without content ("note that down") its neighbour is kept. Vectors of the
local model improve the scores. Raises the errors of asking for vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import inf

import msgspec

from forged.capture.answers import (
    AnsweredQuestion,
    has_value,
    judged_part,
    subject_of,
    turns_away,
    with_subject,
    without_assent,
)
from forged.capture.authorship import SAYS, Statement, clause_runs, clauses_of, narrates
from forged.capture.linear_model import (
    LinearModel,
    Passage,
    StatementScorer,
    StatementScores,
    best_passage,
    linear_model,
    message_text_of,
    passage_score,
    passages,
    request_score,
    select_passages,
)
from forged.capture.rules.durability import ALL_OVER, Veto, is_vetoed, kinds_in
from forged.capture.rules.engine import LONGEST as LONGEST_SENTENCE
from forged.capture.rules.engine import presentable, proposals_in, scope_of, still_meant, without_lead_ins
from forged.capture.rules.requests import asks, behind_request, letters_in, outside_request, without_request
from forged.capture.rules.slots import slots_of
from forged.capture.values import Classified, Classifier, KnownMemory, Proposal, Refused
from forged.memory import Origin, Scope
from forged.state import Event

# Characters of a message that is kept whole, characters kept of a longer one, and sentences after a request
# that may belong to it.
BRIEF, LONG, _MORE = 160, 300, 2
# Letters that make a statement: at least, and after a colon or with a number. A character of Han or
# kana counts twice.
_LEAST, _NAMES = 12, 4
_MARKS = re.compile(r"[\W_]+")
_NAMED = re.compile(r"[:：].*[^\W_]|\d", re.DOTALL)
# Most sentences of an answer that are kept, the vetoes of one, and the reason why a mere yes waits.
_MOST_SETTLING = 3
# Nats below the bar at which a sentence joins another one of its answer.
_JOINS = 4.0
_NO_ANSWER: frozenset[Veto] = frozenset({"question", "irony"})
_ONLY_AGREED = "the agent said it, and you only agreed"
# A sentence stays with the best one of its message at this score, and so far below it.
_LEAST_JOINED, _BELOW_BEST = -3.0, 12.0
# Scores above which a clause stays with the best one of its sentence, if it asks or orders something, and
# else; and the least score of the best one.
_LEAST_ORDER, _LEAST_STAYING, _LEAST_CLAUSE = -6.0, -10.0, -4.0
# Most nats by which the clauses that stay may score less than their sentence.
_MOST_LOST = 6.0
_FOR_NOW: frozenset[Veto] = frozenset({"question", "order"})
# Least score of a clause or sentence that lasts in passing, the score of another one that does not last, and
# most of a message; vetoes of one.
_PASSING, _NOT_LASTING, _MOST_PASSING = -1.0, -4.0, 2
_NOT_PASSING: frozenset[Veto] = frozenset({"question", "doubt", "hearsay", "irony"})
# Vetoes of what is said next to a request; vetoes that make a request doubtful, and what it must score more.
_NEXT_TO_REQUEST: frozenset[Veto] = frozenset({"question", "doubt", "moment", "irony"})
_DOUBTFUL: frozenset[Veto] = frozenset({"irony", "moment"})
_DOUBTFUL_MORE = 3.0
# Vetoes that exclude a neighbour of a request.
_UNRELATED: frozenset[Veto] = frozenset({"question", "irony", "order"})

# Scores of texts, by text.
Scores = dict[str, StatementScores]
# Takes an event's id and texts, and returns float32 vectors or nothing.
VectorsFor = Callable[[str, Sequence[str]], Sequence[bytes]]
# Most texts of one event that get a vector; each takes some milliseconds of the daemon.
_MOST_TEXTS = 48
# Least score of a request that matches `requests.toml`: with vectors, by words, and for a message of fewer
# letters, which the model scores badly.
_WORDED_BAR, _WORDED_BAR_BY_WORDS, _PLAIN_BAR, _PLAIN = 4.0, 3.0, -5.0, 50
# Bars for statements that may only update a memory: the least score; the score below which it gets a penalty
# (below 0, as most statements do not last); and the penalty for each nat below. Whoever returns to a subject
# means the new statement to last.
_LEAST_LIKELY, _DOUBT = -20.0, -0.5
_COUNTS = 0.1
# Vetoes that drop an uncertain statement, vetoes that add a penalty, and that penalty.
_AGAINST: frozenset[Veto] = frozenset({"question", "doubt", "irony"})
_SOMEWHAT: frozenset[Veto] = frozenset({"hearsay", "moment"})
_A_LITTLE = 0.3
# Weight in nats of the words about the scope, against the model's score.
_WORDS_SAY = 2.0


class AnsweredMessage(msgspec.Struct, frozen=True):
    """A message that answers a question or proposal of the agent.

    `scored` is the text by which it is scored: with its question or, if it `is_bare` of a value, the sentence
    of the agent that it accepts.
    """

    answer: AnsweredQuestion
    statements: tuple[Statement, ...]
    scored: str
    is_bare: bool = False

    @property
    def message(self) -> int:
        """Return the index of the message in the window."""
        return self.statements[0].message

    @property
    def offers(self) -> bool:
        """Return True if the agent's message lists options."""
        return self.statements[0].offers


class ScoredEvent(msgspec.Struct, frozen=True):
    """Statements of an event with scores and vectors by text: requests by message, passages, answers.

    `cuts` has the lasting clauses of sentences that say something else, too.
    """

    requests: dict[int, Passage]
    passages: tuple[Passage, ...]
    answers: tuple[AnsweredMessage, ...]
    scorer: StatementScorer
    scores: Scores
    rows: dict[str, bytes]
    cuts: dict[str, str]


class LocalClassifier:
    """Finds statements worth keeping and requests to remember with the linear model, without a chat model."""

    def __init__(self, vectors: VectorsFor | None, scorer: Callable[[], LinearModel] | None = None) -> None:
        self._vectors = vectors
        self._model = scorer

    def refine(self, event: Event, said: Sequence[Statement], kept: Sequence[Proposal]) -> Classified:
        """Return the rules' proposals (`kept`) with those of the linear model, and refused requests.

        It marks each proposal as request, rule, answer or linear.
        """
        scored = self._score_event(event, said)
        kept = [_lasting_content(each, said, scored) for each in kept]
        requests, found, scorer, scores = scored.requests, scored.passages, scored.scorer, scored.scores
        answered = dict(_answer_proposals(scored, kept))
        answers = tuple(answered.values())
        wanted = [
            passage
            for passage in select_passages(found, lambda text: scores[text].keep, scorer.bar)
            if scorer.sees_rows or "question" not in kinds_in("veto", passage.text)
            if passage.message not in answered
            or not (_is_contained_in(passage, answered[passage.message]) or is_vetoed(passage.text))
        ]
        wanted += _passing_clauses(scored, (*kept, *answers), wanted)
        unanswered = [passage for passage in found if passage.message not in answered]
        requested, refused = _requested_passages(requests, unanswered, scores, scorer)
        asking = {passage.message for passage in requested}
        wanted = [each for each in wanted if not _is_requested(each, requested)]
        free = [*requested, *(each for each in wanted if each.message not in asking or not
                              is_vetoed(each.text, _NEXT_TO_REQUEST))]  # fmt: skip
        stays = tuple(
            msgspec.structs.replace(each, why="rule")
            for each in kept
            if not any(_has(passage.text, each.content) for passage in requested)
        )
        refused = tuple(each for each in refused if not any(_has(each.text, one.content) for one in stays))
        proposals = (
            _make_proposal(passage, scored, "request" if passage in requested else "linear")
            for passage in free
            if passage in requested or not any(_has(passage.text, each.content) for each in kept)
        )
        sure = (*answers, *(each for each in proposals if each.content))
        others = [
            passage
            for passage in found
            if passage.message not in requests
            and not any(_is_contained_in(passage, each) for each in answers)
        ]
        likely = _update_only_proposals(others, scored, (*stays, *sure))
        return Classified((*stays, *sure, *likely), author=Origin.TYPED, refused=refused)

    def requested(self, event: Event) -> Classified:
        """Return proposals for requests to remember, and refusals; if headless, only for known wordings."""
        scored = self._score_event(event, still_meant(event))
        requests, scores = scored.requests, scored.scores
        scope = Scope.REPO if event.headless else None
        found = tuple(
            passage for passage in scored.passages if passage.message in requests or not event.headless
        )
        requested, refused = _requested_passages(requests, found, scores, scored.scorer, by_rules=True)
        # No person of a script's session can have agreed to the agent's words.
        requested = [passage for passage in requested if not (event.headless and passage.agreed)]
        proposals = tuple(_make_proposal(passage, scored, "request", scope) for passage in requested)
        return Classified(proposals, author=Origin.TYPED, refused=refused)

    def _score_event(self, event: Event, said: Sequence[Statement]) -> ScoredEvent:
        """Score surely typed statements, and answers with their questions."""
        sure = [each for each in said if not each.is_mixed]
        found, requests = passages(sure), requests_of(sure)
        answers = (
            [] if event.headless else [each for each in answers_of(sure) if each.message not in requests]
        )
        needed = [text for passage in found for text in passage.texts()]
        needed += [text for each in answers for text in (each.scored, *each.answer.sentences)]
        apart = {
            each.text: runs for each in sure if each.message not in requests and (runs := clause_runs(each))
        }
        with_runs = dict.fromkeys([*needed, *(text for runs in apart.values() for text in runs.values())])
        if len(with_runs) > _MOST_TEXTS:  # of a long message the sentences alone
            apart = {}
        texts = list(with_runs if apart else dict.fromkeys(needed))
        rows = self._vectors(event.id, texts) if self._vectors and 0 < len(texts) <= _MOST_TEXTS else ()
        has_rows, shipped = len(rows) == len(texts), (self._model or linear_model)()
        scorer = shipped.by_rows if has_rows else shipped.by_words
        by_text = dict(zip(texts, rows if has_rows else [b""] * len(texts), strict=True))
        scores = {text: scorer.scores(text, row) for text, row in by_text.items()}
        requests = requests_of(sure, lambda text: text in scores and scores[text].keep > _LEAST_JOINED)
        cuts = {text: part for text, runs in apart.items() if (part := _lasting_clauses(runs, scores))}
        return ScoredEvent(requests, found, tuple(answers), scorer, scores, by_text, cuts)


class RequestClassifier:
    """Wraps a classifier; if headless, or perhaps if it finds nothing, proposes only requested memories.

    With `overrules`, a request is kept by the local classifier if the model proposes nothing.
    """

    def __init__(self, classifier: Classifier, local: LocalClassifier, *, overrules: bool = False) -> None:
        self._classifier = classifier
        self._local = local
        self._overrules = overrules

    async def classify(
        self, event: Event, known: Sequence[KnownMemory], *, deadline: float, attempts: int
    ) -> Classified:
        """Return the wrapped classifier's proposals, or those of explicit requests. Raises CallFailed."""
        if event.headless:
            return self._local.requested(event)
        found = await self._classifier.classify(event, known, deadline=deadline, attempts=attempts)
        if found.proposals or not self._overrules:
            return found
        more = self._local.requested(event)
        author = Origin.TYPED if more.proposals else found.author
        return msgspec.structs.replace(
            found, proposals=more.proposals, refused=(*found.refused, *more.refused), author=author
        )


def answers_of(said: Sequence[Statement]) -> Iterator[AnsweredMessage]:
    """Yield the messages that answer a question or proposal of the agent."""
    for message in dict.fromkeys(each.message for each in said if each.asked):
        mine = tuple(each for each in said if each.message == message)
        answer = AnsweredQuestion(mine[0].asked, tuple(each.text for each in mine))
        is_bare = not has_value(answer.text, offers=mine[0].offers)
        scored = answer.question[0].rstrip("?？ ") if is_bare else answer.joint
        yield AnsweredMessage(answer, mine, scored, is_bare)


def _answer_proposals(scored: ScoredEvent, kept: Sequence[Proposal]) -> Iterator[tuple[int, Proposal]]:
    """Yield message and proposal of each answer that settles something; a bare yes waits for review."""
    for each in scored.answers:
        if each.is_bare:
            scores = scored.scores[each.scored]
            content, category = presentable(each.scored), scores.category(Scope.REPO)
            if scores.keep >= scored.scorer.bar:
                yield (
                    each.message,
                    Proposal(content, category=category, why="answer", agreed=content, waits=_ONLY_AGREED),
                )
        elif settling := _settling_sentences(each, scored, kept):
            text = " ".join(settling)
            subject = subject_of(each.answer.question, text)
            content = with_subject(subject, presentable(text))
            judged = judged_part(content) if subject else text
            best = max((scored.scores[sentence] for sentence in settling), key=lambda found: found.keep)
            category = best.category(Scope.REPO)
            yield (
                each.message,
                Proposal(content, category=category, why="answer", agreed=subject, said=judged),
            )


def _settling_sentences(
    answered: AnsweredMessage, scored: ScoredEvent, kept: Sequence[Proposal]
) -> Sequence[str]:
    """Return the sentences of an answer that settle something, at most three, in their order; else ()."""
    mine = answered.answer.sentences
    last = next((at for at, each in enumerate(mine) if at and turns_away(each)), len(mine))
    free = [
        each
        for each in mine[:last]
        if len(each) <= LONGEST_SENTENCE
        and not is_vetoed(without_assent(each), _NO_ANSWER)
        and not any(_has(one.content, each) or _has(each, one.content) for one in kept)
    ]
    joint, scorer = scored.rows[answered.scored], scored.scorer
    worth = {each: scorer.settles(answered.answer, each, scored.rows[each], joint) for each in free}
    most = max(worth.values(), default=-inf)
    best = sorted(free, key=lambda each: -worth[each])[:_MOST_SETTLING]
    likely = [each for each in best if worth[each] >= scorer.settles_bar - _JOINS]
    found = [each for each in free if each in likely] if most >= scorer.settles_bar else []
    return found if has_value(" ".join(found), offers=answered.offers) else ()


def _is_contained_in(passage: Passage, answer: Proposal) -> bool:
    """Return True if the proposal of an answer has a sentence of a passage."""
    return any(_has(answer.content, each.text) for each in passage.sentences)


def _requested_passages(
    requests: dict[int, Passage],
    found: Sequence[Passage],
    scores: Scores,
    scorer: StatementScorer,
    *,
    by_rules: bool = False,
) -> tuple[list[Passage], tuple[Refused, ...]]:
    """Return the passage to keep of each message that asks to remember something, and refusals."""
    taken: list[Passage] = []
    refused: list[Refused] = []
    worded_bar = _WORDED_BAR if scorer.sees_rows else _WORDED_BAR_BY_WORDS
    for place in dict.fromkeys(passage.message for passage in found):
        here = [passage for passage in found if passage.message == place]
        passage = requests.get(place)
        if passage is None:
            is_asked = request_score(here, scores) >= scorer.asked_bar
            taken += [best_passage(here, lambda text: scores[text].keep)] if is_asked else []
            continue
        if not passage.text:
            said_so = " ".join(each.text for each in passage.sentences)
            refused.append(Refused(said_so, "the request does not say what to remember"))
        elif _request_strength(passage, scores) >= _request_bar(passage, worded_bar) or (
            by_rules and proposals_in(passage.text)
        ):
            taken.append(passage)
        else:
            refused.append(Refused(passage.text, "looks like a one-off request"))
    return taken, tuple(refused)


def _request_bar(passage: Passage, bar: float) -> float:
    """Return the least score of a request, for wordings that usually need `bar`."""
    if any(is_vetoed(each.text, _DOUBTFUL) for each in passage.sentences if asks(each.text)):
        return bar + _DOUBTFUL_MORE
    points = any(map(_asks_in_a_clause, passage.sentences))
    return _PLAIN_BAR if points or letters_in(passage.message_text) < _PLAIN else bar


def _asks_in_a_clause(sentence: Statement) -> bool:
    """Return True if a clause of a sentence asks to keep something that it does not say."""
    clauses = (clause.rstrip() for clause in clauses_of(sentence.text))
    brief = (each for each in clauses if letters_in(without_request(each)) < _LEAST)
    return any(asks(each) and not each.endswith((":", "：")) for each in brief)


def _request_strength(passage: Passage, scores: Scores) -> float:
    """Return the score of a passage as a request to remember plus that of its content as worth keeping."""
    return scores[passage.message_text].asks + max(
        scores[text].keep for text in passage.texts() if text in scores
    )


def _update_only_proposals(
    found: Sequence[Passage], scored: ScoredEvent, sure: Sequence[Proposal]
) -> Iterator[Proposal]:
    """Yield less likely proposals, with penalties, which are kept only if they update a memory."""
    scores = scored.scores
    likely = select_passages(found, lambda text: scores[text].keep, _LEAST_LIKELY)
    for passage in likely:
        proposal = _make_proposal(passage, scored, "linear", may_change=True)
        against = max(0.0, _DOUBT - passage_score(passage, lambda text: scores[text].keep))
        is_said = any(
            _has(passage.text, each.content) or _has(each.content, proposal.content) for each in sure
        )
        others = [each.text for each in passage.sentences if not narrates(each.text)]
        settles = any(not is_vetoed(each, _AGAINST) for each in others)
        if proposal.content and others and not is_said and (settles or not against):
            penalty = _COUNTS * against + _A_LITTLE * bool(against and is_vetoed(passage.text, _SOMEWHAT))
            said = presentable(passage.text)
            yield msgspec.structs.replace(proposal, update_only=True, penalty=penalty, said=said)


def _is_requested(passage: Passage, requested: Sequence[Passage]) -> bool:
    """Return True if a passage shares a sentence with one that the person asked to remember."""
    return any(each.text in other.text for each in passage.sentences for other in requested)


def _lasting_clauses(runs: dict[tuple[int, int], str], scores: Scores) -> str:
    """Return the clauses of a sentence that last, without others around them; "" to keep all."""
    last = max(end for _, end in runs)
    clauses = [runs[at, at] for at in range(last + 1)]
    first = end = max(range(last + 1), key=lambda at: scores[clauses[at]].keep)
    if scores[clauses[first]].keep < _LEAST_CLAUSE:
        return ""
    while first > 0 and _may_stay(clauses[first - 1], scores):
        first -= 1
    while end < last and _may_stay(clauses[end + 1], scores):
        end += 1
    is_less = scores[runs[first, end]].keep < scores[runs[0, last]].keep - _MOST_LOST
    return "" if (first, end) == (0, last) or is_less else runs[first, end]


def _may_stay(clause: str, scores: Scores) -> bool:
    """Return True if a clause may stay with a lasting one: no question or order for now, or a change."""
    least = _LEAST_ORDER if is_vetoed(clause, _FOR_NOW) else _LEAST_STAYING
    return scores[clause].keep > least or slots_of(clause).change


def _passing_clauses(
    scored: ScoredEvent, kept: Sequence[Proposal], wanted: Sequence[Passage]
) -> Iterator[Passage]:
    """Yield what lasts of messages that say something else, too, and of which nothing is kept or changed."""
    taken = {*scored.requests, *(each.message for each in wanted), *(each.message for each in scored.answers)}
    for place in dict.fromkeys(each.message for each in scored.passages if each.message not in taken):
        here = [passage for passage in scored.passages if passage.message == place]
        said = [each for passage in here for each in passage.sentences]
        has_more = any(
            each.text in scored.cuts or scored.scores[each.text].keep <= _NOT_LASTING for each in said
        )
        if has_more and not any(_has(each.content, one.text) for each in kept for one in said):
            lasting = [each for each in said if _lasts_in_passing(each, here[0].message_text, scored)]
            if not any(slots_of(each.text).change for each in said if each not in lasting):
                yield from (Passage(each.text, (each,), each.text) for each in lasting[:_MOST_PASSING])


def _lasts_in_passing(sentence: Statement, message: str, scored: ScoredEvent) -> bool:
    """Return True if a sentence or its clause lasts in a message that says something else, too."""
    rows, text = scored.rows, scored.cuts.get(sentence.text, sentence.text)
    vetoed = is_vetoed(text, _NOT_PASSING) or is_vetoed(sentence.text, ALL_OVER)
    if vetoed or scored.scores[text].keep < _PASSING:
        return False
    return scored.scorer.lasts(text, message, rows[text], rows[message]) >= scored.scorer.lasts_bar


def _with_cuts(text: str, sentences: Sequence[Statement], cuts: dict[str, str]) -> str:
    """Return a text with the lasting clauses of its sentences alone."""
    for sentence in sentences:
        if part := cuts.get(sentence.text):
            text = text.replace(sentence.text, part)
    return text


def _lasting_content(proposal: Proposal, said: Sequence[Statement], scored: ScoredEvent) -> Proposal:
    """Return a proposal of the rules without the sentences and clauses in it that do not last."""
    content, scores = proposal.content, scored.scores
    here = [
        each
        for each in said
        if each.text in scores and _has(content, without_lead_ins(each.text)[0] or each.text)
    ]
    if not here:
        return proposal
    best = max(here, key=lambda each: scores[each.text].keep)
    parts = [each for each in here if each is best or _may_last(each, scores, best)]
    if len(parts) == len(here) and not any(each.text in scored.cuts for each in here):
        return proposal
    lasting = _with_cuts(" ".join(each.text for each in parts), parts, scored.cuts)
    return msgspec.structs.replace(proposal, content=presentable(without_lead_ins(lasting)[0] or lasting))


def _make_proposal(
    passage: Passage, scored: ScoredEvent, why: str, scope: Scope | None = None, *, may_change: bool = False
) -> Proposal:
    """Make the proposal of a passage; its scope follows the scores and the words about the person."""
    # One that may change a memory keeps all clauses, as they name the change.
    scores = scored.scores
    is_worded = why == "request" and passage.message in scored.requests
    is_asked, is_whole = why == "request", may_change and len(passage.text) <= BRIEF
    lasting = passage if is_worded else _lasting_part(passage, scores, is_asked=is_asked, is_whole=is_whole)
    cuts = {} if is_asked or may_change else scored.cuts
    text = _with_cuts(lasting.text, lasting.sentences, cuts)
    content = presentable(without_lead_ins(behind_request(text))[0] or text)
    leaning = scores[passage.message_text]
    about_person = scope_of_all(lasting.sentences) is Scope.USER
    for_person = leaning.user + (_WORDS_SAY if about_person else -_WORDS_SAY)
    scope = scope or (Scope.USER if for_person > 0 else Scope.REPO)
    return Proposal(content, scope, leaning.category(scope), why=why, agreed=passage.agreed)


def _lasting_part(passage: Passage, scores: Scores, *, is_asked: bool, is_whole: bool) -> Passage:
    """Return a passage without the sentences that do not last: questions, orders for now, greetings."""
    # If the person probably asks to keep it, only those go that surely do not last.
    said = passage.sentences
    if len(said) == 1 or passage.agreed:
        return passage
    best = max(said, key=lambda each: scores[each.text].keep)
    stays = {each.text for each in said if is_asked and _may_stay(each.text, scores)}
    stays |= {each.text for each in said if is_whole and not is_vetoed(each.text, _UNRELATED)}
    kept = tuple(each for each in said if each is best or each.text in stays or _may_last(each, scores, best))
    return msgspec.structs.replace(passage, text=" ".join(each.text for each in kept), sentences=kept)


def _may_last(sentence: Statement, scores: Scores, best: Statement) -> bool:
    """Return True if a sentence may last as the best one of its message does, or if that one needs it."""
    needs_it = sentence.text in best.whole and best.whole != best.text
    if needs_it or is_vetoed(sentence.text, _UNRELATED):
        return needs_it and not is_vetoed(sentence.text, _NO_ANSWER)
    return scores[sentence.text].keep > max(_LEAST_JOINED, scores[best.text].keep - _BELOW_BEST)


def _has(text: str, part: str) -> bool:
    """Return True if a text contains another one, without regard to case, marks and spacing."""
    said, sought = (_MARKS.sub(" ", each).strip().casefold() for each in (text, part))
    return sought in said


def request_in(
    said: Sequence[Statement], before: str = "", lasts: Callable[[str], bool] | None = None
) -> Passage | None:
    """Return the passage that one message asks to remember, with its neighbours; None without a request.

    Its text is empty if the message does not say what to keep. A neighbour that looks like a question or an
    order belongs to it if it `lasts`.
    """
    places = [at for at, each in enumerate(said) if _asks(each)]
    if not places:
        return None
    at = places[0]
    first, last = at, at + 1
    is_brief = sum(len(each.text) for each in said) <= BRIEF
    says_nothing = said[at].asks_alone or letters_in(without_request(said[at].text)) < SAYS
    says_nothing = says_nothing or _asks_in_a_clause(said[at])
    while (
        first > 0
        and (is_brief or (says_nothing and at == first))
        and _may_extend(said[first - 1], lasts=lasts)
    ):
        first -= 1
    while (
        last < len(said)
        and (is_brief or last - at <= _MORE)
        and _may_extend(said[last], said[first:last], lasts)
    ):
        last += 1
    text, agreed = " ".join(each.text for each in said[first:last]), ""
    if last - first == 1 and (said[at].asks_alone or not _has_content(text)):
        agreed = said[at].answers if letters_in(said[at].answers) >= _LEAST else ""
        text = f"{agreed or (before if letters_in(before) >= _LEAST else '')} {text}".strip()
    content = text if _has_content(text) else ""
    return Passage(content, tuple(said[first:last]), message_text_of(said), agreed if content else "")


def requests_of(said: Sequence[Statement], lasts: Callable[[str], bool] | None = None) -> dict[int, Passage]:
    """Return the passage to keep for each message that asks it, by index; its text may be empty.

    `lasts` says of a sentence if it lasts by itself.
    """
    found: dict[int, Passage] = {}
    before = ""
    for place in dict.fromkeys(each.message for each in said):
        mine = [each for each in said if each.message == place]
        if (request := request_in(mine, before, lasts)) is not None:
            found[place] = request
        before = mine[-1].text
    return found


def scope_of_all(sentences: Sequence[Statement]) -> Scope:
    """Return the scope of sentences by their words: user if one is about the person, else repository."""
    texts = [each for each in sentences if letters_in(without_request(each.text)) >= SAYS] or sentences
    return Scope.USER if any(_is_of_person(each.text) for each in texts) else Scope.REPO


def _is_of_person(text: str) -> bool:
    """Return True if a text is about the person, read without its request's words and clauses."""
    return scope_of(without_request(text)) is scope_of(outside_request(text)) is Scope.USER


def _has_content(text: str) -> bool:
    """Return True if a text says something besides its request."""
    texts = without_request(text)
    return letters_in(texts) >= (_NAMES if _NAMED.search(texts) else _LEAST)


def _asks(sentence: Statement) -> bool:
    """Return True if a sentence asks to remember something."""
    return sentence.asks_alone or asks(sentence.text)


def _may_extend(
    sentence: Statement, to: Sequence[Statement] = (), lasts: Callable[[str], bool] | None = None
) -> bool:
    """Return True if a sentence may join the request `to`: not too long, no question, irony or order."""
    # An order that lasts may join ("remember: ...; name tests in English").
    if sum(len(each.text) for each in to) + len(sentence.text) > LONG:
        return False
    if _asks(sentence) or not is_vetoed(sentence.text, _UNRELATED):
        return True
    return lasts is not None and lasts(sentence.text) and not is_vetoed(sentence.text, ALL_OVER)
