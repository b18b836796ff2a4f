"""Read a person's answer together with the agent's question: its subject, and if it has a value.

A short answer ("Ninety days.") means nothing without its question, and a page that the agent quotes must not
become a memory by "yes". So of the question only a noun phrase of at most five plain words is used: no code,
path, host, command, flag, number or verb, and nothing quoted or listed. Pure; raises re.error and KeyError
for a bad `answers.toml`, which is read with the first answer.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterator, Sequence

import msgspec

from forged.capture.paste_detection import QUOTED
from forged.text.linear import CJK

FILE = os.path.join(os.path.dirname(__file__), "answers.toml")
# Sentences at the end of the agent's message that may ask or propose.
_LAST = 3
_MOST_WORDS, _MOST_CHARS = 5, 12
_ASKS = re.compile(r"[?？]")
_KANA = re.compile(r"[\u3040-\u30ff]")
# Characters of kanji and katakana words, perhaps two joined by a particle.
_JA_NOUN = re.compile(
    r"[\u4e00-\u9fff\u30a1-\u30fa\u30fc々]{2,}(?:の[\u4e00-\u9fff\u30a1-\u30fa\u30fc々]{2,})?"
)
_MARKS = r"[，。？！：；、（）「」『』《》\s,.?!:;()]"
# Code, quotations, and words with a digit, a path, a host, a flag or a call.
_NOT_PLAIN = re.compile(
    r"""`[^`]*` | "[^"]*" | “[^”]*” | „[^“”]*[“”] | «[^»]*» | (?<!\w)'[^'\n]{1,60}'(?!\w)
    | \S*(?:[\d_/\\@=<>{}\#*$~|]|\w\.\w|\(\)|::)\S* | (?<!\S)--?\w\S*
    | \b\w*[a-zß-ÿ][A-Z]\w*""",
    re.VERBOSE,
)
_ELISION = re.compile(r"\b([dlnsjtcm]|qu)[’']", re.IGNORECASE)
_TOKEN = re.compile(r"[^\W\d_]+'?|\S")
_PLAIN = re.compile(r"[^\W\d_]{2,}")
_WORD = re.compile(r"[^\W_]+(?:[’'][^\W_]+)?")
# Forms of questions and answers: an open question, a choice, a number, a refusal.
_OPEN = re.compile(
    r"\b(?:how|which|what|who|where|when|wie|welche\w?|was|wer|wo|wann|cuánt\w+|cuál\w*|qué|quién|dónde|cuándo"
    r"|combien|quel\w*|qui|où|quand|quant\w+|qua(?:l|is)|quem|onde|quando)\b|多少|多久|几|什么|哪|谁|怎么|いくつ|何|どの|どれ|誰|どこ|いつ"
)
_CHOICE = re.compile(r"\b(?:or|oder|ou|o)\b|还是|或|それとも|か、")
_NUMBER = re.compile(r"\d")
_NO = re.compile(r"\W*(?:no|nope|nah|not|nein|nicht|nö|non|pas|não|不|别|いや|いいえ)\b")
_FEW, _TINY, _WORDY = 2, 40, 40
# Characters of a question with its answer that are scored, and of words that need their subject.
_JOINT, _BRIEF = 1_000, 40
# Weights of a noun phrase: introduced by an article or preposition, each of three words, each long word, each
# word said elsewhere, a noun in German; against it: said in the answer, a later place, an earlier sentence.
_INTRODUCED, _EACH, _LONG, _ELSEWHERE, _CAPITAL = 2.0, 0.8, 0.3, 1.0, 1.0
_ANSWERED, _LATER, _EARLIER = 3.0, 0.25, 2.0
_ENOUGH = 1.8


class AnswerWords(msgspec.Struct, frozen=True):
    """Contents of answers.toml, ready for use: word sets and compiled patterns."""

    articles: frozenset[str]
    introduces: frozenset[str]
    joins: frozenset[str]
    outside: frozenset[str]
    german: frozenset[str]
    between: re.Pattern[str]
    empty: frozenset[str]
    unspaced: re.Pattern[str]
    options: re.Pattern[str]
    turns: re.Pattern[str]
    proposes: re.Pattern[str]


class AnsweredQuestion(msgspec.Struct, frozen=True):
    """A question or proposal of the agent, as sentences with the asking one first, and a person's answer."""

    question: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return the person's words."""
        return " ".join(self.sentences)

    @property
    def joint(self) -> str:
        """Return the asking sentence and the answer as one text, to be scored together."""
        return f"{self.question[0]} {self.text}"[:_JOINT]

    def features(self, sentence: str) -> tuple[float, ...]:
        """Return features of the form of a question and its answer, for one sentence, from 0 to 2."""
        asking, text = self.question[0].casefold(), self.text
        return (
            sentence == self.sentences[0],
            len(self.sentences) > _FEW,
            bool(_ASKS.search(asking)),
            bool(_OPEN.search(asking)),
            bool(_CHOICE.search(asking)),
            bool(_NUMBER.search(text)),
            len(text) <= _TINY,
            min(len(text.split()), _WORDY) / (_WORDY / 2),
            bool(_NO.match(text.casefold())),
        )


@functools.cache
def answer_words() -> AnswerWords:
    """Return the contents of answers.toml, read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    subject, empty = file["subject"], file["empty"]

    def any_of(words: str) -> str:
        return "|".join(map(re.escape, sorted(words.split(), key=len, reverse=True)))

    return AnswerWords(
        articles=frozenset(subject["articles"].split()),
        introduces=frozenset(subject["introduces"].split()),
        joins=frozenset(subject["joins"].split()),
        outside=frozenset(subject["outside"].split()),
        german=frozenset(subject["german"].split()),
        between=re.compile(f"{_MARKS}|{any_of(subject['between'])}"),
        empty=frozenset(empty["words"].split()),
        unspaced=re.compile(any_of(empty["unspaced"]), re.IGNORECASE),
        options=re.compile(empty["options"], re.MULTILINE | re.IGNORECASE),
        turns=re.compile(rf"\W*(?:(?:and|und|y|et|e|but|aber)\W+)?{empty['turns']}", re.IGNORECASE),
        proposes=re.compile("|".join(file["proposes"]["patterns"]), re.IGNORECASE),
    )


def question_in(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences of an agent's message, last one first; () if none of the last three asks.

    Those that ask or propose come before all others. `sentences` are those outside of code, lists and
    quotations.
    """
    said = [each for each in reversed(sentences) if not QUOTED.match(each)]
    asking = [each for each in said[:_LAST] if _ASKS.search(each)]
    asking = asking or [each for each in said[:_LAST] if answer_words().proposes.search(each)]
    return (*asking, *(each for each in said if each not in asking)) if asking else ()


def with_subject(subject: str, said: str) -> str:
    """Return the text of a memory of an answer: its subject and the person's words."""
    return f"{subject[:1].upper()}{subject[1:]}: {said}" if subject else said


def judged_part(content: str) -> str:
    """Return the part of an answer's memory that is compared: if not brief, the person's words."""
    said = content.partition(": ")[2]
    return said if len(said) > _BRIEF else content


def turns_away(sentence: str) -> bool:
    """Return True if a sentence of an answer begins another matter."""
    return answer_words().turns.match(sentence) is not None


def lists_options(message: str) -> bool:
    """Return True if an agent's message lists options, which a number or letter can choose."""
    return answer_words().options.search(message) is not None


def has_value(answer: str, *, offers: bool = False) -> bool:
    """Return True if an answer says something by itself: a content word, a number or a name.

    Agreement, courtesy and a choice by letter or place say nothing. A single number is a choice if the
    agent's message `offers` options.
    """
    words = answer_words()
    if CJK.search(answer):
        left = words.unspaced.sub("", re.sub(rf"{_MARKS}+", "", answer))
        return len(left) > 1 or left.isdigit() or (left.isascii() and left.isalpha() and len(left) > 1)
    said = [each.casefold().replace("’", "'") for each in _WORD.findall(answer)]
    left_words = [each for each in said if each not in words.empty]
    if offers and len(left_words) == 1 and left_words[0].isdigit():
        return False
    return bool(left_words)


def subject_of(question: Sequence[str], answer: str) -> str:
    """Return the noun phrase that says what a question is about, at most five plain words, or "".

    `question` is as of `question_in`. Words that the `answer` repeats are worth less, words that the agent
    repeats more.
    """
    best, most, context = "", 0.0, " ".join(question)
    for number, sentence in enumerate(question[:_LAST]):
        for phrase, weight in _weighed(sentence, answer.casefold(), context.casefold()):
            if weight - _EARLIER * number > most:
                best, most = phrase, weight - _EARLIER * number
        if most >= _ENOUGH:
            break
    return best


def _weighed(sentence: str, answer: str, context: str) -> Iterator[tuple[str, float]]:
    """Yield the noun phrases of a sentence, each with its weight."""
    if CJK.search(sentence):
        for place, phrase in enumerate(_unspaced_phrases(sentence)):
            elsewhere = min(2, context.count(phrase.casefold()) - 1)
            weight = _INTRODUCED + min(len(phrase), 6) * 0.5 + elsewhere - _LATER * place
            yield phrase, weight - _ANSWERED * (phrase.casefold() in answer)
        return
    for place, (words, is_introduced, begins) in enumerate(_phrases(sentence)):
        said = [each.casefold() for each in words if each.casefold() not in answer_words().joins]
        elsewhere = min(2, sum(context.count(each) > 1 for each in said))
        weight = _INTRODUCED * is_introduced + _EACH * min(len(said), 3)
        weight += _LONG * sum(len(each) > 4 for each in said) + _ELSEWHERE * elsewhere
        weight += _CAPITAL * (begins > 0 and words[0][0].isupper())
        yield " ".join(words), weight - _ANSWERED * all(map(answer.__contains__, said)) - _LATER * place


def _unspaced_phrases(sentence: str) -> Iterator[str]:
    """Yield the noun phrases of a Chinese or Japanese sentence."""
    plain = _NOT_PLAIN.sub("，", sentence)
    if _KANA.search(plain):
        yield from (found[:_MOST_CHARS] for found in _JA_NOUN.findall(plain))
        return
    parts = (each.strip("的") for each in answer_words().between.split(plain))
    yield from (each for each in parts if 2 <= len(each) <= _MOST_CHARS and CJK.search(each))


def _phrases(sentence: str) -> Iterator[tuple[list[str], bool, int]]:
    """Yield noun phrases as words, with True if a word introduces them, and their place."""
    known = answer_words()
    plain = _ELISION.sub(r"\1' ", _NOT_PLAIN.sub(" , ", sentence)).replace("-", " ")
    tokens = [*_TOKEN.findall(plain), "."]
    is_german = sum(each.casefold() in known.german for each in tokens) > 1
    before, begins, is_introduced = "", 0, False
    run: list[str] = []
    for place, token in enumerate(tokens):
        low = token.casefold()
        is_outside = low in known.outside or low in known.articles or low in known.introduces
        is_outside = is_outside or (is_german and token.islower() and any(map(_is_noun, run)))
        if _PLAIN.fullmatch(token) and not is_outside:
            if not run:
                begins, is_introduced = place, before in known.articles or before in known.introduces
            run.append(token)
        elif run and (low in known.joins or (run[-1].casefold() in known.joins and low in known.articles)):
            run.append(token)
        elif run:
            if (words := _trimmed(run)) and (not is_german or any(map(_is_noun, words))):
                yield words, is_introduced, begins
            run = []
        before = low


def _is_noun(word: str) -> bool:
    """Return True for a word with a capital, which in German is a noun."""
    return word[0].isupper()


def _trimmed(run: Sequence[str]) -> list[str]:
    """Return at most five words of a noun phrase that do not end with a joining word or an article."""
    known, words = answer_words(), [*run[:_MOST_WORDS]]
    while words and (words[-1].casefold() in known.joins or words[-1].casefold() in known.articles):
        words.pop()
    return words
