from __future__ import annotations

from dataclasses import dataclass

import pytest

from forged_client.capture_parts import SplitCapture
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import Capture, ContentPart, Message
from tests.client.test_messages import Explodes
from tests.data.forms import DRESSES, FORMS, HIDDEN, ROLELESS, SAID


@dataclass
class Sdk:
    role: str
    content: object


def said(*messages: object, start: int = 0) -> list[tuple[str, object, bool]]:
    return list(MessageSnapshot(messages, start))


def read(*messages: object) -> list[str]:
    """The texts that leave."""
    (part,) = SplitCapture(Capture(workspace="/w", session_id="s"), MessageSnapshot(messages, 0))
    return [str(message.content) for message in part.messages]


FORMS_OF_ONE = {
    "OpenAI": {"role": "user", "content": "hello"},
    "Anthropic": {"role": "user", "content": [{"type": "text", "text": "hello"}]},
    "Responses": {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
    "Gemini": {"role": "user", "parts": [{"text": "hello"}]},
    "of strings": {"role": "user", "content": ["hello"]},
    "one part": {"role": "user", "content": {"type": "text", "text": "hello"}},
    "ours": Message("user", "hello"),
    "ours in parts": Message("user", (ContentPart(text="hello"),)),
    "an object": Sdk("user", ["hello"]),
    "beside a tool": {
        "role": "user",
        "content": [{"type": "tool_result"}, {"type": "text", "text": "hello"}],
    },
}


# Tool markup inside a text is the daemon's to cut; all else stays in the agent's process.
STRUCTURED = {name: form for name, form in FORMS.items() if "xml" not in name} | {"roleless": ROLELESS}


@pytest.mark.parametrize("dress", DRESSES.values(), ids=DRESSES)
@pytest.mark.parametrize("form", STRUCTURED.values(), ids=STRUCTURED)
def test_of_every_form_only_what_was_said_leaves(form, dress):
    texts = "\n".join(read(*dress(form)))

    assert SAID in texts
    assert HIDDEN not in texts


@pytest.mark.parametrize(
    "odd",
    [
        *(None, 7, "text", {}, {"role": ["user"]}, {"role": "user"}, {"role": "user", "content": 7}),
        *({"role": "user", "content": [7]}, {"role": "user", "content": [{"type": ["text"], "text": "x"}]}),
        *({"role": "tool", "content": "x"}, {"role": "system", "content": "x"}),
        pytest.param(object(), id="object"),
        pytest.param(Explodes(), id="explodes"),
        {"role": "assistant", "content": None, "tool_calls": []},
    ],
)
def test_what_no_one_said_is_passed_over(odd):
    assert said(odd, {"role": "user", "content": "after"}) == [("user", "after", True)]


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ({"type": "image", "source": {"data": "x"}}, "image"),
        ({"type": "image_url", "image_url": {"url": "x"}}, "image_url"),
        ({"inline_data": {"data": "x"}}, "inline_data"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "object"])
def test_what_is_no_text_leaves_its_name_and_nothing_else(part, name, form):
    parts = [part, {"type": "text", "text": "see"}]
    message = {"role": "user", "content": parts} if form == "dict" else Sdk("user", parts)

    assert said(message) == [("user", (ContentPart(type=name), "see"), True)]


def test_messages_may_be_changed_afterwards():
    message = {"role": "user", "content": [{"type": "text", "text": "as it was"}]}
    taken = MessageSnapshot([message], 0)
    message["content"][0]["text"] = "changed"
    message["role"] = "assistant"

    assert list(taken) == [("user", "as it was", True)]


@pytest.mark.parametrize(
    ("index", "window"),
    [(0, "ab"), (1, "b"), (2, "b"), (3, ""), *((odd, "ab") for odd in (-1, 4, 10**30, None, "x"))],
)
def test_the_window_begins_after_the_summary_unless_that_is_outside_the_list(index, window):
    messages = [
        {"role": role, "content": text} for role, text in (("user", "a"), ("tool", "t"), ("user", "b"))
    ]

    assert "".join(str(text) for _, text, inside in MessageSnapshot(messages, index) if inside) == window


def turns(*texts: str, start: int = 0) -> MessageSnapshot:
    return MessageSnapshot([Message("user", text) for text in texts], start)


@pytest.mark.parametrize(
    ("newer", "older", "holds"),
    [
        (turns("a", "b"), turns("a"), True),
        (turns("a"), turns("a"), True),
        (turns("a"), turns("a", "b"), False),
        (turns("A", "b"), turns("a"), False),
        (turns("b"), turns("a"), False),
        (turns("a", "b", start=1), turns("a"), False),
    ],
)
def test_a_window_holds_another_that_it_begins_with(newer, older, holds):
    assert newer.begins_with(older) is holds
