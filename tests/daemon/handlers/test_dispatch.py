"""What the dispatcher adds to every reply, and where it answers without asking a handler."""

from __future__ import annotations

import pytest

from forged.config import Config, MemoryConfig
from forged.daemon.handlers.dispatch import IN_WORKSPACE, OF_DAEMON, Needs
from forged.errors import ForgedError
from forged_client import protocol as wire
from tests.daemon.parts import EPOCH, assembled
from tests.support.clock import run

AT_ONCE = {wire.Hello, wire.Ping, wire.Events}
REQUESTS = {
    wire.Retrieve: {},
    wire.Search: {"query": "q"},
    wire.Why: {},
    wire.Remember: {"content": "text"},
    wire.GetMemories: {},
    wire.ListMemories: {},
    wire.History: {"memory_id": "m"},
    wire.Forget: {"memory_id": "m"},
    wire.Undo: {},
    wire.Capture: {"session_id": "s"},
}


def asked(home, request, **options):
    async def body():
        async with assembled(home, **options) as parts:
            return await parts.ask(request)

    return run(body())


def test_every_request_has_one_handler():
    assert {*IN_WORKSPACE, *OF_DAEMON, *AT_ONCE} == set(wire.REQUESTS)
    assert not set(IN_WORKSPACE) & set(OF_DAEMON)
    assert set(REQUESTS) == set(IN_WORKSPACE)


@pytest.mark.parametrize("kind", IN_WORKSPACE, ids=lambda kind: kind.__name__)
def test_where_memory_is_off_every_verb_says_disabled_in_its_own_reply(home, repo, kind):
    (repo / ".forge").mkdir(exist_ok=True)
    (repo / ".forge/config.toml").write_text("[memory]\nenabled = false\n")

    reply = asked(home, kind(id=7, workspace=str(repo), **REQUESTS[kind]))

    assert (type(reply), reply.id, reply.status) == (kind.reply_type(), 7, "disabled")
    assert reply.reason == "memory.enabled is false"


@pytest.mark.parametrize("kind", IN_WORKSPACE, ids=lambda kind: kind.__name__)
def test_without_retrieval_only_the_verbs_that_retrieve_are_disabled(home, repo, kind):
    request = kind(id=7, workspace=str(repo), **REQUESTS[kind])

    async def body():
        async with assembled(home, disabled="no model") as parts:
            try:
                return (await parts.ask(request)).reason == "no model"
            except ForgedError:
                return False

    assert run(body()) == (IN_WORKSPACE[kind][1] >= Needs.RETRIEVAL)


def test_a_reply_names_its_request_and_the_generation_that_it_speaks_of(home, repo):
    reply = asked(home, wire.ListMemories(id=9, workspace=str(repo)))

    epoch, _, number = reply.generation.partition(":")
    assert (reply.id, epoch) == (9, EPOCH)
    assert number.isdecimal()


def test_a_reply_that_speaks_of_none_has_none(home, repo):
    reply = asked(home, wire.Why(id=9, workspace=str(repo)))

    assert (reply.id, reply.status, reply.generation) == (9, "empty", "")


def test_rebuild_is_disabled_where_memory_is_off(home, repo):
    config = Config(memory=MemoryConfig(enabled=False))

    reply = asked(home, wire.Rebuild(id=3, workspace=str(repo)), config=config)

    assert (type(reply), reply.id, reply.status) == (wire.Rebuilt, 3, "disabled")
