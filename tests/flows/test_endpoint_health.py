"""Endpoints that fail or hang: waits, calls, and messages.

From outside, with a real daemon and a provider on loopback. Minutes pass by `pass_a_minute`; whether somebody
waited for an endpoint is told by the provider's log and by the replies' own reason.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from forged_client import protocol
from forged_client.framing import encode
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Scene, ids, staged
from tests.support.provider import EMBEDDINGS, RESET, Answer, embedded

pytestmark = pytest.mark.long

REFUSED = Answer({"error": {"message": "no"}}, status=401)
MISSING = Answer({"error": {"message": "the model x does not exist"}}, status=404)
DOWN = Answer({"error": {"message": "boom"}}, status=500)


@pytest.fixture
def scene(tmp_path, repo) -> Iterator[Scene]:
    with staged(tmp_path / "home", clocked=True, retrieval_model="chat") as scene:
        yield _with_walrus(scene, repo)


@pytest.fixture
def hyde(tmp_path, repo) -> Iterator[Scene]:
    settings = {"retrieval_strategy": "hyde", "retrieval_model": "chat", "retrieval_lexical_weight": 0}
    with staged(tmp_path / "home", clocked=True, **settings) as scene:
        yield _with_walrus(scene, repo)


def _with_walrus(scene: Scene, repo) -> Scene:
    put(repo, memory("m0", "walrus facts"), memory("m1", "something else"))
    scene.provider.vectors.update({"walrus": (1, 0, 0), "something": (0, 1, 0), "a hypothesis": (1, 0, 0)})
    scene.load(repo)
    assert scene.ask(repo, "the walrus").reason == ""
    scene.provider.received.clear()
    return scene


def _endpoints(scene: Scene) -> dict[str, str]:
    return {use: one.state for one in scene.client.status().endpoints for use in one.uses}


def _skipped(scene: Scene, repo, chat: Answer = DOWN, embeddings: Answer = DOWN) -> None:
    """Both endpoints fail until they are skipped."""
    scene.provider.chat, scene.provider.embeddings = chat, embeddings
    for _ in range(3):
        scene.ask(repo, "the walrus")
    scene.provider.received.clear()


# --- failing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chat", "embeddings"), [(REFUSED, MISSING), (DOWN, DOWN), (RESET, RESET)], ids=["told", "500", "reset"]
)
def test_of_endpoints_that_are_dead_for_12_turns_status_tells_after_one_and_each_gets_two_calls(
    scene, repo, chat, embeddings
):
    scene.provider.chat, scene.provider.embeddings = chat, embeddings

    first = scene.ask(repo, "the walrus")
    report = scene.client.status()
    replies = [first, *(scene.ask(repo, "the walrus") for _ in range(11))]

    assert report.state == "degraded"
    failing = {use: one.message for one in report.endpoints if one.state == "failing" for use in one.uses}
    assert failing.keys() == {"HyDE", "capture", "embeddings"}  # one model for both
    assert all("127.0.0.1" in message for message in failing.values())
    assert max(len(scene.chats), len(scene.embeds)) <= 2
    assert {(reply.status, reply.indexes, *ids(reply)) for reply in replies} == {("ok", ("lexical",), "m0")}
    assert all(reply.reason.startswith("provider: ") for reply in replies)


def test_a_model_name_that_is_wrong_is_reported_by_status_and_degrades_it_until_it_answers(scene, repo):
    scene.provider.chat = MISSING

    reply = scene.ask(repo, "the walrus")
    failing, state = _endpoints(scene), scene.client.status().state
    scene.provider.chat = None
    scene.ask(repo, "the walrus")

    assert reply.reason == "hyde: bad_reply"
    assert (failing["HyDE"], failing["embeddings"], state) == ("failing", "ok", "degraded")
    assert (_endpoints(scene)["HyDE"], scene.client.status().state) == ("ok", "ok")


def test_the_first_turn_after_a_good_look_uses_the_endpoint_again(scene, repo):
    _skipped(scene, repo)
    scene.provider.chat = scene.provider.embeddings = None
    scene.daemon.pass_a_minute()

    next_to = scene.ask(repo, "the walrus", "t1")
    eventually(lambda: set(_endpoints(scene).values()) == {"ok"})
    after = scene.ask(repo, "the walrus", "t2")
    again = eventually(
        lambda: one if (one := scene.ask(repo, "the walrus", "t1")).strategy == "hyde" else None
    )

    assert next_to.reason == "provider: server"
    assert (after.reason, after.strategy, after.indexes) == ("", "hyde", ("lexical", "dense"))
    assert (again.reason, again.cached) == ("", True)


def test_explicit_hyde_answers_nothing_at_once_with_the_reason_while_its_model_is_skipped(hyde, repo):
    hyde.provider.chat = DOWN
    for _ in range(2):
        hyde.ask(repo, "the walrus")
    asked = len(hyde.chats)

    reply = hyde.ask(repo, "the walrus")

    assert (reply.text, reply.reason, len(hyde.chats)) == ("", "provider: server", asked)
    assert (reply.status, hyde.client.status().state) == ("error", "degraded")


def test_auto_goes_by_the_question_at_once_while_only_the_chat_model_is_skipped(scene, repo):
    scene.provider.chat = DOWN
    for _ in range(2):
        scene.ask(repo, "the walrus")
    asked = len(scene.chats)

    reply = scene.ask(repo, "the walrus")

    assert (reply.reason, reply.indexes, len(scene.chats)) == ("hyde: server", ("lexical", "dense"), asked)


def test_a_build_that_failed_is_the_reason_of_an_answer_without_vectors(tmp_path, repo):
    put(repo, memory("m0", "walrus facts"))
    with staged(tmp_path / "home") as scene:
        scene.provider.embeddings = REFUSED
        scene.client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)

        reply, found = scene.ask(repo, "the walrus"), scene.client.search(str(repo), "walrus")

        for reason in (reply.reason, found.reason):
            assert reason.startswith("keyword results only: no embeddings (auth: http://127.0.0.1")
            assert reason.endswith(")")
        assert (reply.status, found.status) == ("ok", "ok")


# --- too slow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_alone", [False, True], ids=["all at once", "one before the others"])
def test_of_24_agents_at_endpoints_that_hang_no_turn_waits_that_began_when_two_had_waited(
    scene, repo, first_alone
):
    go, others = threading.Event(), threading.Event()
    scene.provider.chat = scene.provider.embeddings = Answer(hold=go)
    clients = [scene.daemon.client() for _ in range(24)]
    began, ended = {}, {}

    def turns(number: int) -> list[str]:
        mine, reasons = replace(scene, client=clients[number]), []
        if first_alone and number:
            assert others.wait(PATIENCE_S)
        for turn in range(3):
            name = f"agent{number}turn{turn}"
            began[name] = time.monotonic()
            reply = mine.ask(repo, f"the walrus {name}", f"t{turn}", session_id=f"s{number}")
            ended[name] = time.monotonic()
            others.set()
            reasons.append(reply.reason)
        return reasons

    try:
        with ThreadPoolExecutor(24) as threads:
            reasons = list(threads.map(turns, range(24)))
    finally:
        go.set()
        for client in clients:
            client.close()

    calls = [re.findall(rb"agent\d+turn\d", call.body)[-1].decode() for call in scene.chats + scene.embeds]
    two_have_waited = sorted(ended.values())[1]
    assert {name for name in calls if began[name] > two_have_waited} == set()
    assert "provider: timeout" in {first for first, *_ in reasons}
    assert {reason for each in reasons for reason in each} <= {"provider: slow", "provider: timeout"}
    assert {name for name in calls if name.endswith("turn2")} == set(), "an agent waits twice at most"


# --- who hangs up -------------------------------------------------------------------------------------


def test_an_agent_that_hangs_up_ends_the_calls_that_only_it_waited_for(hyde, repo):
    go = threading.Event()
    hyde.provider.embeddings = lambda provider, request: embedded(provider, request, hold=go)
    asked = protocol.Retrieve(
        id=2,
        workspace=str(repo),
        session_id="s",
        turn_id="t",
        messages=({"role": "user", "content": "the walrus"},),
    )
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(hyde.daemon.socket)
        agent.sendall(bytes(encode(protocol.Hello(id=1))) + bytes(encode(asked)))
        (call,) = hyde.provider.wait_for(1, path=EMBEDDINGS)

    try:
        hyde.provider.wait_until(lambda: call.closed_by_client, 1.5)  # before its time is up
    finally:
        go.set()


# --- who asks whether they work -----------------------------------------------------------------------


def test_a_person_can_have_each_endpoint_called_once_also_while_it_is_skipped(scene, repo):
    _skipped(scene, repo)

    failed = scene.client.try_endpoints()
    scene.provider.chat = scene.provider.embeddings = None
    passed = scene.client.try_endpoints()

    assert [(trial.uses, trial.ok, trial.reason) for trial in failed.trials] == [
        (("embeddings",), False, "server"),
        (("HyDE", "capture"), False, "server"),
    ]
    assert [trial.ok for trial in passed.trials] == [True, True]
    assert (len(scene.chats), len(scene.embeds)) == (2, 2)
    assert scene.ask(repo, "the walrus").strategy == "hyde"
    assert "doctor" in {day.purpose for day in scene.client.cost().days}
