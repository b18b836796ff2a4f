"""Clauses: where a sentence may be split, and that only the lasting clause of a message is kept."""

from __future__ import annotations

import asyncio

import pytest

from forged.capture.authorship import (
    clause_runs,
    clauses_of,
    narrates,
    sentences,
    statements,
    without_joins,
)
from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier
from forged.conversation import Utterance
from forged.state import Event
from tests.training.answers import CLAUSES, clauses

# An order for now, and what lasts, by language; each with the words that join them.
PAIRS = {
    "en": (
        "rename that variable to total",
        "constants are written in capitals here",
        (", and ", "; "),
    ),
    "de": ("benenne die Variable um in total", "Konstanten schreiben wir hier immer groß", (", und ", "; ")),
    "es": (
        "renombra esa variable a total",
        "las constantes van siempre en mayúsculas",
        (", y ", "; "),
    ),
    "fr": ("renomme cette variable en total", "les constantes sont toujours en majuscules", (", et ", "; ")),
    "pt": ("renomeia essa variável para total", "as constantes ficam sempre em maiúsculas", (", e ", "; ")),
    "zh": ("把这个变量改名叫 total", "常量在这个项目里一律大写", ("，", "；")),
    "ja": ("この変数名を total に直して", "定数は必ず大文字で書く決まりです", ("、", "：")),
}
# A condition, an exception or a short negation, which its neighbour needs.
BOUND = (
    "if the tests fail, we roll the release back",
    "we deploy on Tuesdays, unless somebody is ill",
    "wenn die Tests rot sind, wird nicht ausgeliefert",
    "usamos pnpm aquí, no npm",
    "on livre le mardi, sauf en août",
    "usamos date-fns aqui, não moment",
    "如果测试失败，就回滚版本",
)


@pytest.mark.parametrize("language", PAIRS)
def test_clauses_are_split_and_joined_again_they_are_the_sentence(language: str):
    order, lasting, joins = PAIRS[language]
    for join in joins:
        for sentence in (f"{order}{join}{lasting}", f"{lasting}{join}{order}"):
            found = clauses_of(sentence)
            assert "".join(found) == sentence
            assert {without_joins(each) for each in found} == {order, lasting}


@pytest.mark.parametrize("sentence", BOUND)
def test_clause_that_its_neighbour_needs_is_not_split_off(sentence: str):
    assert clauses_of(sentence) == (sentence,)


def test_code_and_quotations_are_not_split():
    for sentence in ('the title is "one thing, another thing"', "we run `make lint, test, build`"):
        assert clauses_of(sentence) == (sentence,)


def test_most_lasting_clauses_of_the_labelled_messages_are_found():
    found = [each for each in clauses() if each.is_right]
    files = sorted(CLAUSES.glob("*.tsv"))
    marked = sum(line.count("[[") for file in files for line in file.read_text().splitlines())
    assert len(found) > 0.85 * marked


def test_ascii_mark_ends_a_japanese_or_chinese_sentence():
    assert [*sentences("英語版も作ってくれる?見出しは日本語版と揃える")] == [
        "英語版も作ってくれる?",
        "見出しは日本語版と揃える",
    ]


def test_request_has_no_runs_of_clauses():
    (said,) = statements([Utterance("user", "remember that tests run on Alpine, and logs are JSON here")])
    assert not clause_runs(said)


@pytest.mark.parametrize("order", ["can you look at the login page?", "revert the last edit please."])
async def test_question_or_order_next_to_a_lasting_sentence_is_dropped(order: str):
    message = f"{order} We always use vitest with happy-dom for component tests."
    classifier = RuleClassifier(lambda _event, _names: (), LocalClassifier(None).refine)
    event = Event(window=(Utterance("user", message), Utterance("assistant", "OK.")), session_id="s")
    found = await classifier.classify(event, (), deadline=1e12, attempts=1)
    kept = [each.content for each in found.proposals if not each.update_only]
    assert kept == ["We always use vitest with happy-dom for component tests."]


NARRATED = (
    "I was just looking at funcutils and saw that we always wrap the errors",
    "hey, I vaguely remember that the importer reads commas",
    "it really highlights how much we changed since the move to python 3",
    "ich habe gestern gesehen, dass der Import Kommas liest",
    "estaba mirando el importador y lee comas",
    "je regardais l'import et il lit des virgules",
    "eu estava olhando o importador e ele lê vírgulas",
    "刚才看到导入程序读取逗号",
    "コードを見ていて、インポーターがカンマを読むのに気づいた",
)


@pytest.mark.parametrize("said", NARRATED)
def test_what_a_person_noticed_or_remembers_is_not_even_held_as_a_possible_change(said: str):
    event = Event(window=(Utterance("user", said), Utterance("assistant", "OK.")), session_id="s")
    classifier = RuleClassifier(lambda _, __: (), LocalClassifier(None).refine)
    found = asyncio.run(classifier.classify(event, (), deadline=0.0, attempts=0))

    assert narrates(said)
    assert not any(each.update_only for each in found.proposals)


@pytest.mark.parametrize(
    "said",
    ["I moved to zsh", "we see the port is 9090 now", "ich nehme jetzt zsh", "uso zsh", "我现在用 zsh"],
)
def test_a_decision_in_the_first_person_is_no_narration(said: str):
    assert not narrates(said)


@pytest.mark.parametrize(
    "sentence", ["toca desplegar los miércoles entonces", "desplegamos siempre los jueves entonces"]
)
def test_a_clause_of_a_joining_word_alone_splits_nothing(sentence: str):
    (said,) = statements((Utterance("user", sentence),))

    assert [without_joins(each) for each in clauses_of(sentence)][-1] == ""
    assert clause_runs(said) == {}
