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
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from forged.capture.paste_detection import QUOTED
from forged.text.linear import CJK
from forged_client.typed import resolved

FILE = os.path.join(os.path.dirname(__file__), "answers.toml")
# Sentences at the end of the agent's message that may ask or propose.
_LAST = 3
# Most characters of a message that proposes only by saying how something would be.
_MOST_OFFERED = 200
# Longest reply to a report, in characters.
_BRIEF_REPLY = 60
_MOST_WORDS, _MOST_CHARS = 5, 12
_ASKS = re.compile(r"[?？]")
_KANA = re.compile(r"[\u3040-\u30ff]")
# Words of kanji and katakana, perhaps two joined by a particle, with what follows them.
_JA_WORD = r"[\u4e00-\u9fff\u30a1-\u30fa\u30fc々]"
_JA_NOUN = re.compile(rf"({_JA_WORD}{{2,}}(?:の{_JA_WORD}+)?|{_JA_WORD}(?=[はがを]))([はがをも]|[しすさで])?")
_MARKS = r"[，。？！：；、（）「」『』《》\s,.?!:;()]"
# Code, quotations, and words with a digit, a path, a host, a flag or a call. Han and kana have no blanks.
_NOT_PLAIN = re.compile(
    r"""`[^`]*` | "[^"]*" | “[^”]*” | „[^“”]*[“”] | «[^»]*» | (?<!\w)'[^'\n]{1,60}'(?!\w)
    | [^\s\u3040-\u9fff]*(?:[\d_/\\@=<>{}\#*$~|]|\w\.\w|\(\)|::)[^\s\u3040-\u9fff]* | (?<!\S)--?\w\S*
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
# A name behind the first word, an abbreviation, or a word with a mark of code.
_NAMED = re.compile(r"(?<=\s)[A-Z][a-z]+|\b[A-Z]{2,}\b|[#/@]\w|\w[_-]\w")
_FEW, _TINY, _WORDY = 2, 40, 40
# Characters of a question with its answer that are scored, and of words that need their subject.
_JOINT, _BRIEF = 1_000, 40
# Weights of a noun phrase: after an article or a modal verb, after a preposition, each of three words, each
# long word, each word said elsewhere, a Japanese topic. Against it: said in the answer, a later place, an
# earlier sentence, a noun that says little alone, a name alone, one of the options, a Japanese verb.
_INTRODUCED, _ATTACHED, _EACH, _LONG, _ELSEWHERE, _TOPICAL = 2.0, 1.2, 0.8, 0.3, 0.7, 1.0
_ANSWERED, _LATER, _EARLIER, _WEAK, _NAME, _OPTION, _VERBAL = 2.0, 0.25, 1.5, 2.0, 1.0, 2.5, 1.5
_ENOUGH = 2.2
_TOPIC, _DOES = frozenset("はがをも"), frozenset("しすさで")
# Endings of German adjectives, of Romance plurals, and of two words of which the second is a verb.
_ADJECTIVES, _PLURALS = ("e", "en", "er", "es", "em"), ("s", "x")
_FINITE = re.compile(r"(?<!ã)o [^\W\d_]+a$|(?<!m)a [^\W\d_]+o$|(?<!i)(?<!y)[ae][nm]$")
# English participles at the end of a phrase, adverbs, and the genitive.
_PARTICIPLE = re.compile(r"(?!.*(?:speed|seed|feed|embed|need)$)\w{3,}ed")
_ADVERB = re.compile(
    r"(?!(?:rep|supp|assemb|fami|anoma|week|dai|month|night|hour|year|quarter|ear|app|ral)ly)\w{3,}ly"
)
_GENITIVE = re.compile(r"[’']s\b")


class SubjectWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Word lists of answers.toml for the subject of a question; joins and choices by language."""

    articles: frozenset[str]
    introduces: frozenset[str]
    outside: frozenset[str]
    pronouns: frozenset[str]
    modals: frozenset[str]
    asks: frozenset[str]
    numbers: frozenset[str]
    predicates: frozenset[str]
    clauses: frozenset[str]
    weak: frozenset[str]
    joins: dict[str, frozenset[str]]
    choices: dict[str, frozenset[str]]
    languages: dict[str, frozenset[str]]


class AnswerWords(msgspec.Struct, frozen=True):
    """Contents of answers.toml, ready for use: word sets and compiled patterns."""

    subject: SubjectWords
    verbs: re.Pattern[str]
    between: re.Pattern[str]
    numerals: re.Pattern[str]
    empty: frozenset[str]
    unspaced: re.Pattern[str]
    options: re.Pattern[str]
    turns: re.Pattern[str]
    proposes: re.Pattern[str]
    would: re.Pattern[str]


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
        is_first, is_counted = sentence == self.sentences[0], _counts(text)
        return (
            is_first,
            len(self.sentences) > _FEW,
            bool(_ASKS.search(asking)),
            bool(_OPEN.search(asking)),
            bool(_CHOICE.search(asking)),
            is_counted,
            len(text) <= _TINY,
            min(len(text.split()), _WORDY) / (_WORDY / 2),
            bool(_NO.match(text.casefold())),
            is_first and len(sentence) <= _BRIEF,
            self._picks(sentence),
            bool(_NAMED.search(sentence)),
            bool(_OPEN.search(asking)) and is_counted,
        )

    def _picks(self, sentence: str) -> bool:
        """Return True if the first content word of a sentence is in the question, as an option is."""
        first = next((each for each in _words_of(sentence) if each not in answer_words().empty), "")
        return first in _words_of(" ".join(self.question[:_LAST]))


def _words_of(text: str) -> list[str]:
    """Return the words of a text in lower case."""
    return [each.casefold() for each in _WORD.findall(text)]


def _counts(text: str) -> bool:
    """Return True if a text has a number, in digits or as a word."""
    words = answer_words()
    is_word = not words.subject.numbers.isdisjoint(_words_of(text))
    return is_word or bool(_NUMBER.search(text)) or bool(CJK.search(text) and words.numerals.search(text))


@functools.cache
def answer_words() -> AnswerWords:
    """Return the contents of answers.toml, read once."""
    with open(FILE, "rb") as text:
        file = tomllib.load(text)
    patterns, empty = file["patterns"], file["empty"]

    def split(words: str | dict[str, str]) -> list[str] | dict[str, list[str]]:
        if isinstance(words, str):
            return words.split()
        return {name: each.split() for name, each in words.items()}

    def any_of(words: str) -> str:
        return "|".join(map(re.escape, sorted(words.split(), key=len, reverse=True)))

    whole, numerals = any_of(patterns["whole"]), patterns["numerals"]
    lists = {name: split(words) for name, words in file["subject"].items()}
    return AnswerWords(
        subject=msgspec.convert(lists, resolved(SubjectWords)),
        verbs=re.compile(patterns["verbs"]),
        between=re.compile(f"(?P<whole>{whole})|{_MARKS}|{any_of(patterns['between'])}|{numerals}"),
        numerals=re.compile(numerals),
        empty=frozenset(empty["words"].split()),
        unspaced=re.compile(any_of(empty["unspaced"]), re.IGNORECASE),
        options=re.compile(empty["options"], re.MULTILINE | re.IGNORECASE),
        turns=re.compile(rf"\W*(?:(?:and|und|y|et|e|but|aber)\W+)?{empty['turns']}", re.IGNORECASE),
        proposes=re.compile("|".join(file["proposes"]["patterns"]), re.IGNORECASE),
        would=re.compile(file["proposes"]["would"], re.IGNORECASE),
    )


def question_in(sentences: Sequence[str]) -> tuple[str, ...]:
    """Return the sentences of an agent's message, last one first; () if none of the last three asks.

    Those that ask or propose come before all others. A brief message also proposes by saying how something
    would be. `sentences` are those outside of code, lists and quotations.
    """
    said = [each for each in reversed(sentences) if not QUOTED.match(each)]
    asking = [each for each in said[:_LAST] if _ASKS.search(each)]
    asking = asking or [each for each in said[:_LAST] if answer_words().proposes.search(each)]
    if not asking and sum(map(len, said)) <= _MOST_OFFERED:
        asking = [each for each in said[:_LAST] if answer_words().would.search(each)]
    return (*asking, *(each for each in said if each not in asking)) if asking else ()


def report_in(sentences: Sequence[str], reply: str) -> tuple[str, ...]:
    """Return the sentences of an agent's brief report that a brief reply may change, last one first.

    A number alone is a choice.
    """
    said = [each for each in reversed(sentences) if not QUOTED.match(each)]
    is_brief = len(reply) <= _BRIEF_REPLY and sum(map(len, said)) <= _MOST_OFFERED
    return tuple(said[:_LAST]) if is_brief and has_value(reply, offers=True) else ()


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


def without_assent(sentence: str) -> str:
    """Return a brief sentence of an answer without the word of agreement before its comma ("Klar, ...")."""
    assent, _, rest = sentence.partition(",")
    is_brief = rest and len(sentence) <= _BRIEF
    return rest.strip() if is_brief and not has_value(assent) else sentence


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
    best, most, context = "", 0.0, " ".join(question).casefold()
    language, answered = _language(context), f"{answer.casefold()} {' '.join(_WORD.findall(answer))}"
    for number, sentence in enumerate(question[:_LAST]):
        for phrase in _phrases(sentence, language):
            weight = phrase.weight + _elsewhere(phrase, context) - _EARLIER * number
            weight -= _ANSWERED * all(map(answered.__contains__, phrase.said))
            if weight > most:
                best, most = phrase.text, weight
        if most >= _ENOUGH:
            break
    return best


def topic_of(statement: str) -> str:
    """Return the first noun phrase of a statement, or ""."""
    sentence = f"{statement.rstrip('.。 ')}?"  # only a question's first words may be a phrase
    return next((each.text for each in _phrases(sentence, _language(statement.casefold()))), "")


def _phrases(sentence: str, language: str) -> Iterable[NounPhrase]:
    """Return the noun phrases of a sentence in their order."""
    return _unspaced_phrases(sentence) if CJK.search(sentence) else AskingSentence(sentence, language)


class NounPhrase(NamedTuple):
    """A noun phrase of a question, its words in lower case without those that join, and its weight."""

    text: str
    said: Sequence[str]
    weight: float


def _elsewhere(phrase: NounPhrase, context: str) -> float:
    """Return the weight of a phrase's words that the agent says twice or more."""
    return _ELSEWHERE * min(2, sum(context.count(each) > 1 for each in phrase.said))


def _language(context: str) -> str:
    """Return the name of the language with most of its words in a text, of those with blanks."""
    said = _WORD.findall(context)
    votes = {
        name: sum(map(words.__contains__, said)) for name, words in answer_words().subject.languages.items()
    }
    return max(votes, key=lambda name: votes[name])


def _unspaced_phrases(sentence: str) -> Iterator[NounPhrase]:
    """Yield the noun phrases of a Chinese or Japanese sentence."""
    known, plain = answer_words(), _NOT_PLAIN.sub("，", sentence)
    if _KANA.search(plain):
        found = [(each[1], each[2] or "") for each in _JA_NOUN.finditer(known.numerals.sub("，", plain))]
    else:
        # Words that hold a separator stay whole: "时间" has the one of "when".
        parts = known.between.sub(lambda each: each["whole"] or "，", plain).split("，")
        found = [(each.strip("的类条批"), "") for each in parts]
    for place, (text, mark) in enumerate(found):
        if text and len(text) <= _MOST_CHARS and CJK.search(text) and (len(text) > 1 or mark in _TOPIC):
            weight = _INTRODUCED + min(len(text), 6) * 0.5 - _LATER * place
            weight += _TOPICAL * (mark in _TOPIC) - _VERBAL * (mark in _DOES)
            yield NounPhrase(text, (text.casefold(),), weight - _WEAK * (text in known.subject.weak))


class AskingSentence:
    """Noun phrases of a sentence of words with blanks; iterating yields them with their weights.

    A word is no noun that is in a closed list, or whose place or ending shows a verb.
    """

    def __init__(self, sentence: str, language: str) -> None:
        plain = _ELISION.sub(r"\1' ", _GENITIVE.sub("", _NOT_PLAIN.sub(" , ", sentence))).replace("-", " ")
        self._tokens = ["", "", *_TOKEN.findall(plain), ".", "."]
        self._lows = [each.casefold() for each in self._tokens]
        self._first = next((at for at, each in enumerate(self._lows) if each.isalpha()), 0)
        self._known, self._language, self._asks = (
            answer_words().subject,
            language,
            bool(_ASKS.search(sentence)),
        )
        self._joins = self._known.joins[language]
        self._may_be_noun = {"german": self._of_german, "english": self._of_english}.get(
            language, self._of_romance
        )

    def __iter__(self) -> Iterator[NounPhrase]:
        begin = place = 0
        for at in range(2, len(self._tokens) - 1):
            if begin and self._goes_on(at):
                continue
            if self._is_word(at) and self._may_be_noun(at, begin or at):
                begin = begin or at
            elif begin:
                words = self._trimmed(self._tokens[begin:at])
                if words and (self._asks or begin != self._first or len(words) > _FEW):
                    yield self._weighed(words, begin, at, place)
                    place += 1
                begin = 0

    def _is_word(self, at: int) -> bool:
        """Return True for a plain word of no closed list, not a verb that begins the sentence."""
        known, low, after = self._known, self._lows[at], self._lows[at + 1]
        closed = (known.outside, known.articles, known.introduces, known.numbers)
        if not _PLAIN.fullmatch(low) or any(low in each for each in closed):
            return False
        # "Keep the rows?", "Guardo las filas?": an article or a pronoun follows a verb.
        return at != self._first or (after not in known.articles and after not in known.pronouns)

    def _goes_on(self, at: int) -> bool:
        """Return True if a word continues the noun phrase before it: "size of the upload"."""
        low, before = self._lows[at], self._lows[at - 1]
        is_genitive = self._language == "german" and low == "der" and _is_capital(self._tokens[at - 1])
        is_genitive = is_genitive and _is_capital(self._tokens[at + 1])
        return low in self._joins or is_genitive or (low in self._known.articles and before in self._joins)

    def _of_german(self, at: int, begin: int) -> bool:
        """Return True for a noun, or for an adjective before the first one."""
        is_adjective = self._lows[at].endswith(_ADJECTIVES) and not any(
            map(_is_capital, self._tokens[begin:at])
        )
        return _is_capital(self._tokens[at]) or is_adjective

    def _of_english(self, at: int, begin: int) -> bool:
        """Return False for a verb after a pronoun, after "to", or after a subject."""
        known, low, after = self._known, self._lows[at], self._lows[at + 1]
        if self._follows_pronoun(at) or self._lows[at - 1] == "to" or _ADVERB.fullmatch(low):
            return False
        if at == begin:
            is_done = low.endswith("ing") and self._lows[at - 1] in known.modals
            is_before_noun = after.isalpha() and after not in known.introduces
            return is_before_noun or not (is_done or _PARTICIPLE.fullmatch(low))
        is_subject = begin - 1 == self._first or not known.clauses.isdisjoint(self._lows[begin - 2 : begin])
        return not (is_subject and low in known.predicates)

    def _of_romance(self, at: int, begin: int) -> bool:
        """Return False for a verb by its ending, or by its place after a noun with which it cannot agree."""
        known, low, before = self._known, self._lows[at], self._lows[at - 1]
        if self._follows_pronoun(at) or answer_words().verbs.fullmatch(low):
            return False
        if at == self._first and low.endswith("o"):
            return not self._lows[at + 1].isalpha() or self._goes_on(at + 1)
        if at == begin or before in self._joins or before in known.articles or not self._tokens[at].islower():
            return True
        # In "¿Qué formato admite ...?" a verb follows the noun that is asked for.
        disagrees = low.endswith(_PLURALS) != before.endswith(_PLURALS) or _FINITE.search(f"{before} {low}")
        is_verb = self._lows[begin - 1] in known.asks and not before[-1] == low[-1] == "a"
        return not disagrees and not is_verb

    def _follows_pronoun(self, at: int) -> bool:
        """Return True if a pronoun is before a word, perhaps with a modal verb between."""
        known, before = self._known, self._lows[at - 1]
        return before in known.pronouns or (before in known.modals and self._lows[at - 2] in known.pronouns)

    def _trimmed(self, words: Sequence[str]) -> Sequence[str]:
        """Return at most five words that do not end with a joining word, an article or a participle."""
        is_english, articles = self._language == "english", self._known.articles
        if len(words) > _MOST_WORDS and is_english:
            words = [each for each in words if each.casefold() not in articles]
        if len(words) > _MOST_WORDS:
            ends = [at for at in range(_MOST_WORDS + 1) if words[at].casefold() in self._joins]
            words = words[: ends[-1] if ends else _MOST_WORDS]
        last = next((at for at in reversed(range(len(words))) if not self._hangs(words[at].casefold())), -1)
        has_noun = self._language != "german" or any(map(_is_capital, words))
        return words[: last + 1] if has_noun else ()

    def _hangs(self, low: str) -> bool:
        """Return True for a word that cannot end a noun phrase."""
        is_done = self._language == "english" and _PARTICIPLE.fullmatch(low) is not None
        return is_done or low in self._joins or low in self._known.articles

    def _weighed(self, words: Sequence[str], begin: int, end: int, place: int) -> NounPhrase:
        """Return a noun phrase with its weight: introduced, specific and early is good."""
        known, before, text = self._known, self._lows[begin - 1], " ".join(words).replace("' ", "'")
        said = [each for each in map(str.casefold, words) if each not in self._joins | known.articles]
        begins = (known.articles, known.modals, known.asks)
        is_subject = begin == self._first or any(before in each for each in begins)
        weight = _INTRODUCED * is_subject + _ATTACHED * (not is_subject and before in known.introduces)
        weight += _EACH * min(len(said), 3) + _LONG * sum(len(each) > 4 for each in said)
        is_name = self._language != "german" and len(words) == 1 and _is_capital(text)
        says_little = before in known.numbers or (len(said) == 1 and said[0] in known.weak)
        weight -= _WEAK * says_little + _NAME * (is_name or text.isupper())
        return NounPhrase(text, said, weight - _OPTION * self._is_option(begin, end) - _LATER * place)

    def _is_option(self, begin: int, end: int) -> bool:
        """Return True if a noun phrase is one of those between which a question lets choose."""
        known, before, after = self._known, self._lows[begin - 1], self._lows[end]
        choices, earlier = known.choices[self._language], self._lows[begin - 2]
        if earlier in choices and (before in known.introduces or before in known.articles):
            return True
        is_listed = before in {",", ""} and after == "," and not choices.isdisjoint(self._lows)
        return before in choices or after in choices or is_listed


def _is_capital(word: str) -> bool:
    """Return True for a word with a capital, which in German is a noun."""
    return word[:1].isupper()
