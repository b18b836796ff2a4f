"""Capture with a real and very bad classifier: no text is lost, and no error is raised."""

from __future__ import annotations

import time

from forged.files.roots import Root
from forged.files.scan import scan
from forged.memory import Scope
from tests.real.scene import LATE_S, RealScene, real_scene
from tests.real.servers import CHAT_MODEL, chat_server, free_port
from tests.support.clock import eventually
from tests.support.daemon import ids

TURN = (
    {"role": "user", "content": "We always use tabs in Go files here, never spaces. Remember that."},
    {"role": "assistant", "content": "Understood: tabs in Go files."},
)


def _settled(scene: RealScene):
    """Capture's part of status when an event has come to its end; it may take two calls of 60 s."""
    return eventually(
        lambda: now if (now := scene.capture).state == "idle" and now.finished else None, 3 * LATE_S, 0.2
    )


def test_an_answer_in_whatever_form_ends_its_event(tmp_path, repo, chat_url):
    """HTTP 500 to the schema, then JSON that is none, is cut off or empty: an answer that keeps nothing."""
    with real_scene(tmp_path / "home", chat_url, classifier_model=CHAT_MODEL) as scene:
        assert scene.client.capture(str(repo), list(TURN), "s").outcome == "accepted"
        after = _settled(scene)

        assert (after.dead, after.turns, after.spooled) == (0, 0, 0)
        assert scene.client.cost().days[-1].calls >= 1
        found = scan(Root(str(repo), Scope.REPO))
        assert not found.problems
        assert len(found.memories) <= 10


def test_an_agent_is_answered_in_time_while_the_classifier_keeps_the_server_busy(tmp_path, repo, chat_url):
    """One server, one request at a time: HyDE waits behind capture, the agent does not."""
    settings = {"classifier_model": CHAT_MODEL, "retrieval_model": CHAT_MODEL}
    with real_scene(tmp_path / "home", chat_url, **settings) as scene:
        scene.load(repo)
        scene.client.capture(str(repo), list(TURN), "s")
        eventually(lambda: scene.capture.in_hand, 20)

        started = time.monotonic()
        reply = scene.ask(repo, scene.turn())

        assert time.monotonic() - started < 3.0
        assert (reply.status, ids(reply)[0]) == ("ok", "mem_pool")
        _settled(scene)


def test_an_event_waits_for_a_server_that_is_not_there(tmp_path, repo):
    port = free_port()
    url = f"http://127.0.0.1:{port}/v1"
    with real_scene(tmp_path / "home", url, classifier_model=CHAT_MODEL) as scene:
        assert scene.client.capture(str(repo), list(TURN), "s", kind="compaction").outcome == "durable"
        waiting = eventually(lambda: now if (now := scene.capture).last_error else None, 30)
        assert (waiting.finished, waiting.dead, waiting.spooled) == (0, 0, 1)

        with chat_server(tmp_path / "log", port):
            after = _settled(scene)

        assert (after.dead, after.spooled) == (0, 0)
