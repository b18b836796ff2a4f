"""Server-sent events of a chat endpoint, read as they come and as a whole."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_where_a_stream_is_cut_into_chunks_makes_no_difference(cuts):
    stream, places = streams.StreamParser(), [0, *sorted(cuts), len(BODY)]
    for start, stop in pairwise(places):
        stream.feed(BODY[start:stop])

    assert (stream.reply.answer, stream.reply.whole, stream.events) == (SAID, True, 6)


OVER_LINES = b'data: {"choices": [\ndata:   {"delta":\ndata:    {"content": "Tabs"}\ndata:   }\ndata: ]}\n\n'


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_event_may_come_over_several_lines(line_end):
    body = (OVER_LINES + event(" are used.") + DONE).replace(b"\n", line_end)

    assert read(body).text == "Tabs are used."
    for at in range(len(body)):
        stream = streams.StreamParser()
        stream.feed(body[:at])
        stream.feed(body[at:])
        assert stream.reply.answer == "Tabs are used."


@pytest.mark.parametrize("before", [b"", event("Tabs")])
def test_llama_cpp_gave_up_in_a_field_of_its_own(before):
    body = before + b'error: {"code":400,"message":"exceeds the available context size"}\n\n' + DONE

    assert json.loads(streams.error_in(body))["error"]["code"] == 400
