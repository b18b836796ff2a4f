"""Deciding about many proposals at once, against a scripted daemon."""

from __future__ import annotations

import pytest

from forged.cli.reviewing import parse_numbers, parse_scopes
from forged_client.protocol import Proposed, Review, Reviewed

WAITING = tuple(
    Proposed(
        id=f"mem_{number}",
        content=f"Order {number}\x1b[2J\nand more",
        scope="user" if number == 3 else "repo",
        agent="codex",
        created_at="2026-05-01T10:00:00Z",
        supersedes="mem_old" if number == 2 else "",
    )
    for number in range(1, 41)
)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("1-3,5", [1, 2, 3, 5]),
        (" 4 2, 2 ", [2, 4]),
        ("ALL", [1, 2, 3, 4, 5]),
        ("", []),
        ("none", []),
        ("0", None),
        ("6", None),
        ("3-2", None),
        ("1-", None),
        ("mem_1", None),
        ("٣", None),
    ],
)
def test_numbers_are_understood_or_asked_for_again(said, meant):
    assert parse_numbers(said, 5) == meant


@pytest.fixture
def deciding(daemon):
    """A daemon at which proposals wait; what it was asked to keep and drop."""
    daemon.answers[Review] = lambda asked: Reviewed(waiting=WAITING, kept=asked.keep, dropped=asked.drop)

    def asked() -> list[tuple[tuple[str, ...], tuple[str, ...], str]]:
        return [(each.keep, each.drop, each.scope) for each in daemon.requests if isinstance(each, Review)]

    return asked


def answers(monkeypatch, *said: str) -> None:
    """What the person types, one line after the other."""
    lines = iter(said)
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(lines))
    monkeypatch.setattr("click.confirm", lambda *_, **__: next(lines) == "y")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("", {}),
        ("user 1-2", {1: "user", 2: "user"}),
        (" USER 1; repo 3,5 ;", {1: "user", 3: "repo", 5: "repo"}),
        ("user all", dict.fromkeys(range(1, 6), "user")),
        ("user", None),
        ("org 1", None),
        ("user 6", None),
        ("1", None),
    ],
)
def test_scopes_with_numbers_are_understood_or_asked_for_again(said, meant):
    assert parse_scopes(said, 5) == meant


def test_those_are_saved_and_dropped_whose_numbers_are_said(deciding, forgectl, monkeypatch):
    answers(monkeypatch, "what?", "1-3", "user 4", "user 2; repo 3", "2-4,7")
    reported = forgectl("review", interactive=True, shows_terminal=True)

    assert deciding() == [
        ((), (), ""),
        (("mem_1",), (), ""),
        (("mem_2",), (), "user"),
        (("mem_3",), (), "repo"),
        ((), ("mem_4", "mem_7"), ""),
    ]
    assert reported.out.splitlines() == [
        *("saved mem_1", "saved mem_2", "saved mem_3"),
        *("dropped mem_4", "dropped mem_7"),
    ]
    assert "   2  2026-05-01, codex, for this repository, replaces mem_old" in reported.err
    assert "   3  2026-05-01, codex, for all your repositories" in reported.err
    assert "      | Order 3^[[2J\n      | and more\n" in reported.err
    assert "there are 1 to 40; type numbers" in reported.err
    assert "type user or repo with numbers that you save" in reported.err


def test_many_are_decided_about_a_few_at_a_time(deciding, forgectl, monkeypatch):
    answers(monkeypatch, "all", "")
    assert forgectl("review", interactive=True, shows_terminal=True).code == 0

    assert [len(keep) for keep, _, _ in deciding()] == [0, 16, 16, 8]


@pytest.mark.parametrize("surroundings", [{}, {"interactive": True}, {"shows_terminal": True}])
def test_where_no_person_looks_it_prints(deciding, forgectl, surroundings):
    shown = forgectl("review", **surroundings)

    assert (shown.code, "mem_40" in shown.out) == (0, True)
    assert forgectl("review", "--json", interactive=True, shows_terminal=True).json["waiting"]


@pytest.mark.parametrize(("option", "place"), [("--keep-all", 0), ("--drop-all", 1)])
def test_all_are_decided_about_after_a_yes(deciding, forgectl, monkeypatch, option, place):
    answers(monkeypatch, "n", "y")
    declined = forgectl("review", option, interactive=True)
    assert (declined.code, deciding()) == (1, [((), (), "")])
    done = forgectl("review", option, interactive=True)

    assert done.code == 0
    assert len(done.out.splitlines()) == 40
    assert [each for asked in deciding() for each in asked[place]] == [each.id for each in WAITING]
    assert not any(asked[1 - place] for asked in deciding())


def test_where_nobody_can_answer_all_need_a_yes(deciding, forgectl):
    assert forgectl("review", "--keep-all").code == 2
    assert deciding() == []
    assert forgectl("review", "--keep-all", "-y", "--scope", "user").code == 0
    assert {scope for keep, _, scope in deciding() if keep} == {"user"}


def test_where_nothing_waits_it_is_said(daemon, forgectl):
    daemon.answers[Review] = Reviewed()
    done = forgectl("review", "--keep-all", "--yes")

    assert done.code == 1
    assert "there are no proposals here" in done.err
    assert forgectl("review", interactive=True, shows_terminal=True).code == 0


@pytest.mark.parametrize(
    "with_it", [("--keep", "mem_1"), ("--drop-all",), ("--text", "x"), ("--accept-all",)]
)
def test_each_of_them_decides_by_itself(deciding, forgectl, with_it):
    done = forgectl("review", "--keep-all", *with_it, "--yes")

    assert done.code == 2
    assert deciding() == []
