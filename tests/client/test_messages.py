from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from forged_client.framing import encode
from forged_client.messages import window
from forged_client.protocol import ContentPart, Message, Retrieve
from tests.data.forms import DRESSES, FORMS, HIDDEN, ROLELESS, SAID


def read(*messages: object, last_summary_index: int = 0, limit: int = 10_000) -> tuple[Message, ...]:
    return window(messages, last_summary_index, limit)


@dataclass
class Sdk:
    role: str
    content: object


@dataclass
class SdkPart:
    type: str
    text: str


@pytest.mark.parametrize(
    "given",
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "hello"}, {"type": "image", "data": "…"}],
        },
        {"role": "user", "content": ["hello"]},
        {"role": "user", "content": {"type": "text", "text": "hello"}, "name": "x"},
        Message("user", "hello"),
        Message("user", (ContentPart(text="hello"),)),
        Sdk("user", "hello"),
        Sdk("user", [SdkPart("text", "hello"), SdkPart("thinking", "hm")]),
    ],
)
def test_every_common_form_of_a_message_is_read(given):
    assert read(given) == (Message("user", "hello"),)


def test_of_messages_that_say_by_their_class_who_speaks_those_of_a_subagent_are_nobodys():
    """As the Claude Agent SDK has them: blocks without a type, too."""
    said = [UserMessage("a question"), AssistantMessage([Block(thinking="hm"), Block(text="an answer")])]
    results = [UserMessage([Block(content="of a tool")]), UserMessage("do this part", "toolu_1")]

    assert read(*said, *results) == (
        Message("user", "a question"),
        Message("assistant", "an answer"),
        Message("user", None),
        Message(""),
    )


class Block(SimpleNamespace):
    pass


@dataclass
class UserMessage:
    content: object
    parent_tool_use_id: str | None = None


class AssistantMessage(UserMessage):
    pass


class Explodes:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __iter__(self) -> object:
        raise RuntimeError


def test_tool_and_system_content_stays_behind_and_positions_stay():
    messages = read(
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "input": {}}]},
        {"role": "tool", "content": "output"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "content": "output"}, {"type": "text", "text": "t"}],
        },
    )

    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "user"]
    assert [message.content for message in messages] == [None, "q", None, None, "t"]


def test_above_the_limit_the_newest_whole_messages_are_kept_and_a_single_one_is_cut():
    messages = read(*(Message("user", letter * 40) for letter in "abc"), limit=100)
    (message,) = read(Message("user", "é" * 100), limit=51)

    assert [m.content for m in messages] == [None, "b" * 40, "c" * 40]
    assert message.content == "é" * 25


def test_private_spans_are_cut_also_over_parts():
    (message,) = read({"role": "user", "content": ["a<private>b", "c</private>d"]})

    assert message.content == (ContentPart(text="a"), ContentPart(text="d"))


# Tool markup inside a text is the daemon's to cut; all else stays in the agent's process.
STRUCTURED = {name: form for name, form in FORMS.items() if "xml" not in name} | {"roleless": ROLELESS}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
@pytest.mark.parametrize("form", STRUCTURED.values(), ids=STRUCTURED)
def test_of_every_form_only_what_was_said_is_sent(form, dress):
    sent = encode(Retrieve(workspace="/w", messages=read(*dress(form))))

    assert HIDDEN.encode() not in sent
    assert SAID.encode() in sent


def texts(conversation):
    return [message.content for message in window(conversation, 0, 1 << 20)]


def conversation(*said):
    roles = {"u": "user", "a": "assistant", "t": "tool"}
    return [{"role": roles[each[0]], "content": each[2:]} for each in said]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (("u:a <private>b", "a:b", "t:b", "u:b</private> c", "a:d"), ["a ", None, None, " c", "d"]),
        (("u:a &lt;private&gt;b", "a:b", "u:b", "a:b"), ["a ", None, "", None]),
        (("u:<private><private>b", "u:b</private>b", "u:b</private> c"), ["", "", " c"]),
        # Only a person opens a span over messages, and only a person closes it.
        (("a:a <private>b", "u:c"), ["a ", "c"]),
        (("u:a <private>b", "a:b</private>b", "u:b"), ["a ", None, ""]),
        (("u:a `<private>` tag", "a:c"), ["a `<private>` tag", "c"]),
    ],
)
def test_a_private_span_reaches_over_messages_until_a_person_closes_it(said, left):
    assert texts(conversation(*said)) == left


def test_a_private_span_that_was_opened_before_the_summary_is_private_after_it():
    said = conversation("u:<private>b", "a:b", "u:b</private> c")

    assert [each.content for each in window(said, 2, 1 << 20)] == [None, None, " c"]
