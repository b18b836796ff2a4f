"""`learn` in the daemon: accepted and refused sessions, and its progress."""

from __future__ import annotations

import msgspec
import pytest

from forged.errors import InvalidRequest
from forged.files import Root
from forged.memory import Memory, Scope, new_id, utc_now
from forged.state import MOST_LEARNED, DecidedMemory
from forged_client import protocol as wire
from tests.daemon.parts import assembled

AT = 1_780_000_000.0


def past(repo, *texts: str, **fields: object) -> wire.Learn:
    messages = tuple(wire.Message("user", text) for text in texts)
    given = {"session_id": "s1", "agent": "codex", "mark": "all", "said_at": (AT,) * len(texts)} | fields
    return wire.Learn(workspace=str(repo), messages=messages, **given)


def waiting(root: Root, number: int) -> DecidedMemory:
    now = utc_now()
    found = Memory(new_id(), f"order {number}", now, now, 1, root.scope, "patterns", "s", "cadence")
    return DecidedMemory(root, found, waits="it was said before", learned_at=1_900_000_000.0)


async def test_what_was_said_waits_on_disk_with_its_times_and_without_what_is_no_prose(home, repo):
    async with assembled(home) as parts:
        said = (
            "Use <system-reminder>LEAK</system-reminder>walrus.",
            "<system-reminder>LEAK</system-reminder>",
        )
        reply = await parts.ask(
            past(repo, "We use <private>LEAK</private>make.", *said, said_at=(AT, AT + 1, AT + 2))
        )
        (event,) = parts.capture._queue.events()

    assert (reply.outcome, reply.reason) == ("waiting", "")  # no worker runs here
    assert [each.text for each in event.window] == ["We use make.", "Use walrus."]
    assert (event.kind, event.said_at, event.agent) == ("learned", (AT, AT + 1), "codex")


async def test_a_session_with_its_mark_is_listed_and_learning_it_again_does_nothing(home, repo):
    async with assembled(home) as parts:
        await parts.ask(past(repo, "We use make.", "We use tox."))
        again = await parts.ask(past(repo, "We use make.", "We use tox."))
        known = await parts.ask(wire.ListPast(agents=("codex", "claude")))
        more = await parts.ask(past(repo, "We use make.", "We use tox.", "We use ruff.", mark="more"))
        events = parts.capture._queue.events()

    assert (again.outcome, more.outcome) == ("waiting", "waiting")
    assert known.marks == {"codex": {"s1": "all"}, "claude": {}}
    assert [[each.text for each in event.window] for event in events] == [
        ["We use make.", "We use tox."],
        ["We use ruff."],
    ]


async def test_where_too_much_waits_nothing_more_is_taken_and_nothing_of_it_goes(home, repo):
    root = Root(str(repo), Scope.REPO)
    async with assembled(home) as parts:
        await parts.state.to_review.add([waiting(root, number) for number in range(MOST_LEARNED)])
        reply = await parts.ask(past(repo, "We use make."))
        assert parts.state.to_review.learned == MOST_LEARNED
        assert not parts.capture._queue.events()

    assert (reply.outcome, reply.to_review) == ("rejected", MOST_LEARNED)
    assert "`forgectl review`" in reply.reason


async def test_a_pause_holds_for_past_sessions(home, repo):
    async with assembled(home) as parts:
        await parts.ask(wire.Pause(workspace=str(repo)))
        reply = await parts.ask(past(repo, "We use make."))

    assert reply.outcome == "rejected"
    assert "paused" in reply.reason


async def test_a_session_has_an_id_and_a_live_capture_is_never_a_past_one(home, repo):
    async with assembled(home) as parts:
        with pytest.raises(InvalidRequest):
            await parts.ask(past(repo, "We use make.", session_id=" "))
        with pytest.raises(InvalidRequest):
            await parts.ask(wire.Capture(workspace=str(repo), session_id="s", kind="learned"))


@pytest.mark.parametrize("live_first", [True, False])
async def test_a_session_captured_by_hooks_is_not_classified_twice(home, repo, live_first):
    def hook(name: str, **fields: str) -> wire.Hook:
        reported = {"hook_event_name": name, "session_id": "s1", "cwd": str(repo), "prompt_id": "1", **fields}
        return wire.Hook(harness="codex", payload=msgspec.json.encode(reported), within_ms=5_000)

    written = past(repo, "We use make.", "We use tox.")  # without the blanks that ended them
    live = [
        each
        for text in ("We use make.\n", "We use tox. ")
        for each in (hook("UserPromptSubmit", prompt=text), hook("Stop", last_assistant_message=""))
    ]
    async with assembled(home) as parts:
        for request in [*live, written] if live_first else [written, *live]:
            await parts.ask(request)
        said = [each.text for event in parts.capture._queue.events() for each in event.window]

    assert [text.strip() for text in said] == ["We use make.", "We use tox."]
