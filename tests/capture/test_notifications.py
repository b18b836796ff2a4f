"""Notifications about a session's capture, once, in sentences; and the record for a person."""

from __future__ import annotations

from msgspec.structs import replace

from forged.capture.notifications import LOCAL, Notifications, unanswered
from forged.capture.values import Refused
from forged.conversation import Utterance
from forged.files import Root
from forged.memory import Scope
from forged.state import CaptureLog, DecidedMemory, Event
from forged.state.capture_log import MOST_UNREPORTED
from forged.state.database import Database
from tests.data.memories import memory

REPO = Root("/repo", Scope.REPO)


def document(name: str, text: str, why: str = "", **fields: object) -> DecidedMemory:
    return DecidedMemory(REPO, replace(memory(name, text), **fields), why)


def reported(*, classifier: str = "") -> tuple[Notifications, CaptureLog]:
    log = CaptureLog(Database("/nowhere/state.db"), clock=lambda: 0.0)
    return Notifications(log, classifier=classifier), log


def event(session: str = "s", **fields: object) -> Event:
    return Event(session_id=session, roots=(REPO,), **fields)


def test_what_was_kept_is_said_with_where_it_holds_and_how_to_take_it_back():
    notifications, _ = reported()
    notifications.log_kept(event(), [document("mem_a", "Tests run\nwith pytest.")])
    notifications.log_kept(event(), [document("mem_b", "Be brief.", scope="user", supersedes="mem_0")])

    assert notifications.unreported("s") == (
        'saved, for this repository: "Tests run with pytest."; undo: `forgectl forget mem_a`',
        (
            'saved, replacing an older memory, for all your repositories: "Be brief."; '
            "undo: `forgectl forget mem_b`"
        ),
    )


def test_a_refusal_is_said_with_its_reason_and_without_its_secret():
    (notifications, log), key = reported(), "sk-proj-" + "a1B2c3D4" * 6
    notifications.log_refused(event(), [Refused(f"the key is {key}", "it contains a secret")])

    (sentence,) = notifications.unreported("s")
    assert sentence.startswith('not saved: "the key is ')
    assert sentence.endswith('": it contains a secret')
    assert key not in sentence
    assert key not in str(log.listed())


def test_a_compaction_does_not_refuse_a_second_time():
    notifications, log = reported()
    for kind in ("turn", "compaction"):
        notifications.log_refused(event(kind=kind), [Refused("remember this", "it does not say what")])

    assert len(log.listed()) == len(notifications.unreported("s")) == 1


def test_a_log_entry_has_its_agent_and_its_classifier():
    notifications, log = reported(classifier="gpt-x")
    said = event(agent="claude", kind="explicit")
    notifications.log_kept(said, [document("mem_a", "one", "model", origin="explicit")])
    notifications.log_kept(said, [document("mem_b", "two", "request", origin="typed")])

    by_id = {each.memory_id: each for each in log.listed()}
    assert {(each.agent, each.kind, each.session_id, each.top) for each in by_id.values()} == {
        ("claude", "explicit", "s", "/repo")
    }
    assert (by_id["mem_a"].why, by_id["mem_a"].classifier) == ("model", "gpt-x")
    assert (by_id["mem_b"].why, by_id["mem_b"].classifier) == ("request", LOCAL)


def test_a_reported_entry_is_not_reported_again_nor_to_another_session():
    notifications, _ = reported()
    notifications.log_kept(event(), [document("mem_a", "one"), document("mem_b", "two")])
    notifications.mark_reported("s", 1)

    assert ["two" in each for each in notifications.unreported("s")] == [True]
    assert (notifications.unreported("other"), notifications.unreported("")) == ((), ())
    notifications.mark_reported("s", 1)
    assert notifications.unreported("s") == ()


def test_the_newest_entries_of_a_session_are_reported():
    notifications, _ = reported()
    for number in range(MOST_UNREPORTED + 1):
        notifications.log_kept(event(), [document(f"mem_{number}", f"text {number}")])

    assert len(notifications.unreported("s")) == MOST_UNREPORTED
    assert "text 1" in notifications.unreported("s")[0]


def test_an_explicit_request_without_a_result_is_refused_by_any_classifier():
    asked = event(kind="explicit", window=(Utterance("user", "hm"), Utterance("assistant", "done")))

    (refused,) = unanswered(asked, (), ())
    assert (refused.text, refused.asked) == ("hm", True)
    assert unanswered(asked, (document("mem_a", "one"),), ()) == ()
    assert unanswered(asked, (), (refused,)) == ()
    assert unanswered(replace(asked, kind="turn"), (), ()) == ()
    assert unanswered(replace(asked, id="ev_1-0000"), (), ()) == ()
