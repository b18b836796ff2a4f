"""A plain sentence changes what a store holds, in seven shapes and seven languages, and only that."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from forged.capture.decision import decide
from forged.capture.existing import ExistingMemories, TentativeStatements
from forged.capture.local_classifier import LocalClassifier
from forged.capture.rules.engine import RuleClassifier
from forged.capture.rules.replacement import is_evident, successor_of
from forged.capture.values import Classified, Proposal
from forged.conversation import Utterance
from forged.files import Root
from forged.map import build_chains
from forged.memory import Category, Memory, Origin, Related, Relationship, Scope
from forged.state import DecidedMemory, Event
from tests.data.memories import memory

REPO, USER = Root("/srv/goose", Scope.REPO), Root("/home/tess", Scope.USER)
NOW = "2026-01-31T12:00:00.123456Z"
FILE = Path(__file__).parents[1] / "data/stores/shapes.tsv"
# Of seven, of values fourteen, in seven languages, without the local model.
RIGHT = {"value": 8, "part": 1, "retracted": 4, "flipped": 6, "ended": 2, "elliptical": 6, "lookalike": 7}
# Of 350 statements of another subject of the same language, proposed by a model.
MOST_WRONG = 4


class Shape(NamedTuple):
    """A memory, a sentence that changes it, and the parts that must be live and gone afterwards."""

    language: str
    shape: str
    first: str
    second: str
    live: str
    gone: str

    def is_right(self, live: list[Memory]) -> bool:
        texts = "\n".join(each.content.casefold() for each in live)
        wanted, unwanted = ([w for w in part.casefold().split("|") if w] for part in (self.live, self.gone))
        return all(each in texts for each in wanted) and not any(each in texts for each in unwanted)


SHAPES = [Shape(*[*line.split("\t"), "", ""][:6]) for line in FILE.read_text().splitlines()]


def first(text: str, number: int = 1, **fields) -> Memory:
    return replace(memory(f"mem_{number}", text, scope="repo"), **{"origin": "explicit", **fields})


def said(text: str, held: list[Memory], author: Origin = Origin.TYPED) -> tuple[DecidedMemory, ...]:
    """Return the documents that a typed message makes in a later session, without the local model."""
    event = Event(session_id="s2", roots=(REPO, USER), window=(Utterance("user", text),))
    classifier = RuleClassifier(lambda _, names: (), LocalClassifier(None).refine)
    answer = classifier.classify(event, (), deadline=0, attempts=0)
    with pytest.raises(StopIteration) as ended:
        answer.send(None)
    return decided(event, ended.value.value, held)


def decided(event: Event, classified: Classified, held: list[Memory]) -> tuple[DecidedMemory, ...]:
    existing = ExistingMemories(event, {REPO: held, USER: []}, TentativeStatements())
    return decide(event, classified, existing, lambda _, __: None, NOW)[0]


def live(held: list[Memory], documents: tuple[DecidedMemory, ...]) -> list[Memory]:
    everything = [*held, *(each.memory for each in documents if not each.waits)]
    return build_chains(everything).heads(everything)


def test_a_plain_sentence_changes_a_memory_in_each_shape() -> None:
    right, missed = Counter[str](), list[Shape]()
    for shape in SHAPES:
        held = [first(shape.first)]
        is_right = shape.is_right(live(held, said(shape.second, held)))
        right[shape.shape] += is_right
        missed += [] if is_right else [shape]

    assert {name: right[name] for name in RIGHT if right[name] < RIGHT[name]} == {}, missed


@pytest.mark.parametrize("language", sorted({shape.language for shape in SHAPES}))
def test_in_a_store_of_all_first_memories_nothing_else_is_replaced(language) -> None:
    mine = [shape for shape in SHAPES if shape.language == language]
    held = [first(text, number) for number, text in enumerate(dict.fromkeys(shape.first for shape in mine))]
    wrong = []
    for shape in mine:
        gone = {each.id for each in held} - {each.id for each in live(held, said(shape.second, held))}
        wrong += [
            (shape.second, each.content) for each in held if each.id in gone and each.content != shape.first
        ]

    assert wrong == []


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        (
            "The export is CSV and goes to out/exports.",
            "It's parquet now, not CSV.",
            "The export is parquet and goes to out/exports.",
        ),
        ("We format with black.", "No, ruff, please.", "We format with ruff."),
        (
            "Sampled at 50 Hz, uploaded every 20 minutes.",
            "uploaded every 45 minutes",
            "Sampled at 50 Hz, uploaded every 45 minutes.",
        ),
        (
            "Tiles come from port 8085 and go to /var/tiles.",
            "I moved the tiles to /mnt/maps",
            "Tiles come from port 8085 and go to /mnt/maps.",
        ),
        ("我们用 black 格式化。", "不，用 ruff。", "我们用 ruff 格式化。"),
        (
            "The web server is on 7070 and metrics are on 7071.",
            "The metrics go to 7099 now.",
            "The web server is on 7070 and metrics are on 7099.",
        ),
        (
            "Temperatur alle 30 Sekunden und Luftfeuchte alle 90 Sekunden.",
            "Temperatur bitte nur noch alle 50 Sekunden.",
            "Temperatur alle 50 Sekunden und Luftfeuchte alle 90 Sekunden.",
        ),
        (
            "La temperatura cada 30 segundos y la humedad cada 90 segundos.",
            "La humedad ahora cada 50 segundos.",
            "La temperatura cada 30 segundos y la humedad cada 50 segundos.",
        ),
        (
            "La température toutes les 30 secondes et l'humidité toutes les 90 secondes.",
            "L'humidité toutes les 50 secondes maintenant.",
            "La température toutes les 30 secondes et l'humidité toutes les 50 secondes.",
        ),
        (
            "A temperatura a cada 30 segundos e a umidade a cada 90 segundos.",
            "A umidade agora a cada 50 segundos.",
            "A temperatura a cada 30 segundos e a umidade a cada 50 segundos.",
        ),
        (
            "温度每 30 秒采一次，湿度每 90 秒采一次。",
            "湿度改成每 50 秒。",
            "温度每 30 秒采一次，湿度每 50 秒。",
        ),
        (
            "温度は30秒ごと、湿度は90秒ごと。",
            "湿度は50秒ごとにします。",
            "温度は30秒ごと、湿度は50秒ごとにします。",
        ),
        ("The web server is on 7070 and metrics are on 7071.", "It is on 7099 now.", ""),
        (
            "We format with black, black runs in CI.",
            "No, ruff, please.",
            "We format with ruff, ruff runs in CI.",
        ),
        ("Tabs in uart.c, since the rest has tabs.", "uart.c is indented with spaces, please.", ""),
        ("The gateway listens on port 8080.", "The gateway listens on port 9000 now.", ""),
        ("Deploys run on Fridays.", "Nobody deploys by hand any more.", ""),
    ],
)
def test_a_part_is_changed_in_place_and_a_whole_statement_takes_the_place(older, newer, expected) -> None:
    assert successor_of(newer, older) == expected


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Diagrams are drawn with PlantUML.", "Mermaid from here on. No PlantUML any more."),
        ("Diagramme zeichnen wir mit PlantUML.", "Mermaid ab hier. Kein PlantUML mehr."),
        ("Wir formatieren mit black.", "Formatiert wird mit ruff. Nicht mehr mit black."),
        ("Formateamos con black.", "Ahora formateamos con ruff. Ya no con black."),
        ("On formate avec black.", "On formate avec ruff. Plus jamais avec black."),
        ("Formatamos com black.", "Formatamos com ruff. Não mais com black."),
        ("我们用 black 格式化。", "以后用 ruff 格式化。不再用 black。"),
        ("black で整形します。", "今後は ruff で整形します。black はもう使いません。"),
    ],
)
def test_a_brief_correction_keeps_all_its_sentences(older, newer) -> None:
    held = [first(older)]
    (document,) = said(newer, held)

    assert document.memory.supersedes == "mem_1"
    name = next(word for word in ("mermaid", "ruff") if word in newer.casefold())
    assert name in document.memory.content.casefold()


def test_a_third_value_replaces_the_head_of_a_chain_of_which_it_shares_one_word() -> None:
    one = first("The timeout of the sap rfc is 30 seconds, the terminals do not wait longer.")
    reason = "Since the workers were blocked for a whole day in the plant and nobody could book a pallet"
    long = f"{reason}, it is 45 for the rfc, which all of them have agreed to in writing since then."
    two = first(long, 2, supersedes="mem_1", version=2)
    assert not is_evident("The sap rfc timeout is back to 30 seconds now.", two.content)
    documents = said("The sap rfc timeout is back to 30 seconds now.", [one, two])

    kept = live([one, two], documents)
    assert [each.supersedes for each in kept] == ["mem_2"]


@pytest.mark.parametrize("origin", ["file", "agent", "model", "import"])
def test_words_of_others_stay_in_no_version_that_counts_as_typed(origin) -> None:
    held = [first("We format with black.")]
    (document,) = said("No, ruff, please.", held)
    assert document.memory.content == "We format with ruff."

    others = [first("We format with black.", origin=origin)]
    assert "format" not in said("No, ruff, please.", others)[0].memory.content


def test_a_model_that_replaces_everything_with_everything_hides_nothing_across_subjects() -> None:
    event = Event(session_id="s2", roots=(REPO, USER))
    wrong = []
    for shape in SHAPES:
        others = {each.first for each in SHAPES if each.language == shape.language} - {shape.first}
        for number, other in enumerate(sorted(others)):
            held = [first(other, number)]
            proposal = Proposal(shape.second, "repo", Category.PROJECT_CONVENTIONS, supersedes=held[0].id)
            documents = decided(event, Classified((proposal,)), held)
            wrong += [(shape.second, other) for each in documents if each.memory.supersedes]

    assert len(wrong) <= MOST_WRONG, wrong


DOUBTED = ("The night build starts at 22:00.", "The night build starts at 23:00, the disks are slow.")


def test_a_doubtful_replacement_is_asked_and_both_count_meanwhile() -> None:
    older, newer = DOUBTED
    held = [first(older)]
    written, question = said(f"Remember: {newer}", held)

    assert question.is_question
    assert not written.is_question
    assert older in question.waits
    assert [each.content for each in live(held, (written, question))] == [older, written.memory.content]
    assert written.memory.related == (Related("mem_1", Relationship.CONTRADICTS),)
    assert question.memory.supersedes == "mem_1"
    everything = [*held, written.memory, question.memory]
    assert build_chains(everything).heads(everything) == [question.memory]
