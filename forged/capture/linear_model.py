"""Linear model that estimates which of a person's statements are worth keeping. Pure Python.

`passages` groups statements that are scored together. A `StatementScorer` takes a text, with or without its
vector, and returns `StatementScores` in nats; above 0 means likelier than not. `select_passages` picks those
above a bar, at most two of a message, extended by likely neighbours. `tests/training` makes the file. Raises
msgspec.MsgspecError for an invalid file, and ValueError for a vector of another size than in training.
"""

from __future__ import annotations

import functools
import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from forged.capture.answers import AnsweredQuestion, has_value
from forged.capture.authorship import Statement
from forged.capture.rules.requests import asks
from forged.memory import Category, Scope
from forged.text.linear import LinearFunction, Weights, hashed_features, log_sum
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "linear_model.bin")
SIGNS = 9
# Characters: of a message that is kept whole, of a sentence with its neighbour, and of the message that is
# scored as context.
SHORT, LONG, MESSAGE_CHARS = 160, 250, 1_000
_MOST_SENTENCES = 12
# Most passages kept of one message.
_MOST_PASSAGES = 2
# Weight of the message's score; the rest is that of its best sentence.
_MESSAGE = 0.5
# What a sentence loses that is judged without its message.
_ALONE = 1.0

_LONG = 200
_ASKS = re.compile(r"[?？]\s*$")
_QUOTES = re.compile('["“«「`]')
_MARKED = re.compile(r"\W*[->#$|+]")


class StatementWeights(msgspec.Struct, frozen=True):
    """Trained weights and bars to score a text as worth keeping, a request, or about the person.

    `bar` is the least score that is kept, chosen for 95 % precision. `asked_bar` is the least score of a
    request, and `settles_bar` that of a sentence of an answer that settles something, which `settles` scores
    with its answer and question. `lasts_bar` is that of a clause, which `lasts` scores with its message.
    `kept` and `others` are the kinds of sentences that are worth keeping or not.
    """

    bar: float
    asked_bar: float
    settles_bar: float
    settles: Weights
    lasts_bar: float
    lasts: Weights
    keep: Weights
    asks: Weights
    kept: dict[str, Weights]
    others: dict[str, Weights]
    user: Weights


class LinearModelFile(msgspec.Struct, frozen=True):
    """Contents of the shipped file: weights, a hash of the training `data`, and the vectors' `engine`."""

    data: str
    engine: str
    by_rows: StatementWeights
    by_words: StatementWeights


class StatementScores(msgspec.Struct, frozen=True):
    """Scores of a text: worth keeping, a request to remember, about the person; and its likeliest kind.

    `keep` adds two classifiers: one for all kept against all other sentences, and one by fourteen kinds.
    Kinds help, as a question and a quotation have little in common.
    """

    keep: float
    asks: float
    user: float
    kind: str

    def category(self, scope: Scope) -> Category:
        """Return the memory category for the text's likeliest kind and a scope."""
        if self.kind == "correction":
            return Category.CORRECTIONS
        if scope is Scope.USER:
            return Category.USER_FACTS if self.kind == "fact" else Category.CODING_PREFERENCES
        is_settled = self.kind == "decision"
        return Category.ARCHITECTURAL_DECISIONS if is_settled else Category.PROJECT_CONVENTIONS


