"""Notifications about a session's capture, once, in sentences; and the record for a person."""

from __future__ import annotations

from msgspec.structs import replace

from forged.capture.notifications import LOCAL, Notifications, unanswered
from forged.capture.values import Refused
from forged.conversation import Utterance
from forged.files import Root
from forged.memory import Scope
from forged.state import DecidedMemory, Event, JudgementLog
from forged.state.database import Database
from forged.state.judged import MOST_UNTOLD
from tests.data.memories import memory

REPO = Root("/repo", Scope.REPO)


def document(name: str, text: str, why: str = "", **fields: object) -> DecidedMemory:
    return DecidedMemory(REPO, replace(memory(name, text), **fields), why)


def reported(*, classifier: str = "") -> tuple[Notifications, JudgementLog]:
    judged = JudgementLog(Database("/nowhere/state.db"), clock=lambda: 0.0)
    return Notifications(judged, classifier=classifier), judged


def event(session: str = "s", **fields: object) -> Event:
    return Event(session_id=session, roots=(REPO,), **fields)


def test_what_was_kept_is_said_with_where_it_holds_and_how_to_take_it_back():
    news, _ = reported()
    news.kept(event(), [document("mem_a", "Tests run\nwith pytest.")])
    news.kept(event(), [document("mem_b", "Be brief.", scope="user", supersedes="mem_0")])

    assert news.of("s") == (
        'kept, for this repository: "Tests run with pytest."; `forgectl forget mem_a` takes it back',
        (
            'kept, in place of an older one, for you in all projects: "Be brief."; '
            "`forgectl forget mem_b` takes it back"
        ),
    )


def test_a_refusal_is_said_with_its_reason_and_without_its_secret():
    (news, judged), key = reported(), "sk-proj-" + "a1B2c3D4" * 6
    news.refused(event(), [Refused(f"the key is {key}", "it holds a secret")])

    (sentence,) = news.of("s")
    assert sentence.startswith('not kept: "the key is ')
    assert sentence.endswith('": it holds a secret')
    assert key not in sentence
    assert key not in str(judged.listed())


def test_a_compaction_does_not_refuse_a_second_time():
    news, judged = reported()
    for kind in ("turn", "compaction"):
        news.refused(event(kind=kind), [Refused("remember this", "it does not say what")])

    assert len(judged.listed()) == len(news.of("s")) == 1


def test_the_record_has_from_whom_it_came_and_who_judged_it():
    news, judged = reported(classifier="gpt-x")
    said = event(agent="claude", kind="explicit")
    news.kept(said, [document("mem_a", "one", "model", origin="explicit")])
    news.kept(said, [document("mem_b", "two", "request", origin="typed")])

    by_id = {each.memory_id: each for each in judged.listed()}
    assert {(each.agent, each.kind, each.session_id, each.top) for each in by_id.values()} == {
        ("claude", "explicit", "s", "/repo")
    }
    assert (by_id["mem_a"].why, by_id["mem_a"].classifier) == ("model", "gpt-x")
    assert (by_id["mem_b"].why, by_id["mem_b"].classifier) == ("request", LOCAL)


def test_what_was_reported_is_not_reported_again_and_no_one_else_is_informed():
    news, _ = reported()
    news.kept(event(), [document("mem_a", "one"), document("mem_b", "two")])
    news.told("s", 1)

    assert ["two" in each for each in news.of("s")] == [True]
    assert (news.of("other"), news.of("")) == ((), ())
    news.told("s", 1)
    assert news.of("s") == ()


def test_of_a_session_the_newest_are_reported():
    news, _ = reported()
    for number in range(MOST_UNTOLD + 1):
        news.kept(event(), [document(f"mem_{number}", f"text {number}")])

    assert len(news.of("s")) == MOST_UNTOLD
    assert "text 1" in news.of("s")[0]


def test_an_explicit_request_that_comes_to_nothing_is_refused_whatever_judged_it():
    asked = event(kind="explicit", window=(Utterance("user", "hm"), Utterance("assistant", "done")))

    (refused,) = unanswered(asked, (), ())
    assert (refused.text, refused.asked) == ("hm", True)
    assert unanswered(asked, (document("mem_a", "one"),), ()) == ()
    assert unanswered(asked, (), (refused,)) == ()
    assert unanswered(replace(asked, kind="turn"), (), ()) == ()
    assert unanswered(replace(asked, id="ev_1-0000"), (), ()) == ()
