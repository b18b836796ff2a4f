"""Keys of turns: which requests are of one turn, and that a list which goes on is not read again."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from forged.sessions import transcript
from forged.sessions.turns import TurnKeys
from forged.stores import Workplace
from forged_client.protocol import ContentPart, Message
from tests.sessions.made import workplace

QUESTION = Message("user", "What does the walrus eat?")
ANSWER, RESULT = Message("assistant", "I look."), Message("user", (ContentPart("tool_result", "output"),))
REMINDER = Message("user", (ContentPart(text="<system-reminder>The file changed.</system-reminder>"),))


def place(*shown: int, **fields: object) -> Workplace:
    return workplace(shown=shown, **fields)


class Asked(msgspec.Struct, frozen=True):
    """The part of a request that makes a turn."""

    turn_id: str
    messages: tuple[Message, ...]
    summary: int = 0
    hypotheses: tuple[str, ...] = ()


HERE = place(1, 2)
NAMED = Asked("t", (QUESTION,))
UNNAMED = replace(NAMED, turn_id="")


def a_session(session_id: str = "s") -> TurnKeys:
    return TurnKeys(session_id)


def key_of(request: Asked, where: Workplace, keys: TurnKeys):
    return keys.of(where, request.turn_id, request.messages, request.summary, request.hypotheses)


def key(request: Asked, *messages: Message, where: Workplace = HERE, **fields: object):
    asked = replace(request, messages=messages or request.messages, **fields)
    return key_of(asked, where, a_session())


@pytest.mark.parametrize("request_", [NAMED, UNNAMED], ids=["named", "unnamed"])
@pytest.mark.parametrize(
    "added",
    [
        (ANSWER,),
        (ANSWER, RESULT),
        (ANSWER, RESULT, REMINDER, ANSWER),
        (Message("tool", "output"), Message("user", " \n"), Message("model", parts=(ContentPart(text="x"),))),
        (Message("user", parts=(ContentPart(),)), Message("function", parts=(ContentPart(),))),
        (Message("system", "rules"),),
    ],
)
def test_what_assistant_tools_and_harness_add_asks_for_the_same(request_, added):
    assert key(request_, QUESTION, *added) == key(request_)


@pytest.mark.parametrize("request_", [NAMED, UNNAMED], ids=["named", "unnamed"])
@pytest.mark.parametrize(
    "other",
    [
        {"turn_id": "t2"},
        {"hypotheses": ("a",)},
        {"messages": (Message("user", "And its tusks?"),)},
        {"messages": (QUESTION, ANSWER, Message("user", "And its tusks?"))},
        {
            "messages": (
                QUESTION,
                ANSWER,
                Message("user", (ContentPart("tool_result"), ContentPart(text="no, stop"))),
            )
        },
    ],
)
def test_another_message_or_question_is_another_turn(request_, other):
    assert key_of(replace(request_, **other), HERE, a_session()) != key(request_)


@pytest.mark.parametrize("request_", [NAMED, UNNAMED], ids=["named", "unnamed"])
@pytest.mark.parametrize(
    "there",
    [
        place(1, 2, tops=("/other", "/home")),
        place(1, 2, retrieval_top_k=3),
        place(1, 2, retrieval_hop_depth=0),
    ],
    ids=["repository", "top_k", "hop_depth"],
)
def test_another_place_is_another_turn(request_, there):
    assert key(request_, where=there) != key(request_)


def test_hypotheses_are_not_confused_with_one_another_or_with_the_message():
    keys = [
        key(NAMED, hypotheses=hypotheses) for hypotheses in ((), ("a", "b"), ("a\0b",), ("ab",), ("b", "a"))
    ]

    assert len(set(keys)) == len(keys)


def test_of_an_unnamed_turn_place_what_was_said_before_and_the_maps_count():
    first = key(UNNAMED, QUESTION)
    later = key(UNNAMED, QUESTION, ANSWER, QUESTION)
    other = key(UNNAMED, QUESTION, Message("assistant", "It eats clams."), QUESTION)
    changed = key(UNNAMED, where=place(1, 3))

    assert len({first, later, other, changed}) == 4
    assert key(NAMED, where=place(1, 3)) == key(NAMED)
    assert key(NAMED, QUESTION, ANSWER, QUESTION) == key(NAMED)


@pytest.mark.parametrize(
    "asked",
    [
        replace(UNNAMED, messages=(ANSWER,)),
        replace(UNNAMED, messages=(), hypotheses=("a",)),
        replace(UNNAMED, messages=(QUESTION, ANSWER), summary=1),
    ],
    ids=["nothing typed", "no messages", "typed before the summary"],
)
def test_turns_that_cannot_be_identified_are_not_cached(asked):
    assert key_of(asked, HERE, a_session()) is None


def test_a_turn_that_is_named_may_bring_hypotheses_alone():
    assert key(replace(NAMED, messages=(), hypotheses=("a",))) is not None


# --- lists that grow ------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Texts that were looked through for what a person typed."""
    texts: list[str] = []
    look = transcript.without_tool_text

    def counted(text: str, *more: object) -> str:
        texts.append(text)
        return look(text, *more)

    monkeypatch.setattr(transcript, "without_tool_text", counted)
    return texts


def test_of_a_list_that_grows_only_what_is_new_is_looked_through(read):
    lists, said = a_session(), [QUESTION]
    keys = set()
    for _ in range(20):
        keys.add(key_of(replace(UNNAMED, messages=tuple(said)), HERE, lists))
        said += [ANSWER, REMINDER]

    assert len(keys) == 1
    assert len(read) == 1 + 19


@pytest.mark.parametrize(
    "other",
    [
        (Message("user", "And its tusks?"), ANSWER, REMINDER),
        (QUESTION, Message("user", "And its tusks?"), ANSWER),
        (QUESTION, Message("user", "And its tusks?")),
        (QUESTION, ANSWER, REMINDER, Message("user", "And its tusks?")),
    ],
    ids=["other message", "other end", "shorter", "longer"],
)
def test_a_list_that_does_not_go_on_is_looked_through_anew(other):
    lists = a_session()
    key_of(replace(NAMED, messages=(QUESTION, ANSWER, REMINDER)), HERE, lists)
    asked = replace(NAMED, messages=other)

    assert key_of(asked, HERE, lists) == key_of(asked, HERE, a_session()) != key(NAMED)


def test_lists_of_the_newest_8_turns_are_known(read):
    lists, asked = a_session(), replace(NAMED, messages=(QUESTION, ANSWER))
    for number in range(8):
        key_of(replace(asked, turn_id=str(number)), HERE, lists)
    read.clear()

    key_of(replace(asked, turn_id="1"), HERE, lists)
    key_of(replace(asked, turn_id="another"), HERE, lists)
    assert len(read) == 1
    key_of(replace(asked, turn_id="0"), HERE, lists)
    assert len(read) == 2


def test_nothing_is_kept_of_a_turn_without_a_name_outside_a_session():
    assert key_of(UNNAMED, HERE, a_session("")) is None
    assert key_of(NAMED, HERE, a_session("")) is not None
