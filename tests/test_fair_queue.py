"""The fair queue: rounds, one piece of work in a turn of the loop, and idle clients."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from forged import fair_queue
from forged.fair_queue import FairQueue, QueueClient
from tests.support.clock import PATIENCE_S, turns, until


class Client:
    """A place, and what was done for it in a log that all clients of a test share."""

    def __init__(self, line: FairQueue, name: str, log: list[str]) -> None:
        self.place = QueueClient(line)
        self._name = name
        self._log = log

    def begin(self, *numbers: int) -> None:
        for number in numbers:
            self.place.begin(lambda number=number: self._log.append(f"{self._name}{number}"))

    def go_on(self, number: int) -> asyncio.Task[None]:
        async def work() -> None:
            await fair_queue.turn()
            self._log.append(f"{self._name}+{number}")

        return asyncio.get_running_loop().create_task(work(), context=self.place.context)


def clients(*names: str) -> tuple[list[str], list[Client]]:
    line, log = FairQueue(), []
    return log, [Client(line, name, log) for name in names]


async def test_places_are_served_in_rounds_however_much_one_of_them_has():
    log, (a, b, c) = clients("a", "b", "c")
    a.begin(*range(50))
    b.begin(0, 1)
    c.begin(0)
    await turns(8)
    assert log[:6] == ["a0", "a1", "b0", "c0", "a2", "b1"]


async def test_a_turn_of_the_loop_has_one_piece():
    log, (a, b) = clients("a", "b")
    a.begin(*range(10))
    b.begin(*range(10))
    done = []
    while len(log) < 20:
        done.append(len(log))
        await asyncio.sleep(0)
    assert done == list(range(1, 20))


async def test_what_no_one_else_wants_is_done_at_once():
    log, (a,) = clients("a")
    a.begin(0)
    assert log == ["a0"]


async def test_what_goes_on_comes_before_what_is_begun():
    log, (a,) = clients("a")
    a.begin(*range(9))
    a.go_on(0)
    await turns()
    assert log.index("a+0") <= 3


async def test_a_place_that_is_held_has_no_turns_until_it_is_released():
    log, (a, b) = clients("a", "b")
    a.place.hold()
    a.begin(0)
    going_on = a.go_on(1)
    b.begin(0, 1)
    await turns()
    assert log == ["b0", "b1"]
    a.place.release()
    await going_on
    await turns()
    assert log[2:] == ["a+1", "a0"]


async def test_who_is_cancelled_gives_up_its_turn():
    log, (a, b) = clients("a", "b")
    b.begin(*range(4))  # the next turns of the loop are taken
    given_up, other = a.go_on(0), a.go_on(1)
    await asyncio.sleep(0)
    given_up.cancel()
    await other
    assert log[:4] == ["b0", "b1", "b2", "a+1"]


async def test_during_a_long_piece_in_a_thread_work_is_begun_and_none_goes_on():
    log, (a, b, c) = clients("a", "b", "c")
    go, began = threading.Event(), threading.Event()

    def long() -> None:
        began.set()
        assert go.wait(PATIENCE_S)
        log.append("thread")

    with ThreadPoolExecutor(1) as thread:
        running = asyncio.get_running_loop().create_task(
            fair_queue.in_thread(thread, long), context=a.place.context
        )
        try:
            await until(began.is_set)
            waiting = b.go_on(0)
            c.begin(0)
            await turns()
            assert log == ["c0"]
        finally:
            go.set()
        await running
        await waiting
    assert log == ["c0", "thread", "b+0"]


async def test_work_for_no_one_does_not_wait():
    _, (a,) = clients("a")
    a.begin(*range(9))
    work = fair_queue.turn()
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited")
