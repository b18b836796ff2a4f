"""Names of several words, with numbers, hyphens and letters: each is one entity, and its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.entities import entity_id, graph_of, mentions_in, named_in, two_hops
from forged.memory import EntityRelation
from tests.data.memories import memory
from tests.entities.whole_names import QUESTIONS, SENTENCES, Question, Sentence

GRAPH = graph_of(memory(each.id, each.text) for each in SENTENCES)
NAMES = sorted({name for each in SENTENCES for name in each.names})


def named(text: str) -> list[str]:
    return [each.name for each in mentions_in(text).entities]


@pytest.mark.parametrize("sentence", SENTENCES, ids=[each.id for each in SENTENCES])
def test_a_sentence_mentions_each_name_in_one_piece(sentence: Sentence):
    found = {entity_id(name) for name in named(sentence.text)}

    assert found == {entity_id(name) for name in sentence.names}


@pytest.mark.parametrize("question", QUESTIONS, ids=[each.text for each in QUESTIONS])
def test_a_question_is_answered_over_two_hops_by_the_right_one_of_two_similar_names(question: Question):
    found = two_hops([GRAPH], named_in([GRAPH], question.text), len(SENTENCES))

    assert question.missed([each.place[1] for each in found]) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["what about {}?", "{} and the rest", "does {}, of all, matter"])
def test_a_question_in_small_letters_names_that_one_alone(name: str, form: str):
    assert named_in([GRAPH], form.format(name.lower())) == (entity_id(name),)


LABELS = st.sampled_from(
    [
        "Policy",
        "Java",
        "ISO",
        "Section",
        "Service",
        "Phase",
        "Data Retention Policy",
        "Silo",
        "RFC",
        "Ruby",
        "Team",
    ]
)
NUMBERS = st.one_of(
    st.integers(2, 99_999).map(str),
    st.tuples(st.integers(1, 99), st.integers(0, 99)).map("{0[0]}.{0[1]}".format),
    st.integers(1, 99).map("{}B".format),
)
LETTERS = st.sampled_from(["A", "B", "X", "II", "IV", "VII"])
PLACES = st.sampled_from(
    ["We know {}.", "We know {}, and more", "(see {})", "We asked {} about it", "As of {}"]
)


@given(LABELS, st.lists(NUMBERS, min_size=2, max_size=2, unique=True), PLACES)
def test_a_capital_word_and_a_number_are_one_name_and_another_number_is_another(label, numbers, place):
    one, other = (f"{label} {number}" for number in numbers)

    assert named(place.format(one)) == [one]
    assert entity_id(one) != entity_id(other)


@given(st.sampled_from(["Service", "Project", "Phase", "Plan", "Support Plan"]), LETTERS, PLACES)
def test_a_capital_word_and_a_letter_are_one_name(label, letter, place):
    assert named(place.format(f"{label} {letter}")) == [f"{label} {letter}"]


@given(st.text(max_size=40))
def test_the_id_of_an_id_is_the_id(name):
    assert entity_id(entity_id(name)) == entity_id(name)


@pytest.mark.parametrize(
    "text",
    [
        "In 2024 we moved. Use 4 spaces. Keep 3 of them. Tried 256 and 128.",
        "On Monday 3 people came, on May 3 none, and by March 2024 all. Q3 2024 was bad.",
        "See Page 12, Step 3, Figure 2 and Line 40; Version 2 of it is at Port 8080.",
        "Option B is cheaper. Mr K called at UTC+2 about Error 404.",
        "They waited 3 times, then 5 minutes. About 3,000 came, 18:00 at the latest, 24/7, Top 10.",
        "A read-only, up-to-date, well-known copy. I was there. Building A Team is hard.",
        "Our new team met the other team. We sent the whole team home.",
        "Die Zahl ist in der Spitze 260, und das mit der Temperatur 88.",
    ],
)
def test_amounts_dates_and_places_are_no_names(text):
    assert named(text) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We restarted Kafka 3 times and Redis 5 minutes later.", ["Kafka", "Redis"]),
        ("Kafka sends 3,000 rows; Kafka 3,000 is wrong.", ["Kafka"]),
        ("Sections 4.2, 4.3 and 5 say so.", ["Section 4.2", "Section 4.3", "Section 5"]),
        ("we obey policies 7 and 8", ["policy 7", "policy 8"]),
        ("Everything runs on postgres version 16.", ["PostgreSQL 16"]),
        ("It runs on Windows Server 2022 and Kafka Streams.", ["Windows Server 2022", "Kafka"]),
        ("As George R. R. Martin says, Plan B. Then more.", ["Plan B"]),
        ("We talk about the docker group and the Kafka team.", ["Docker", "Kafka"]),
    ],
)
def test_a_number_belongs_to_the_word_before_it_or_to_none(text, names):
    assert named(text) == names


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("The data platform team owns billing-api.", ("billing-api", "owned-by", "data platform team")),
        ("Good. Then the data team owns billing-api.", ("billing-api", "owned-by", "data team")),
        ("Our Kafka Team looks after stream-router.", ("stream-router", "owned-by", "Kafka Team")),
        ("Ada M. Lovelace owns `engine`.", ("engine", "owned-by", "Ada M. Lovelace")),
        ("Łukasz Żak works on Project X.", ("Łukasz Żak", "works-on", "Project X")),
        ("auth-service v2 replaces auth-service v1.", ("auth-service v2", "replaces", "auth-service v1")),
        ('"Policy 7" governs **pay-api**.', ("pay-api", "falls-under", "Policy 7")),
        ("Ledger falls under policy 7 too.", ("Ledger", "falls-under", "policy 7")),
        ("Terms of Service 3 applies to Ledger.", ("Ledger", "falls-under", "Terms of Service 3")),
        ("Phase II depends on Phase I.", ("Phase II", "depends-on", "Phase I")),
        ("Das Projekt X ersetzt das Projekt Y.", ("Projekt X", "replaces", "Projekt Y")),
        ("Plan Norte depende del Servicio de Pagos.", ("Plan Norte", "depends-on", "Servicio de Pagos")),
        ("Le Service A utilise le Service B.", ("Service A", "uses", "Service B")),
        (
            "A line that is so long that the editor broke it in two says that Ada\nLovelace owns pay-api.",
            ("pay-api", "owned-by", "Ada Lovelace"),
        ),
    ],
)  # fmt: skip
def test_a_name_of_several_words_takes_part_in_a_relation(text, relation):
    assert mentions_in(text).relations == (EntityRelation(*relation),)
    assert {relation[0], relation[2]} <= {*named(text)}


@pytest.mark.parametrize(
    "text",
    [
        "Redis uses read-only replicas and in-memory tables.",
        "Ledger depends on billing-api calls.",
        "Ledger is owned by the data platform team lead.",
        "Ledger requires an API key.",
        "L'export CSV utilise le point-virgule.",
        "Step 3 depends on Step 2, Option B replaces Option A.",
    ],
)
def test_a_word_that_only_describes_another_takes_part_in_none(text):
    assert mentions_in(text).relations == ()


@pytest.mark.parametrize(
    "names",
    [
        ("Policy 7", "policy 7.", "Policy No. 7", "Policy #7", "policy number 7"),
        ("Node 20", "Node.js 20", "nodejs v20", "node version 20"),
        ("Postgres 16.2", "PostgreSQL 16.2", "PostgreSQL v16.2"),
        ("Service A", "Service A.", '"service a"'),
        ("Hannah O'Brien", "hannah o’brien"),
    ],
)
def test_a_name_with_a_number_has_one_id_however_it_is_written(names):
    assert len({entity_id(name) for name in names}) == 1


VERSIONS = graph_of(
    [
        memory("mem_1", "It was Java 17 and TLS 1.2."),
        memory("mem_2", "It is Java 21, TLS 1.3 and PostgreSQL 16.2."),
        memory("mem_3", "There is Policy 7, ISO 27001:2022 and pay-api v2."),
        memory("mem_4", "There is Policy 8, and Service A."),
    ]
)


@pytest.mark.parametrize(
    ("question", "ids"),
    [
        ("java", {"java 21", "java 17"}),
        ("is java 17 fine", {"java 17"}),
        ("is java 11 fine", set()),
        ("postgres 16", {"postgresql 16.2"}),
        ("postgres", {"postgresql 16.2"}),
        ("postgres 17", set()),
        ("which iso", {"iso 27001:2022"}),
        ("iso 27001", {"iso 27001:2022"}),
        ("iso 27001:2013", set()),
        ("the pay-api", {"pay-api 2"}),
        ("pay-api v1", set()),
        ("which policy is there", set()),
        ("policy for all 7 of us", set()),
        ("is it a service", set()),
    ],
)
def test_a_name_without_its_number_finds_each_version_but_a_version_no_other(question, ids):
    assert set(named_in([VERSIONS], question)) == ids
