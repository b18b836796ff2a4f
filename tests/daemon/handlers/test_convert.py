"""Wire types to domain types and back: what is read of a conversation, refused, and fits a reply."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.conversation import Utterance
from forged.daemon.handlers.convert import (
    check_words,
    draft,
    fitting,
    generation_of,
    hit,
    record,
    token_of,
)
from forged.daemon.handlers.heard import heard
from forged.daemon.handlers.refusals import InvalidRequest
from forged.files.roots import Root
from forged.memory import Memory, Related, Scope, is_valid_id, time_ns
from forged.retrieval.values import Ranked
from forged_client import protocol as wire
from forged_client.framing import encode
from forged_client.messages import window
from forged_client.parts import PART_BYTES
from tests.data.examples import EXAMPLES
from tests.data.forms import FORMS, HIDDEN, SAID
from tests.data.harness_forms import HARNESS_FORMS, LINE_FORMS, TALK
from tests.data.memories import memory

ROOT = Root("/repo", Scope.REPO)
RECORD = next(each for each in EXAMPLES if isinstance(each, wire.Memories)).memories[0]

EPOCH = "e1"


def utterances(messages, start):
    return asyncio.run(heard(messages, start)).said


def asked(**fields):
    return wire.Remember(workspace="/repo", content="text", **fields)


# --- conversations ------------------------------------------------------------------------------------


def test_only_what_user_and_assistant_said_is_read():
    messages = [
        wire.Message("system", "be nice"),
        wire.Message("user", "a question"),
        wire.Message("tool", "a result"),
        wire.Message("assistant", "an answer"),
        wire.Message("developer", "hidden"),
    ]

    assert utterances(messages, 0) == (Utterance("user", "a question"), Utterance("assistant", "an answer"))


def test_of_parts_only_text_is_read():
    parts = (
        wire.Part("text", "first"),
        wire.Part("tool_use", "call"),
        wire.Part("input_text", "second"),
        wire.Part("thinking", "hm"),
        wire.Part("output_text", "third"),
        wire.Part("image"),
    )

    (only,) = utterances([wire.Message("user", parts)], 0)

    assert only.text == "first\nsecond\nthird"


@pytest.mark.parametrize(
    "content", [None, "", " \n\t", (), (wire.Part("text", " "),), (wire.Part("tool_result", "x"),)]
)
def test_a_message_without_text_is_left_out(content):
    assert utterances([wire.Message("user", content)], 0) == ()


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


@pytest.mark.parametrize("role", ["user", "assistant"])
@pytest.mark.parametrize("text", TALK)
def test_talk_about_such_forms_is_read_as_it_stands(text, role):
    assert utterances([wire.Message(role, text)], 0) == (Utterance(role, text),)


@given(st.permutations([form for form in HARNESS_FORMS.values() if len(form) == 1]))
def test_what_was_read_once_is_read_again_as_it_is(forms):
    read = utterances([wire.Message(**message) for form in forms for message in form], 0)

    assert utterances([wire.Message(each.role, each.text) for each in read], 0) == read


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


def test_what_is_written_about_tools_is_read():
    text = "Call it as `<tool>`, the tool_call is <private beach>."

    assert utterances([wire.Message("user", text)], 0)[0].text.startswith("Call it as `<tool>`")


# --- new memories -------------------------------------------------------------------------------------


def test_a_new_memory_is_explicit_version_one_of_its_roots_scope():
    edges = (wire.Edge("mem_1", "refines"), wire.Edge("mem_2", "contradicts"))
    made = draft(asked(scope="user", category="patterns", session_id="s", related=edges), ROOT)

    assert (made.scope, made.version, made.trigger) == ("repo", 1, "explicit")
    assert (made.category, made.session_id, made.supersedes) == ("patterns", "s", None)
    assert made.related == (Related("mem_1", "refines"), Related("mem_2", "contradicts"))
    assert is_valid_id(made.id)
    assert time_ns(made.created_at) > 0
    assert made.updated_at == made.created_at


def test_a_new_memory_has_an_id_of_its_own_and_a_session_also_without_one():
    """The Go program refuses a file without a session."""
    one, other = draft(asked(), ROOT), draft(asked(supersedes="mem_1"), ROOT)

    assert one.id != other.id
    assert one.session_id
    assert other.supersedes == "mem_1"


def test_a_blank_text_cannot_be_remembered():
    with pytest.raises(InvalidRequest, match="blank"):
        draft(wire.Remember(workspace="/", content=" \n"), ROOT)


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (asked(category="gossip"), "coding-preferences"),
        (asked(related=(wire.Edge("mem_1", "causes"),)), "supersedes, refines, contradicts"),
        (asked(related=(wire.Edge("mem_1"), wire.Edge("mem_2", ""))), "unknown relationship ''"),
    ],
)
def test_a_word_that_means_nothing_is_refused_with_what_is_allowed(request_, told):
    with pytest.raises(InvalidRequest, match=told):
        check_words(request_)


def test_a_refusal_quotes_no_more_than_a_line():
    with pytest.raises(InvalidRequest) as refused:
        check_words(asked(category="x" * 100_000))

    assert len(str(refused.value)) < 400


# --- replies ------------------------------------------------------------------------------------------


def test_a_hit_lists_older_versions_by_their_first_lines():
    old = memory("mem_1", "\n first line \nsecond", version=1)
    new = memory("mem_2", "now", supersedes="mem_1", version=2)

    shown = hit(Ranked(new, 1.5, 0.5, 2.0, older=(old,)))

    assert (shown.id, shown.score, shown.cosine) == ("mem_2", 1.5, 0.5)
    assert (shown.lexical, shown.via) == (2.0, "search")
    assert [(each.id, each.version, each.first_line) for each in shown.older] == [("mem_1", 1, "first line")]


def test_a_record_holds_every_field_of_the_file_but_unknown_keys(tmp_path):
    from forged.files.store import MemoryStore
    from forged.maps.builder import Builder
    from tests.data.memories import put

    put(tmp_path, memory("a", "text", related=["b"], supersedes="b", version=2), memory("b", "old"))
    builder = Builder(MemoryStore(Root(str(tmp_path), Scope.REPO)), None, lexical=True)
    home = builder.finish(builder.draft(), 1)

    shown, older = (record(home, each) for each in home.memories)

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


def test_a_token_is_read_back_as_its_number():
    assert generation_of(EPOCH, token_of(EPOCH, 17)) == 17


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
