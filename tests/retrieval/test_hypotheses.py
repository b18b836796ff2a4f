"""Sentences taken from a model's reply; every form here is from a real one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.retrieval.hyde import sentences

FIVE = ["We use tabs.", "Tests run in CI.", "The cache is Redis.", "Ruff formats.", "Python is 3.12."]

REPLIES = {
    "plain lines": ("one fact\nanother fact", ["one fact", "another fact"]),
    "ragged lines": ("  one fact \n\n\t\n another  ", ["one fact", "another"]),
    "windows line ends": ("one\r\ntwo\r\n", ["one", "two"]),
    "numbers": ("1. one\n2. two\n10. ten", ["one", "two", "ten"]),
    "numbers in brackets": ("1) one\n(2) two", ["one", "two"]),
    "dashes, stars and bullets": ("- one\n* two\n• three\n– four", ["one", "two", "three", "four"]),
    "a number that is no marker": ("3.12 is the newest Python", ["3.12 is the newest Python"]),
    "a letter and a dot": ("a.fact stays", ["a.fact stays"]),
    "a dash that is a sign": ("-1 is returned on failure", ["-1 is returned on failure"]),
    "stars that are emphasis": ("**Tabs** are used", ["**Tabs** are used"]),
    "a fence": ("```\none\n```", ["one"]),
    "a fence with a language": ("```text\none\n```", ["one"]),
    "tags on lines of their own": ("<facts>\none\n</facts>", ["one"]),
    "a preamble": ("Here are 5 sentences:\none", ["one"]),
    "another preamble": ("Sure, these may help:\none", ["one"]),
    "a fact that begins like a preamble": ("Here we use tabs", ["Here we use tabs"]),
    "thoughts": ("<think>\nmaybe tabs\n</think>\none", ["one"]),
    "thoughts that never end": ("<thinking>one\ntwo", []),
    "markers without a sentence": ("-\n1.\n---\n***\none", ["one"]),
    "twins": ("one\n1. one\ntwo", ["one", "two"]),
    "another script": ("- 用户喜欢制表符", ["用户喜欢制表符"]),
    "nothing": ("", []),
    "blanks": (" \n\t\n", []),
    # numbers, labels and quotes around a sentence
    "numbers in square brackets": ("[1] one\n[2] two", ["one", "two"]),
    "numbers and colons": ("1: one\n2: two", ["one", "two"]),
    "numbers in Chinese": ("1、用制表符\n2、用空格", ["用制表符", "用空格"]),
    "labels": ("Memory 1: one\nHypothesis: two\n**Sentence 3:** three", ["one", "two", "three"]),
    "labels in Chinese": ("记忆1：用制表符", ["用制表符"]),
    "the role of the conversation": ("user: one\nassistant: two", ["one", "two"]),
    "a colon inside a sentence": ("Order of imports: stdlib first", ["Order of imports: stdlib first"]),
    "quotes": ("\"one\"\n“two”\n'three'\n「四」", ["one", "two", "three", "四"]),
    "a number, stars and quotes": ('1. **"one is so"**', ["one is so"]),
    "quotes inside a sentence": ('"A" beats "B"', ['"A" beats "B"']),
    "code at the start": ("`errors.As` is preferred", ["`errors.As` is preferred"]),
    "a sentence in bold": ("**one is so**", ["one is so"]),
    "words in bold at both ends": ("**A** beats **B**", ["**A** beats **B**"]),
    # JSON that nobody asked for
    "a JSON list": ('["one", "two"]', ["one", "two"]),
    "a fenced JSON list": ('```json\n[\n  "one",\n  "two"\n]\n```', ["one", "two"]),
    "a JSON list behind a preamble": ('Here are 2 notes:\n["one", "two"]\nThat is all.', ["one", "two"]),
    "a wrapped JSON list": ('{"memories": ["one is so", "two is so"]}', ["one is so", "two is so"]),
    "JSON objects": ('[{"content": "one is so", "category": "patterns"}]', ["one is so"]),
    "JSON that was cut off": ('["one \\"quoted\\"", "two", "thr', ['one "quoted"', "two"]),
    "JSON objects that were cut off": (
        '{"notes": [\n {"kind": "fact", "text": "one is so"},\n {"kind": "fact", "text": "two is so"}, {"ki',
        ["one is so", "two is so"],
    ),
    "JSON lines": ('{"memory": "one is so"}\n{"memory": "two is so"}', ["one is so", "two is so"]),
    "JSON of nothing": ("[]", []),
    "JSON that never ends": ("[[" * 5_000 + '"', []),
    "a wrapper named in the prompt's words": (
        '{"hypotheses": ["one is so", "two is so"]}',
        ["one is so", "two is so"],
    ),
    "a wrapper of queries": ('{"queries": ["one is so", "two is so"]}', ["one is so", "two is so"]),
    "a wrapper around words": ('{"hypotheses": ["tabs", "uses-bazel"]}', ["tabs", "uses-bazel"]),
    "a wrapper behind a preamble": ('Here you go: {"hypotheses": ["one", "two"]}', ["one", "two"]),
    "a list behind its name": ('hypotheses = ["one", "two"]', ["one", "two"]),
    "a wrapper fenced on one line": ('```json {"hypotheses": ["one is so"]} ```', ["one is so"]),
    "a wrapper in single quotes": ("{'hypotheses': ['one is so', \"it's two\"]}", ["one is so", "it's two"]),
    "a wrapper behind a byte order mark": ('\ufeff{"hypotheses": ["one is so"]}', ["one is so"]),
    "JSON inside a sentence": ('Set this: {"indent": 4}\ntwo', ['Set this: {"indent": 4}', "two"]),
    # what stands around a reply
    "a byte order mark": ("\ufeffone\n\ufefftwo", ["one", "two"]),
    "a blank of no width": ("\u200bone", ["one"]),
    "a closing fence on the last line": ("one\ntwo```", ["one", "two"]),
    "a closing fence behind a blank": ("one ```", ["one"]),
    "a closing fence behind JSON": ('["one", "two"]```', ["one", "two"]),
    "code at the end": ("Run it with `make`", ["Run it with `make`"]),
    "quoted lines with commas": ('"one",\n"two",', ["one", "two"]),
    # talk
    "a preamble without a colon": ("Sure! Here are five notes.\none\ntwo", ["one", "two"]),
    "a preamble in Chinese": ("好的，以下是五条记忆：\n用制表符", ["用制表符"]),
    "remarks on each sentence": ("one\nThis sentence highlights a preference.\ntwo", ["one", "two"]),
    "a farewell": ("one\nLet me know if you need more!", ["one"]),
    "a heading": ("## Memory sentences\none\ntwo", ["one", "two"]),
    "a refusal": ("I'm sorry, but I can't help with that.", []),
    "another refusal": ("I don't have access to your memory.", []),
    "a refusal in Chinese": ("抱歉，我无法访问您的记忆。", []),
    "a preference that begins like a refusal": ("I don't like semicolons", ["I don't like semicolons"]),
    "nothing to say": ("No relevant memories.", []),
    "tokens of a chat template": ("one<|im_end|>\n<|im_start|>two", ["one", "two"]),
    # one paragraph, and repeats
    "a paragraph": (" ".join(FIVE), FIVE),
    "a paragraph in Chinese": ("我们用制表符。测试在CI里跑。", ["我们用制表符。", "测试在CI里跑。"]),
    "a paragraph with numbers": (
        "1. We use tabs, 2. tests run in CI 3) done",
        ["We use tabs", "tests run in CI", "done"],
    ),
    "a version is no end of a sentence": ("Python 3.12 is used", ["Python 3.12 is used"]),
    "two sentences on a line of many": ("We use tabs. Not spaces.\ntwo", ["We use tabs. Not spaces.", "two"]),
    "twins in other letters": ("We use tabs\nwe use  tabs.\n- **We use tabs**", ["We use tabs"]),
}


@pytest.mark.parametrize(("reply", "expected"), REPLIES.values(), ids=REPLIES.keys())
def test_the_sentences_are_taken_and_the_rest_is_left(reply, expected):
    assert list(sentences(reply, 10)) == expected


@pytest.mark.parametrize(
    ("sentence", "known", "found"),
    [
        ("Use tabs", "house tabs", ("Use tabs",)),
        ("Redis caches", "we say that Redis caches", ("Redis caches",)),  # 11 letters
        ("Redis is fast", "we say that Redis is fast", ("Redis is fast",)),
        ("Redis is quick", "we say that Redis is quick", ()),  # 12
    ],
)
def test_a_short_sentence_is_not_an_echo_because_its_letters_are_found_somewhere(sentence, known, found):
    assert sentences(sentence, 5, known=known) == found


def test_a_sentence_without_end_is_cut_at_a_word():
    (found,) = sentences("word " * 1_000, 5)

    assert 350 < len(found) <= 400
    assert found.endswith("word")


def test_what_a_model_that_never_stops_writes_is_not_read_to_its_end():
    assert sentences("\n" * 20_000 + "one", 5) == ()


@given(st.text(), st.integers(1, 10), st.text())
def test_whatever_a_model_writes_gives_a_few_distinct_lines_with_words_in_them(reply, count, known):
    found = sentences(reply, count, known=known)

    assert len(found) <= count
    assert len(set(found)) == len(found)
    assert all(len(sentence.splitlines()) == 1 and sentence == sentence.strip() for sentence in found)


SENTENCE = st.from_regex(r"The [a-z]{2,8} uses [a-z]{2,8}", fullmatch=True)
SENTENCES = st.lists(SENTENCE, min_size=1, max_size=10, unique=True)


@given(SENTENCES, st.sampled_from(["", "- ", "* ", "{}. ", "{}) ", "Memory {}: ", "**{}.** "]))
def test_markers_never_change_the_sentences(expected, marker):
    reply = "\n".join(marker.format(number) + s for number, s in enumerate(expected, 1))

    assert list(sentences(reply, 10)) == expected


@given(SENTENCES, st.booleans())
def test_json_never_changes_the_sentences(expected, indented):
    assert list(sentences(json.dumps(expected, indent=2 if indented else None), 10)) == expected
