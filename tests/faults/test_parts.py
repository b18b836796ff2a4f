"""A compaction larger than a frame, sent to daemons that are killed between its parts."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from forged_client.protocol import Capture, Message
from tests.faults.amount import times
from tests.faults.telling import telling
from tests.support.clock import eventually
from tests.support.provider import reply

_MESSAGES = times(10_000, 300)
_PARTS = 20
_MARK = re.compile(r"MARK<(\d+)>")


def _text(number: int) -> str:
    """2,000 characters, of every third message Chinese ones."""
    return f"MARK<{number}> ".ljust(2000, "汉" if number % 3 == 0 else "x")


def _parts(top: str, event_id: str) -> list[Capture]:
    roles = ("user", "assistant")
    said = [Message(roles[number % 2], _text(number)) for number in range(_MESSAGES)]
    size = _MESSAGES // _PARTS
    return [
        Capture(
            workspace=top,
            session_id="long",
            kind="compaction",
            messages=tuple(said[at * size : (at + 1) * size]),
            event_id=event_id,
            part=at,
            parts=_PARTS,
        )
        for at in range(_PARTS)
    ]


@pytest.mark.long
def test_a_compaction_with_kills_between_its_parts_is_judged_whole_and_once(place, promised):
    judged: Counter[int] = Counter()

    def judge(_, request):
        judged.update(int(mark) for mark in set(_MARK.findall(request.json["messages"][-1]["content"])))
        return reply()

    with telling(place) as one:
        one.provider.chat = judge
        sent = _parts(str(one.top), "one-compaction")
        for part in sent:
            if part.part % 7 == 5:
                one.kill()
                one.daemon.start()
                assert (
                    one.client.ask(sent[part.part - 1]).outcome == "accepted"
                )  # its reply may have got lost
            reported = one.client.ask(part)
            assert reported.outcome == ("durable" if part is sent[-1] else "accepted"), reported
        one.kill()  # what was answered is done by the next one
        one.daemon.start()
        again = [one.client.ask(part) for part in sent]
        eventually(lambda: one.report().state == "idle" and one.report().spooled == 0, 600)

    slices = -(-_MESSAGES // (64_000 // 2000))
    assert {(each.outcome, each.slices) for each in (reported, *again)} == {("durable", slices)}
    assert judged == Counter(range(_MESSAGES))
    promised(
        "messages of a compaction with kills between its parts", _MESSAGES, f"judged, in {slices} slices"
    )


def test_compactions_in_flight_at_a_kill_arrive_once(place, promised):
    """Eight are on their way and the daemon is killed; the agent sends them again under their ids."""
    rounds = times(25, 3)
    with telling(place) as one:
        for number in range(rounds):
            asked = [
                Capture(
                    workspace=str(one.top),
                    session_id=f"s{number}-{at}",
                    kind="compaction",
                    messages=(Message("user", f"Please remember where FACT<r{number:02}-{at}> listens."),),
                    event_id=f"e{number}-{at}",
                )
                for at in range(8)
            ]
            received = [one.client.ask(each).outcome for each in asked[: number % 9]]
            one.kill()
            one.daemon.start()
            assert [one.client.ask(each).outcome for each in asked] == ["durable"] * 8
            assert received == ["durable"] * len(received)
        one.drained()
        assert set(one.kept().values()) == {1}
        assert len(one.kept()) == 8 * rounds
    promised("compactions sent again after a kill", 8 * rounds, "each kept once")
