import pytest

from forged.cli.tables import cells
from forged_client.protocol import Explained, Found, Message, Rejected, Retrieve, Retrieved, Search, Why
from tests.cli import reports


def test_search_marks_each_hit_and_shows_the_figures_when_asked(daemon, forgectl):
    daemon.answers[Search] = Found(memories=(reports.hit(admitted_as="near"),))

    shown = forgectl("search", "errors", "--limit", "3", "--min-generation", "e:4")

    assert shown.out.splitlines() == [
        "near    mem_a  repo/patterns  v2  2026-05-01",
        "        Wrap errors. With %w.",
        "        older: v1 2026-01-01 mem_old  Ignore errors.",
    ]
    asked = daemon.asked(Search)
    assert (asked.workspace, asked.query, asked.limit, asked.min_generation) == ("/w", "errors", 3, "e:4")
    assert asked.rated
    figures = forgectl("search", "errors", "--verbose").out.splitlines()[0]
    assert figures == "near    mem_a  repo/patterns  v2  2026-05-01  score 0.900  cosine 0.800  lexical 3.250"
    (hit,) = forgectl("search", "errors", "--json").json["memories"]
    assert (hit["found"]["score"], hit["found"]["admitted_as"]) == (0.9, "near")


def test_an_empty_search_names_what_it_searched(daemon, forgectl):
    daemon.answers[Search] = Found(status="empty")

    shown = forgectl("search", "zebra")

    assert (shown.code, shown.out) == (0, "")
    assert shown.err == (
        "no memory found; searched: repo, user (--scope, --session and --agent search others)\n"
    )
    assert forgectl("search", "zebra", "--json").err == ""


@pytest.mark.parametrize("width", [60, 80])
def test_what_explains_an_injection_fits_the_terminal(daemon, forgectl, width):
    name = "mem_6f0e5d00-1111-4222-8333-444455556666"
    hit = reports.hit(name, admitted_as="near", content="永远不要删除列。" * 9)
    found = Explained(
        at="2026-05-01T10:00:00Z", memories=(hit,), included=1, strategy="hyde", hypotheses=("h " * 90,)
    )
    daemon.answers[Why] = found

    out = forgectl("why", width=width).out

    assert max(map(cells, out.splitlines())) <= width
    assert "close to the best match" in " ".join(out.split())


@pytest.mark.parametrize("width", [60, 80])
def test_hits_fit_the_terminal(daemon, forgectl, width):
    ids = [f"mem_6f0e5d{at:02}-1111-4222-8333-444455556666" for at in range(2)]
    hits = tuple(
        reports.hit(each, content="数据库迁移必须能够回滚。" * 6, admitted_as="weak") for each in ids
    )
    daemon.answers[Search] = Found(memories=hits)

    out = forgectl("search", "x", "--verbose", width=width).out

    assert max(map(cells, out.splitlines())) <= width
    assert all(each[:12] in out for each in ids)


def test_memory_text_cannot_reach_the_terminal_raw(daemon, forgectl):
    daemon.answers[Search] = Found(memories=(reports.hit("mem_\x1b", content="\x1b]52;c;x\x07\u202e"),))

    assert "\x1b" not in forgectl("search", "x").out
    assert "\u202e" not in forgectl("search", "x", "--json").out


@pytest.mark.parametrize(
    ("option", "stdin", "first"),
    [
        ("--stdin-json", '[{"role":"user","content":"a"},{"role":"assistant"}]', "a"),
        ("-", "from a pipe", "from a pipe"),
    ],
)
def test_retrieve_reads_a_message_or_a_conversation_from_stdin(
    daemon, forgectl, piped, *, option, stdin, first
):
    daemon.answers[Retrieve] = Retrieved(status="empty")
    piped(stdin)

    forgectl("retrieve", option)

    assert daemon.asked(Retrieve).messages[0] == Message("user", first)


@pytest.mark.parametrize("stdin", ["", "{}", "[1]", '[{"content":"x"}]'])
def test_a_conversation_that_is_none_is_wrong_usage(daemon, forgectl, piped, stdin):
    piped(stdin)

    shown = forgectl("retrieve", "--stdin-json")

    assert shown.code == 2
    assert "not a JSON array of messages" in shown.err


def test_retrieve_needs_one_question(daemon, forgectl):
    for arguments in ((), ("hi", "--stdin-json"), (" ",)):
        assert forgectl("retrieve", *arguments).code == 2


@pytest.mark.parametrize(
    ("status", "code"),
    [("ok", 0), ("empty", 0), ("disabled", 0), ("timeout", 75), ("not_ready", 75), ("error", 69)],
)
def test_the_exit_code_of_a_read_says_what_happened(daemon, forgectl, status, code):
    daemon.answers[Retrieve] = Retrieved(status=status, reason="because")

    shown, as_json = forgectl("retrieve", "hi"), forgectl("retrieve", "hi", "--json")

    assert (shown.code, shown.out, as_json.code) == (code, "", code)
    assert "because" in shown.err
    assert as_json.json.get("error") == ({"code": status, "message": "because"} if code else None)


def test_why_shows_hypotheses_scores_hops_and_what_the_budget_cut(daemon, forgectl):
    hop = reports.hit("mem_hop", score=0.4, cosine=None, lexical=None, found_by="link")
    daemon.answers[Why] = Explained(
        session_id="s1",
        turn_id="t1",
        at="2026-05-01T10:00:00Z",
        strategy="hyde",
        indexes=("lexical", "dense"),
        hypotheses=("Errors are wrapped.",),
        memories=(reports.hit(admitted_as="weak"), hop),
        included=1,
        omitted_ids=("mem_hop",),
        rejected_ids=("mem_x", "mem_y"),
        rejected=(
            Rejected("mem_x", "/r", "Use tabs.", "faint", -0.2),
            Rejected("mem_y", "/r", "Be brief.", "full"),
        ),
    )

    shown = forgectl("why", "--session", "s1")

    assert shown.out.splitlines() == [
        "session s1, turn t1, injected 2026-05-01 10:00: 1 of 2 memories included",
        "strategy: hyde, search: keywords + embeddings",
        "",
        "hypotheses",
        "  1. Errors are wrapped.",
        "",
        "memory   budget  reason",
        "mem_a    fits    weak match, but nothing matched better  Wrap errors. With %w.",
        "mem_hop  cut     linked to an injected memory            Wrap errors. With %w.",
        "",
        "memory  left out because",
        "mem_x   match too weak         Use tabs.",
        "mem_y   enough better matches  Be brief.",
    ]
    assert daemon.asked(Why).session_id == "s1"


def test_why_of_a_query_says_that_it_was_asked_now(daemon, forgectl):
    daemon.answers[Why] = Explained(at="2026-05-01T10:00:00Z", memories=(reports.hit(),), included=1)

    shown = forgectl("why", "errors")

    assert shown.out.startswith("asked now for 'errors': 1 of 1 memory included\n")
    assert daemon.asked(Why).query == "errors"
