"""Memory files as bytes: the Go program's samples, hand-written files, and files that are no memories."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forged.errors import MemoryFormatError
from forged.files import frontmatter, hand_written
from forged.files.frontmatter import scalar
from forged.memory import Entity, EntityRelation, Evidence, Memory, Piece, Related, one_form
from tests.faults.amount import times

SAMPLES = sorted((Path(__file__).parents[1] / "data" / "samples").glob("*.md"))

quick = settings(deadline=None, max_examples=times(200, 50))


def parsed(text: str | bytes, scope: str = "repo", name: str = "mem_1") -> Memory:
    return frontmatter.parse(text.encode() if isinstance(text, str) else text, scope, name)


def header(lines: str) -> Memory:
    return parsed(f"---\n{lines}\n---\nbody")


# The written form.


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_of_the_go_program_needs_no_yaml_and_is_written_back_byte_for_byte(sample):
    data = sample.read_bytes()
    scope = "user" if b"\nscope: user\n" in data else "repo"

    assert frontmatter.render(frontmatter.parse(data, scope, "x")) == data
    assert frontmatter._read_written_form(data, "repo", "x") is not None
    assert frontmatter._read_written_form(data, "repo", "x") == hand_written.read_any_form(data, "repo", "x")


def test_every_field_of_a_sample_is_read():
    memory = parsed(SAMPLES[5].read_bytes(), "user")

    assert memory == Memory(
        id="mem_66666666-6666-4666-8666-666666666666",
        content="Session id made only of digits is quoted by the writer.",
        created_at="2026-02-24T23:32:58.987654321+11:00",
        updated_at="2026-02-24T23:32:58.5+11:00",
        version=12,
        scope="user",
        category="user-facts",
        session_id="1234567890123456",
        trigger="cadence",
        supersedes="mem: needs # quoting",
        related=(Related("", "relates-to"), Related("null", "")),
    )


# Round trip. Any text may stand in any field; only an empty id or link means "none".

texts = st.text(st.characters(exclude_categories=["Cs"]))
awkward = st.sampled_from(
    ["", "null", "~", "yes", "1_000", "0x1F", "1e5", "1e400", "12:30:45", "2025-01-15", "=", "<<", "- a",
     "a: b", "a #b", "'", '"', "\\", " a ", "a:", "---", "...", "...a", "#", "\x85", "\u2028", "\ufeff", "😀",
     "\x00", "\r\n", "?", ":", "%a", "@a", "1.", ".5", "-.inf", ".NaN", "0o17", "TRUE", "a\tb", "é", "\ufffe"]
)  # fmt: skip
values = st.one_of(texts, awkward, st.from_regex(r"[-+0-9a-fxobeE_.:TZ ]{1,24}", fullmatch=True))
named = values.filter(bool)
unknown_keys = st.sampled_from(
    ["", "tags: [a, b]\n", "# a remark\n", "x:\n  - 1\n\n  - {y: z}\n", "n: |\n  id: not mine\n\n  more\n"]
)
# Texts that begin like front matter, as people write them.
rules = st.sampled_from(["---\n", "---\r\n", "\n---\n", "...\n", "--- \n", "----\n", "\n", "\ufeff"])
lines_of_text = st.sampled_from(
    ["Release notes: never publish on a Friday.\n", "Second part.\n", "id: mem_x\n", "version: 0\n",
     "title: *It*\n",
     "supersedes: mem_y\n", "# A heading\n", "- a: b\n", "  indented: x\n", "tags: [a\n", "\ttab: x\n"]
)  # fmt: skip
bodies = st.lists(st.one_of(rules, lines_of_text), max_size=8).map("".join)
weights = st.just(1.0) | st.floats(allow_nan=False, allow_infinity=False)
memories = st.builds(
    Memory,
    id=named.map(one_form),
    content=st.one_of(bodies, texts.map(lambda text: text.replace("\0", "?"))),
    created_at=values,
    updated_at=values,
    version=st.integers(1, 999_999_999),
    scope=st.just("repo"),
    category=values,
    session_id=values,
    trigger=values,
    supersedes=st.none() | named.map(one_form),
    related=st.lists(st.builds(Related, values.map(one_form), values), max_size=3).map(tuple),
    extra=unknown_keys,
    origin=values,
    cues=st.lists(values, max_size=3).map(tuple),
    evidence=st.lists(st.builds(Evidence, named, values, values), max_size=2).map(tuple),
    entities=st.lists(st.builds(Entity, named, values, values), max_size=2).map(tuple),
    relations=st.lists(st.builds(EntityRelation, named, named, named, weights), max_size=2).map(tuple),
    piece=st.none() | st.builds(Piece, named, st.integers(0, 999_999_999), st.integers(0, 9), values),
)


@quick
@given(memories)
def test_what_is_rendered_is_read_back_the_fast_way_and_any_way(memory):
    data = frontmatter.render(memory)
    assert parsed(data, "repo") == memory
    assert_ways_agree(data)


def assert_ways_agree(data: bytes) -> None:
    """What the fast path takes, YAML reads the same."""
    fast = frontmatter._read_written_form(data, "repo", "mem_1")
    if fast is not None:
        assert hand_written.read_any_form(data, "repo", "mem_1") == fast


# Pieces of headers in the written form and near it.
pieces = st.sampled_from(
    [
        *"aZ09_-.:/+'\"#& \t\\~\r",
        "null",
        "NULL",
        "mem_1",
        "''",
        '""',
        '"null"',
        "'~'",
        "2026-02-24T23:32:58Z",
        "\x85",
    ]
)
near = st.lists(pieces, max_size=4).map("".join)
lines = st.one_of(
    near,
    st.sampled_from(
        ["mem_1", "1", "2026-02-24T23:32:58.5+11:00", '"12"', "'a b'", "a:", "a:b:", "null", "NULL", "~",
         "a: b", "a #b", "'it''s'", '"a\\n"', '""', "-", "- a", "[a]", "*a", "2026-02-24", "0", "01", "1.9",
         " a", "a ", "/a b", "https://a.b/c", "0.5", "1.", "12.50", "1e3", "inf"]
    ),
)  # fmt: skip
OPTIONAL = [
    "supersedes: {}\n",
    "related:\n    - id: {}\n      relationship: {}\n",
    "related:\n    - id: {}\n",
]
BEHIND = [
    "cues:\n    - {}\n    - {}\n",
    "cues:\n    - {} {}\n",
    "evidence:\n    - path: {}\n      lines: {}\n",
    "evidence:\n    - path: {}\n      hash: {}\n",
    "document:\n    id: {}\n    index: 0\n    of: 3\n    source: {}\n",
    "document:\n    id: doc_1\n    index: {}\n    of: {}\n",
    "entities:\n    - name: {}\n      type: {}\n",
    "entities:\n    - name: {}\n    - name: a\n      description: {}\n",
    "relations:\n    - source: a\n      relation: {}\n      target: {}\n",
    "relations:\n    - source: {}\n      relation: b\n      target: c\n      weight: {}\n",
]


NO_PATH = b"""---
id: mem_1
created_at: 2026-02-24T23:32:58Z
updated_at: 2026-02-24T23:32:58Z
version: 1
scope: repo
category: patterns
session_id: "12"
trigger: cadence
evidence:
    - path: ""
