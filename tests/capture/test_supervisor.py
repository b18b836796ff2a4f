"""A worker is there when it is needed, is replaced when it dies, and leaves nothing behind."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

from forged.capture.supervisor import Patience
from forged.capture.values import Classify, Done, Link, Linked, WorkerSettings
from forged.conversation import Utterance
from forged.state import Event
from tests.support.clock import run, turns, until
from tests.support.daemon import is_alive, proc
from tests.support.worker import ROOT, back_to, census, semaphores, supervised

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def megabyte(event_id: str) -> Classify:
    return Classify(Event(id=event_id, window=(Utterance("user", "x" * (1 << 20)),)))


# --- tasks and reports ---


def test_reports_of_a_task_arrive_in_their_order():
    async def scene():
        async with supervised() as one:
            await one.handled(Link("work", ()))
            return one.reports[1:]

    assert run(scene()) == [
        Linked("work", ROOT.top, "/nowhere/mem_1"),
        Linked("work", ROOT.top, "/nowhere/mem_2"),
        Done("work", written=1),
    ]


def test_a_task_of_a_megabyte_arrives():
    async def scene():
        async with supervised() as one:
            return await one.handled(megabyte("done"))

    assert run(scene()) == Done("done", written=1)


def test_one_worker_handles_task_after_task():
    async def scene():
        async with supervised() as one:
            for _ in range(50):
                await one.handled(Link("done", ()))
            return one.supervisor.restarts, len(one.reports)

    assert run(scene()) == (0, 51)


def test_without_a_ready_worker_no_task_can_be_given():
    async def scene():
        async with supervised("silent") as one:
            with pytest.raises(AssertionError):
                one.supervisor.give(Link("done", ()), 1.0)

    run(scene())


# --- the first start ---


def test_worker_is_not_started_before_it_is_wanted():
    async def scene():
        async with supervised(patience=Patience(first_start_s=60)) as one:
            await turns()
            before = one.supervisor.pid
            one.supervisor.want()
            return before, await one.ready()

    before, after = run(scene())

    assert before == 0
    assert after


def test_worker_is_started_though_nobody_wants_it():
    async def scene():
        async with supervised(patience=Patience(first_start_s=0.01)) as one:
            return await one.ready()

    assert run(scene())


def test_key_of_the_settings_shows_neither_in_the_arguments_nor_in_the_environment():
    async def scene():
        async with supervised(WorkerSettings(classifier="ready", key="sk-planted-0123")) as one:
            pid = await one.ready()
            return proc(pid, "cmdline") + proc(pid, "environ")

    assert b"planted" not in run(scene())


# --- death ---


def test_worker_killed_while_it_waits_is_replaced_and_the_next_task_is_handled():
    async def scene():
        async with supervised() as one:
            first = await one.ready()
            second = await one.killed(first)
            done = await one.handled(Link("done", ()))
            return first != second, done, one.deaths, one.supervisor.restarts, one.supervisor.problem

    assert run(scene()) == (True, Done("done", written=1), ["signal SIGKILL"], 1, "")


def test_worker_killed_with_a_megabyte_unread_leaves_no_thread_that_waits_to_write_it(capfd):
    async def scene():
        async with supervised() as one:
            pid = await one.ready()
            os.kill(pid, signal.SIGSTOP)
            one.supervisor.give(megabyte("done"), 30)
            feeders = [thread for thread in threading.enumerate() if thread.name == "QueueFeederThread"]
            await one.killed(pid)
            await until(lambda: not any(thread.is_alive() for thread in feeders))
            return len(feeders), await one.handled(megabyte("done"))

    assert run(scene()) == (1, Done("done", written=1))
    assert capfd.readouterr().err == ""


def test_stopped_worker_is_killed_when_its_limit_is_over():
    async def scene():
        async with supervised() as one:
            os.kill(await one.ready(), signal.SIGSTOP)
            one.supervisor.give(Link("done", ()), 0.05)
            await until(lambda: one.deaths)
            return one.deaths, await one.handled(Link("done", ()))

    assert run(scene()) == (["no report for 0.05 s"], Done("done", written=1))


def test_worker_is_not_ready_from_the_moment_its_limit_is_over():
    async def scene():
        async with supervised() as one:
            await one.ready()
            one.supervisor.give(Link("hang", ()), 0.05)
            await until(lambda: not one.supervisor.ready)
            return one.deaths

    assert run(scene()) == []


def test_each_report_renews_the_limit():
    async def scene():
        async with supervised() as one:
            return await one.handled(Link("slow", ()), 0.75), one.deaths  # it takes 1.5 s, 0.05 s a report

    assert run(scene()) == (Done("slow", written=1), [])


def test_limit_ends_with_the_task():
    async def scene():
        async with supervised() as one:
            await one.handled(Link("done", ()), 0.2)
            await one.handled(Link("slow", ()), 5)  # 1.5 s: the first limit would be over
            return one.deaths

    assert run(scene()) == []


@pytest.mark.parametrize("how", ["half", "hang"])
def test_worker_that_stops_in_the_middle_of_a_report_is_killed_at_its_limit(how):
    async def scene():
        async with supervised() as one:
            await one.ready()
            one.supervisor.give(Link(how, ()), 0.1)
            await until(lambda: one.deaths)
            return one.deaths, await one.handled(Link("done", ()))

    assert run(scene()) == (["no report for 0.1 s"], Done("done", written=1))


def test_worker_whose_report_cannot_be_read_is_replaced():
    async def scene():
        async with supervised() as one:
            await one.ready()
            one.supervisor.give(Link("babble", ()), 10)
            await until(lambda: one.deaths)
            return one.deaths[0], await one.handled(Link("done", ()))

    cause, done = run(scene())

    assert cause.startswith("its report cannot be read")
    assert done == Done("done", written=1)


def test_worker_that_closes_its_pipe_and_lives_on_is_replaced():
    async def scene():
        async with supervised() as one:
            await one.ready()
            one.supervisor.give(Link("deaf", ()), 10)
            await until(lambda: one.deaths)
            return one.deaths

    assert run(scene()) == ["it closed its pipe"]


def test_death_is_told_after_the_last_report():
    async def scene():
        async with supervised() as one:
            pid = await one.ready()
            one.supervisor.give(Link("work", ()), 10)
            await until(lambda: len(one.reports) > 1)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: one.deaths)
            return one.seen

    seen = run(scene())

    assert seen[1] == Linked("work", ROOT.top, "/nowhere/mem_1")
    assert seen[-1] == "signal SIGKILL"


# --- a worker that cannot run ---


def test_worker_that_exits_at_once_is_a_problem_and_is_tried_again_later_and_later():
    async def scene():
        async with supervised("crash", patience=Patience(first_start_s=0, retry_s=0.1)) as one:
            await until(lambda: one.deaths)
            problem = one.supervisor.problem
            await until(lambda: len(one.deaths) == 4)
            return problem, one.died_at, one.supervisor.restarts, one.readies

    problem, died_at, restarts, readies = run(scene())
    pauses = [after - before for before, after in itertools.pairwise(died_at)]

    assert problem == "the capture worker cannot run: exit code 3"
    assert all(pause >= least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True))
    assert restarts == 3
    assert readies == []


def test_pause_between_attempts_has_an_end():
    async def scene():
        patience = Patience(first_start_s=0, retry_s=0.001, longest_retry_s=0.002)
        async with supervised("crash", patience=patience) as one:
            await until(lambda: len(one.deaths) == 12)  # 0.001 s doubled twelve times are 4 s

    run(scene())


def test_worker_that_is_slow_to_start_is_a_problem_long_before_it_is_killed():
    async def scene():
        patience = Patience(first_start_s=0, slow_start_s=0.05, ready_s=60)
        async with supervised("silent", patience=patience) as one:
            await until(lambda: one.supervisor.problem)
            return one.supervisor.problem, one.deaths

    assert run(scene()) == ("the capture worker is not ready after 0.05 s", [])


def test_worker_that_never_becomes_ready_is_killed():
    async def scene():
        async with supervised("silent", patience=Patience(first_start_s=0, ready_s=0.2)) as one:
            await until(lambda: one.deaths)
            return one.supervisor.problem

    assert run(scene()) == "the capture worker cannot run: no report for 0.2 s"


def test_worker_that_cannot_classify_says_why_and_is_given_nothing():
    async def scene():
        async with supervised("useless") as one:
            await until(lambda: one.readies)
            return one.supervisor.problem, one.supervisor.ready

    assert run(scene()) == ("no such model", False)


def test_worker_that_dies_as_soon_as_it_is_ready_does_not_keep_a_core_busy():
    async def scene():
        async with supervised("brief") as one:
            await until(lambda: len(one.deaths) == 6)
            return one.died_at, one.deaths

    died_at, deaths = run(scene())

    assert died_at[5] - died_at[3] >= 1.0
    assert set(deaths) == {"exit code 0"}


def test_problem_ends_when_a_worker_runs(tmp_path):
    async def scene():
        settings = WorkerSettings(base_url=str(tmp_path / "crashed"), classifier="crash-once")
        async with supervised(settings, patience=Patience(first_start_s=0, retry_s=0.01)) as one:
            before = await until(lambda: one.supervisor.problem)
            await one.ready()
            return before, one.supervisor.problem

    assert run(scene()) == ("the capture worker cannot run: exit code 3", "")


def test_interpreter_that_is_gone_is_a_problem_and_not_the_end_of_the_daemon():
    async def scene():
        spawn, before = get_context("spawn"), census()
        try:
            spawn.set_executable("/nowhere/python")
            async with supervised() as one:
                await until(lambda: one.deaths)
                problem = one.supervisor.problem
        finally:
            spawn.set_executable(sys.executable)
        await back_to(before)
        return problem

    assert run(scene()).startswith("the capture worker cannot run: ")


# --- nothing is left ---


def test_twenty_kills_leave_no_thread_descriptor_semaphore_or_process():
    async def scene():
        before = census()
        async with supervised() as one:
            await one.ready()
            with_one = census()
            for number in range(20):
                pid = await one.ready()
                if number % 4 == 1:
                    one.supervisor.give(Link("hang", ()), 10)
                elif number % 4 == 2:
                    os.kill(pid, signal.SIGSTOP)
                    one.supervisor.give(megabyte("done"), 10)
                elif number % 4 == 3:
                    one.supervisor.give(Link("half", ()), 10)
                await one.killed(pid)
                await one.handled(Link("done", ()))
            during = census()
            assert during.threads <= with_one.threads + 1  # the queue's own, after the first task
            assert during.descriptors <= with_one.descriptors
            assert len(during.children) <= len(with_one.children)
            assert 0 < during.semaphores <= with_one.semaphores
        await back_to(before)

    run(scene())


def test_semaphores_of_a_worker_are_gone_with_it():
    async def scene():
        async with supervised() as one:
            first = await one.ready()
            names = semaphores(first)
            names += semaphores(await one.killed(first))
        return names

    names = run(scene())

    assert len(names) == 6
    assert not any(name.exists() for name in names)


@pytest.mark.parametrize("state", ["starting", "waiting", "busy", "stopped", "unread"])
def test_cancelled_supervisor_leaves_nothing_in_any_state(state):
    async def scene():
        before = census()
        async with supervised() as one:
            if state == "starting":
                await turns()
            else:
                pid = await one.ready()
            if state in ("stopped", "unread"):
                os.kill(pid, signal.SIGSTOP)
            if state in ("busy", "unread"):
                one.supervisor.give(megabyte("hang"), 10)
            await one.stop()
            assert one.task.cancelled()
            assert one.supervisor.pid == 0
            assert one.deaths == []
        await back_to(before)

    run(scene())


def test_cancelled_in_a_pause_between_two_attempts_it_ends_at_once():
    async def scene():
        async with supervised("crash", patience=Patience(first_start_s=0, retry_s=60)) as one:
            await until(lambda: one.deaths)
            await one.stop()
            return one.task.cancelled()

    assert run(scene())


def test_what_the_worker_started_ends_with_it():
    async def scene():
        async with supervised("family") as one:
            await until(lambda: one.readies)
            child = one.readies[0].pid
            alive = is_alive(child)
            await one.stop()
            await until(lambda: not is_alive(child))
            return alive

    assert run(scene())


def test_worker_without_a_group_of_its_own_is_killed_alone():
    async def scene():
        async with supervised("groupless") as one:
            pid = await one.ready()
            assert os.getpgid(pid) == os.getpgrp()
            await one.stop()
            return not is_alive(pid)

    assert run(scene())


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


def test_private_attributes_of_the_queue_are_there():
    queue = get_context("spawn").Queue(maxsize=1)
    try:
        assert queue._ignore_epipe is False
        assert queue._thread is None
        assert queue._reader.fileno() > 0
    finally:
        queue.close()
