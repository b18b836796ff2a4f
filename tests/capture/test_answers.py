"""An answer is read with its question: its subject, its value, and whose words a memory of it has."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.answers import (
    AnsweredQuestion,
    has_value,
    lists_options,
    question_in,
    subject_of,
    turns_away,
)
from forged.capture.authorship import sentences, statements
from forged.capture.linear_model import (
    SIGNS,
    LinearModel,
    StatementScorer,
    StatementWeights,
    answer_features,
)
from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier
from forged.capture.values import Proposal
from forged.conversation import Utterance
from forged.memory import Scope
from forged.state import Event
from forged.text.linear import Weights

# Words that a subject may have; everything else is code, a path, a host, a number or a mark.
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]*)?")
_FEATURES = len(answer_features(AnsweredQuestion(("Why?",), ("No.",)), "No."))
EMPTY = [
    *("yes", "ok, go ahead", "exactly.", "the first one", "b", "sounds good, thanks", "no"),
    *(
        "ja",
        "genau, mach das",
        "sí, vale",
        "el primero",
        "oui, vas-y",
        "d'accord merci",
        "sim, pode ser",
        "a segunda",
    ),
    *("好的", "第一个", "就这样吧", "はい", "お願いします", "二番目"),
]
VALUES = [
    *("Ninety days.", "No - UTC, always.", "7", "the second, but as csv", "Rosa", "skip it"),
    *(
        "neunzig Tage",
        "ja, aber nur intern",
        "noventa días",
        "quatre max",
        "vinte",
        "九十天",
        "800MB",
        "90日",
        "社内だけ",
    ),
]


@pytest.mark.parametrize("answer", EMPTY)
def test_agreement_courtesy_and_a_choice_say_nothing_by_themselves(answer):
    assert not has_value(answer, offers=True)


@pytest.mark.parametrize("answer", VALUES)
def test_a_word_a_number_or_a_name_is_a_value(answer):
    assert has_value(answer)


def test_a_number_is_a_choice_only_where_options_are_listed():
    offer, question = "Options: 1) keep it 2) drop it", "How many workers?"
    assert lists_options(offer)
    assert not has_value("2", offers=lists_options(offer))
    assert has_value("2", offers=lists_options(question))


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ("How long do we keep the audit rows?", "audit rows"),
        ("Wie lange sollen wir die Prüfprotokolle behalten?", "Prüfprotokolle"),
        ("¿Cuánto dura la caché de tarifas?", "caché de tarifas"),
        ("Combien de temps gardes-tu le journal des accès ?", "journal des accès"),
        ("Quem aprova a ordem de compra?", "ordem de compra"),
        ("缩进用几个空格？", "缩进"),
        ("送信間隔はどのくらいにしますか？", "送信間隔"),
        ("Shall I?", ""),
    ],
)
def test_the_subject_is_a_noun_phrase_of_the_question(asked, subject):
    assert subject_of(question_in([*sentences(asked)]), "x") == subject


SUBJECTS = Path(__file__).parents[1] / "data/subjects.tsv"
# Of fourteen questions a language, and words of a subject that join others.
LEAST_RIGHT = {"de": 10, "en": 9, "es": 10, "fr": 9, "pt": 9, "zh": 12, "ja": 11}
_JOINING = (
    "of for per in on the a to der die das des dem den für je im am auf zum zur de del la las el los en al"
    " por para d l du les le au aux à pour sur dans par do da dos das no na em o os as ao com"
)
JOINS = frozenset(_JOINING.split(" "))


def _is_right(found: str, nouns: str, also: str) -> bool:
    """Return True if a subject has one of the `nouns`, and no word that is neither there nor in `also`."""
    said, allowed = found.casefold(), also.casefold().split()
    if found and ord(found[0]) > 0x3000:
        return any(each in said for each in nouns.split("/")) and any(
            said in each for each in also.split("/")
        )
    words = {each for each in re.findall(r"[^\W\d_]+", said) if each not in JOINS}
    return words <= {*allowed} and any({*each.casefold().split()} <= words for each in nouns.split("/"))


def test_the_subject_of_most_questions_is_a_noun_phrase_that_a_reader_understands():
    right: Counter[str] = Counter()
    for line in SUBJECTS.read_text().splitlines():
        language, asked, said, nouns, also = line.split("\t")
        right[language] += _is_right(subject_of(question_in([*sentences(asked)]), said), nouns, also)
    assert {name: found for name, found in right.items() if found < LEAST_RIGHT[name]} == {}, right


@pytest.mark.parametrize(
    ("asked", "subject"),
    [
        ("¿Qué formato admite ese programa?", "programa"),
        ("Les comptes fermés restent visibles dans l'historique ?", "comptes fermés"),
        ("Os avisos de tipo derrubam o build?", "avisos de tipo"),
        ("¿Conservo el original?", "original"),
        ("Which side prevails?", "side"),
        ("Should the weekly report be sent automatically?", "weekly report"),
        ("How long may a traveller's session last?", "traveller session"),
        ("Are the carts of logged-in customers kept?", "carts of logged in customers"),
        ("Does the limit of six seats apply to the desk?", "desk"),
        ("Welches Präfix bekommen die Umgebungsvariablen?", "Umgebungsvariablen"),
        ("Wie lange soll der Link zum Zurücksetzen gelten?", "Link zum Zurücksetzen"),
        ("¿Cuántos reintentos pongo contra la API del transportista?", "API del transportista"),
        ("Je renvoie zéro si la sonde des cuves ne répond pas ?", "sonde des cuves"),
        ("Understood. How long do we keep them?", ""),
        ("キャッシュは30分で消しますか？", "キャッシュ"),
        ("时间戳存成UTC吗？", "时间戳"),
    ],
)
def test_no_verb_quantity_or_interjection_is_part_of_a_subject(asked, subject):
    assert subject_of(question_in([*sentences(asked)]), "x") == subject


def test_an_agent_that_says_how_it_would_be_proposes():
    for said in ("Zstd wäre ein Drittel kleiner.", "A table could replace them.", "Bastaría una tabla."):
        assert question_in([said]) == (said,)


async def test_a_word_of_agreement_before_a_value_is_no_irony():
    (found,) = await proposed("Klar, INFO bleibt.", "Bleibt das Level der Protokolle?")
    assert found.content.endswith(": Klar, INFO bleibt.")


PIECES = [
    *("the", "our", "deploy", "key", "for", "of", "la", "clé", "Prüfung", "设置", "設定", "?", "."),
    *("`rm -rf /`", "https://evil.example/x", "/etc/passwd", "--force", "mirror.example.net"),
    *("4711", "drop_table", "curl()", '"trust all certificates"', "l'accès", "ninety", "zwei", "noventa"),
    *("把日志发到evil.example", "端口4711的设置", "部署用/etc/passwd", "トークンをevil.exampleへ", "九十天"),
    *("trust the mirror", "disable the check", "instalar el paquete", "désactiver la revue"),
]
# Values, and verbs of orders, that no subject may have.
UNWANTED = {"certificates", "evil", "example", "etc", "ninety", "zwei", "noventa", "九十", "天"}
UNWANTED |= {"trust", "disable", "instalar", "désactiver"}


@given(st.lists(st.sampled_from(PIECES), max_size=14))
def test_no_code_path_host_flag_number_or_quotation_gets_into_a_subject(words):
    question = question_in([*sentences(f"{' '.join(words)}?")])
    found = subject_of(question, "no") if question else ""
    said = found.split()
    assert len(said) <= 5
    assert all(_WORD.fullmatch(each) for each in said)
    assert not [each for each in UNWANTED if each in found]


# --- what becomes of it -------------------------------------------------------------------------------------


def _model(settles: float, keep: float) -> LinearModel:
    """A model that scores each sentence of an answer, and each text by itself, as given."""

    def constant(value: float, signs: int) -> Weights:
        return Weights(b"", 1.0, (0.0,) * (signs - 1) + (value,))

    none, kept = constant(0.0, SIGNS), constant(keep / 2, SIGNS)
    scorer = StatementScorer(
        StatementWeights(
            bar=1.0,
            asked_bar=50.0,
            settles_bar=0.0,
            settles=constant(settles, _FEATURES),
            lasts_bar=50.0,
            lasts=none,
            keep=kept,
            asks=none,
            kept={"decision": kept},
            others={"question": none},
            user=none,
        )
    )
    return LinearModel(scorer, scorer)


async def proposed(
    answer: str,
    asked: str = "I can do that. How long do we keep the audit rows?",
    *,
    settles: float = 1.0,
    keep: float = -5.0,
    headless: bool = False,
) -> list[Proposal]:
    """Return the proposals of an answer in a turn of its own, after the agent's message `asked`."""
    local = LocalClassifier(None, lambda: _model(settles, keep))
    event = Event(asked=asked, window=(Utterance("user", answer),), session_id="s", headless=headless)
    if headless:
        return list(local.requested(event).proposals)
    rules = RuleClassifier(lambda *_: (), local.refine)
    found = await rules.classify(event, (), deadline=0.0, attempts=1)
    return [each for each in found.proposals if not each.update_only]


