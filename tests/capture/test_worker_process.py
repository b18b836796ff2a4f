"""The worker as a real process: what it decides with, and what is left when it or the daemon is killed."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from forged.capture import worker
from forged.capture.supervisor import Patience
from forged.capture.values import WorkerSettings
from forged.capture.worker_process import work
from tests.support.clock import run, until
from tests.support.daemon import is_alive, proc
from tests.support.provider import CHAT, Answer, ScriptedProvider, completion
from tests.support.worker import back_to, block, census, roots_in, supervised, told

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

REPLY = completion(
    '[{"content": "Indent Go code with tabs.", "scope": "repo", "category": "coding-preferences"}]'
)


def asking(tmp_path: Path, provider: ScriptedProvider) -> WorkerSettings:
    return WorkerSettings(classifier="scripted", base_url=provider.base_url, key="sk-planted")


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("*/.forge/memory/*.md"))


def test_rules_decide_what_is_kept(tmp_path):
    async def scene():
        async with supervised(WorkerSettings(), work) as one:
            done = await one.kept(told(tmp_path, "From now on, always use errors.As in Go code."))
            return done, proc(await one.ready(), "maps")

    done, maps = run(scene())

    assert done.written == 1
    assert "errors.As" in files(tmp_path)[0].read_text()
    assert b"numpy" not in maps


def test_rules_need_no_http_client():
    script = """
import sys
from forged.capture import worker
from forged.capture.values import WorkerSettings
classifier, problem = worker._classifier(WorkerSettings(), worker.Existing())
assert classifier is not None and not problem
print([name for name in ("httpx", "numpy", "click") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_model_decides_and_its_connection_is_kept(tmp_path):
    async def scene(provider):
        async with supervised(asking(tmp_path, provider), work) as one:
            first = await one.kept(told(tmp_path, "Use tabs."))
            second = await one.kept(told(tmp_path, "Use tabs, I said."))
            return first, second

    with ScriptedProvider() as provider:
        provider.chat = REPLY
        first, second = run(scene(provider))

        assert (first.written, second.written) == (1, 0)
        assert len(provider.requests(CHAT)) == 2
        assert provider.connections == 1
    assert len(files(tmp_path)) == 1


def test_worker_killed_in_a_call_is_replaced_and_the_event_is_finished(tmp_path):
    async def scene(provider):
        task = told(tmp_path, "Use tabs.")
        async with supervised(asking(tmp_path, provider), work) as one:
            pid = await one.ready()
            one.supervisor.give(task, 30)
            await asyncio.to_thread(provider.wait_for, 1)
            await one.killed(pid)
            return await one.kept(task)

    with ScriptedProvider() as provider:
        provider.chat = [Answer(hold=threading.Event()), REPLY]
        done = run(scene(provider))

    assert done.written == 1
    assert len(files(tmp_path)) == 1


def test_cancelled_in_a_call_everything_ends(tmp_path):
    async def scene(provider):
        before = census()
        async with supervised(asking(tmp_path, provider), work) as one:
            pid = await one.ready()
            one.supervisor.give(told(tmp_path, "Use tabs."), 30)
            await asyncio.get_running_loop().run_in_executor(None, provider.wait_for, 1)
            await one.stop()
            assert not is_alive(pid)
        await asyncio.get_running_loop().shutdown_default_executor()
        await back_to(before)

    with ScriptedProvider() as provider:
        provider.chat = Answer(hold=threading.Event())
        provider.requests()
        run(scene(provider))


def test_only_the_daemon_ends_a_worker(tmp_path):
    async def scene():
        async with supervised(WorkerSettings(), work) as one:
            pid = await one.ready()
            for number in (signal.SIGTERM, signal.SIGINT):
                os.kill(pid, number)
            await one.handled(told(tmp_path, "Hello."))
            return os.getpgid(pid) == pid, one.deaths, proc(pid, "status")

    has_group, deaths, status = run(scene())

    assert has_group
    assert deaths == []
    assert b"Umask:\t0077" in status


DAEMON = """
import asyncio, sys
import msgspec
from forged.capture.worker_process import work
from forged.capture.values import Classify, WorkerSettings
from tests.support.worker import supervised

async def main():
    settings, task = sys.stdin.buffer.read().split(b"\\0\\0\\0\\n")
    async with supervised(msgspec.json.decode(settings, type=WorkerSettings), work) as one:
        print(await one.ready(), flush=True)
        if task:
            one.supervisor.give(msgspec.json.decode(task, type=Classify), 60)
        await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("busy", [False, True])
def test_worker_ends_when_the_daemon_is_killed(tmp_path, busy):
    with ScriptedProvider() as provider:
        provider.chat = Answer(hold=threading.Event())
        settings, task = asking(tmp_path, provider), told(tmp_path, "Use tabs.")
        daemon = subprocess.Popen(
            [sys.executable, "-c", DAEMON],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            assert daemon.stdin is not None
            assert daemon.stdout is not None
            given = msgspec.json.encode(task) if busy else b""
            daemon.stdin.write(msgspec.json.encode(settings) + b"\0\0\0\n" + given)
            daemon.stdin.close()
            pid = int(daemon.stdout.readline())
            if busy:
                provider.wait_for(1)
        finally:
            daemon.kill()
            daemon.wait(10)
            daemon.stdout.close()

        try:
            run(until_gone(pid))
        finally:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


async def until_gone(pid: int) -> None:
    await until(lambda: not is_alive(pid))


def test_worker_logs_to_the_daemon_s_stderr_and_no_text(tmp_path, capfd):
    async def scene():
        for root in roots_in(tmp_path):
            block(root)
        async with supervised(WorkerSettings(), work) as one:
            return await one.kept(told(tmp_path, "From now on, always use errors.As in Go code."))

    failed = run(scene())
    logged = capfd.readouterr().err

    assert failed.reason == "storage"
    assert "WARNING forged.capture.worker memory not written" in logged
    assert "errors.As" not in logged


def test_endpoint_that_cannot_be_one_is_a_problem_that_shows(tmp_path):
    async def scene():
        settings = WorkerSettings(classifier="some-model", base_url="file:///etc")
        async with supervised(settings, work) as one:
            await until(lambda: one.supervisor.problem)
            return one.supervisor.problem, one.supervisor.ready, one.deaths

    problem, ready, deaths = run(scene())

    assert "is not an http or https URL" in problem
    assert not ready
    assert deaths == []


def test_worker_that_cannot_even_begin_is_a_problem_that_shows():
    async def scene():
        patience = Patience(first_start_s=0, retry_s=0.05)
        async with supervised("builtin:rules", broken, patience) as one:
            await until(lambda: len(one.deaths) == 2)
            return one.supervisor.problem

    assert run(scene()) == "the capture worker cannot run: exit code 1"


def broken(queue: object, results: object, settings: bytes) -> None:
    worker.main(queue, results, settings[:-3])  # type: ignore[arg-type]
