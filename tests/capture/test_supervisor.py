"""A worker is there when it is needed, is replaced when it dies, and leaves nothing behind."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import get_context
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from forged.capture.supervisor import Patience
from forged.capture.values import Classified, Classify, WorkerSettings
from forged.conversation import Utterance
from forged.state import Event
from tests.faults.amount import times
from tests.support.clock import turns, until
from tests.support.daemon import is_alive, proc
from tests.support.worker import CALL, back_to, census, semaphores, supervised

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def job(name: str) -> Classify:
    """A task that a scripted worker handles as its name says."""
    return Classify(Event(id=name))


DO, DONE = job("done"), Classified(event_id="done")
NO_THREAD = "can't start new thread"


def megabyte(event_id: str) -> Classify:
    return Classify(Event(id=event_id, window=(Utterance("user", "x" * (1 << 20)),)))


# --- tasks and reports ---


async def test_reports_of_a_task_arrive_in_their_order():
    async with supervised() as one:
        await one.handled(job("work"))

        assert one.reports[1:] == [
            CALL,
            CALL,
            Classified(event_id="work"),
        ]


async def test_without_a_ready_worker_no_task_can_be_given():
    async with supervised("silent") as one:
        with pytest.raises(AssertionError):
            one.supervisor.give(DO, 1.0)


# --- the first start ---


async def test_key_of_the_settings_shows_neither_in_the_arguments_nor_in_the_environment():
    async with supervised(WorkerSettings(classifier="ready", key="sk-planted-0123")) as one:
        pid = await one.ready()
        assert b"planted" not in proc(pid, "cmdline") + proc(pid, "environ")


# --- death ---


async def test_worker_killed_with_a_megabyte_unread_leaves_no_thread_that_waits_to_write_it(capfd):
    async with supervised() as one:
        pid = await one.ready()
        os.kill(pid, signal.SIGSTOP)
        one.supervisor.give(megabyte("done"), 30)
        (feeder,) = (each for each in threading.enumerate() if each.name == "QueueFeederThread")
        await one.killed(pid)
        await until(lambda: not feeder.is_alive())
        assert await one.handled(megabyte("done")) == DONE

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["QueueFeederThread", "capture-worker"])
async def test_a_thread_that_the_system_does_not_have_costs_one_worker(monkeypatch, capfd, name):
    start, refused = threading.Thread.start, list[str]()

    def begins(thread: threading.Thread) -> None:
        if thread.name == name and not refused:
            refused.append(thread.name)
            raise RuntimeError(NO_THREAD)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", begins)
    async with supervised() as one:
        if name == "QueueFeederThread":
            await one.ready()
            one.supervisor.give(DO, 30)
        await until(lambda: one.deaths)
        assert await one.handled(DO) == DONE
        assert not one.task.done()

    assert refused == [name]
    assert [NO_THREAD in cause for cause in one.deaths] == [True]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [RuntimeError(NO_THREAD), MemoryError(), OSError(11, "try again")])
async def test_a_process_that_cannot_be_started_is_tried_again(monkeypatch, capfd, error):
    start, refused = SpawnProcess.start, list[Exception]()

    def begins(process: SpawnProcess) -> None:
        if not refused:
            refused.append(error)
            raise error
        start(process)

    monkeypatch.setattr(SpawnProcess, "start", begins)
    async with supervised() as one:
        assert await one.handled(DO) == DONE

    assert one.deaths == [f"cannot be started: {error or 'MemoryError'}"]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("task", "limit_s", "cause"),
    [
        ("stopped", 0.05, "no report for 0.05 s"),
        ("hang", 0.1, "no report for 0.1 s"),
        ("half", 0.1, "no report for 0.1 s"),
        ("babble", 10, "its report cannot be read"),
        ("deaf", 10, "it closed its pipe"),
    ],
)
async def test_worker_that_does_not_report_as_it_should_is_replaced(task, limit_s, cause):
    """It is stopped, hangs, stops in the middle of a report, babbles, or closes its pipe and lives on."""
    async with supervised() as one:
        pid = await one.ready()
        if task == "stopped":
            os.kill(pid, signal.SIGSTOP)
        one.supervisor.give(job(task), limit_s)
        await until(lambda: one.deaths)
        (found,) = one.deaths
        assert found.startswith(cause)
        assert await one.handled(DO) == DONE


# --- a worker that cannot run ---


async def test_worker_that_exits_at_once_is_a_problem_and_is_tried_again_later_and_later():
    async with supervised("crash", patience=Patience(first_start_s=0, retry_s=0.1)) as one:
        await until(lambda: one.deaths)
        assert one.supervisor.problem == "the capture worker cannot run: exit code 3"
        await until(lambda: len(one.deaths) == 4)
        assert (one.supervisor.restarts, one.readies) == (3, [])

    pauses = [after - before for before, after in itertools.pairwise(one.died_at)]
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True))


@pytest.mark.parametrize(
    ("start", "patience", "problem", "deaths"),
    [
        ("silent", {"slow_start_s": 0.05, "ready_s": 60}, "the capture worker is not ready after 0.05 s", 0),
        ("silent", {"ready_s": 0.2}, "the capture worker cannot run: no report for 0.2 s", 1),
        ("useless", {}, "no such model", 0),
    ],
    ids=["slow to start", "never ready", "cannot classify"],
)
async def test_worker_that_is_not_ready_says_why_and_is_given_nothing(start, patience, problem, deaths):
    async with supervised(start, patience=Patience(first_start_s=0, **patience)) as one:
        await until(lambda: one.supervisor.problem and len(one.deaths) == deaths)
        assert (one.supervisor.problem, one.supervisor.ready) == (problem, False)


async def test_worker_that_dies_as_soon_as_it_is_ready_does_not_keep_a_core_busy():
    async with supervised("brief") as one:
        await until(lambda: len(one.deaths) == 6)
        assert one.died_at[5] - one.died_at[3] >= 1.0
        assert set(one.deaths) == {"exit code 0"}


async def test_interpreter_that_is_gone_is_a_problem_and_not_the_end_of_the_daemon():
    spawn, before = get_context("spawn"), census()
    try:
        spawn.set_executable("/nowhere/python")
        async with supervised() as one:
            await until(lambda: one.deaths)
            assert one.supervisor.problem.startswith("the capture worker cannot run: ")
    finally:
        spawn.set_executable(sys.executable)
    await back_to(before)


# --- nothing is left ---


@pytest.mark.long
async def test_twenty_kills_leave_no_thread_descriptor_semaphore_or_process():
    before = census()
    async with supervised() as one:
        await one.ready()
        with_one = census()
        for number in range(times(20, 8)):
            pid = await one.ready()
            if number % 4 == 1:
                one.supervisor.give(job("hang"), 10)
            elif number % 4 == 2:
                os.kill(pid, signal.SIGSTOP)
                one.supervisor.give(megabyte("done"), 10)
            elif number % 4 == 3:
                one.supervisor.give(job("half"), 10)
            await one.killed(pid)
            await one.handled(DO)
        during = census()
        assert during.threads <= with_one.threads + 1  # the queue's own, after the first task
        assert during.descriptors <= with_one.descriptors
        assert len(during.children) <= len(with_one.children)
        assert 0 < during.semaphores <= with_one.semaphores
    await back_to(before)


async def test_semaphores_of_a_worker_are_gone_with_it():
    async with supervised() as one:
        first = await one.ready()
        names = semaphores(first)
        names += semaphores(await one.killed(first))

    assert len(names) == 6
    assert not any(name.exists() for name in names)


@pytest.mark.parametrize("state", ["starting", "waiting", "busy", "stopped", "unread", "pausing"])
async def test_cancelled_supervisor_leaves_nothing_in_any_state(state):
    before = census()
    patience = Patience(first_start_s=0, retry_s=60)
    async with supervised("crash" if state == "pausing" else "ready", patience=patience) as one:
        if state == "starting":
            await turns()
        elif state == "pausing":
            await until(lambda: one.deaths)
        else:
            pid = await one.ready()
        if state in ("stopped", "unread"):
            os.kill(pid, signal.SIGSTOP)
        if state in ("busy", "unread"):
            one.supervisor.give(megabyte("hang"), 10)
        await one.stop()
        assert one.task.cancelled()
        assert (one.supervisor.pid, len(one.deaths)) == (0, state == "pausing")
    await back_to(before)


async def test_what_the_worker_started_ends_with_it():
    async with supervised("family") as one:
        await until(lambda: one.readies)
        child = one.readies[0].pid
        assert is_alive(child)
        await one.stop()
        await until(lambda: not is_alive(child))


async def test_worker_without_a_group_of_its_own_is_killed_alone():
    async with supervised("groupless") as one:
        pid = await one.ready()
        assert os.getpgid(pid) == os.getpgrp()
        await one.stop()
        assert not is_alive(pid)


def test_daemon_that_ends_with_much_unread_is_not_held():
    script = """
import asyncio, os, signal, sys
from tests.capture.test_supervisor import megabyte, supervised

async def main():
    async with supervised() as one:
        os.kill(await one.ready(), signal.SIGSTOP)
        one.supervisor.give(megabyte("done"), 60)

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=15,
    )

    assert (done.returncode, done.stderr) == (0, "")