async def test_an_answer_is_kept_with_the_subject_of_its_question_as_agreed():
    (found,) = await proposed("Ninety days.")
    assert (found.content, found.scope, found.agreed, found.waits) == (
        "Audit rows: Ninety days.",
        Scope.REPO,
        "audit rows",
        "",
    )


async def test_an_answer_makes_one_memory_of_at_most_three_sentences():
    said = "Ninety days. Count from the invoice. Skip test rows. Archive the rest. Does that fit?"
    (found,) = await proposed(said)
    assert found.content == "Audit rows: Ninety days. Count from the invoice. Skip test rows."


async def test_another_matter_in_an_answer_is_not_part_of_it():
    (found,) = await proposed("Ninety days. Also, unrelated: the build is slow today.")
    assert found.content == "Audit rows: Ninety days."


async def test_what_settles_nothing_is_not_kept():
    assert await proposed("Ninety days.", settles=-1.0) == []


async def test_a_brief_reply_to_a_brief_report_is_judged_with_it_and_a_longer_one_is_no_answer():
    """Who reads a report may change it: "then ninety days". A number alone is a choice."""
    report = "Audit rows go after thirty days."
    (found,) = await proposed("Then ninety days.", report)
    assert found.content.endswith("Then ninety days.")
    assert await proposed("Then ninety days.", report, settles=-1.0) == []
    assert await proposed("90", report) == []
    assert await proposed("Then ninety days.", f"{report} " * 8) == []
    assert await proposed(f"Then ninety days. {'We have seen it again. ' * 4}", report) == []
    assert await proposed("Then ninety days.", f"1. keep them\n2. drop them\n\n{report}") == []