class StatementScorer:
    """Scores texts as worth keeping, requests, or personal, by words, form and perhaps vectors."""

    def __init__(self, weights: StatementWeights) -> None:
        self.bar, self.asked_bar, self.sees_rows = weights.bar, weights.asked_bar, bool(weights.keep.row)
        self.settles_bar, self.lasts_bar = weights.settles_bar, weights.lasts_bar
        self._settles, self._lasts = map(LinearFunction, (weights.settles, weights.lasts))
        self._keep, self._asks, self._user = map(LinearFunction, (weights.keep, weights.asks, weights.user))
        self._kept = {name: LinearFunction(each) for name, each in weights.kept.items()}
        self._others = [LinearFunction(each) for each in weights.others.values()]

    def scores(self, text: str, row: bytes = b"") -> StatementScores:
        """Score a text as worth keeping, request and personal, by words, form and any vector."""
        vector = array("f", row)
        places, form = hashed_features(text), form_features(text)

        def of(line: LinearFunction) -> float:
            return line.value(vector, places, form)

        kept = {name: of(line) for name, line in self._kept.items()}
        keep = of(self._keep) + log_sum(kept.values()) - log_sum(map(of, self._others))
        return StatementScores(keep, of(self._asks), of(self._user), max(kept, key=kept.__getitem__))

    def settles(
        self, answered: AnsweredQuestion, sentence: str, row: bytes = b"", joint: bytes = b""
    ) -> float:
        """Score a sentence of an answer as settling something that lasts.

        `row` is the sentence's vector, and `joint` that of the answer with its question.
        """
        features = answer_features(answered, sentence)
        return self._settles.value(array("f", row + joint), hashed_features(sentence), features)

    def lasts(self, clause: str, message: str, row: bytes = b"", around: bytes = b"") -> float:
        """Score a clause or sentence as lasting in a message that says something else, too, by both rows."""
        form = clause_features(clause, message)
        return self._lasts.value(array("f", row + around), hashed_features(clause), form)


def clause_features(clause: str, message: str) -> tuple[float, ...]:
    """Return features of the form of a clause and its message; the last is always 1."""
    return (len(clause) / max(len(message), 1), *form_features(message)[:-1], *form_features(clause))


def answer_features(answered: AnsweredQuestion, sentence: str) -> tuple[float, ...]:
    """Return features of the form of a question, its answer and one sentence; the last is always 1."""
    return (*answered.features(sentence), *form_features(answered.text)[:-1], *form_features(sentence))


class LinearModel(msgspec.Struct, frozen=True):
    """The shipped scorers of statements: one for texts with vectors, one for texts without."""

    by_rows: StatementScorer
    by_words: StatementScorer


@functools.cache
def linear_model() -> LinearModel:
    """Return the shipped scorers of statements, read once."""
    with open(FILE, "rb") as file:
        weights = msgspec.msgpack.decode(file.read(), type=resolved(LinearModelFile))
    return LinearModel(StatementScorer(weights.by_rows), StatementScorer(weights.by_words))


def form_features(text: str) -> tuple[float, ...]:
    """Return features of a text's form (questions, length, quotes), from 0 to 2; the last is always 1.

    One is the answer of a rule: does the text ask to remember something? Features of words are in
    `forged.text.linear`.
    """
    return (
        bool(_ASKS.search(text)),
        "?" in text or "？" in text,
        min(len(text), _LONG) / (_LONG / 2),
        text[:1].isupper(),
        bool(_QUOTES.search(text)),
        "\n" in text,
        bool(_MARKED.match(text)),
        asks(text),
        1.0,
    )


class Passage(msgspec.Struct, frozen=True):
    """Text that may become a memory, with its sentences and the message that holds it.

    `agreed` has words of the agent in it, which the person accepted.
    """

    text: str
    sentences: tuple[Statement, ...]
    message_text: str
    agreed: str = ""

    @property
    def message(self) -> int:
        """Return the index of the passage's message in the window."""
        return self.sentences[0].message

    def texts(self) -> tuple[str, ...]:
        """Return the texts to be scored for a passage: its message and each of its sentences."""
        return (self.message_text, *(each.text for each in self.sentences))


def passages(said: Sequence[Statement]) -> tuple[Passage, ...]:
    """Group the statements of each message into passages that are scored together."""
    messages = groupby(said, key=attrgetter("message"))
    return tuple(passage for _, each in messages for passage in _passages_of_message(tuple(each)))


def message_text_of(said: Sequence[Statement]) -> str:
    """Return the first 1,000 characters of the statements' message, which are scored as their context."""
    return said[0].message_text.strip()[:MESSAGE_CHARS]


