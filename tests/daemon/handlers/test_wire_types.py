"""Wire types to domain types and back: what is read of a conversation, refused, and fits a reply."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.attributes import UNKNOWN
from forged.daemon.handlers.wire_types import (
    check_words,
    fitting,
    generation_of,
    memory_record,
)
from forged.errors import InvalidRequest
from forged.files.roots import Root
from forged.memory import Memory, Scope
from forged.sessions import clean_transcript
from forged_client import protocol as wire
from forged_client.capture_parts import PART_BYTES
from forged_client.framing import encode
from forged_client.messages import window
from tests.data.examples import EXAMPLES
from tests.data.forms import FORMS, HIDDEN, SAID
from tests.data.harness_forms import HARNESS_FORMS, LINE_FORMS, TALK
from tests.data.memories import memory

RECORD = next(each for each in EXAMPLES if isinstance(each, wire.Memories)).memories[0]

EPOCH = "e1"


def utterances(messages, start):
    return asyncio.run(clean_transcript(messages, start)).said


# --- conversations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "read"),
    [(0, "abc"), (1, "bc"), (2, "c"), (3, ""), (-1, "abc"), (-10, "abc"), (4, "abc"), (10**30, "abc")],
)
def test_what_came_before_the_summary_is_not_read_if_it_is_in_the_conversation(start, read):
    messages = [wire.Message("user", text) for text in "abc"]

    assert "".join(each.text for each in utterances(messages, start)) == read


def from_a_raw_client(form):
    return msgspec.msgpack.decode(msgspec.msgpack.encode(form), type=tuple[wire.Message, ...])


ALL_FORMS = FORMS | HARNESS_FORMS | LINE_FORMS


def from_our_client(form):
    return window(form, 0, PART_BYTES)


@pytest.mark.parametrize("sent", [from_a_raw_client, from_our_client])
@pytest.mark.parametrize("form", ALL_FORMS.values(), ids=ALL_FORMS)
def test_of_every_form_only_what_was_said_is_read(form, sent):
    read = "\n".join(each.text for each in utterances(sent(form), 0))

    assert HIDDEN not in read
    assert SAID in read


@pytest.mark.parametrize("text", TALK)
def test_talk_about_such_forms_is_read_as_it_is(text):
    assert [each.text for each in utterances([wire.Message("user", text)], 0)] == [text]


PIECES = st.sampled_from(
    [
        *("<private>", "</private>", "< private >", "&lt;private&gt;", "&lt;/private&gt;", r"<\/private>"),
        *(r"\u003cprivate\u003e", "`<private>`", "`</private>`", "said ", "`", "\n", "é"),
    ]
)
SAYINGS = st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.lists(PIECES, max_size=6).map("".join))


@given(st.lists(SAYINGS, max_size=6), st.integers(0, 6))
def test_client_and_daemon_cut_private_spans_by_one_rule(said, start):
    form = [{"role": role, "content": text} for role, text in said]

    read = utterances(from_a_raw_client(form), start)

    assert utterances(window(form, start, PART_BYTES), start) == read
    again = [wire.Message(each.role, each.text) for each in read]
    assert utterances(again, 0) == read


@pytest.mark.parametrize("text", ["<tool>x</tool>", " <private>x", "<tool_result>x</tool_result>\n"])
def test_a_message_that_holds_nothing_else_is_left_out(text):
    assert utterances([wire.Message("assistant", text)], 0) == ()


def test_no_word_for_a_relationship_is_none_either():
    edges = (wire.Edge("mem_1"), wire.Edge("mem_2", ""))
    with pytest.raises(InvalidRequest, match="unknown relationship ''"):
        check_words(wire.Remember(workspace="/repo", content="text", related=edges))


# --- replies ------------------------------------------------------------------------------------------


def test_a_record_holds_every_field_of_the_file_but_unknown_keys(tmp_path):
    from forged.files.store import MemoryStore
    from forged.maps.builder import Builder
    from tests.data.memories import put

    put(tmp_path, memory("a", "text", related=["b"], supersedes="b", version=2), memory("b", "old"))
    builder = Builder(MemoryStore(Root(str(tmp_path), Scope.REPO)), None, lexical=True)
    home = builder.finish(builder.draft(), 1)

    shown, older = (memory_record(home, each, UNKNOWN) for each in home.memories)

    other = {"related", "extra", "origin", "entities", "relations", "piece"}
    for field in set(Memory.__struct_fields__) - other:
        assert getattr(shown, field) == getattr(home.memories[0], field)
    assert shown.origin == "file"
    assert [(edge.id, edge.relationship) for edge in shown.related] == [("b", "relates-to")]
    assert (shown.root, shown.is_head, older.is_head) == (str(tmp_path), True, False)


LARGE = {
    "content": {"content": "x" * 250_000},
    "wide_text": {"content": "你" * 80_000},
    "session": {"session_id": "s" * 60_000},
    "edges": {"related": tuple(wire.Edge("mem_" + "x" * 60, "relates-to") for _ in range(700))},
}


@pytest.mark.parametrize("fields", LARGE.values(), ids=LARGE)
def test_what_fits_is_surely_sent_and_the_rest_is_left_to_the_next_page(fields):
    records = [replace(RECORD, **fields)] * 1000

    kept = fitting(records)

    assert 0 < len(kept) < 1000 == len(fitting([RECORD] * 1000))
    assert len(encode(wire.Memories(memories=kept))) <= wire.MAX_REPLY_BYTES


# --- generations --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "token",
    [
        "",
        "other:17",
        f"{EPOCH}:",
        f"{EPOCH}:-1",
        f"{EPOCH}:x",
        f"{EPOCH}",
        f"{EPOCH}:²",
        "17",
        f"{EPOCH}:1:2",
        pytest.param(f"{EPOCH}:" + "9" * 5000, id="endless"),
    ],
)
def test_a_token_of_another_epoch_or_none_counts_as_reached(token):
    assert generation_of(EPOCH, token) == 0
