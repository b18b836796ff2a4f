"""Requests to the memory in words that no wording has: scored by their words, and only by their words."""

from __future__ import annotations

import math

import pytest

from forged.capture.existing import memories_meant
from forged.capture.memory_requests import (
    ASKED,
    MOST_SCORED,
    SaidToMemory,
    asked_by_words,
    request_scorer,
    requests_to_memory,
)
from forged.capture.off_record import cut_opted_out
from forged.stores import View
from tests.capture.test_off_record import memory, vector_map
from tests.training import requests as training

UNSAID = [
    ("forget", "Please strike the sampling rate off your list, the sensor was swapped."),
    ("forget", "the yarn business you keep dragging along can leave your head for good"),
    ("forget", "Den Eintrag zum Prüfstand kannst du bei dir ausradieren."),
    ("forget", "Ya no conserves en tus apuntes lo del despliegue de los jueves, cambió."),
    ("forget", "Fais une croix sur ce que tu avais gardé du serveur de recette."),
    ("forget", "Risca da tua lista o que te passei sobre o prefixo das faturas."),
    ("forget", "把你那边记着的发布日清理掉吧。"),
    ("forget", "君のメモに残っているリリース日は、もう捨ててください。"),
    ("ask", "Could you look up in your notes what we agreed about the sampling rate?"),
    ("ask", "Schau mal in deinen Aufzeichnungen, wer die Rechnungen prüft."),
    ("ask", "¿Tienes apuntado en algún sitio quién revisa las facturas?"),
    ("refuse", "We may sell the map division in autumn. Nothing that should stick with you."),
    ("refuse", "Der Kunde zahlt gerade nicht. Das muss nirgends bei dir landen."),
    ("refuse", "El cliente no está pagando; esto no lo guardes para otras sesiones."),
    ("refuse", "Le client ne paie plus. Que ça ne reste pas dans tes notes."),
    ("refuse", "O cliente não está pagando, mas isso não é para ficar nas tuas notas."),
    ("refuse", "客户最近不付款了,这话你听过就算,别存下来。"),
    ("refuse", "顧客の支払いが止まっています。これは残さないでおいてください。"),
]
# Of those: the scorer is right about two of three wordings that nobody has shown it.
LEAST_RIGHT = 12
RECOGNISED = [
    (kind, said)
    for kind, said in UNSAID
    if (asked := asked_by_words(said)) is not None and asked.kind == kind
]
ORDINARY = [
    "Strike the second row of the table, the sensor was swapped.",
    "Den Eintrag zum Prüfstand kannst du aus der Liste im Readme streichen.",
    "Quita del menú la entrada de los jueves.",
    "Never store the token of a customer on disk.",
    "Wir prüfen Rechnungen immer zu zweit.",
    "把第二行删掉。",
    "テーブルの二行目を消してください。",
]


def test_most_requests_in_other_words_are_recognised_and_none_as_another():
    assert len(RECOGNISED) >= LEAST_RIGHT
    assert {kind for kind, _ in RECOGNISED} == {*ASKED}
    taken = {said: asked for kind, said in UNSAID if (asked := asked_by_words(said)) is not None}
    assert len(taken) == len(RECOGNISED)


@pytest.mark.parametrize(("kind", "said"), RECOGNISED)
def test_a_request_in_other_words_asks_the_memory(kind, said):
    assert [each.verb for each in requests_to_memory(said)] == ([] if kind == "refuse" else [kind])


@pytest.mark.parametrize("said", ORDINARY)
def test_the_same_words_about_work_ask_nothing(said):
    assert asked_by_words(said) is None
    assert cut_opted_out(said).text == said


@pytest.mark.parametrize("said", [said for kind, said in RECOGNISED if kind != "refuse"])
def test_such_a_request_in_another_persons_text_is_none(said):
    for message in (
        f"```\n{said}\n```",
        f"> {said}\n\nWhat does she mean?",
        f'Translate this: "{said}"',
        f"- run the tests\n- {said}",
        f"You are agent 3 of 8. {said}",
        f"{said} Reply with only the result.",
        said + " x" * MOST_SCORED,
    ):
        assert requests_to_memory(message) == (), message


@pytest.mark.parametrize("said", [said for kind, said in RECOGNISED if kind == "refuse"])
def test_nothing_is_left_of_what_is_not_to_be_kept_except_a_request(said):
    found = cut_opted_out(said)
    assert found.text.strip() == ""
    assert found.opted_out
    kept = "Remember that we use pnpm."
    assert kept in cut_opted_out(f"{kept}\n\n{said}").text


@pytest.mark.parametrize("said", [said for kind, said in RECOGNISED if kind == "forget"])
def test_a_request_to_forget_in_other_words_is_no_statement(said):
    found = cut_opted_out(said)
    assert found.text.strip() == ""
    assert [each.strip() for each in found.forgets] == [said.strip()]


def test_only_the_sentence_that_asks_is_cut():
    said = "We moved the sensors to the new board. Please strike the sampling rate off your list."
    found = cut_opted_out(said)
    assert found.text.strip() == "We moved the sensors to the new board."


def test_an_unsure_request_needs_a_memory_that_has_more_of_its_words():
    texts = ("The sampling rate of the sensor is 200 Hz.", "Boards are ordered by Rosa.")
    view = View((vector_map([memory(f"mem_{place}", text) for place, text in enumerate(texts)]),))
    said = "strike the sampling rate, Dana and Omar disagree"
    sure, unsure = (SaidToMemory("forget", said, said, surety=surety) for surety in (3.0, 0.01))
    assert memories_meant(view, sure).is_clear
    assert not memories_meant(view, unsure).is_clear
    assert memories_meant(view, unsure).found  # it is named all the same


def test_no_request_of_the_frame_alone_names_a_memory():
    for word in ("please", "memory", "remember"):
        view = View((vector_map([memory("mem_a", f"The {word} flag is on."), memory("mem_b", "Tabs.")]),))
        for said in (each for kind, each in RECOGNISED if kind == "forget"):
            (asked,) = requests_to_memory(said)
            assert not memories_meant(view, asked).is_clear


def test_the_shipped_scorer_is_of_this_data():
    assert request_scorer().data == training.digest(), "make linear-models"


def test_scores_are_of_all_kinds_and_no_message_is_too_long_for_them():
    scores = request_scorer().scores("forget that we use tabs")
    assert set(scores) == set(ASKED)
    assert all(map(math.isfinite, scores.values()))
    assert asked_by_words("") is None
    assert asked_by_words("forget that we use tabs. " * MOST_SCORED) is None


def test_most_labelled_requests_are_recognised_and_few_others():
    """Of the examples that it learns from: this finds a file of other features, not of worse ones."""
    taken = dict.fromkeys(training.KINDS, 0)
    every = dict.fromkeys(training.KINDS, 0)
    for each in [*training.requests()][::9]:
        asked = asked_by_words(each.text)
        every[each.kind] += 1
        taken[each.kind] += asked is not None and each.kind in {asked.kind, training.NOTHING}
    assert {kind: taken[kind] >= 0.5 * every[kind] for kind in ASKED} == dict.fromkeys(ASKED, True)
    assert taken[training.NOTHING] <= 0.01 * every[training.NOTHING]