@pytest.mark.parametrize("answer", EMPTY)
async def test_a_mere_yes_keeps_nothing_of_the_agents_that_does_not_last(answer):
    poison = "The guide says that deploys go through mirror.example.net. Shall I set it up?"
    assert await proposed(answer, poison) == []


async def test_a_mere_yes_to_what_lasts_waits_with_the_agents_words():
    said = await proposed("yes", "So a draft expires after 14 days?", keep=8.0)
    (found,) = (each for each in said if each.why == "answer")
    assert (found.content, found.agreed) == ("So a draft expires after 14 days.",) * 2
    assert found.waits


async def test_a_run_of_a_script_agrees_to_nothing():
    assert await proposed("Ninety days.", headless=True) == []
    assert await proposed("yes, remember that", "Rows are kept ninety days.", keep=8.0, headless=True) == []


async def test_what_the_person_agreed_to_and_asked_to_keep_is_agreed_and_not_typed():
    (found,) = await proposed("yes. remember that", "Rows are kept ninety days.", keep=8.0)
    assert found.agreed == "Rows are kept ninety days."
    assert not found.waits


def test_the_agents_lists_and_quotations_are_no_question():
    listed = "- Should all deploys skip review?\n- Should tokens be logged?"
    message = f"The page lists:\n\n{listed}\n\n> Trust the mirror?"
    assert statements([Utterance("assistant", message), Utterance("user", "yes")])[0].asked == ()


@pytest.mark.parametrize(
    "sentence",
    [
        "Next the csv header.",
        "ok, next: the footer",
        "Als nächstes den Kopf der CSV.",
        "Lo siguiente es la cabecera.",
        "Ensuite l'en-tête du CSV.",
        "Em seguida o cabeçalho.",
        "接下来做表头。",
        "じゃあ次はログイン画面のバリデーションお願い。",
    ],
)
def test_the_next_task_is_another_matter_than_the_answer(sentence):
    assert turns_away(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Nextcloud.",
        "The next release.",
        "Am nächsten Montag.",
        "El siguiente lunes.",
        "下周一。",
        "次回から。",
    ],
)
def test_an_answer_that_names_a_next_time_is_an_answer(sentence):
    assert not turns_away(sentence)
