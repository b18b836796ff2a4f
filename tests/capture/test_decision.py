"""Decisions about a classifier's proposals, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.capture import existing
from forged.capture.decision import ForgottenSince
from forged.capture.rules import replacement as newest
from forged.capture.values import MAX_CONTENT_BYTES, Classified, Proposal, Tally
from forged.conversation import Utterance
from forged.files.frontmatter import parse, render
from forged.files.roots import Root
from forged.memory import (
    Category,
    Entity,
    EntityRelation,
    Memory,
    Origin,
    Related,
    Relationship,
    Scope,
    time_ns,
    utc,
)
from forged.state import DecidedMemory, Event
from forged.state.forgotten import digest
from tests.capture.comparing import decide
from tests.data.memories import memory
from tests.faults.amount import times

REPO = Root("/srv/goose", Scope.REPO)
USER = Root("/home/tess", Scope.USER)
NOW = "2026-01-31T12:00:00.123456Z"

Existing = dict[Root, list[Memory]]


def nothing_forgotten(tops: Sequence[str], text: str) -> float | None:
    return None


def forgotten_for_ever(digests: frozenset[str]) -> ForgottenSince:
    """What has one of these digests was forgotten, and no message is younger."""
    return lambda tops, text: float("inf") if any(digest(top, text) in digests for top in tops) else None


def propose(content: str, **fields) -> Proposal:
    return Proposal(content, **{"scope": "repo", "category": "patterns"} | fields)


def decided(
    *proposals: Proposal,
    existing: Existing | None = None,
    forgotten: frozenset[str] = frozenset(),
    event: Event | None = None,
) -> tuple[list[Memory], Tally]:
    event = event or Event(session_id="s1", roots=(REPO, USER))
    documents, tally = decide(
        event, Classified(proposals), existing or {}, forgotten_for_ever(forgotten), NOW
    )
    assert all(document.root.scope == document.memory.scope for document in documents)
    return [document.memory for document in documents], msgspec.structs.replace(tally, refused=())


def contents(memories: list[Memory]) -> list[str]:
    return [each.content for each in memories]


GOOD = propose("goose speaks REST")


# --- what a document says of itself ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "author", "origin", "why"),
    [
        ("turn", Origin.TYPED, "typed", "rule"),
        ("turn", Origin.MODEL, "model", "model"),
        ("compaction", Origin.MODEL, "model", "model"),
        ("explicit", Origin.MODEL, "explicit", "model"),
    ],
)
def test_a_document_has_its_origin_and_its_classifier(kind, author, origin, why):
    event = Event(kind=kind, roots=(REPO,))
    (one,), _ = decide(event, Classified((GOOD,), author=author), {}, nothing_forgotten, NOW)

    assert (one.memory.origin, one.why) == (origin, why)


# --- what is no memory -------------------------------------------------------------------------------


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


def test_at_most_ten_documents_come_of_one_event():
    memories, tally = decided(*(propose(f"port {n} is taken") for n in range(12)))

    assert contents(memories) == [f"port {n} is taken" for n in range(10)]
    assert tally == Tally(invalid=2)


# --- secrets -----------------------------------------------------------------------------------------

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PUSHES = "The deploy script of {} pushes with {} on every release."


def test_a_secret_is_cut_out_and_counted():
    (one, _), tally = decided(*(propose(PUSHES.format(name, TOKEN)) for name in ("goose", "atlas")))

    assert one.content == PUSHES.format("goose", "[redacted]")
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
    assert decided(propose(content)) == ([], Tally(invalid=1, secrets=int(TOKEN in content)))


# --- what is known already --------------------------------------------------------------------------


def test_what_another_repo_forgot_may_be_said_here():
    elsewhere = frozenset({digest("/other", "goose speaks REST")})

    assert contents(decided(GOOD, forgotten=elsewhere)[0]) == ["goose speaks REST"]


@pytest.mark.parametrize(("session", "written"), [("s1", 0), ("another", 1)])
def test_a_superseded_statement_comes_back_only_if_another_session_says_it(session, written):
    chain = [
        msgspec.structs.replace(memory("mem_1", "goose speaks REST"), session_id=session),
        memory("mem_2", "goose speaks gRPC", supersedes="mem_1", version=2),
    ]

    memories, tally = decided(propose("goose speaks REST", supersedes="mem_2"), existing={REPO: chain})

    assert [each.version for each in memories] == [3] * written
    assert tally == Tally(duplicates=1 - written)


LIKE_WORDS = propose("Prefer errors.As over type assertions.")
LONG_KNOWN = memory("mem_1", "User prefers `errors.As` over type assertions.")
AGAIN = propose("Goose speaks **REST**.", scope="user")
# What is proposed, known and forgotten, and what is kept of it.
KNOWN_ALREADY: dict[str, tuple[list[Proposal], Existing, str, list[str], Tally]] = {
    "to the repo in like words": ([LIKE_WORDS], {REPO: [LONG_KNOWN]}, "", [], Tally(duplicates=1)),
    "to the user in like words": ([LIKE_WORDS], {USER: [LONG_KNOWN]}, "", [], Tally(duplicates=1)),
    "said twice": ([GOOD, AGAIN], {}, "", ["goose speaks REST"], Tally(duplicates=1)),
    "forgotten": (
        *([propose("Goose speaks **REST**.")], {}, digest(REPO.top, "goose speaks REST")),
        *([], Tally(duplicates=1)),
    ),
    "forgotten with a secret": (
        [propose(PUSHES.format("goose", TOKEN))],
        *({}, digest(USER.top, PUSHES.format("goose", "[redacted]"))),
        *([], Tally(duplicates=1, secrets=1)),
    ),
    "to a root that the event does not see": (
        [GOOD],
        *({Root("/srv/atlas", Scope.REPO): [memory("mem_1", "goose speaks REST")]}, ""),
        *(["goose speaks REST"], Tally()),
    ),
}


@pytest.mark.parametrize("name", KNOWN_ALREADY)
def test_what_is_known_or_was_forgotten_is_not_written_again(name):
    proposals, existing, forgotten, kept, counted = KNOWN_ALREADY[name]

    memories, tally = decided(*proposals, existing=existing, forgotten=frozenset({forgotten}))

    assert (contents(memories), tally) == (kept, counted)


# --- versions -----------------------------------------------------------------------------------------

CHAIN = [memory("mem_1", "x"), memory("mem_2", "y", supersedes="mem_1", version=7)]


@pytest.mark.parametrize(
    ("scope", "named", "existing", "link"),
    [
        ("repo", "mem_1", {REPO: CHAIN[:1]}, ("mem_1", 2, ())),
        ("repo", "../../etc", {REPO: CHAIN[:1]}, (None, 1, ())),
        ("repo", "mem_1", {REPO: CHAIN}, ("mem_2", 8, ())),
        ("repo", "mem_1", {USER: [memory("mem_1", "x", scope="user")]}, (None, 1, ())),
        ("user", "mem_1", {REPO: CHAIN[:1]}, (None, 1, ())),
    ],
    ids=["known", "unknown", "an old version", "of the user", "of the repo"],
)
def test_head_of_a_chain_is_superseded_and_a_memory_of_the_other_scope_never(scope, named, existing, link):
    (one,), tally = decided(propose("goose speaks gRPC", scope=scope, supersedes=named), existing=existing)

    assert (one.supersedes, one.version, one.related) == link
    assert tally == Tally()


# --- edges ------------------------------------------------------------------------------------------

KNOWN = {
    REPO: [memory(f"mem_{n}", f"port {n}") for n in range(20)],
    USER: [memory("mem_u", "z", scope="user")],
}
ONE, TWO = Related("mem_1", "refines"), Related("mem_2", "refines")


def edges_of(*edges: Related, **fields) -> tuple[Related, ...]:
    (one,), _ = decided(propose("goose speaks gRPC", related=edges, **fields), existing=KNOWN)
    return one.related


@pytest.mark.parametrize(
    "edge",
    [
        *(Related(id_, "refines") for id_ in ("mem_99", "", "../../x", "self", "mem_u")),
        *(Related("mem_1", name) for name in ("causes", "", "REFINES")),
    ],
)
def test_an_edge_to_nowhere_or_of_an_unknown_relation_is_dropped(edge):
    assert edges_of(edge, TWO) == (TWO,)


# --- anything at all ---------------------------------------------------------------------------------

IDS = st.sampled_from(["", "mem_1", "mem_2", "mem_u", "mem_99"]) | st.text(max_size=8)
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
@settings(max_examples=times(100, 25))
def test_any_answer_gives_documents_that_can_be_stored_and_nothing_raises(proposals, roots):
    documents, tally = decide(Event(roots=roots), Classified(proposals), KNOWN, nothing_forgotten, NOW)

    assert len(documents) + tally.invalid + tally.duplicates == len(proposals)
    for document in documents:
        assert parse(render(document.memory), document.root.scope, document.memory.id) == document.memory
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(document), type=DecidedMemory) == document
        assert TOKEN not in document.memory.content


@given(ANSWERS)
@settings(max_examples=times(100, 25))
def test_versions_never_fork(proposals):
    documents, _ = decide(Event(roots=(REPO, USER)), Classified(proposals), KNOWN, nothing_forgotten, NOW)

    links = [document.memory.supersedes for document in documents if document.memory.supersedes]
    assert len(links) == len(set(links))


def test_cues_and_evidence_are_kept_as_far_as_they_can_be(tmp_path):
    (tmp_path / "a.py").write_text("one\n")
    root = Root(str(tmp_path), Scope.REPO)
    proposal = propose(
        "goose speaks REST",
        cues=("a  b", "x" * 201, "", "a b", *"cdefg"),
        evidence=("a.py:1", "../outside", "missing.py"),
    )
    (one,), _ = decided(proposal, event=Event(session_id="s1", roots=(root,)))

    assert one.cues == ("a b", "c", "d", "e", "f")
    assert [(each.path, each.lines) for each in one.evidence] == [("a.py", "1")]
    assert one.evidence[0].hash
    (users,), _ = decided(msgspec.structs.replace(proposal, scope="user"))
    assert users.evidence == ()


def test_what_it_speaks_of_is_kept_in_its_file_as_far_as_it_says_so():
    proposal = propose(
        "goose speaks REST",
        entities=(Entity("goose", "service"), Entity("heron")),
        relations=(EntityRelation("goose", "speaks", "REST"), EntityRelation("goose", "eats", "heron")),
    )

    (one,), _ = decided(proposal)

    assert one.entities == (Entity("goose", "service"),)
    assert one.relations == (EntityRelation("goose", "speaks", "REST"),)
    assert parse(render(one), "repo", one.id) == one


# --- how often it is asked ---------------------------------------------------------------------------


@pytest.mark.parametrize("update_only", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_what_a_proposal_takes_the_place_of_is_looked_up_once(monkeypatch, known, update_only):
    """Among thousands of memories it takes long; what was likely before is looked up once as well."""
    npm, pnpm = "We use npm in this repo.", "We use pnpm in this repo, npm is out."
    asked = []
    judged = newest.judged

    def counted(newer: str, older: Sequence[str], **given) -> newest.Judgement | None:
        asked.append(tuple(older))
        return judged(newer, older, **given)

    monkeypatch.setattr(existing, "judged", counted)
    held = existing.TentativeStatements()
    held.add(REPO, npm)
    there = "The logo is green." if not known else npm
    documents, _ = decide(
        Event(session_id="s1", roots=(REPO, USER)),
        Classified((propose(pnpm, update_only=update_only),), author=Origin.TYPED),
        {REPO: [memory("mem_0", there, scope="repo")]},
        nothing_forgotten,
        NOW,
        tentative=held,
    )
    assert [each.memory.supersedes for each in documents] == ["mem_0" if known else None]
    assert sorted(asked) == sorted([(there,), (npm,)])
    assert held.find_replaced([REPO], pnpm) == existing.TentativeStatement(REPO, npm, current=pnpm)


# --- an update in another scope ----------------------------------------------------------------------


@pytest.mark.parametrize("update_only", [True, False])
@pytest.mark.parametrize(
    ("scope", "held", "texts", "is_replaced"),
    [
        ("user", REPO, ("We format with black.", "Format with ruff, not black."), True),
        ("user", REPO, ("Work is branched off develop.", "Work is branched off edge, not develop."), True),
        ("repo", USER, ("I format with black.", "Format with ruff, not black."), True),
        ("repo", USER, ("I format with black.", "In this repo we format with ruff, not black."), False),
        ("user", REPO, ("We format with black.", "I write plain English."), False),
        ("user", REPO, ("We format with black.", "In all my projects format with ruff, not black."), None),
    ],
)
def test_a_typed_update_follows_a_memory_to_its_scope(update_only, scope, held, texts, is_replaced):
    older, newer = texts
    one = memory("mem_0", older, scope=held.scope)
    documents, _ = decide(
        Event(session_id="s9", roots=(REPO, USER)),
        Classified((propose(newer, scope=scope, update_only=update_only),), author=Origin.TYPED),
        {held: [one]},
        nothing_forgotten,
        NOW,
    )
    kept = [(each.root, each.memory.supersedes) for each in documents]
    own = next(root for root in (REPO, USER) if root.scope == scope)
    is_replaced = update_only if is_replaced is None else is_replaced  # sure of all projects
    assert kept == ([(held, "mem_0")] if is_replaced else [] if update_only else [(own, None)])


# --- past sessions -----------------------------------------------------------------------------------

JUNE, JULY = 1_780_000_000.0, 1_783_000_000.0
SAID = (
    (JUNE, "user", "goose speaks REST"),
    (JUNE + 9, "assistant", "noted"),
    (JULY, "user", "atlas speaks gRPC"),
)


def past(*said: tuple[float, str, str]) -> Event:
    window = tuple(Utterance(role, text) for _, role, text in said or SAID)
    times_of = tuple(at for at, *_ in said or SAID)
    return Event(
        kind="learned", session_id="s1", roots=(REPO, USER), window=window, said_at=times_of, agent="codex"
    )


def learned(*proposals: Proposal, existing: Existing | None = None, event: Event | None = None):
    found, tally = decide(event or past(), Classified(proposals), existing or {}, nothing_forgotten, NOW)
    return found, tally


def test_all_of_a_past_session_waits_and_is_as_old_as_what_was_said():
    (one, other), _ = learned(GOOD, propose("atlas speaks gRPC", scope="user"))

    assert one.waits
    assert other.waits
    assert (one.agent, other.learned_at) == ("codex", time_ns(NOW) / 1e9)
    assert [each.memory.created_at for each in (one, other)] == [utc(JUNE), utc(JULY)]
    assert one.memory.updated_at == one.memory.created_at


@pytest.mark.parametrize(("known_since", "is_proposed"), [(JUNE - 9, True), (JUNE + 9, False)])
def test_what_is_known_since_then_is_not_replaced(known_since, is_proposed):
    known = memory("mem_old", "goose speaks SOAP", created_at=utc(known_since))
    found, tally = learned(propose("goose speaks REST", supersedes="mem_old"), existing={REPO: [known]})

    assert [each.memory.supersedes for each in found] == (["mem_old"] if is_proposed else [])
    assert tally.duplicates == (0 if is_proposed else 1)


# --- one memory of one statement -----------------------------------------------------------------------


def said_at(second: int) -> str:
    return utc(time_ns(NOW) / 1e9 + second)


@pytest.mark.parametrize(
    ("written", "at", "origin", "is_one"),
    [
        ("We deploy only on Tuesdays at 9.", 1, Origin.AGENT, True),
        ("Deploys of this repo happen on Tuesdays at 9.", 1, Origin.AGENT, True),
        ("We plan the week on Tuesdays at 9.", 1, Origin.AGENT, False),
        ("The team must deploy only on Tuesdays, at 9.", 1, Origin.MODEL, True),
        ("We deploy only on Tuesdays at 10.", 1, Origin.AGENT, False),
        ("We never deploy on Tuesdays at 9.", 1, Origin.AGENT, False),
        ("The team must deploy only on Tuesdays, at 9.", -60, Origin.AGENT, False),
        ("The team must deploy only on Tuesdays, at 9.", 1, Origin.EXPLICIT, False),
    ],
)
def test_what_an_agent_wrote_of_a_statement_in_its_turn_adds_cues_to_the_persons_words(
    written, at, origin, is_one
):
    said = "We deploy only on Tuesdays at 9."
    theirs = msgspec.structs.replace(
        memory("mem_theirs", written), origin=origin, created_at=said_at(at), cues=("deploying",)
    )
    now = time_ns(NOW) / 1e9
    event = Event(session_id="s1", roots=(REPO,), window=(Utterance("user", said),), said_at=(now,))

    answer = Classified((propose(said),), author=Origin.TYPED)
    documents, _ = decide(event, answer, {REPO: [theirs]}, nothing_forgotten, NOW)

    (kept,) = (each.memory for each in documents if not each.is_question)
    assert len(documents) == 1 or not is_one  # another value may raise a question
    assert (kept.content, kept.origin) == (said, "typed")
    assert ("deploying" in kept.cues) is is_one
    if is_one:
        assert kept.supersedes == "mem_theirs"
        assert written in kept.cues or written == said
