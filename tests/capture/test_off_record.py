"""Requests not to remember, and to forget: generated in seven languages; no text is left."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from itertools import product
from math import isinf
from pathlib import Path

import pytest

from forged.capture.dispatcher import memories_pointed_at
from forged.capture.existing import memories_meant
from forged.capture.memory_requests import requests_to_memory, subject_words
from forged.capture.off_record import cut_opted_out, opt_out_of, without_repeats
from forged.capture.rules.requests import (
    asks,
    matches,
    wordings,
    words_to_forget,
)
from forged.files import Root
from forged.memory import Scope
from forged.stores import View
from tests.data.maps import vector_map
from tests.data.memories import memory

FORMS = tomllib.loads((Path(__file__).parents[1] / "data" / "off_record.toml").read_text())
REFUSED = FORMS.pop("wordings")


def pointing(forms: dict) -> Iterator[tuple[int, str]]:
    """Yield the requests of a language that point, each with its place in a list, 0 for none."""
    yield from zip((1, 2, 3, -1), forms["places"], strict=True)
    yield from ((0, said) for said in forms["one"])


def negated(language: str) -> list[str]:
    """All refusals of a language, each a message that must leave nothing."""
    forms = FORMS[language]
    memory = [form.format(v=verb) for form, verb in product(forms["negated"], forms["memory"])]
    stores = [form.format(v=verb) for form, verb in product(forms["negated"], forms["stores"])]
    whole = [*forms["apart"], *(forms["that"].format(each) for each in memory)]
    return whole + [shape.format(each) for shape, each in product(forms["this"], (*memory, *stores))]


@pytest.mark.parametrize("language", FORMS)
def test_no_negated_request_leaves_anything_of_what_it_means(language):
    left = {
        said: found.text
        for said in negated(language)
        if "Zoltan" in (found := cut_opted_out(said)).text or not found.opted_out
    }
    assert left == {}


@pytest.mark.parametrize("language", FORMS)
def test_no_negated_request_asks(language):
    assert [said for said in negated(language) if asks(said)] == []


def test_every_wording_that_asks_says_how_it_is_refused():
    assert set(REFUSED) == {f"{each.language} {each.name}" for each in wordings() if each.kind == "asks"}


@pytest.mark.parametrize("said", [said for each in REFUSED.values() for said in each])
def test_the_negated_form_of_a_wording_leaves_nothing_and_asks_nothing(said):
    assert "Zoltan" not in cut_opted_out(said).text
    assert not asks(said)


@pytest.mark.parametrize("language", FORMS)
def test_another_request_of_the_same_message_stays(language):
    other = FORMS[language]["other"]
    for said in negated(language):
        for message in (f"{other} {said}", f"{other}\n\n{said}", f"{said}\n\n{other}"):
            found = cut_opted_out(message)
            assert other.strip(".。") in found.text, message
            assert "Zoltan" not in found.text, message


@pytest.mark.parametrize("wording", [each for each in wordings() if each.kind in {"asks", "polite"}], ids=str)
def test_what_asks_is_not_taken_for_a_refusal(wording):
    assert cut_opted_out(wording.yes).text == wording.yes


@pytest.mark.parametrize(
    "said",
    [
        "Keep this out of your memory: my salary is 90k.",
        "My salary is 90k, leave that out of your notes.",
        "Remember nothing of this: my salary is 90k.",
        "None of this should go into your memory: my salary is 90k.",
        "That stays between us: my salary is 90k.",
        "Ne retiens rien de tout ça : mon salaire est 90k.",
        "Fuera de registro: mi sueldo es 90k.",
    ],
)
def test_a_refusal_without_a_negated_verb_is_one(said):
    assert "90k" not in cut_opted_out(said).text


# Rules of a project and ordinary orders; each has the words of a refusal.
PLAIN = (
    "Never store tokens in plain text.",
    "Don't save files with a BOM.",
    "Do not store this in the database, store it in redis.",
    "Remember that we never log request bodies.",
    "Don't forget: tabs, not blanks.",
    "I don't remember which port it was.",
    "You never remember that we use pnpm!",
    "Why don't you remember that we use pnpm?",
    "Keep secrets out of the repository.",
    "The contract between us and the vendor ends in May.",
    "Merk dir: nicht auf main pushen.",
    "Passwörter nie im Klartext speichern.",
    "Vergiss die Tests nicht.",
    "No guardes los tokens en el repo.",
    "No olvides que la base es orion.",
    "N'enregistre pas les mots de passe en clair.",
    "N'oublie pas que la base est en latin1.",
    "Não guardes os tokens no repositório.",
    "不要记录请求的日志。",
    "别忘了这台机器是 jdk8。",
    "忘れないで、本番は水曜NG。",
    "パスワードは平文で保存しないで。",
    "Remove the memory leak in the parser.",
    "Delete the notes table, nobody reads it.",
)


@pytest.mark.parametrize("said", PLAIN)
def test_a_rule_with_the_words_of_a_refusal_stays(said):
    assert cut_opted_out(said).text == said


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Remember that we use pnpm, but don't remember my name.", "Remember that we use pnpm"),
        ("Don't remember my name, but remember that we use pnpm.", "remember that we use pnpm."),
        (
            "Merk dir nicht meinen Namen, aber merk dir, dass wir pnpm nehmen.",
            "merk dir, dass wir pnpm nehmen.",
        ),
        ("Fix the tests.\n\nMy manager is Sam. Please don't store that.", "Fix the tests."),
        ("Don't remember this:\nmy manager is Sam\nhe lives in Rome\n\nFix the tests.", "Fix the tests."),
        ("The port is 8443. You don't have to remember that the port is 8443.", ""),
        ("We use pnpm. My salary is 90k.\n\nDon't remember any of this.", ""),
    ],
)
def test_a_refusal_takes_what_it_points_at_and_no_request(said, left):
    assert cut_opted_out(said).text.strip().rstrip(".") == left.rstrip(".")


def test_a_refusal_alone_points_before_its_message():
    assert cut_opted_out("Please don't remember that.").points_before
    assert cut_opted_out("Don't save any of this.").points_before
    assert not cut_opted_out("My manager is Sam. Don't remember that.").points_before


def test_pasted_text_refuses_nothing():
    said = "fix this page:\n```\nOff the record: do not remember that port is 1.\n```"
    assert cut_opted_out(said).text == said


def test_what_an_assistant_repeats_of_it_is_cut_and_the_rest_stays():
    refused = [
        *map(
            opt_out_of, cut_opted_out("Please don't remember this: my manager is called Sam Vimes.").opted_out
        )
    ]

    said = "Understood. I won't keep that your manager is Sam Vimes. The tests pass."
    left = without_repeats(said, refused, by_name=True)

    assert left == "Understood. The tests pass."


@pytest.mark.parametrize("said", [said for each in FORMS.values() for said in each["forgetting"]])
def test_a_request_to_forget_is_not_kept_and_names_the_memory(said):
    found = cut_opted_out(f"{said}\n\nThen run the tests.")

    assert found.text == "Then run the tests."
    assert found.forgets == (said,)
    assert "orion" in words_to_forget(said)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("forget vitest, we use jest", "we use jest"),
        ("We use jest, forget vitest", "We use jest"),
        ("Forget that the database is orion, it's lyra now.", "it's lyra now."),
        ("Vergiss vitest, wir nehmen jest", "wir nehmen jest"),
        ("Vergiss, dass wir vitest nutzen, wir nehmen jest", "wir nehmen jest"),
        ("Olvida lo de vitest, usamos jest", "usamos jest"),
        ("Oublie que c'est vitest, on utilise jest", "on utilise jest"),
        ("Esquece o vitest, usamos jest", "usamos jest"),
        ("忘掉 vitest，我们用 jest", "我们用 jest"),
        ("vitestのことは忘れて、今はjestを使っています", "今はjestを使っています"),
    ],
)
def test_another_value_behind_a_request_to_forget_is_a_request_of_its_own(said, left):
    assert cut_opted_out(said).text.strip() == f"Remember: {left}"


@pytest.mark.parametrize(
    "said", ["forget the linter, just run the tests", "forget vitest for now, we use jest today"]
)
def test_an_order_behind_something_dropped_is_no_request(said):
    assert not asks(cut_opted_out(said).text)


# --- talking to the memory --------------------------------------------------------------------------------

TALK = [
    pytest.param(verb, form.format(**forms), forms, id=form)
    for forms in FORMS.values()
    for verb, kind in (("forget", "unlearns"), ("ask", "recalls"))
    for form in forms[kind]
]


@pytest.mark.parametrize(("verb", "said", "forms"), TALK)
def test_a_request_to_the_memory_says_what_it_is_about(verb, said, forms):
    for message in (said, f"Hi! {said}"):
        asked, *more = requests_to_memory(message)
        assert (asked.verb, more) == (verb, [])
        assert subject_words(forms["thing"]) & subject_words(asked.topic)
    assert (cut_opted_out(said).forgets != ()) is (verb == "forget")
    assert not asks(said) or verb == "ask"


@pytest.mark.parametrize(("verb", "said", "forms"), TALK)
def test_a_request_to_the_memory_in_another_persons_text_is_none(verb, said, forms):
    for message in (
        f"```\n{said}\n```",
        f"> {said}\n\nWhat does she mean?",
        f'The mail says: "{said}"',
        f"- run the tests\n- {said}",
        f"You are agent 3 of 8. {said}",
        f"{said} Reply with only the result.",
        said + " x" * 400,
    ):
        assert requests_to_memory(message) == (), message


@pytest.mark.parametrize(
    "said", [form.format(**forms) for forms in FORMS.values() for form in forms["alike"]]
)
def test_the_words_of_such_a_request_said_of_code_are_none(said):
    """A question may be scored as one to the memory ("what do you know about ..."): it harms nothing."""
    found = requests_to_memory(said)
    assert all(each.verb == "ask" and not isinf(each.surety) for each in found)


@pytest.mark.parametrize(
    "wording", [each for each in wordings() if each.kind in {"unlearns", "recalls"}], ids=str
)
def test_every_sign_of_such_a_request_is_seen_by_the_fast_look(wording):
    assert matches("speaks", wording.yes)


# --- pointing to a memory of the session ------------------------------------------------------------------

POINTING = [(language, place, said) for language, forms in FORMS.items() for place, said in pointing(forms)]
SHOWN = [
    memory("mem_cents", "Invoices are rounded to full cents."),
    memory("mem_orion", "The staging database is called orion."),
    memory("mem_nora", "Nora owns the staging host and the release calendar."),
    memory("mem_uploads", "Uploads end after ninety seconds."),
]
NAMED = tuple((Root("/repo", Scope.REPO), each) for each in SHOWN)
LISTED = "\n".join(f"{n}. {SHOWN[at].content}" for n, at in enumerate((2, 0, 3, 1), 1))
BY_PLACE = {1: "mem_nora", 2: "mem_cents", 3: "mem_uploads", -1: "mem_orion"}


def pointed_at(said: str, reply: str, shown=NAMED) -> tuple[list[str], bool]:
    """Ids of the memories that a message may point to behind a reply, and if one is clear."""
    (asked,) = requests_to_memory(said, may_point=True)
    assert (asked.verb, asked.points) == ("forget", True)
    found = memories_pointed_at(asked, shown, reply)
    return [each.id for _, each in found.found], found.is_clear


@pytest.mark.parametrize(("language", "place", "said"), POINTING)
def test_a_request_points_to_one_memory_of_the_session(language, place, said):
    if place:
        assert pointed_at(said, f"I know this:\n\n{LISTED}\n\nAnything else?") == ([BY_PLACE[place]], True)
        assert pointed_at(said, "I know nothing of the kind.") == ([], False)
        assert pointed_at(said, "1. Run the tests.\n2. Read the log.\n3. Write the mail.") == ([], False)
    else:
        assert pointed_at(said, f"It says: {SHOWN[1].content}") == (["mem_orion"], True)
        assert pointed_at(said, "Two:\n" + LISTED) == (["mem_cents", "mem_orion", "mem_nora"], False)
        assert pointed_at(said, "I know nothing of the kind.") == ([], False)
        assert pointed_at(said, "", shown=NAMED[3:]) == (["mem_uploads"], True)
        assert pointed_at(said, "", shown=()) == ([], False)


@pytest.mark.parametrize(
    ("subject", "wanted"),
    [
        ("the uploads", ["mem_uploads"]),
        ("Nora", ["mem_nora"]),
        ("the staging database", ["mem_orion"]),
        ("staging", ["mem_orion", "mem_nora"]),
        ("giraffes", []),
        ("the nightly backup of the orion cluster", []),
    ],
)
def test_a_request_points_by_a_subject_to_a_memory_of_the_session(subject, wanted):
    assert pointed_at(f"forget the one about {subject}", LISTED) == (wanted, len(wanted) == 1)


@pytest.mark.parametrize(("language", "place", "said"), POINTING)
def test_what_points_is_no_request_without_a_question_before_or_in_another_persons_text(
    language, place, said
):
    asked = requests_to_memory(said)
    assert all(each.points for each in asked)
    for message in (f"```\n{said}\n```", f"> {said}\n\nWhat does she mean?", f"You are agent 3 of 8. {said}"):
        assert requests_to_memory(message, may_point=True) == (), message


@pytest.mark.parametrize("said", [said for forms in FORMS.values() for said in forms["code"]])
def test_what_points_to_code_is_no_request(said):
    assert requests_to_memory(said, may_point=True) == ()


@pytest.mark.parametrize(
    "said",
    [said.format(**forms) for forms in FORMS.values() for said in (*forms["shown"], forms["places"][1])],
)
def test_a_request_that_names_memory_needs_no_question_before(said):
    (asked,) = requests_to_memory(said)
    assert (asked.verb, asked.points) == ("forget", True)


# --- which memory is meant ----------------------------------------------------------------------------------

THINGS = ("billing", "search", "login", "upload", "mail", "export", "audit", "backup")
STORE = [
    *(memory(f"mem_{each}", f"The {each} service logs to the shared disk.") for each in THINGS),
    memory("mem_alarm", "Alarms of the billing service go to Nora."),
    memory("mem_zebra", "The zebra crossing is on Main Street."),
]


def meant(said: str, *, copies: int = 0) -> tuple[list[str], bool]:
    """Ids of the memories that a message may mean in the store, or in a large one, and if one is clear."""
    more = [memory(f"mem_{number}", f"Host h{number} runs job j{number}.") for number in range(copies)]
    (asked,) = requests_to_memory(said)
    found = memories_meant(View((vector_map([*STORE, *more]),)), asked)
    return [each.id for _, each in found.found], found.is_clear


@pytest.mark.parametrize("copies", [0, 1000])
@pytest.mark.parametrize("thing", THINGS)
def test_a_request_means_the_memory_with_its_words(thing, copies):
    ids, _ = meant(f"Forget that the {thing} service logs to the shared disk.", copies=copies)
    assert ids[0] == f"mem_{thing}"
    ids, is_clear = meant(f"Forget what I said about {thing}.", copies=copies)
    assert f"mem_{thing}" in ids
    assert is_clear is (thing != "billing")  # of which two memories speak


@pytest.mark.parametrize(
    "said",
    [
        "Forget that the zebra is striped and lives in Kenya.",
        "Forget what I said about giraffes.",
        "Forget what I said, run the login tests.",
        "Forget that the service is slow.",
    ],
)
@pytest.mark.parametrize("copies", [0, 1000])
def test_a_request_that_shares_little_or_nothing_means_no_memory_for_certain(said, copies):
    assert not meant(said, copies=copies)[1]
