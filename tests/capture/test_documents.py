"""What becomes of a classifier's proposals, rule by rule."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.capture.documents import MAX_CONTENT_BYTES, decide
from forged.capture.values import Classified, Proposal, Tally
from forged.files.frontmatter import parse, render
from forged.files.roots import Root
from forged.memory import Category, Memory, Related, Relationship, Scope, is_valid_id
from forged.state import Document, Event
from forged.state.forgotten import digest
from tests.data.memories import memory

REPO = Root("/srv/goose", Scope.REPO)
USER = Root("/home/tess", Scope.USER)
NOW = "2026-01-31T12:00:00.123456Z"

Existing = dict[Root, list[Memory]]


def propose(content: str, **fields) -> Proposal:
    return Proposal(content, **{"scope": "repo", "category": "patterns"} | fields)


def decided(
    *proposals: Proposal,
    existing: Existing | None = None,
    forgotten: frozenset[str] = frozenset(),
    event: Event | None = None,
) -> tuple[list[Memory], Tally]:
    event = event or Event(session_id="s1", roots=(REPO, USER))
    documents, tally = decide(event, Classified(proposals), existing or {}, forgotten, NOW)
    assert all(document.root.scope == document.memory.scope for document in documents)
    return [document.memory for document in documents], tally


def contents(memories: list[Memory]) -> list[str]:
    return [each.content for each in memories]


# --- what a document says of itself ------------------------------------------------------------------


def test_a_document_has_a_new_id_one_time_and_its_session():
    (one, two), tally = decided(
        propose("goose speaks REST", category="corrections"), propose("atlas speaks gRPC")
    )

    assert is_valid_id(one.id)
    assert one.id != two.id
    assert one == Memory(one.id, "goose speaks REST", NOW, NOW, 1, "repo", "corrections", "s1", "cadence")
    assert tally == Tally()


@pytest.mark.parametrize(
    ("kind", "trigger"),
    [("turn", "cadence"), ("session_end", "cadence"), ("compaction", "compaction"), ("explicit", "explicit")],
)
def test_the_trigger_is_the_word_of_the_file_format(kind, trigger):
    (one,), _ = decided(propose("goose speaks REST"), event=Event(kind=kind, roots=(REPO,)))

    assert one.trigger == trigger


def test_without_a_session_the_file_still_names_one():
    """The Go program skips files that name none."""
    (one,), _ = decided(propose("goose speaks REST"), event=Event(roots=(REPO,)))

    assert one.session_id == "unknown"


def test_documents_go_to_the_root_of_their_scope_in_the_order_proposed():
    event = Event(roots=(REPO, USER))
    proposals = (
        propose("one fact", scope="user"),
        propose("another thing"),
        propose("third statement", scope="user"),
    )

    documents, _ = decide(event, Classified(proposals), {}, frozenset(), NOW)

    assert [(d.root, d.memory.content) for d in documents] == [
        (USER, "one fact"),
        (REPO, "another thing"),
        (USER, "third statement"),
    ]


# --- what is no memory -------------------------------------------------------------------------------

GOOD = propose("goose speaks REST")


@pytest.mark.parametrize(
    "bad",
    [
        *(propose("atlas speaks gRPC", scope=scope) for scope in ("global", "", "Repo", "org")),
        *(propose("atlas speaks gRPC", category=category) for category in ("misc", "", "Patterns")),
        *(propose(content) for content in ("", "  \n", "\u3000")),
        propose("x" * (MAX_CONTENT_BYTES + 1)),
        propose("é" * (MAX_CONTENT_BYTES // 2 + 1)),
    ],
)
def test_an_invalid_proposal_costs_only_itself(bad):
    memories, tally = decided(bad, GOOD)

    assert contents(memories) == ["goose speaks REST"]
    assert tally == Tally(invalid=1)


@pytest.mark.parametrize("category", list(Category))
def test_each_of_the_six_categories_is_kept(category):
    (one,), _ = decided(propose("goose speaks REST", category=category.value))

    assert one.category == category


def test_a_scope_without_a_root_is_invalid():
    memories, tally = decided(GOOD, event=Event(roots=(USER,)))

    assert memories == []
    assert tally == Tally(invalid=1)


def test_elements_that_were_no_memory_count_as_invalid():
    _, tally = decide(Event(roots=(REPO,)), Classified((propose(""),), malformed=2), {}, frozenset(), NOW)

    assert tally == Tally(invalid=3)


def test_outer_space_is_cut_and_the_rest_stays_as_it_is():
    (one,), _ = decided(propose("\n  goose:\n\n    speaks `REST`\n\n"))

    assert one.content == "goose:\n\n    speaks `REST`"


def test_content_of_the_greatest_size_is_kept():
    (one,), _ = decided(propose("x" * MAX_CONTENT_BYTES))

    assert len(one.content) == MAX_CONTENT_BYTES


def test_what_utf8_cannot_hold_is_replaced_before_it_is_compared():
    (one,), _ = decided(propose("goose \ud800 REST"))
    again, tally = decided(propose("goose \ud800 REST"), existing={REPO: [one]})

    assert one.content == "goose ? REST"
    assert (again, tally) == ([], Tally(duplicates=1))


def test_at_most_ten_documents_come_of_one_event():
    memories, tally = decided(*(propose(f"port {n} is taken") for n in range(12)))

    assert contents(memories) == [f"port {n} is taken" for n in range(10)]
    assert tally == Tally(invalid=2)


def test_a_duplicate_takes_no_place_among_the_ten():
    known = [memory(f"mem_{n}", f"port {n} is taken") for n in range(5)]

    memories, tally = decided(*(propose(f"port {n} is taken") for n in range(15)), existing={REPO: known})

    assert len(memories) == 10
    assert tally == Tally(duplicates=5)


# --- secrets -----------------------------------------------------------------------------------------

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_a_secret_is_cut_out_and_counted():
    (one,), tally = decided(propose(f"The deploy script of goose pushes with {TOKEN} on every release."))

    assert one.content == "The deploy script of goose pushes with [redacted] on every release."
    assert tally == Tally(secrets=1)


def test_the_secrets_of_all_proposals_are_counted():
    texts = (
        f"The deploy script of {name} pushes with {TOKEN} on every release." for name in ("goose", "atlas")
    )

    _, tally = decided(*map(propose, texts))

    assert tally == Tally(secrets=2)


@pytest.mark.parametrize(
    "content",
    [
        TOKEN,
        f"The API token is {TOKEN}.",
        f"User's access token: {TOKEN}",
        "Remember that the password is [redacted]",
        "[redacted] [redacted]",
    ],
)
def test_a_secret_with_nothing_around_it_is_no_memory(content):
    memories, tally = decided(propose(content))

    assert memories == []
    assert tally == Tally(invalid=1, secrets=int(TOKEN in content))


def test_short_content_without_a_secret_is_a_memory():
    memories, _ = decided(propose("use tabs"))

    assert contents(memories) == ["use tabs"]


# --- what is known already --------------------------------------------------------------------------


def test_what_was_forgotten_does_not_come_back():
    memories, tally = decided(
        propose("Goose speaks **REST**."), forgotten=frozenset({digest(REPO.top, "goose speaks REST")})
    )

    assert memories == []
    assert tally == Tally(duplicates=1)


def test_what_was_forgotten_with_a_secret_does_not_come_back():
    content = f"The deploy script of goose pushes with {TOKEN} on every release."
    (one,), _ = decided(propose(content))

    memories, tally = decided(propose(content), forgotten=frozenset({digest(USER.top, one.content)}))

    assert memories == []
    assert tally == Tally(duplicates=1, secrets=1)


def test_what_another_repo_forgot_may_be_said_here():
    elsewhere = frozenset({digest("/other", "goose speaks REST")})

    assert contents(decided(propose("goose speaks REST"), forgotten=elsewhere)[0]) == ["goose speaks REST"]


@pytest.mark.parametrize("home", [REPO, USER])
def test_what_either_root_knows_in_like_words_is_not_written_again(home):
    known = memory("mem_1", "User prefers `errors.As` over type assertions.", scope=home.scope)

    memories, tally = decided(propose("Prefer errors.As over type assertions."), existing={home: [known]})

    assert memories == []
    assert tally == Tally(duplicates=1)


@pytest.mark.parametrize(("session", "written"), [("s1", 0), ("another", 1)])
def test_a_superseded_statement_comes_back_only_if_another_session_says_it(session, written):
    chain = [
        msgspec.structs.replace(memory("mem_1", "goose speaks REST"), session_id=session),
        memory("mem_2", "goose speaks gRPC", supersedes="mem_1", version=2),
    ]

    memories, tally = decided(propose("goose speaks REST", supersedes="mem_2"), existing={REPO: chain})

    assert [each.version for each in memories] == [3] * written
    assert tally == Tally(duplicates=1 - written)


def test_the_same_twice_in_one_answer_is_written_once():
    memories, tally = decided(GOOD, propose("Goose speaks REST.", scope="user"))

    assert contents(memories) == ["goose speaks REST"]
    assert tally == Tally(duplicates=1)


def test_a_memory_of_a_root_that_the_event_does_not_see_is_no_duplicate():
    elsewhere = {Root("/srv/atlas", Scope.REPO): [memory("mem_1", "goose speaks REST")]}

    memories, _ = decided(GOOD, existing=elsewhere)

    assert contents(memories) == ["goose speaks REST"]


# --- versions -----------------------------------------------------------------------------------------


def test_a_known_id_is_superseded_by_the_next_version():
    (one,), _ = decided(
        propose("goose speaks gRPC", supersedes="mem_1"), existing={REPO: [memory("mem_1", "x")]}
    )

    assert (one.supersedes, one.version) == ("mem_1", 2)


def test_an_unknown_id_is_no_link():
    (one,), tally = decided(
        propose("goose speaks gRPC", supersedes="../../etc"), existing={REPO: [memory("m", "x")]}
    )

    assert (one.supersedes, one.version, one.related) == (None, 1, ())
    assert tally == Tally()


def test_an_old_version_is_superseded_at_the_head_of_its_chain():
    chain = [memory("mem_1", "x"), memory("mem_2", "y", supersedes="mem_1", version=7)]

    (one,), _ = decided(propose("goose speaks gRPC", supersedes="mem_1"), existing={REPO: chain})

    assert (one.supersedes, one.version) == ("mem_2", 8)


def test_two_that_supersede_the_same_form_a_chain():
    (one, two), _ = decided(
        propose("goose speaks gRPC", supersedes="mem_1"),
        propose("goose speaks GraphQL", supersedes="mem_1"),
        existing={REPO: [memory("mem_1", "x")]},
    )

    assert (one.supersedes, one.version) == ("mem_1", 2)
    assert (two.supersedes, two.version) == (one.id, 3)


@pytest.mark.parametrize(("scope", "other"), [("repo", USER), ("user", REPO)])
def test_a_memory_of_the_other_scope_is_refined_and_not_superseded(scope, other):
    known = {other: [memory("mem_1", "x", scope=other.scope)]}

    (one,), _ = decided(propose("goose speaks gRPC", scope=scope, supersedes="mem_1"), existing=known)

    assert (one.supersedes, one.version) == (None, 1)
    assert one.related == (Related("mem_1", "refines"),)


# --- edges ------------------------------------------------------------------------------------------


def edges_of(*edges: Related, existing: Existing, **fields) -> tuple[Related, ...]:
    (one,), _ = decided(propose("goose speaks gRPC", related=edges, **fields), existing=existing)
    return one.related


KNOWN = {REPO: [memory("mem_1", "x"), memory("mem_2", "y")], USER: [memory("mem_3", "z", scope="user")]}


def test_edges_to_known_memories_of_either_root_are_kept_in_their_order():
    edges = (Related("mem_3", "contradicts"), Related("mem_1", "relates-to"))

    assert edges_of(*edges, existing=KNOWN) == edges


@pytest.mark.parametrize("relationship", list(Relationship))
def test_each_of_the_four_relations_is_kept(relationship):
    assert edges_of(Related("mem_1", relationship.value), existing=KNOWN) == (Related("mem_1", relationship),)


@pytest.mark.parametrize(
    "edge",
    [
        *(Related(id_, "refines") for id_ in ("mem_9", "", "../../x", "self")),
        *(Related("mem_1", name) for name in ("causes", "", "REFINES")),
    ],
)
def test_an_edge_to_nowhere_or_of_an_unknown_relation_is_dropped(edge):
    assert edges_of(edge, Related("mem_2", "refines"), existing=KNOWN) == (Related("mem_2", "refines"),)


def test_an_edge_said_twice_is_kept_once():
    edge = Related("mem_1", "refines")

    assert edges_of(edge, edge, existing=KNOWN) == (edge,)
    assert edges_of(Related("mem_3", "refines"), supersedes="mem_3", existing=KNOWN) == (
        Related("mem_3", "refines"),
    )


def test_at_most_eight_edges_are_kept_and_that_to_the_refined_one_is_among_them():
    many = {
        REPO: [memory(f"mem_{n}", f"port {n}") for n in range(20)],
        USER: [memory("mem_u", "z", scope="user")],
    }
    edges = [Related(f"mem_{n}", "relates-to") for n in range(20)]

    kept = edges_of(*edges, supersedes="mem_u", existing=many)

    assert kept == (Related("mem_u", "refines"), *edges[:7])


# --- anything at all ---------------------------------------------------------------------------------

IDS = st.sampled_from(["", "mem_1", "mem_2", "mem_3", "mem_9"]) | st.text(max_size=8)
PROPOSALS = st.builds(
    Proposal,
    content=st.text(max_size=60)
    | st.sampled_from(["goose speaks REST", "use tabs", f"the token is {TOKEN}"]),
    scope=st.sampled_from(["repo", "user"]) | st.text(max_size=8),
    category=st.sampled_from([*Category]) | st.text(max_size=8),
    supersedes=IDS,
    related=st.lists(
        st.builds(Related, IDS, st.sampled_from([*Relationship]) | st.text(max_size=8)), max_size=12
    ).map(tuple),
)
ANSWERS = st.lists(PROPOSALS, max_size=10).map(tuple)
ROOTS = st.sampled_from([(REPO, USER), (USER,), (REPO,), ()])


@given(ANSWERS, ROOTS)
@settings(max_examples=100)
def test_any_answer_gives_documents_that_can_be_stored_and_nothing_raises(proposals, roots):
    documents, tally = decide(Event(roots=roots), Classified(proposals), KNOWN, frozenset(), NOW)

    assert len(documents) + tally.invalid + tally.duplicates == len(proposals)
    for document in documents:
        assert parse(render(document.memory), document.root.scope, document.memory.id) == document.memory
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(document), type=Document) == document
        assert TOKEN not in document.memory.content


@given(ANSWERS, ROOTS)
@settings(max_examples=100)
def test_the_same_answer_a_second_time_gives_nothing(proposals, roots):
    event = Event(roots=roots)
    documents, _ = decide(event, Classified(proposals), KNOWN, frozenset(), NOW)
    grown = {root: [*KNOWN[root], *(d.memory for d in documents if d.root == root)] for root in (REPO, USER)}

    again, _ = decide(event, Classified(proposals), grown, frozenset(), NOW)

    assert again == ()


@given(ANSWERS)
@settings(max_examples=100)
def test_versions_never_fork(proposals):
    documents, _ = decide(Event(roots=(REPO, USER)), Classified(proposals), KNOWN, frozenset(), NOW)

    links = [document.memory.supersedes for document in documents if document.memory.supersedes]
    assert len(links) == len(set(links))
