"""The asyncio observer: the promises of `Observer`, kept by one task of the agent's own loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forged_client import AsyncObserver
from forged_client.protocol import Capture, Captured
from tests.client.test_observer import BUSY, STOPPING, Gate, Replies, said
from tests.client.test_observer_exit import agent
from tests.support.clock import PATIENCE_S, until
from tests.support.daemon import answering, stopped_server

KINDS = ("turn_complete", "compaction", "session_end")


def run(path: str, work: Callable[[AsyncObserver], Awaitable[object]], **settings: object) -> AsyncObserver:
    """An observer after its work, in a loop in which nothing of it is left."""

    async def observed() -> AsyncObserver:
        observer = AsyncObserver("/w", "s", address=path, **settings)
        async with asyncio.timeout(PATIENCE_S):
            await work(observer)
            await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        return observer

    return asyncio.run(observed(), debug=True)


def tell(observer: AsyncObserver, kind: str, *texts: str, after: int = 0) -> None:
    getattr(observer, f"on_{kind}")(said(*texts), after)


def test_a_finished_turn_reaches_the_daemon_without_private_spans(serve, socket_file):
    peer = serve(answering(lambda _: Captured(outcome="accepted")))

    async def work(observer: AsyncObserver) -> None:
        observer.on_turn_complete(said("keep <private>secret</private> this"), 0)
        assert await observer.aclose(PATIENCE_S)

    observer = run(socket_file, work, agent="mine")

    (request,) = peer.requests_of(Capture)
    assert (request.workspace, request.session_id, request.kind, request.agent) == ("/w", "s", "turn", "mine")
    assert request.messages[0].content == "keep  this"
    assert (observer.counts, observer.last_reply.outcome) == ({"accepted": 1}, "accepted")


@pytest.mark.parametrize("reply", [None, STOPPING, BUSY], ids=["hangs up", "stopping", "busy"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_not_answered_for_sure_is_sent_again_under_the_same_id(
    serve, socket_file, monkeypatch, kind, reply
):
    monkeypatch.setattr("forged_client.observer.FIRST_RETRY_S", 0.001)
    replies = Replies(reply, reply, reply)
    serve(replies)

    async def work(observer: AsyncObserver) -> None:
        tell(observer, kind, "about to disappear")
        await until(lambda: observer.counts.get("accepted") and "waiting" not in observer.counts)

    run(socket_file, work)

    assert len(replies.seen) == 4
    assert len({(each.event_id, each.messages) for each in replies.seen}) == 1


def test_closing_asks_once_more_at_once_and_ends_by_its_time_before_a_stopped_daemon(
    socket_file, monkeypatch
):
    monkeypatch.setattr("forged_client.observer.FIRST_RETRY_S", 60.0)

    async def work(observer: AsyncObserver) -> None:
        tell(observer, "compaction", "a")
        await until(lambda: observer.counts.get("unavailable"))
        assert not await observer.aclose(PATIENCE_S)  # which waits for no pause, neither before nor after
        with stopped_server(socket_file, backlog=5):
            assert not await observer.aclose(0.1)

    assert run(socket_file, work).counts == {"unavailable": 2, "waiting": 1}


def test_what_was_not_delivered_waits_for_the_next_call_also_of_another_loop(serve, socket_file):
    async def early(observer: AsyncObserver) -> None:
        tell(observer, "compaction", "early")
        assert not await observer.aclose(PATIENCE_S)

    async def late(observer: AsyncObserver) -> None:
        tell(observer, "turn_complete", "late")
        assert await observer.aclose(PATIENCE_S)

    observer = run(socket_file, early)
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))
    asyncio.run(late(observer))

    assert gate.seen == [("compaction", "early"), ("turn", "late")]


def test_what_is_reported_outside_of_a_loop_is_sent_by_the_next_one(serve, socket_file):
    gate = Gate()
    gate.opened.set()
    serve(answering(gate))
    observer = AsyncObserver("/w", "s", address=socket_file)

    tell(observer, "compaction", "without a loop")

    assert asyncio.run(observer.aclose(PATIENCE_S))
    assert gate.seen == [("compaction", "without a loop")]


def test_a_loop_that_ends_in_the_middle_of_an_event_takes_none_away(serve, socket_file):
    gate = Gate()
    peer = serve(answering(gate))
    observer = AsyncObserver("/w", "s", address=socket_file)

    async def broken_off() -> None:
        tell(observer, "compaction", "in hand")
        await asyncio.to_thread(gate.reached.wait, PATIENCE_S)
        tell(observer, "compaction", "next")

    asyncio.run(broken_off())
    assert observer.counts == {"waiting": 2}
    gate.opened.set()

    assert asyncio.run(observer.aclose(PATIENCE_S))
    assert [text for _, text in gate.seen] == ["in hand", "in hand", "next"]
    assert len({each.event_id for each in peer.requests_of(Capture)}) == 2


def test_a_large_compaction_arrives_in_parts_while_the_loop_goes_on(serve, socket_file):
    texts = [f"{number} " + "x" * 400_000 for number in range(12)]
    replies = Replies(*[Captured(outcome="accepted")] * 2, Captured(outcome="durable", slices=9))
    serve(replies)
    threads = set[str]()

    async def work(observer: AsyncObserver) -> None:
        tell(observer, "compaction", *texts)
        while observer.counts.get("waiting"):
            threads.update(thread.name for thread in threading.enumerate())
            await asyncio.sleep(0)

    observer = run(socket_file, work)

    assert [(each.part, each.parts) for each in replies.seen] == [(0, 3), (1, 3), (2, 3)]
    assert [m.content for each in replies.seen for m in each.messages] == texts
    assert (observer.counts, observer.last_reply.slices) == ({"durable": 1}, 9)
    assert any(name.startswith("asyncio_") for name in threads)  # where they were looked into


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(KINDS), st.lists(st.sampled_from("abc"), min_size=1, max_size=3)),
        st.just(("loop", [])),
        st.just(("cancel", [])),
    ),
    max_size=8,
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS)
def test_whatever_is_reported_and_whenever_the_task_is_cancelled_all_arrives_at_close(
    serve, socket_file, steps
):
    """Each compaction and end once and in order; of the turns the last of each run that begins alike."""
    peer = serve(answering(lambda _: Captured(outcome="accepted")))

    async def work(observer: AsyncObserver) -> None:
        for kind, texts in steps:
            if kind == "loop":
                await asyncio.sleep(0.001)
            elif kind == "cancel":
                ours = [task for task in asyncio.all_tasks() if task.get_name() == "forged-observer"]
                for task in ours:
                    task.cancel()
                await asyncio.gather(*ours, return_exceptions=True)
            else:
                tell(observer, kind, *texts)
        assert await observer.aclose(PATIENCE_S)

    observer = run(socket_file, work)

    reported = [(kind, texts) for kind, texts in steps if kind in KINDS]
    names = {"turn_complete": "turn"}
    lasting = [(kind, texts) for kind, texts in reported if kind != "turn_complete"]
    came = {each.event_id: each for each in peer.requests_of(Capture)}.values()
    received = [(each.kind, [message.content for message in each.messages]) for each in came]
    assert [each for each in received if each[0] != "turn"] == [
        (names.get(kind, kind), texts) for kind, texts in lasting
    ]
    for kind, texts in reported:
        if kind == "turn_complete":
            assert any(other[: len(texts)] == texts for name, other in received if name != "compaction")
    assert "waiting" not in observer.counts


# --- the end of the process ---------------------------------------------------------------------------

_LOOPS = {
    "in a loop that has ended": """
import asyncio
from forged_client import AsyncObserver
async def main():
    tell(AsyncObserver('/w', 's', address=address))
asyncio.run(main())
""",
    "without a loop": """
from forged_client import AsyncObserver
tell(AsyncObserver('/w', 's', address=address))
""",
    "closed too early": """
import asyncio
from forged_client import AsyncObserver
async def main():
    observer = AsyncObserver('/w', 's', address=address)
    tell(observer)
    await observer.aclose(0)
asyncio.run(main())
""",
    "in a forked child too": """
import asyncio, sys
from forged_client import AsyncObserver
async def main():
    tell(AsyncObserver('/w', 's', address=address))
asyncio.run(main())
if not os.fork():
    sys.exit(0)
os.wait()
""",
}


@pytest.mark.parametrize("body", _LOOPS.values(), ids=_LOOPS)
def test_what_still_waits_is_delivered_once_at_the_end_of_the_process(serve, socket_file, body):
    peer = serve(answering(lambda _: Captured(outcome="durable")))

    agent(body, socket_file).communicate(timeout=PATIENCE_S)

    events = {each.event_id: each.messages[0].content for each in peer.requests_of(Capture)}
    assert sorted(events.values()) == ["compaction", "end", "turn"]
