"""Parsing of a model's reply: readable elements count, a bad one is dropped alone."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.capture.model_reply import MAX_CONTENT_BYTES, MOST_DOCUMENTS, begins_with_json, read
from forged.capture.values import Classified, Proposal
from forged.memory import Related

A = {"content": "Tabs are used.", "scope": "user", "category": "coding-preferences"}
B = {"content": "Migrations run with goose.", "scope": "repo", "category": "patterns"}
A_JSON, B_JSON = json.dumps(A), json.dumps(B)
BOTH = f"[{A_JSON}, {B_JSON}]"
ONE = ["Tabs are used."]
TWO = ["Tabs are used.", "Migrations run with goose."]
EDGED = json.dumps({**A, "related": [{"id": "mem_1", "relationship": "refines"}]})
BROKEN_EDGED = EDGED.replace("Tabs", '"Tabs')


def contents(reply: Classified) -> list[str]:
    return [proposal.content for proposal in reply.proposals]


def saying(content: str) -> str:
    return json.dumps({**A, "content": content})


def with_field(name: str, value: object) -> str:
    return json.dumps([{**A, name: value}, B])


# Text of the reply, contents that are read, elements that are counted as malformed. Long texts are made by
# their tests, as each worker collects all rows and runs few.
REPLIES: dict[str, tuple[str | Callable[[], str], list[str], int]] = {
    "an array": (BOTH, TWO, 0),
    "over many lines": (json.dumps([A, B], indent=2), TWO, 0),
    "a byte order mark": (f"\ufeff{BOTH}", TWO, 0),
    # nothing
    "empty array": ("[]", [], 0),
    "empty": ("", [], 0),
    "blank": (" \n\t", [], 0),
    "prose": ("There is nothing worth remembering.", [], 0),
    "prose with brackets": ("See [1], [the docs](http://x) and {this} [x] [ ].", [], 0),
    "empty wrapper": ('{"memories": []}', [], 0),
    "empty object": ("{}", [], 0),
    "null": ("null", [], 0),
    "a number": ("42", [], 0),
    "a refusal": ('{"error": "I cannot do that", "code": [1]}', [], 0),
    "HTML": ("<html><body>[502]</body></html>", [], 0),
    "empty array, then talk of others": (f"[]\n\nHad the user agreed: [{A_JSON}]", [], 0),
    # around it
    "fence": (f"```json\n{BOTH}\n```", TWO, 0),
    "fence without a language": (f"```\n{BOTH}\n```", TWO, 0),
    "fence on one line": (f"```json {BOTH} ```", TWO, 0),
    "fence never closed": (f"```json\n{BOTH}", TWO, 0),
    "prose before": (f"Here is what I found:\n{BOTH}", TWO, 0),
    "prose after": (f"{BOTH}\nI left out the rest.", TWO, 0),
    "prose with quotes and brackets before": (f'A 5" disk, see [1] and {{x}}: {BOTH}', TWO, 0),
    "prose with an array of numbers before": (f"Of messages [1, 2]: {BOTH}", TWO, 0),
    "another array after": (f"[{A_JSON}] or perhaps [{B_JSON}]", ONE, 0),
    "wrapper": (f'{{"memories": {BOTH}}}', TWO, 0),
    "another wrapper": (f'{{"result": {BOTH}}}', TWO, 0),
    "wrapper in a wrapper": (f'{{"result": {{"ok": true, "memories": {BOTH}}}}}', TWO, 0),
    "wrapper with an empty list before": (f'{{"notes": [], "memories": {BOTH}}}', TWO, 0),
    "wrapper around one object": (f'{{"memory": {A_JSON}}}', ONE, 0),
    "array in an array": (f"[{BOTH}]", TWO, 0),
    "one object": (A_JSON, ONE, 0),
    "one object with edges": (EDGED, ONE, 0),
    "one object a line": (f"{A_JSON}\n{B_JSON}", TWO, 0),
    "thoughts": (f"<think>[{B_JSON}] perhaps?</think>\n[{A_JSON}]", ONE, 0),
    "thoughts without opener": (f"perhaps [{B_JSON}]</think>[{A_JSON}]", ONE, 0),
    "thoughts never closed": (f"<think>perhaps [{B_JSON}]", [], 0),
    "a memory about thoughts": (f"[{saying('Cut </think> off.')}]", ["Cut </think> off."], 0),
    "brackets in a string": (f"[{saying('Use ]} and [{ so.')}]", ["Use ]} and [{ so."], 0),
    # broken JSON
    "comma at the end of the array": (f"[{A_JSON}, {B_JSON},]", TWO, 0),
    "comma at the end of an object": (f"[{A_JSON[:-1]},}}, {B_JSON}]", TWO, 0),
    "commas at both ends, fenced": (
        f'```\n[{A_JSON[:-1]} , }} ,\n{B_JSON[:-1]},\n"related": [],}},\n]\n```',
        TWO,
        0,
    ),
    "a comma in a string": (f"[{saying('Write [a, ] so, }.')[:-1]},}}]", ["Write [a, ] so, }."], 0),
    "broken off between": (f"[{A_JSON}, ", ONE, 0),
    "broken off in a string": (f'[{A_JSON}, {{"content": "Migra', ONE, 1),
    "broken off in a key": (f'[{A_JSON}, {{"con', ONE, 0),
    "broken off in an edge": (f"[{A_JSON}, {EDGED[:-12]}", ONE, 1),
    "broken off in the wrapper": (f'{{"memories": [{A_JSON}, {B_JSON}', TWO, 0),
    "broken off in the first": ('[{"content": "Tabs', [], 1),
    "line break in a string": (BOTH.replace("Tabs are", "Tabs\nare"), ["Tabs\nare used.", TWO[1]], 0),
    "a broken one between": (f'[{A_JSON}, {{"content": Tabs}}, {B_JSON}]', TWO, 1),
    "a broken one with edges first": (f'[{{"content": x, "related": []}}, {B_JSON}]', [TWO[1]], 1),
    "broken off behind edges that come first": (
        '[{"related": [{"id": "a", "relationship": "refines"}]',
        [],
        1,
    ),
    "a broken one with an edge first": (f"[{BROKEN_EDGED}, {B_JSON}]", [TWO[1]], 1),
    "NaN in a field": (f'[{A_JSON[:-1]}, "score": NaN}}, {B_JSON}]', TWO, 0),
    "NaN as content": (f'[{{"content": NaN}}, {B_JSON}]', [TWO[1]], 1),
    "infinity as an element": (f"[-Infinity, {B_JSON}]", [TWO[1]], 1),
    "a number of 100,000 digits": (f'[{{"content": {"9" * 100_000}}}, {B_JSON}]', [TWO[1]], 1),
    "single quotes": ("[{'content': 'Tabs are used.'}]", [], 0),
    # bad elements and fields
    "texts": ('["Tabs are used.", "So is goose."]', [], 2),
    "null among them": (f"[null, {A_JSON}]", ONE, 1),
    "a text and a number among them": (f'["Tabs", {A_JSON}, 7]', ONE, 2),
    "objects of another kind": ('[{"text": "Tabs are used."}, {"fact": "goose"}]', [], 2),
    "no content": ('[{"scope": "repo", "category": "patterns"}]', [], 1),
    "content null": (with_field("content", None), [TWO[1]], 1),
    "content blank": (with_field("content", "  \n\t"), [TWO[1]], 1),
    "content a list": (with_field("content", ["Tabs"]), [TWO[1]], 1),
    "content an object": (with_field("content", {"text": "Tabs"}), [TWO[1]], 1),
    "content true": (with_field("content", True), [TWO[1]], 1),
    "scope a number": (with_field("scope", 1), [TWO[1]], 1),
    "category a list": (with_field("category", ["patterns"]), [TWO[1]], 1),
    "content too long": (with_field("content", "ä" * (MAX_CONTENT_BYTES // 2 + 1)), [TWO[1]], 1),
    "the greatest content": (
        with_field("content", "x" * MAX_CONTENT_BYTES),
        ["x" * MAX_CONTENT_BYTES, TWO[1]],
        0,
    ),
    "scope global": (with_field("scope", "global"), TWO, 0),  # judged where all memories are
    "ids of others": (with_field("supersedes", "../../x"), TWO, 0),
    # size
    "1,000 items": (lambda: json.dumps([A] * 1_000), ONE * 10, 0),
    "1,000 items, broken off": (lambda: json.dumps([A] * 1_000)[:-9], ONE * 10, 1),
    "1,000 bad items": (json.dumps([{"content": ""}] * 1_000), [], 1_000),
    "10 MB of content": (lambda: json.dumps([A, {**A, "content": "x" * 10_000_000}]), ONE, 1),
    "10 MB of prose": (lambda: "Lorem ipsum [x] {y}. " * 500_000, [], 0),
    "10 MB of brackets": (lambda: "[" * 10_000_000, [], 0),
    "10 MB of braces": (lambda: '{"a":' * 2_000_000, [], 0),
    "10 MB of escaped quotes": (lambda: '["' + '\\"' * 5_000_000, [], 0),
    "10 MB of broken memories": (lambda: '{"content": x} ' * 700_000, [], 100),
    "10 MB of numbers, opened often": (lambda: "[1," * 90 + "1," * 5_000_000, [], 0),
    "10 MB of thoughts": (lambda: "<think>" * 1_400_000, [], 0),
    "an array 100,000 deep": ("[" * 100_000 + "]" * 100_000, [], 0),
    "an array 500 deep": ("[" * 500 + A_JSON + "]" * 500, [], 0),
    "an object 100,000 deep": ('{"a":' * 100_000 + "1" + "}" * 100_000, [], 0),
    "a memory with a deep field": (f'[{{"content": {"[" * 100_000}, {B_JSON}]', [TWO[1]], 1),
}


# Replies without a memory that say, in JSON, that there is none.
NOTHING = {
    "empty array",
    "empty wrapper",
    "empty object",
    "null",
    "empty array, then talk of others",
}


def made(text: str | Callable[[], str]) -> str:
    return text if isinstance(text, str) else text()


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_that_keeps_nothing_says_so_in_json_or_is_no_answer(name):
    text, kept, _ = REPLIES[name]

    assert read(made(text)).is_answer == (bool(kept) or name in NOTHING)


@pytest.mark.parametrize(
    ("text", "is_answer"),
    [
        ("[]", True),
        ("[ ]", True),
        ("[\n]", True),
        ("```json\n[]\n```", True),
        ("```\n{}\n```\n", True),
        ("Nothing here is worth remembering: []", True),
        (
            'There is nothing to keep.\n\n```json\n{"memories": []}\n```\nTell me if I should look again.',
            True,
        ),
        ('<think>[{"content": 1}]?</think>[]', True),
        ("I'm sorry, I can't help with that.", False),
        ("- [ ] I cannot help with this.", False),
        ("null and void", False),
        ('{"refusal": "I cannot keep this."}', False),
        ("NONE", False),
        ("<think>[]", False),
    ],
)
def test_prose_is_no_answer_whatever_it_says(text, is_answer):
    reply = read(text)

    assert (reply.is_answer, reply.proposals) == (is_answer, ())


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (f"[{A_JSON}, ", True),
        (f"```json\n[{A_JSON}, ", True),
        (f"<think>hm</think>\n[{A_JSON}", True),
        (f"Perhaps [{A_JSON}] or ", False),
        (f"<think>[{A_JSON}], ", False),
        ("", False),
    ],
)
def test_a_text_that_was_cut_may_be_a_thought_unless_it_begins_with_json(text, begins):
    assert begins_with_json(text) == begins


def test_fields_are_read_as_they_were_meant():
    element = {
        "content": "  Wrap errors.\nAlways.  ",
        "scope": " Repo",
        "category": "Project_Conventions",
        "supersedes": "[mem_1]",
        "related": [{"id": " mem_2 ", "relationship": "relates_to", "why": "x"}],
        "confidence": 0.9,
    }

    assert read(json.dumps([element])).proposals == (
        Proposal(
            content="Wrap errors.\nAlways.",
            scope="repo",
            category="project-conventions",
            supersedes="mem_1",
            related=(Related("mem_2", "relates-to"),),
        ),
    )


# --- for any text ---

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["content", "scope", "category", "related", "id", "memories"]), inner
        )
    ),
    max_leaves=12,
)
NOISE = st.text(alphabet='[]{}",:\\ \n`abtn0', max_size=60)


@given(st.text() | NOISE | JSON.map(json.dumps), st.integers(0, 200))
def test_whatever_a_model_writes_is_read_within_limits(text, end):
    for piece in (text, text[:end], text[end:]):
        reply = read(piece)

        assert len(reply.proposals) <= MOST_DOCUMENTS
        assert reply.malformed >= 0
        for proposal in reply.proposals:
            assert 0 < len(proposal.content.strip().encode()) <= MAX_CONTENT_BYTES


ELEMENT = st.fixed_dictionaries(
    {
        "content": st.text(min_size=1, max_size=80).filter(str.strip),
        "scope": st.sampled_from(["repo", "user"]),
        "category": st.sampled_from(["patterns", "corrections"]),
    },
    optional={
        "supersedes": st.sampled_from(["", "mem_1"]),
        "related": st.lists(st.just({"id": "mem_1", "relationship": "refines"}), max_size=2),
    },
)


def contents_of(element: dict) -> str:
    return element["content"].replace("\0", "\ufffd").strip()


@given(st.lists(ELEMENT, min_size=1, max_size=MOST_DOCUMENTS), st.data())
def test_of_a_reply_that_breaks_off_every_whole_element_is_kept(elements, data):
    parts = [json.dumps(element) for element in elements]
    whole = data.draw(st.integers(0, len(parts) - 1))
    cut = data.draw(st.integers(0, len(parts[whole]) - 1))
    text = "[" + ", ".join([*parts[:whole], parts[whole][:cut]])

    reply = read(text)

    assert contents(reply) == [contents_of(element) for element in elements[:whole]]
    assert reply.malformed <= 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *(("0.49", 0.49), ("0.5", 0.5), ("1", 1.0), ("0", 0.0), ("7", 1.0), ("-3", 0.0), ("1e999", 1.0)),
        *(
            ("9" * 4000, 1.0),
            ("NaN", None),
            ("true", None),
            ('"high"', None),
            ("null", None),
            ("[0.9]", None),
        ),
    ],
)
def test_importance_is_a_number_from_0_to_1_or_nothing(value, expected):
    (proposal,) = read(f'[{A_JSON[:-1]}, "importance": {value}}}]').proposals

    assert proposal.importance == expected
