"""The worker as a real process: its inputs, and its remains after a kill of it or the daemon."""

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
from forged.capture.values import AskHeads, KnownMemory, WorkerSettings
from tests.support.clock import PATIENCE_S, run, until
from tests.support.daemon import is_alive, proc
from tests.support.provider import CHAT, Answer, ScriptedProvider, completion
from tests.support.worker import back_to, census, classify_task, supervised

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

REPLY = completion(
    '[{"content": "Indent Go code with tabs.", "scope": "repo", "category": "coding-preferences"}]'
)

SAID = "From now on, always use errors.As in Go code."


def asking(provider: ScriptedProvider) -> WorkerSettings:
    return WorkerSettings(classifier="scripted", base_url=provider.base_url, key="sk-planted")


@pytest.fixture
def provider():
    with ScriptedProvider() as provider:
        yield provider


async def test_rules_propose_what_is_kept_and_write_nothing(tmp_path):
    async with supervised(WorkerSettings(), worker.main) as one:
        (proposal,) = (await one.handled(classify_task(tmp_path, SAID))).proposals
        assert b"numpy" not in proc(await one.ready(), "maps")

    assert "errors.As" in proposal.content
    assert list(tmp_path.glob("**/*.md")) == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_rules_ask_the_daemon_for_what_a_statement_may_replace(tmp_path, is_known):
    """Over the pipe, and are answered over the queue: no worker reads a store."""
    async with supervised(WorkerSettings(), worker.main) as one:
        one.heads = (KnownMemory("mem_1", "repo", "patterns", "We use npm for packages."),) * is_known
        decided = await one.handled(classify_task(tmp_path, "We use pnpm instead of npm here."))

        assert [each.names for each in one.reports if isinstance(each, AskHeads)] == [("npm",)]
        assert [each.supersedes for each in decided.proposals] == ["mem_1" if is_known else ""]


def test_rules_need_no_http_client_and_nothing_else_that_is_large():
    script = """
import sys
from forged.capture import worker
from forged.capture.values import WorkerSettings
classifier, problem = worker._make_classifier(WorkerSettings(), worker.DaemonLink(None, print), print)
assert classifier is not None and not problem
large = ("httpx", "numpy", "click", "pathlib", "Stemmer", "sqlite3", "forged.map")
print([name for name in large if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")


async def test_a_model_decides_and_its_connection_is_kept(tmp_path, provider):
    provider.chat = REPLY
    async with supervised(asking(provider), worker.main) as one:
        for _ in range(2):
            decided = await one.handled(classify_task(tmp_path, "Use tabs."))
            assert [each.content for each in decided.proposals] == ["Indent Go code with tabs."]

    assert (len(provider.requests(CHAT)), provider.connections) == (2, 1)


async def test_worker_killed_in_a_call_is_replaced_and_the_event_is_finished(tmp_path, provider):
    provider.chat = [Answer(hold=threading.Event()), REPLY]
    task = classify_task(tmp_path, "Use tabs.")
    async with supervised(asking(provider), worker.main) as one:
        pid = await one.ready()
        one.supervisor.give(task, 30)
        await asyncio.to_thread(provider.wait_for, 1)
        await one.killed(pid)
        assert len((await one.handled(task)).proposals) == 1


async def test_cancelled_in_a_call_everything_ends(tmp_path, provider):
    provider.chat = Answer(hold=threading.Event())
    before = census()
    async with supervised(asking(provider), worker.main) as one:
        pid = await one.ready()
        one.supervisor.give(classify_task(tmp_path, "Use tabs."), 30)
        await asyncio.to_thread(provider.wait_for, 1)
        await one.stop()
        assert not is_alive(pid)
    await asyncio.get_running_loop().shutdown_default_executor()
    await back_to(before)


async def test_only_the_daemon_ends_a_worker(tmp_path):
    async with supervised(WorkerSettings(), worker.main) as one:
        pid = await one.ready()
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(pid, number)
        await one.handled(classify_task(tmp_path, "Hello."))
        assert os.getpgid(pid) == pid
        assert one.deaths == []
        assert b"Umask:\t0077" in proc(pid, "status")


DAEMON = """
import asyncio, sys
import msgspec
from forged.capture import worker
from forged.capture.values import Classify, WorkerSettings
from tests.support.worker import supervised

async def main():
    settings, task = sys.stdin.buffer.read().split(b"\\0\\0\\0\\n")
    async with supervised(msgspec.json.decode(settings, type=WorkerSettings), worker.main) as one:
        print(await one.ready(), flush=True)
        if task:
            one.supervisor.give(msgspec.json.decode(task, type=Classify), 60)
        await asyncio.Event().wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("busy", [False, True])
def test_worker_ends_when_the_daemon_is_killed(tmp_path, provider, busy):
    provider.chat = Answer(hold=threading.Event())
    task = msgspec.json.encode(classify_task(tmp_path, "Use tabs.")) if busy else b""
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
        daemon.stdin.write(msgspec.json.encode(asking(provider)) + b"\0\0\0\n" + task)
        daemon.stdin.close()
        pid = int(daemon.stdout.readline())
        if busy:
            provider.wait_for(1)
    finally:
        daemon.kill()
        daemon.wait(PATIENCE_S)
        daemon.stdout.close()

    try:
        run(until(lambda: not is_alive(pid)))
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


async def test_endpoint_that_cannot_be_one_is_a_problem_that_shows():
    settings = WorkerSettings(classifier="some-model", base_url="file:///etc")
    async with supervised(settings, worker.main) as one:
        assert "is not an http or https URL" in await until(lambda: one.supervisor.problem)
        assert (one.supervisor.ready, one.deaths) == (False, [])


async def test_worker_that_cannot_even_begin_is_a_problem_that_shows():
    async with supervised("", broken, Patience(first_start_s=0, retry_s=0.05)) as one:
        await until(lambda: len(one.deaths) == 2)
        assert one.supervisor.problem == "the capture worker cannot run: exit code 1"


def broken(queue: object, results: object, settings: bytes) -> None:
    worker.main(queue, results, settings[:-3])  # type: ignore[arg-type]