def _passages_of_message(said: tuple[Statement, ...]) -> Iterator[Passage]:
    """Yield one passage for a short message, else one for each sentence, at most twelve."""
    message, message_text = said[0].message_text, message_text_of(said)
    if len(message) <= SHORT and "\n" not in message.strip():
        agreed = said[0].agreed
        yield Passage(" ".join(filter(None, (agreed, _own_words(said)))), said, message_text, agreed)
        return
    ends = (*said[: _MOST_SENTENCES // 2], *said[-_MOST_SENTENCES // 2 :])
    for each in said if len(said) <= _MOST_SENTENCES else ends:
        yield Passage(each.whole if len(each.whole) <= LONG else each.text, (each,), message_text)


def _own_words(said: Sequence[Statement]) -> str:
    """Join a message's statements, without bare requests and a yes to the proposal that one accepts."""
    own = [each.text for each in said if not each.asks_alone]
    if said[0].agreed:
        own = [each for each in own if has_value(each)]
    return " ".join(own or ([] if said[0].agreed else [said[0].text]))


def passage_score(passage: Passage, says: Callable[[str], float]) -> float:
    """Return the score of a passage: half its best sentence, half its message.

    It is at least that of the sentence less a little. A sentence below 0 gets no help from its message. A
    question or order in the message is no sign against a sentence that lasts by itself.
    """
    best = max(says(each.text) for each in passage.sentences)
    if best < 0:
        return best
    return max(_MESSAGE * says(passage.message_text) + (1 - _MESSAGE) * best, best - _ALONE)


def request_score(here: Sequence[Passage], scores: Mapping[str, StatementScores]) -> float:
    """Return the highest score of one message's passages as requests to remember."""
    return max(passage_score(passage, lambda text: scores[text].asks) for passage in here)


def best_passage(here: Sequence[Passage], keep: Callable[[str], float]) -> Passage:
    """Return a message's best passage, joined with neighbours likely worth keeping, whatever its score."""
    place = max(range(len(here)), key=lambda each: passage_score(here[each], keep))
    return _join_neighbours(here[max(0, place - 1) : place + 2], here[place], keep)


def select_passages(found: Sequence[Passage], keep: Callable[[str], float], bar: float) -> list[Passage]:
    """Return passages above `bar`, at most two a message, joined with neighbours likely worth keeping."""
    scores = [passage_score(passage, keep) for passage in found]
    taken: dict[int, Passage] = {}
    for place in sorted(range(len(found)), key=lambda each: -scores[each]):
        passage = found[place]
        rivals = [other for other in taken.values() if other.message == passage.message]
        if scores[place] >= bar and len(rivals) < _MOST_PASSAGES and not _overlaps(passage, rivals):
            near = found[max(0, place - 1) : place + 2]
            taken[place] = _join_neighbours(
                [each for each in near if not _overlaps(each, rivals)], passage, keep
            )
    return [taken[place] for place in sorted(taken)]


def _join_neighbours(near: Sequence[Passage], passage: Passage, keep: Callable[[str], float]) -> Passage:
    """Join a passage with neighbours in its message that are likely worth keeping, unless it gets long."""
    mine = [each for each in near if each.message == passage.message]
    likely = [each for each in mine if each is passage or keep(each.sentences[0].text) > 0]
    sentences = tuple(sentence for each in likely for sentence in each.sentences)
    text = " ".join(each.text for each in sentences)
    return (
        Passage(text, sentences, passage.message_text) if len(likely) > 1 and len(text) <= LONG else passage
    )


def _overlaps(passage: Passage, rivals: Sequence[Passage]) -> bool:
    """Return True if a passage shares a sentence with one that is already selected."""
    return any(_contains_sentence(passage, rival) or _contains_sentence(rival, passage) for rival in rivals)


def _contains_sentence(passage: Passage, other: Passage) -> bool:
    """Return True if a passage contains a sentence of another."""
    return any(each.text in passage.text for each in other.sentences)
