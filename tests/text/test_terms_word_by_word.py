"""Terms are the same to the letter as those made word by word, with nothing kept from one to the next."""

from __future__ import annotations

import re
import unicodedata
import zlib
from importlib.resources import files
from itertools import chain, pairwise

import pytest
import Stemmer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forged.text import terms as module
from forged.text.english import IRREGULAR, STOP_WORDS
from forged.text.terms import terms
from tests.faults.amount import times

MARKS = "\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u064b-\u0669\u0900-\u0963\u0966-\u0dff"
PAIRED = re.compile(
    "[\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u1049\u1780-\u17d3\u3005-\u3007\u3041-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    "\U00020000-\U0003ffff]+"
)
CONTRACTION = re.compile(r"(?:n't|'(?:s|m|d|re|ve|ll))$")
PART = re.compile(r"[A-Z]{2,}s?(?![a-z])|[A-Z]?[a-z]+|[A-Z]|[0-9]+")
STEMMER = Stemmer.Stemmer("english", 0)


def word_pattern(character):
    run = f"{character}{{1,64}}"
    return re.compile(rf"{run}(?:(?:[.'-]|_{{1,2}}){run}){{0,7}}(?:\+\+|#(?!{character}))?")


ASCII_WORD, WIDE_WORD = word_pattern("[A-Za-z0-9]"), word_pattern(rf"(?:[^\W_]|[{MARKS}])")


def word_by_word(text):
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("’", "'")
    return list(chain.from_iterable(map(of_chunk, text.split())))


def of_chunk(chunk):
    if chunk.isascii():
        return list(chain.from_iterable(map(of_word, ASCII_WORD.findall(chunk))))
    pairs = chain.from_iterable(map(of_run, PAIRED.findall(chunk)))
    words = WIDE_WORD.findall(PAIRED.sub(" ", chunk))
    return [*chain.from_iterable(map(of_word, words)), *map(hashed, pairs)]


def of_run(run):
    return [run] if len(run) == 1 else ["".join(pair) for pair in pairwise(run)]


def of_word(word):
    if word.lower() in STOP_WORDS:
        return []
    if "'" in word:
        word = word[: len(CONTRACTION.sub("", word.lower()))]
    parts = PART.findall(word) if word.isascii() else re.split(r"[._'-]+", word)
    if parts == [word]:
        return of_part(word)
    name = re.sub("[-_']", "", word.lower())
    return [*of_stem(stem(name) if name.isalpha() else name), *chain.from_iterable(map(of_part, parts))]


def of_part(part):
    return [] if part.lower() in STOP_WORDS else of_stem(stem(part.lower()))


def stem(word):
    return STEMMER.stemWord(IRREGULAR.get(word, word))


def of_stem(whole):
    if len(whole) < 4 or not (whole.isascii() and whole.isalpha()):
        return [hashed(whole)]
    return [hashed(whole), hashed(whole[:4]) | 1]


def hashed(term):
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) & ~1


WORDS = st.sampled_from(
    [
        *(
            "a",
            "I",
            "s",
            "'",
            ".",
            "_",
            "-",
            "#",
            "+",
            "5",
            ",",
            " ",
            "\n",
            "'s",
            "n't",
            "’ll",
            "__init__",
            "C++",
        ),
        *(
            "went",
            "The",
            "THE",
            "don",
            "ran",
            "APIs",
            "HTTPServer",
            "sha256",
            "K8s",
            "foo2bar",
            "x" * 70,
            "C#",
        ),
        *("C++", "C#", "größe", "Straße", "ﬁne", "编程", "ト"),
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map("".join) | st.text(max_size=40)


@given(TEXTS)
@settings(deadline=None, max_examples=times(1000, 250))
@example("größe_foo2bar GRÖSSE.FooBar")
@example("I'm What's you've hadn't can't won't o'clock's s' 's")
@example("a.b.c.d.e.f.g.h.i.j fooBar(baz.Qux) 3.1 v2.0-rc1")
def test_any_text_has_the_terms_that_are_made_word_by_word(text):
    assert terms(text).tolist() == word_by_word(text)


@pytest.mark.parametrize("page", ["architecture.md", "decisions.md", "commands.md"])
def test_a_page_of_the_manual_has_the_terms_that_are_made_word_by_word(page):
    text = (files("forged") / "docs" / page).read_text("utf-8")

    assert terms(text).tolist() == word_by_word(text)


def test_terms_stay_the_same_when_pieces_are_not_remembered_any_more(monkeypatch):
    known = module._TermsCache()
    monkeypatch.setattr(module, "_known", known)
    monkeypatch.setattr(module, "_KEPT", 50)
    texts = [f"Walked{number}, (running) x{number % 7}y said" for number in range(500)]

    for text in texts * 2:
        assert terms(text).tolist() == word_by_word(text)
        assert len(known) <= 50
        assert len(known._older) <= 50


def test_what_is_met_all_the_time_is_made_once_and_long_pieces_are_not_kept(monkeypatch):
    made = []
    real = module._terms_of_chunk
    known = module._TermsCache()
    monkeypatch.setattr(module, "_known", known)
    monkeypatch.setattr(module, "_KEPT", 50)
    monkeypatch.setattr(module, "_terms_of_chunk", lambda chunk: made.append(chunk) or real(chunk))

    for number in range(400):
        terms(f"walking w{number} {'long' * 7}")

    assert made.count("walking") == 1
    assert made.count("long" * 7) == 400
    assert "long" * 7 not in {*known, *known._older}
