"""Parsing of a line from any program."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.mcp import messages
from forged.mcp.messages import MessageError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"{", messages.NOT_JSON, None),
        (b"\xff\xfe", messages.NOT_JSON, None),
        (b"[" * 100_000, messages.NOT_JSON, None),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', messages.NOT_JSON, None),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', messages.NOT_JSON, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', messages.NO_REQUEST, None),
        (b'"ping"', messages.NO_REQUEST, None),
        (b'{"id":1,"method":"ping"}', messages.NO_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', messages.NO_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', messages.NO_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}', messages.NO_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"method":5}', messages.NO_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":""}', messages.NO_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7}', messages.NO_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":[1]}', messages.WRONG_PARAMS, 7),
    ],
)
def test_what_is_no_message_is_refused_with_its_id_if_it_has_one(line, code, number):
    with pytest.raises(MessageError) as refused:
        messages.parse_line(line)

    assert (refused.value.code, refused.value.number) == (code, number)
    assert json.loads(messages.error_line(refused.value))["id"] == number


@given(JSON)
def test_whatever_a_line_holds_it_is_a_message_or_refused(said):
    with contextlib.suppress(MessageError):
        messages.parse_line(json.dumps(said).encode())


@given(st.text() | st.integers(), st.text())
def test_a_line_has_one_end_and_comes_back_as_it_was(number, text):
    line = messages.answer_line(number, {"text": text})

    assert line.count(b"\n") == 1
    assert line.isascii()
    assert json.loads(line) == {"jsonrpc": "2.0", "id": number, "result": {"text": text}}
