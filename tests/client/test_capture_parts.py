"""A window in parts: all of it arrives, in order, and no part is above the limit of a frame."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged_client.capture_parts import PART_BYTES, SplitCapture
from forged_client.framing import encode
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import CONTINUED_OVERLAP, MAX_CAPTURE_BYTES, Capture, ContentPart, Message
from tests.faults.amount import times

REQUEST = Capture(workspace="/w", session_id="s", kind="compaction", event_id="e")


def parts_of(*messages: object, start: int = 0, limit: int = PART_BYTES) -> list[Capture]:
    return list(SplitCapture(REQUEST, MessageSnapshot(messages, start), limit_bytes=limit))


def together(parts: list[Capture]) -> list[tuple[str, object]]:
    """The messages as the daemon puts them together."""
    found: list[tuple[str, object]] = []
    for part in parts:
        for position, message in enumerate(part.messages):
            if part.begun and not position:
                role, begun = found[-1]
                assert role == message.role
                assert str(begun).endswith(str(message.content)[:CONTINUED_OVERLAP])
                found[-1] = (role, str(begun) + str(message.content)[CONTINUED_OVERLAP:])
            else:
                found.append((message.role, message.content))
    return found


@pytest.mark.parametrize("sign", ["x", "读"], ids=["ascii", "chinese"])
@pytest.mark.parametrize("size", [PART_BYTES - 63, 2 * PART_BYTES, 3 * PART_BYTES + 7])
def test_a_message_longer_than_a_part_goes_on_in_the_next(sign, size):
    text = "".join(f"{n}{sign}" for n in range(size // (7 + len(sign.encode())) + 50_000))[: size + 1]
    before, after = Message("user", "before"), Message("user", "after")

    parts = parts_of(before, Message("assistant", text), after)

    assert len(parts) > 2
    assert max(len(encode(part)) for part in parts) < MAX_CAPTURE_BYTES
    assert together(parts) == [("user", "before"), ("assistant", text), ("user", "after")]
    assert [part.goes_on for part in parts] == [part.begun for part in parts[1:]] + [False]


@settings(max_examples=times(50, 15), deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=40), max_size=12))
def test_any_texts_are_sent_whole_whatever_a_part_holds(texts):
    said = [Message("user", text) for text in texts]

    parts = parts_of(*said, limit=400)

    wanted = [text.encode("utf-8", "replace").decode() for text in texts if text]
    assert [str(content) for _, content in together(parts)] == wanted
    assert all(encode(part) for part in parts)


def test_texts_that_cannot_be_sent_as_they_are_are_counted():
    parts = SplitCapture(REQUEST, MessageSnapshot([Message("user", "a\ud800b"), Message("user", "c")], 0))

    (part,) = parts

    assert [message.content for message in part.messages] == ["a?b", "c"]
    assert parts.repaired == 1


def test_what_is_no_text_is_named_also_next_to_a_text_that_is_too_long():
    image = {"type": "image", "source": "x"}
    short, long = ([image, {"type": "text", "text": text}] for text in ("a", "x" * 2 * PART_BYTES))

    (part,) = parts_of({"role": "user", "content": short})
    parts = parts_of({"role": "user", "content": long})

    assert part.messages == (Message("user", (ContentPart(type="image"), ContentPart(text="a"))),)
    assert parts[-1].messages[-1] == Message("user", (ContentPart(type="image"),))


def conversation(*said: str) -> list[Message]:
    roles = {"u": "user", "a": "assistant", "t": "tool"}
    return [Message(roles[each[0]], each[2:]) for each in said]


@pytest.mark.parametrize(
    ("said", "start", "left"),
    [
        (("u:a <private>b", "a:b", "t:b", "u:b</private> c", "a:d"), 0, ["a ", " c", "d"]),
        (("u:<private><private>b", "u:b</private>b", "u:b</private> c"), 0, [" c"]),
        # Only a person opens a span over messages, and only a person closes it.
        (("a:a <private>b", "u:c"), 0, ["a ", "c"]),
        (("u:a <private>b", "a:b</private>b", "u:b"), 0, ["a "]),
        # One that was opened before the summary is private after it.
        (("u:<private>b", "a:b", "u:b</private> c"), 2, [" c"]),
    ],
)
def test_private_spans_are_cut_before_anything_is_put_into_parts(said, start, left):
    (part,) = parts_of(*conversation(*said), start=start)

    assert [message.content for message in part.messages] == left


def test_a_large_window_is_not_held_twice():
    """A window of 40 MB needs a few frames of memory besides the agent's texts, not another 40 MB."""
    said = MessageSnapshot([{"role": "user", "content": f"{n}" + "读书" * 3_000} for n in range(2_200)], 0)
    texts = [text for _, text, _ in said]
    before = sum(map(sys.getsizeof, texts))
    tracemalloc.start()
    try:
        for part in SplitCapture(REQUEST, said):
            encode(part)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert before > 25_000_000
    assert most < 5 * MAX_CAPTURE_BYTES
    assert sum(map(sys.getsizeof, texts)) == before, "the agent's own texts have grown"
