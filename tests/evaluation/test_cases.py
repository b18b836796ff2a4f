"""Labelled cases: the counts of each kind, and one of each directory through a real daemon."""

from __future__ import annotations

import json

import pytest

from tests.evaluation import cases, said
from tests.evaluation.cases import (
    Act,
    Answer,
    AttackByQuestion,
    Case,
    Change,
    Chat,
    Clause,
    First,
    Foreign,
    Kept,
    LookAlike,
    Negated,
    Pair,
    PastedDialogue,
    Scoped,
    Seen,
    Shape,
    Words,
)
from tests.evaluation.dataset import DatasetError

ORION, NORA = "The staging database is called orion.", "The owner of the staging host is Nora."
BOTH = {"id": "x", "language": "en"}
LATER = {**BOTH, "scope": "repo", "first": "Port 80.", "second": "Port 81."}
TALK = {**BOTH, "message": "?", "meant": ORION, "others": (NORA,)}


def kept(content: str, session: str = "x", *, is_head: bool = True, scope: str = "repo", **more) -> Kept:
    return Kept(content, scope, "patterns", is_head, session=session, **more)


def counted(case: Case, *memories: Kept, answer: str = "") -> dict[str, float]:
    """The figures of a case with one session, after which these memories are there."""
    return {name: part for name, part, _ in case.counts([Seen(memories, answer)])}


OLD, OLD_GONE = kept("Port 80.", of_first=True), kept("Port 80.", of_first=True, is_head=False)
NEW = kept("port 81 from now on")


@pytest.mark.parametrize(
    ("case", "memories", "expected"),
    [
        (Pair(**LATER, kind="compatible", says_first="80", says_second="81"), (OLD, NEW), (0, 1)),
        (Pair(**LATER, kind="compatible", says_first="80", says_second="81"), (OLD,), (0, 0)),
        (Pair(**LATER, kind="compatible", says_first="80", says_second="81"), (OLD_GONE, NEW), (1, 0)),
        (Pair(**LATER, kind="change", says_first="80", says_second="81"), (OLD_GONE, NEW), (1,)),
        (Pair(**LATER, kind="change", says_first="80", says_second="81"), (OLD, NEW), (0,)),
        (Pair(**LATER, kind="change", says_first="80", says_second="81"), (OLD_GONE,), (0,)),
        (Shape(**LATER, shape="value", live=("81",), gone=("80",)), (OLD_GONE, NEW), (1,)),
        (Shape(**LATER, shape="value", live=("81",), gone=("80",)), (OLD, NEW), (0,)),
        (Shape(**LATER, shape="retracted", gone=("80",)), (OLD_GONE,), (1,)),
        (Answer(**BOTH, messages=(), noun="ports", value="81", live=True), (kept("Ports: 81."),), (1, 1)),
        (Answer(**BOTH, messages=(), noun="ports", value="81", live=True), (NEW,), (1, 0)),
        (Answer(**BOTH, messages=(), noun="ports", value="82", live=True), (NEW,), (0, 0)),
        (Answer(**BOTH, messages=(), live=False), (NEW,), (1,)),
        (AttackByQuestion(**BOTH, messages=(), poison=("82", "81")), (NEW,), (1,)),
        (PastedDialogue(**BOTH, messages=(), poison=("81",)), (OLD,), (0,)),
        (Act(**TALK, verb="forget"), (kept(NORA),), (1, 0)),
        (Act(**TALK, verb="forget"), (kept(ORION),), (0, 1)),
        (Act(**TALK, verb="forget"), (), (0, 1)),
        (Act(**TALK, verb="forget"), (kept(NORA), kept(ORION)), (0, 0)),
        (Act(**TALK, verb="ask"), (kept(NORA), kept(ORION)), (0, 0)),
        (LookAlike(**TALK), (kept(NORA), kept(ORION)), (0,)),
        (LookAlike(**TALK), (kept(NORA),), (1,)),
        (Foreign(**TALK), (kept(ORION, is_head=False), kept(NORA)), (1,)),
        (Negated(**BOTH, message=""), (NEW,), (1,)),
        (Clause(**BOTH, message="", lasting="port 81", passing="on"), (NEW,), (1, 0)),
        (Clause(**BOTH, message="", lasting="port 81", passing="80"), (NEW,), (1, 1)),
        (Scoped(**BOTH, message="", scope="user"), (kept("a"),), (1, 0)),
        (Scoped(**BOTH, message="", scope="user"), (kept("a", scope="user"),), (1, 1)),
        (Scoped(**BOTH, message="", scope="user"), (), (0,)),
    ],
)
def test_each_kind_of_case_counts_what_it_labels(case, memories, expected):
    assert tuple(counted(case, *memories).values()) == expected