---
"""


@st.composite
def near_written_forms(draw: st.DrawFn) -> bytes:
    ordinary = {
        "id": "mem_1", "created_at": "2026-02-24T23:32:58Z", "updated_at": "2026-02-24T23:32:58.5+11:00",
        "version": "1", "scope": "repo", "category": "patterns", "session_id": '"12"', "trigger": "cadence",
    }  # fmt: skip
    odd = draw(st.dictionaries(st.sampled_from(sorted(ordinary)), lines, max_size=3))
    out = ["---\n"]
    for key, value in (ordinary | odd).items():
        if key == "session_id":
            chosen = draw(st.lists(st.sampled_from(OPTIONAL), max_size=2, unique=True))
            out += [form.format(draw(lines), draw(lines)) for form in sorted(chosen, reverse=True)]
        out.append(f"{key}: {value}\n")
    behind = draw(st.lists(st.sampled_from(BEHIND), max_size=2, unique=True))
    out += [form.format(draw(lines), draw(lines)) for form in sorted(behind, key=BEHIND.index)]
    return "".join([*out, "---\n", draw(texts)]).encode()


@settings(deadline=None, max_examples=times(600, 150))
@given(near_written_forms())
@example(SAMPLES[1].read_bytes())
@example(NO_PATH)
def test_whatever_the_fast_path_takes_yaml_reads_the_same(data):
    assert_ways_agree(data)


def test_an_ordinary_memory_of_forged_takes_the_fast_path():
    memory = Memory("mem_1", "text", "2026-02-24T23:32:58.123456Z", "2026-02-24T23:32:58.123456Z", 2, "repo",
                    "patterns", "", "explicit", "mem_0", (Related("mem_7", "refines"),), origin="typed",
                    cues=("when a release is cut", "部署 vor dem Wochenende"),
                    evidence=(Evidence("a/b.py", "3-9", "0a"), Evidence("Makefile")),
                    entities=(Entity("forged", "project", "a memory for agents"), Entity("SQLite")),
                    relations=(EntityRelation("forged", "depends-on", "SQLite", 0.5),
                               EntityRelation("a", "b", "c")),
                    piece=Piece("doc_0a", 2, 3, "/home/ann/docs/how to.md"))  # fmt: skip

    assert frontmatter._read_written_form(frontmatter.render(memory), "repo", "mem_1") is not None


# Hand-written files.


def test_cues_and_evidence_as_people_write_them():
    one = header("cues: when I deploy\nevidence: src/a.py:3-9")
    some = header("cues: [a, 'b: c', null]\nevidence:\n  - src/a.py\n  - path: b c.py\n    lines: 7")

    assert (one.cues, one.evidence) == (("when I deploy",), (Evidence("src/a.py", "3-9"),))
    assert (some.cues, some.evidence) == (("a", "b: c"), (Evidence("src/a.py"), Evidence("b c.py", "7")))


def test_cues_beyond_those_that_count_stay_in_the_file_and_are_reported():
    reading = frontmatter.read((b"---\ncues: [a, b, c, d, e, f]\n---\nx"), "repo", "mem_1")

    assert reading.memory.search_cues == ("a", "b", "c", "d", "e")
    assert frontmatter.parse(frontmatter.render(reading.memory), "repo", "mem_1").cues[-1] == "f"
    assert reading.notes == ("it has 6 cues; only the first 5 are used",)


@pytest.mark.parametrize(
    "lines", ["cues: {a: b}", "cues: [[a]]", "evidence: {a: b}", "evidence: [{lines: 3}]"]
)
def test_cues_and_evidence_of_another_form_are_left_out_with_a_sentence(lines):
    assert_left_out(lines, "must be a list of")


def assert_left_out(lines: str, reason: str) -> None:
    """The memory is as one without that key, and the line is named."""
    data = f"---\ncategory: patterns\n\n{lines}\n---\nthe walrus".encode()

    reading = frontmatter.read(data, "repo", "mem_1")

    assert reading.memory == parsed("---\ncategory: patterns\n\n---\nthe walrus")
    (note,) = reading.notes
    assert note.startswith("line 4: ")
    assert reason in note


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("entities: [{type: project}]", "`entities` must be a list of names"),
        ("entities: [[a]]", "`entities` must be a list of names"),
        ("entities: ''", "`entities` must be a list of names"),
        ("relations: a uses b", "`relations` must be a list of entries with"),
        ("relations: [{source: a, relation: b}]", "`relations` must be a list of entries with"),
        ("relations: [{source: a, relation: b, target: c, weight: inf}]", "`weight` of a relation is 'inf'"),
        ("relations: [{source: a, relation: b, target: c, weight: x}]", "`weight` of a relation is 'x'"),
        ("document: guide.md", "`document` must be a group"),
        ("document: {index: 1}", "`document` must be a group"),
        ("document: {id: doc_1, index: -1}", "`index` of a document is '-1'"),
        ("document: {id: doc_1, of: many}", "`of` of a document is 'many'"),
    ],
)
def test_entities_relations_and_documents_of_another_form_are_left_out_with_a_sentence(lines, reason):
    assert_left_out(lines, reason)


def test_a_daemon_imports_yaml_for_the_first_file_that_needs_it():
    sample, by_hand = SAMPLES[0], "---\ncategory: patterns\n---\nby hand"
    program = (
        "import sys, forged.daemon.app; from forged.files.frontmatter import parse; "
        "parse(open(sys.argv[1], 'rb').read(), 'repo', 'mem_1'); early = 'yaml' in sys.modules; "
        "parse(sys.argv[2].encode(), 'repo', 'mem_2'); sys.exit(early or 'yaml' not in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, sample, by_hand], env={"PYTHONPATH": ":".join(sys.path)}
    )

    assert done.returncode == 0


def test_what_many_files_say_alike_is_held_once():
    when, related = "2026-02-24T23:32:58.123456Z", (Related("mem_0", "relates-to"),)
    first, other = (
        parsed(frontmatter.render(Memory(name, "", when, when, 1, "repo", "patterns", "s-1", "cadence",
                                         related=related)), name=name)
        for name in ("mem_1", "mem_2")
    )  # fmt: skip

    assert first.created_at is first.updated_at
    for field in ("category", "session_id", "trigger"):
        assert getattr(first, field) is getattr(other, field)
    assert first.related[0].relationship is other.related[0].relationship


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff---\nid: mem_9\n---\nbody",
        "---\r\nid: mem_9\r\n---\r\nbody",
        "\n \n---\nid: mem_9\n---\nbody",
        "---\nid: mem_9\n...\nbody",
        "--- \t\nid: mem_9\n---  \nbody",
        "---\n{id: mem_9}\n---\nbody",
        "---\n{\n  id: mem_9,\n}\n---\nbody",
        "---\n  id: mem_9\n---\nbody",
        "---\nid: >-\n  mem_9\n---\nbody",
    ],
    ids=["bom", "crlf", "blank lines", "dots", "trailing blanks", "flow", "flow lines", "indent", "folded"],
)
def test_frame_is_read_as_people_and_editors_leave_it(text):
    memory = parsed(text)

    assert (memory.id, memory.content, memory.extra) == ("mem_9", "body", "")


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ('version: "3"', "version", 3),
        ("version: 1.9", "version", 1),
        ("version: +07", "version", 7),
        ("version:", "version", 1),
        ("created_at: 2025-01-15", "created_at", "2025-01-15"),
        ("created_at: 2025-01-15 10:30:00", "created_at", "2025-01-15 10:30:00"),
        (
            'created_at: "2025-01-15T10:30:00.123456789+11:00"',
            "created_at",
            "2025-01-15T10:30:00.123456789+11:00",
        ),
        ("category: NO", "category", "NO"),
        ("trigger: yes", "trigger", "yes"),
        ("trigger: null", "trigger", "explicit"),
        ("session_id: 456.50", "session_id", "456.50"),
        ("id: 0755", "id", "0755"),
        ("id: null", "id", "mem_1"),
        ('id: ""', "id", "mem_1"),
        ("category:   # later", "category", "project-conventions"),
        ("related: []", "related", ()),
        ("related:", "related", ()),
        ("related: [{id: mem_2, relationship: causes}]", "related", (Related("mem_2", "causes"),)),
        ("related:\n- id: mem_2", "related", (Related("mem_2", "relates-to"),)),
        ("related: [mem_2]", "related", (Related("mem_2", "relates-to"),)),
        ("supersedes: 'null'", "supersedes", "null"),
        ("supersedes: ../../etc/passwd", "supersedes", "../../etc/passwd"),
    ],
)
def test_value_is_read_as_its_field_wants_it(line, field, value):
    assert getattr(header(line), field) == value


@pytest.mark.parametrize(
    ("header", "field", "value", "note"),
    [
        (b"id: mem_1\nscope: user", "scope", "repo", "it says scope 'user' but is in a repo directory"),
        (b"created_at: yesterday", "created_at", "yesterday", "not a time"),
    ],
)
def test_what_is_questionable_is_read_and_noted(header, field, value, note):
    reading = frontmatter.read(b"---\n" + header + b"\n---\nbody", "repo", "mem_1")

    assert getattr(reading.memory, field) == value
    (reported,) = reading.notes
    assert note in reported


HEADERS = ["", "---\nid: mem_9\n---\n", "---\ntitle: a: b\n---\n", "---\nnote: b\n---\n", frontmatter.render(
    Memory("m", "", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", 1, "repo", "patterns", "s", "explicit")
).decode()]  # fmt: skip
ENCODINGS = ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252", "utf-8-sig", "utf-8"]


@given(
    st.sampled_from(HEADERS),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["café – été", "plain"]),
    st.booleans(),
)
def test_one_rule_for_encodings_holds_with_and_without_a_header(head, encoding, text, whole):
    """The header decides nothing: not for a file of one encoding, and not where the body has another one."""

    def refused(data: bytes) -> str:
        try:
            frontmatter.parse(data, "repo", "m")
        except MemoryFormatError as error:
            return str(error).partition("(")[0]
        return ""

    alone = text.encode(encoding, "replace")
    data = (head + text).encode(encoding, "replace") if whole else head.encode() + alone
    try:
        is_text = "\0" not in data.decode("utf-8-sig")
    except UnicodeDecodeError:
        is_text = False

    assert (refused(data) == "") == is_text
    assert refused(data) == refused(alone)


def test_a_byte_of_another_encoding_is_named_with_its_line():
    with pytest.raises(MemoryFormatError, match=r"not a text file in UTF-8 \(see line 4\)"):
        parsed(b"---\nid: f\n---\ncaf\xe9\n")


# Unknown keys.


def test_unknown_keys_and_comments_survive_verbatim():
    extra = "# mine\ntags: [a,  b]   # two\nnested:\n  - x: 1\n\n    y: 'é'\ntext: |\n  id: no\n\n"
    memory = parsed(f"---\nid: mem_9\n{extra}version: 2\nrelated:\n  - id: mem_2\nlast: 😀\n---\nbody")

    assert memory.extra == extra + "last: 😀\n"
    assert (memory.version, memory.related) == (2, (Related("mem_2", "relates-to"),))
    assert parsed(frontmatter.render(memory)) == memory


# What is no memory.

BOMB = "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        ("id: mem_1".encode("utf-16"), "UTF-8"),
        (b"a\x00b", "NUL"),
        (b"x" * (frontmatter.MAX_FILE_BYTES + 1), "256 KiB"),
        (b"---\nid: mem_1\n", "closing"),
        (b"---\nid: mem_1\ncreated_at: 2026\nvers", "closing"),
        (b"---\n", "closing"),
        (b"---\ncateg", "closing"),
        (b"---\nid: \xff\n---\n", "UTF-8"),
        (b"---\rid: a\r---\r", "CR only"),
        (b"---\nid: " + b"x" * frontmatter.MAX_HEADER_BYTES + b"\n---\n", "64 KiB"),
    ],
    ids=lambda value: str(value[:24]),
)
def test_file_that_is_no_memory_is_refused_with_its_reason(data, reason):
    with pytest.raises(MemoryFormatError, match=reason):
        frontmatter.parse(data, "repo", "mem_1")


# Headers of which a line is broken: the other lines and the text count.

BROKEN = [
    "title: Re: x (Split: Core)", "title: *Italic*", "title: 'a", 'title: "a', "title: [Draft] x",
    "title: @x",
    "title: `x`", "title: %x", "title: {a", "title: &x y", "title: !x y", "title: a\x07", "title:\tx: y",
    "title: a\rb: c",
    "title: a\x85b", "title: a\u2028b", "tags:\n\t- a", "tags:\n  - *a*", "tags:\n- b: c: d", "tags: [a, b",
    "tags: a: b",
    "tags: a\ntags: b", "tags: {a: 1, a: 2}", "aliases:\n  - [[A]] b", "date: {{date}}", "tags: " + "[" * 20,
    "tags: [" + "a," * 5000 + "]", "tags: &a [x]\ntype: *a", "id: mem_9\nid: mem_8", "version: 0",
    "version: -1",
    "version: 1_0", "version: " + "9" * 6000, "version: [1]", "version: x", "related: mem_2", "id: [a]",
    "supersedes: {a: b}", "trigger: [x]", "scope: [repo]", "type: |\n  a\n\tb", BOMB,
]  # fmt: skip


@given(
    st.permutations(["category: patterns", "session_id: s", "alias: kept"]),
    st.sampled_from(BROKEN),
    st.integers(0, 3),
)
def test_the_text_and_all_other_keys_of_a_broken_header_count(lines, broken, at):
    rest = list(lines)
    lines.insert(at, broken)
    text = "\n".join(["---", *lines, "---", "the walrus\n\n---\nmore: of it\n"])

    reading = frontmatter.read(text.encode(), "repo", "mem_1")

    memory = reading.memory
    assert memory.content == "the walrus\n\n---\nmore: of it\n"
    assert (memory.category, memory.session_id) == ("patterns", "s")
    assert "alias: kept\n" in memory.extra
    first = 2 + rest.index(lines[at + 1]) if at < len(rest) else 2 + len(rest)
    last = first + broken.count("\n")
    numbers = {
        int(note.split(":")[0].removeprefix("line ")) for note in reading.notes if note.startswith("line ")
    }
    assert numbers & set(range(first, last + 1))
    assert numbers <= set(range(first, last + 1))
    # What is written anew is whole, and says the same.
    again = frontmatter.read(frontmatter.render(memory), "repo", "mem_1")
    assert again.memory == memory
    assert [note for note in again.notes if note.startswith("line ")] == []


@pytest.mark.parametrize(
    ("header", "title"),
    [
        ("title: Re: x (Split: Core)", "Re: x (Split: Core)"),
        ("title: *Italic*", "*Italic*"),
        ("title: 'a", "'a"),
        ("title: @x # y", "@x # y"),
        ("title: [Draft] x", "[Draft] x"),
    ],
)
def test_a_title_that_is_no_yaml_is_read_plainly(header, title):
    memory = parsed(f"---\nid: mem_9\n{header}\n---\nbody")

    assert memory.id == "mem_9"
    assert yaml.safe_load(memory.extra) == {"title": title}


# Ids in any Unicode form.

FORMS = ["NFC", "NFD"]


@given(
    st.lists(st.sampled_from(FORMS), min_size=4, max_size=4),
    st.sampled_from(["café", "Übung größer", "が-ば", "각", "ﬁ é", "mem_1"]),
)
def test_ids_are_read_in_one_unicode_form(forms, name):
    stated, older, other, file = (unicodedata.normalize(form, name) for form in forms)
    data = f"---\nid: {stated}\nsupersedes: x{older}\nrelated: [y{other}]\n---\nbody".encode()

    reading = frontmatter.read(data, "repo", file)

    named = one_form(name)
    memory = reading.memory
    assert (memory.id, memory.supersedes, memory.related[0].id) == (named, f"x{named}", f"y{named}")
    assert reading.notes == ()
    assert frontmatter.parse(b"body", "repo", file).id == named
    assert frontmatter.render(memory) == frontmatter.render(
        msgspec.structs.replace(memory, id=stated, supersedes=f"x{older}")
    )


# Text that begins with a rule.


@given(
    st.lists(
        st.sampled_from(
            ["Release notes: never publish on a Friday.", "", "Some words.", "# A heading", "- a: b",
             "  indented: x",
             "> quoted: x", "1. one", "| a | b |", "```", "note: x", "Note: x", "ID: x", "Title: y",
             "{a: b}", "*a*", "--- x",
             "From: a@b.c", "%x", "? a", "\ttab: x", "---", "..."]
        ),
        max_size=8,
    ),
    st.sampled_from(["---\n", "---\r\n", "\n---\n", "--- \n"]),
    st.sampled_from(["", "\n", "\n---\nbody\n", "\n---\n\nbody\n\n---\n"]),
)  # fmt: skip
def test_lines_without_a_known_key_are_text_and_nothing_is_swallowed(lines, rule, end):
    text = rule + "\n".join(lines) + end
    inside = text[len(rule) :]
    end_of_block = re.search(r"^(?:---|\.\.\.)[ \t\r]*$\n?", inside, re.MULTILINE)
    is_blank = end_of_block is not None and not inside[: end_of_block.start()].strip()

    if not end_of_block and not inside.strip():
        return  # a rule alone is no text
    memory = parsed(text)

    assert memory.content == (inside[end_of_block.end() :] if end_of_block and is_blank else text)


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            "---\n\nRelease notes: never publish on a Friday.\n\n---\n\nSecond part.\n",
            "it has no known key",
        ),
        ("---\nnote: x\nmood: calm\n---\nbody", "it has no known key"),
        ("---\ndate: Friday\nWe never publish: it breaks\n---\nbody", "`We never publish` is not a key"),
        ("---\ndate: Friday\nWe never publish then.\n---\nbody", "line 3 has no key"),
        ("---\ntitle: x\n\nText without an end.\n", "no closing"),
        ("---\n{id: a, tags: b}\n---\nbody", "line 2 has no key"),
        ("---\n\nText below a rule.\n", ""),
        ("---\njust text\n---\nbody", ""),
        ("---\n# A heading\n---\nbody", ""),
        ("---\n- id: a\n---\nbody", ""),
        ("---\n" + "Many words. " * 6000 + "\n---\nbody", ""),
    ],
)
def test_what_is_no_front_matter_is_text_and_keys_in_it_are_reported(text, reported):
    reading = frontmatter.read(text.encode(), "repo", "mem_1")

    assert reading.memory == Memory("mem_1", text, "", "", 1, "repo", "project-conventions", "", "explicit")
    assert [reported in note for note in reading.notes] == ([True] if reported else [])
    assert all(note.startswith(NO_FRONT_MATTER) for note in reading.notes)


@pytest.mark.parametrize(
    ("entries", "note"),
    [
        ("[[mem_2], {id: mem_3}]", "an entry of `related` has no `id` and is left out"),
        ("[{relationship: refines}, mem_3]", "an entry of `related` has no `id` and is left out"),
        ("[{id: [a]}, ~, mem_3]", "2 entries of `related` have no `id` and are left out"),
    ],
)
def test_an_entry_of_related_without_an_id_is_left_out_with_a_note_and_the_file_is_read(entries, note):
    data = f"---\nscope: repo\nrelated: {entries}\n---\nthe walrus".encode()

    reading = frontmatter.read(data, "repo", "mem_1")

    assert reading.memory.content == "the walrus"
    assert [edge.id for edge in reading.memory.related] == ["mem_3"]
    assert reading.notes == (note,)


NO_FRONT_MATTER = "its text begins like front matter, but is not"


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("---yaml\nid: mem_1\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("--- yaml\ntags: x\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("id: mem_1\nscope: repo\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("ID: mem_1\nSCOPE: repo\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("---\nnote: |\n---\ntext\nscope: repo\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("---\nID: mem_1\nScope: repo\n---\nthe walrus", [NO_FRONT_MATTER]),
        ("---\nid: mem_1\nScope: repo\n---\nthe walrus", ["`Scope` is not a key"]),
        ("---\nid: mem_1\ntags: [a]\n---\nthe walrus\n\n---\n\nmore", []),
        ("the walrus\n\nscope: what it is about\n\n---\n\nmore", []),
        ("--- a/file\n+++ b/file\n", []),
        ("id: mem_1\nscope: repo\nwithout an end", []),
    ],
)
def test_what_looks_like_front_matter_and_is_none_is_read_as_text_with_a_note(text, notes):
    reading = frontmatter.read(text.encode(), "repo", "mem_1")

    assert "the walrus" in reading.memory.content or not notes
    assert [said for said, note in zip(reading.notes, notes, strict=True) if not said.startswith(note)] == []


yaml_like = st.lists(
    st.sampled_from(
        [
            *"abc:-?[]{},#&*!|>'\"%@`~=<\\ \t\n\r.0",
            "---\n",
            "...\n",
            "id: ",
            "related:\n",
            "  - ",
            "\x00",
            "é",
        ]
    )
).map("".join)


@settings(deadline=None, max_examples=times(500, 125))
@given(
    st.one_of(
        st.binary(), yaml_like.map(str.encode), yaml_like.map(lambda text: f"---\n{text}\n---\n".encode())
    )
)
def test_any_bytes_are_a_memory_that_round_trips_or_refused(data):
    try:
        memory = frontmatter.parse(data, "repo", "mem_1")
    except MemoryFormatError:
        return
    assert frontmatter.parse(frontmatter.render(memory), "repo", "mem_1") == memory


# Scalars in the quoting of the Go program, safe for any other YAML reader.


texts = st.text(st.characters(exclude_categories=["Cs"]))
typed = st.from_regex(r"[-+0-9a-fxobeE_.:TZ ]{0,30}|[a-zA-Z~=<.]{0,5}", fullmatch=True)


@settings(deadline=None, max_examples=times(500, 125))
@given(st.one_of(texts, typed))
def test_a_full_yaml_reader_reads_the_same_text(text):
    # Also with the pure Python scanner, whose rules differ in places.
    assert yaml.safe_load(f"key: {scalar(text)}\nlist:\n    - {scalar(text)}\n") == {
        "key": text,
        "list": [text],
    }
    assert yaml.load(f"key: {scalar(text)}\n", Loader=yaml.CSafeLoader) == {"key": text}
