"""The order in which `capture` once took its arguments is still taken, with a warning that names the line."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from forged_client import AsyncClient, Client
from forged_client.protocol import Capture, Captured
from tests.support.daemon import answering

SAID = [{"role": "user", "content": "text"}]


@pytest.fixture
def peer(serve):
    return serve(answering(lambda _: Captured(outcome="accepted")))


def asked(peer) -> list[tuple[str, object]]:
    return [(each.session_id, each.messages[0].content) for each in peer.requests_of(Capture)]


def test_the_order_of_old_is_taken_and_warned_of_where_it_is_written(peer, client):
    with pytest.warns(DeprecationWarning, match=r"is now capture\(workspace, messages, session_id\)") as told:
        line = old_order(client)
    client.capture("/w", messages=SAID, session_id="s")

    assert [(each.filename, each.lineno) for each in told] == [(__file__, line)]
    assert asked(peer) == [("s", "text")] * 2


def old_order(client: Client) -> int:
    client.capture("/w", "s", SAID)
    return inspect.currentframe().f_lineno - 1


def test_awaited_the_order_of_old_is_warned_of_where_it_is_written_too(peer):
    with pytest.warns(DeprecationWarning, match="capture") as told:
        line = asyncio.run(awaited(peer.path))

    assert [(each.filename, each.lineno) for each in told] == [(__file__, line)]
    assert asked(peer) == [("s", "text")]


async def awaited(path: str) -> int:
    async with AsyncClient(path) as client:
        await client.capture("/w", "s", SAID)
        return inspect.currentframe().f_lineno - 1


@pytest.mark.parametrize("messages", [SAID, tuple(SAID), iter(SAID)])
def test_the_order_of_now_is_not_warned_of(peer, client: Client, recwarn, messages):
    client.capture("/w", messages, "s")

    assert (asked(peer), len(recwarn)) == ([("s", "text")], 0)