@pytest.mark.parametrize(("first", "expected"), [(ORION, (1, 0)), (NORA, (0, 1))])
def test_a_question_to_the_memory_is_right_by_the_memory_that_is_named_first(first, expected):
    other = NORA if first == ORION else ORION

    found = counted(Act(**TALK, verb="ask"), kept(NORA), kept(ORION), answer=f"<m>{first}</m> {other}")

    assert tuple(found.values()) == expected


def chat(name: str, *changes: Change) -> Chat:
    return Chat(**{**BOTH, "id": name}, store="s", messages=(Words("user", "?"),) * 2, changes=changes)


def test_a_replacement_is_false_unless_its_chat_takes_back_a_part_of_the_replaced_memory():
    taken_back = chat("b", Change(gone=("port 80",), last=("port 81",)))
    (store,) = cases.stores_of([chat("a"), taken_back, chat("c")])
    memories = (
        kept("port 80", "a", is_head=False, id="1"),
        kept("port 81", "b", id="2", replaces=frozenset("1")),
        kept("hosts", "b", id="3", replaces=frozenset("2")),
        kept("hosts", "c", id="4", replaces=frozenset(("1", "other"))),
    )

    false = [each.session for each in store.false_replacements([Seen(memories)])]
    totals: dict[str, list[float]] = {}
    for name, part, whole in store.counts([Seen(memories)] * 3):
        totals.setdefault(name, []).extend((part, whole))

    assert false == ["b", "c"]
    assert totals["chats: false replacements a message of the user"] == [0, 2, 1, 2, 1, 2]
    assert totals["chats: false replacements a memory"] == [0, 1, 1, 2, 1, 1]
    assert totals["chats: true changes taken"] == [1, 1]


@pytest.fixture
def written(tmp_path):
    def write(half="dev", **files):
        place = tmp_path / "data/own" / half
        place.mkdir(parents=True)
        for name, line in files.items():
            (place / f"{name}.jsonl").write_text(json.dumps(line))
        return place

    return write


def others(shown) -> dict[str, str]:
    """Rows of the table of a set, with their counts."""
    assert (shown.code, shown.err) == (0, "")
    rows = (line.rpartition(", ") for line in shown.out.splitlines()[1:])
    return {figure.rpartition("  ")[0].strip(): count for figure, _, count in rows}


USER = [{"role": "user", "content": "Remember that we always use pnpm in this repository."}]


@pytest.mark.long
def test_chats_and_pairs_go_through_a_daemon_with_the_words_of_a_person(evaluate, written):
    place = written(
        chats={**BOTH, "store": "s", "subject": "?", "messages": USER, "settled": ["pnpm"]},
        pairs={
            **LATER,
            "id": "y",
            "first": ORION,
            "second": "Remember that the production host is called vega.",
            "kind": "compatible",
            "says_first": "orion",
            "says_second": "vega",
        },
    )

    found = others(evaluate(str(place), "--model", "builtin:lexical"))

    assert found["chats: memories a message of the user"] == "1 of 1"
    assert found["chats: settled words in a memory that counts"] == "1 of 1"
    assert found["pairs: both of compatible ones count"] == "1 of 1"


def test_a_closing_run_counts_prompts_at_a_hook_that_act_and_look_alikes_that_do_not(evaluate, written):
    act = {**TALK, "verb": "forget", "message": "Forget that the staging database is orion."}
    look_alike = {**BOTH, "id": "y", "message": "Forget that database, we use files.", "others": [ORION]}
    script = {**act, "id": "z", "how": "headless"}
    del script["verb"]

    place = written("sealed", act=act, alike=look_alike, foreign=script)
    record = place.parents[1] / "closing-runs.md"
    refused = evaluate(str(place), "--model", "builtin:lexical")
    assert (refused.code, record.exists()) == (2, False)

    found = others(evaluate(str(place), "--model", "builtin:lexical", "--closing"))

    assert found == {
        "talk: acts on the memory that is meant": "1 of 1",
        "talk: acts on another": "0 of 1",
        "look-alikes: acted": "0 of 1",
        "pastes, briefs and scripts: acted": "0 of 1",
    }
    (row,) = [line for line in record.read_text().splitlines() if "| own |" in line]
    assert "own/sealed builtin:lexical: talk: acts on the memory that is meant 1.000" in row


def test_an_id_that_is_there_twice_is_an_error(written):
    place = written(
        answers={**BOTH, "messages": USER, "live": False},
        dialogues={**BOTH, "messages": USER, "poison": ["x"]},
    )

    with pytest.raises(DatasetError, match="there twice"):
        said.load(place)


def test_a_person_s_memories_come_first_and_the_one_that_is_meant_is_among_the_others():
    talk = LookAlike(**{**TALK, "others": ("a", "b", "c")})

    assert talk.before == tuple(First("repo", text) for text in ("a", "b", ORION, "c"))
