"""Server-sent events of a chat endpoint, read as they come and as a whole."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import ProviderError
from forged.models import Completion, streams


def event(content: object = None, *, end: str | None = None, **delta: object) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": content, **delta}, "finish_reason": end}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
BODY = (
    b": a sign of life\n\n"
    + event("")
    + event("Tabs are ")
    + event("used.\n")
    + event("缩进用制表符。")
    + event(None, end="stop")
    + USAGE
    + DONE
)
SAID = "Tabs are used.\n缩进用制表符。"


def read(body: bytes) -> Completion:
    return streams.completion("http://x", body, ("sys", "user"))


def begins_in_thought(body: bytes) -> bool:
    return streams.said("http://x", body).begins_in_thought


def test_a_stream_says_what_its_deltas_say_together():
    assert read(BODY) == Completion(SAID, 7, 3)


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_where_a_stream_is_cut_into_chunks_makes_no_difference(cuts):
    stream, places = streams.Stream(), [0, *sorted(cuts), len(BODY)]
    for start, stop in pairwise(places):
        stream.feed(BODY[start:stop])

    assert (stream.said.answer, stream.said.whole, stream.events) == (SAID, True, 6)


@given(st.integers(0, len(BODY)))
def test_of_a_stream_that_breaks_off_the_beginning_is_kept(cut):
    stream = streams.Stream()
    stream.feed(BODY[:cut])

    assert SAID.startswith(stream.said.answer)
    assert stream.said.whole == (b'"stop"' in BODY[:cut] and b"\n" in BODY[:cut].split(b'"stop"')[1])


def test_a_reply_in_one_piece_is_read_as_ever():
    body = json.dumps({"choices": [{"message": {"content": SAID}}]}).encode()

    assert (read(body).text, read(body).whole) == (SAID, True)


def test_carriage_returns_and_blanks_after_colons_are_no_part_of_an_event():
    assert read(BODY.replace(b"\n", b"\r\n")).text == SAID
    assert read(BODY.replace(b"data: ", b"data:")).text == SAID


def test_lines_may_end_with_carriage_returns_alone():
    assert read(BODY.replace(b"\n", b"\r")).text == SAID


def test_a_byte_order_mark_in_front_is_no_part_of_the_first_event():
    assert read(b"\xef\xbb\xbf" + event("Tabs") + DONE).text == "Tabs"
    assert (
        read(b"\xef\xbb\xbf" + json.dumps({"choices": [{"message": {"content": SAID}}]}).encode()).text
        == SAID
    )


OVER_LINES = b'data: {"choices": [\ndata:   {"delta":\ndata:    {"content": "Tabs"}\ndata:   }\ndata: ]}\n\n'


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_event_may_come_over_several_lines(line_end):
    body = (OVER_LINES + event(" are used.") + DONE).replace(b"\n", line_end)

    assert read(body).text == "Tabs are used."
    for at in range(len(body)):
        stream = streams.Stream()
        stream.feed(body[:at])
        stream.feed(body[at:])
        assert stream.said.answer == "Tabs are used."


def test_a_broken_event_does_not_take_the_next_one_along_where_no_empty_line_parts_them():
    body = b'data: {"choices": [{"del\n' + event("Tabs").strip() + b"\n" + event(" are used.").strip()

    assert read(body).text == "Tabs are used."


def test_many_lines_that_are_no_event_hide_no_answer():
    assert read(b"data: {\n" * 200_000 + b"\n" + event("Tabs") + DONE).text == "Tabs"


def test_a_line_that_says_nothing_costs_only_itself():
    at = BODY.index(b"data: ")
    for line in (
        b"event: message",
        b"id: 7",
        b"retry: 100",
        b": ping",
        b"data: {broken",
        b"data: [1]",
        b"data:",
        b"?",
    ):
        assert read(BODY[:at] + line + b"\n\n" + BODY[at:]).text == SAID


THINKING = event(None, reasoning_content="Hm, ") + event(None, reasoning_content="tabs.")
TWO_CHOICES = b'data: {"choices":[{"delta":{"content":"one"}},{"delta":{"content":"two"}}]}\n\n'
PARTS = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Tabs."}]
TEXTS = {
    "no line end behind the last event": (event("Tabs") + event(" are used.").strip(), "Tabs are used."),
    "thoughts before an answer": (THINKING + event("Spaces.") + DONE, "Spaces."),
    "nothing but thoughts": (THINKING + DONE, "Hm, tabs."),
    "thoughts that are no text": (event("Tabs.", reasoning={"tokens": 7}) + DONE, "Tabs."),
    "content in parts": (event(PARTS) + DONE, "Tabs."),
    "a second choice": (TWO_CHOICES + DONE, "one"),
    "nothing": (DONE, ""),
}


@pytest.mark.parametrize(("body", "text"), TEXTS.values(), ids=TEXTS)
def test_what_a_stream_answers_is_found(body, text):
    assert read(body).text == text


def test_a_thought_that_the_template_began_is_told_by_its_end():
    assert begins_in_thought(event("Hm, tabs?") + event("</think>\nSpaces.") + DONE)
    assert not begins_in_thought(event("<think>Hm.</think>Spaces.") + DONE)
    assert not begins_in_thought(event("Spaces.") + DONE)


def test_an_open_think_block_is_no_text_yet():
    stream = streams.Stream()

    stream.feed(event("<think>Let me see.\n"))
    assert stream.said.answer == ""
    stream.feed(event("Tabs?</think>\nSpaces.\n"))
    assert stream.said.answer == "Spaces."


def test_tokens_that_nobody_counted_are_estimated_from_what_came():
    found = read(event("Tabs are used.") + DONE)

    assert (found.prompt_tokens, found.completion_tokens) == (2, 4)


GAVE_UP = b'{"error":{"message":"overloaded","code":529}}'


@pytest.mark.parametrize(
    "gave_up",
    [
        GAVE_UP,
        b'{"choices":null,"error":{"message":"overloaded","code":529}}',
        b'{"choices":[{"delta":null,"error":{"message":"overloaded","code":529}}]}',
        b'{"object":"error","message":"overloaded","code":529}',
    ],
    ids=["plain", "without choices", "OpenRouter, in a choice", "vLLM"],
)
def test_the_event_in_which_a_server_gives_up_is_an_error_body(gave_up):
    assert streams.error_in(event("Tabs") + b"data: " + gave_up + b"\n\n" + DONE) == gave_up
    assert streams.error_in(event("Tabs") + b"data: " + gave_up + b"\n\n") == gave_up


def test_without_such_an_event_there_is_no_error_body():
    assert streams.error_in(BODY) == streams.error_in(GAVE_UP) == b""


@pytest.mark.parametrize("before", [b"", event("Tabs")])
def test_llama_cpp_gave_up_in_a_field_of_its_own(before):
    body = before + b'error: {"code":400,"message":"exceeds the available context size"}\n\n' + DONE

    assert json.loads(streams.error_in(body))["error"]["code"] == 400


@pytest.mark.parametrize("nothing", [{"delta": None}, {"text": ""}, {"delta": {}}])
def test_the_end_may_come_without_a_delta(nothing):
    end = {"choices": [{"finish_reason": "stop", **nothing}]}

    assert read(event("Tabs") + b"data: " + json.dumps(end).encode() + b"\n\n").whole


def test_tokens_may_be_counted_beside_no_choices():
    usage = b'data: {"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'

    assert read(event("Tabs") + usage + DONE) == Completion("Tabs", 7, 3)


def test_what_is_neither_a_stream_nor_json_is_a_bad_reply():
    with pytest.raises(ProviderError, match="no JSON"):
        read(b"<!doctype html>")


def test_a_watcher_is_asked_after_each_event_and_not_for_signs_of_life():
    heard: list[str] = []

    def enough(text: str) -> bool:
        heard.append(text)
        return text.endswith("used.")

    seen = streams.Watch(enough, clear=lambda _: True)
    found = [
        seen(chunk) for chunk in (b": ping\n\n", event("Tabs "), event("are us")[:-2], b"\n", event("ed."))
    ]

    assert found == [False, False, False, False, True]
    assert heard == ["Tabs", "Tabs are us", "Tabs are used."]
