"""End of an agent's process: an observer's pending events are delivered within 300 ms in all cases."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from forged_client.protocol import Capture, Captured
from tests.support.clock import PATIENCE_S
from tests.support.daemon import answering, stopped_server

_AGENT = """
import atexit, os, signal, sys, threading, time
if "registers first" in {body!r}:
    atexit.register(lambda: tell(observer))
from forged_client import Observer

def said(*texts):
    return [{{"role": "user", "content": text}} for text in texts]

def tell(observer):
    observer.on_turn_complete(said("turn"))
    observer.on_compaction(said("compaction"))
    observer.on_session_end(said("end"))

address = sys.argv[1]
{body}
"""
_ENDINGS = {
    "the end of the program": "observer = Observer('/w', 's', address=address); tell(observer)",
    "one that nobody holds": "tell(Observer('/w', 's', address=address))",
    "sys.exit": "tell(Observer('/w', 's', address=address)); sys.exit(3)",
    "an exception": "tell(Observer('/w', 's', address=address)); raise SystemError",
    "SIGTERM with a handler": """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
tell(Observer('/w', 's', address=address))
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
""",
    "an exit function of the agent's, before ours": """
observer = Observer('/w', 's', address=address)
atexit.register(tell, observer)
""",
    "an exit function of the agent's, after ours": """
observer = Observer('/w', 's', address=address)  # registers first, so it runs last
""",
    "a thread that goes on": """
def work():
    time.sleep(0.2)
    tell(observer)
observer = Observer('/w', 's', address=address)
threading.Thread(target=work).start()
""",
    "closed too early": """
observer = Observer('/w', 's', address=address)
observer.on_turn_complete(said('first'))
observer.close(5)
tell(observer)
""",
}


def agent(body: str, address: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _AGENT.format(body=body), address],
        env={"PATH": os.environ["PATH"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **options,
    )


@pytest.mark.parametrize("body", _ENDINGS.values(), ids=_ENDINGS)
def test_what_an_observer_holds_is_delivered_at_the_end_of_its_process(serve, socket_file, body):
    peer = serve(answering(lambda _: Captured(outcome="durable")))

    agent(body, socket_file).communicate(timeout=PATIENCE_S)

    received = [request.messages[0].content for request in peer.requests_of(Capture)]
    assert sorted(set(received) - {"first"}) == ["compaction", "end", "turn"]
    assert len(received) == len(set(received))


@pytest.mark.speed
@pytest.mark.parametrize("observers", [1, 5])
def test_a_process_ends_in_time_when_the_daemon_does_not_answer(socket_file, observers):
    body = f"for _ in range({observers}): tell(Observer('/w', 's', address=address))\nprint(time.monotonic())"
    with stopped_server(socket_file, backlog=64):
        process = agent(body, socket_file)
        ended_at = float(process.communicate(timeout=PATIENCE_S)[0])
        took = time.monotonic() - ended_at

    assert 0.2 < took < 1.5  # 0.3 of our own, and what an interpreter needs to end


def test_a_forked_child_delivers_nothing_of_its_parents(serve, socket_file):
    """It has the parent's events in its memory when it ends, with all functions that run at an end."""
    opened = threading.Event()

    def slowly(_: object) -> Captured:
        assert opened.wait(PATIENCE_S)
        return Captured(outcome="durable")

    peer = serve(answering(slowly))
    body = """
observer = Observer('/w', 's', address=address)
tell(observer)
child = os.fork()
if not child:
    sys.exit(0)
os.waitpid(child, 0)
print("the child is gone", flush=True)
sys.stdin.readline()
"""
    process = agent(body, socket_file)
    assert process.stdout.readline() == "the child is gone\n"
    opened.set()

    process.communicate("go on\n", timeout=PATIENCE_S)

    received = [request.messages[0].content for request in peer.requests_of(Capture)]
    assert sorted(received) == ["compaction", "end", "turn"]


def test_a_forked_childs_own_events_are_delivered_at_its_end(serve, socket_file):
    peer = serve(answering(lambda _: Captured(outcome="durable")))
    body = """
observer = Observer('/w', 's', address=address)
observer.on_compaction(said("parent"))
observer.close(5)
child = os.fork()
if not child:
    observer.on_compaction(said("child"))
    sys.exit(0)
os.waitpid(child, 0)
"""

    agent(body, socket_file).communicate(timeout=PATIENCE_S)

    assert [request.messages[0].content for request in peer.requests_of(Capture)] == ["parent", "child"]
