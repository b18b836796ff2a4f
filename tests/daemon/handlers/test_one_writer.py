"""What a reply to `remember` says: which version was replaced, that the base had moved, that it was there."""

from __future__ import annotations

import asyncio

from forged_client import protocol as wire
from tests.daemon.parts import assembled


async def test_a_reply_names_what_it_replaced_and_that_another_was_meant(home, repo):
    workspace = str(repo)
    async with assembled(home) as parts:
        first = await parts.ask(wire.Remember(workspace=workspace, content="one"))
        told = await asyncio.gather(
            *(
                parts.ask(
                    wire.Remember(workspace=workspace, content=f"agent {agent}", supersedes=first.memory_id)
                )
                for agent in range(4)
            )
        )
        chain = await parts.ask(wire.History(workspace=workspace, memory_id=first.memory_id))

    assert (first.replaced, first.base_moved, first.existed) == ("", False, False)
    links = {each.memory_id: each.replaced for each in told}
    assert sorted(each.version for each in told) == [2, 3, 4, 5]
    assert len(set(links.values())) == 4
    assert [each.base_moved for each in told] == [each.replaced != first.memory_id for each in told]
    assert chain.flags == ()


async def test_the_same_text_is_answered_with_the_memory_that_is_there(home, repo):
    async with assembled(home) as parts:
        first = await parts.ask(wire.Remember(workspace=str(repo), content="Use tabs."))
        again = await parts.ask(wire.Remember(workspace=str(repo), content="use tabs"))
        seen = await parts.ask(wire.ListMemories(workspace=str(repo), min_generation=again.generation))

    assert (again.memory_id, again.path, again.existed) == (first.memory_id, first.path, True)
    assert [each.id for each in seen.memories] == [first.memory_id]


async def test_a_request_that_is_sent_again_is_answered_as_the_first_time(home, repo):
    asked = wire.Remember(workspace=str(repo), content="once", key="0123abcd")
    async with assembled(home) as parts:
        first, again = await parts.ask(asked), await parts.ask(asked)
        code, told = await parts.refusal(wire.Remember(workspace=str(repo), content="other", key="0123abcd"))

    assert (again.memory_id, again.existed) == (first.memory_id, False)
    assert (code, "another request" in told) == ("conflict", True)
