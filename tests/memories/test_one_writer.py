"""Reply of `remember`: the replaced version, a moved base, an existing memory."""

from __future__ import annotations

import asyncio

from forged_client import protocol as wire
from tests.daemon.parts import assembled


async def test_a_reply_names_what_it_replaced_and_that_another_was_meant(home, repo):
    workspace = str(repo)
    async with assembled(home) as parts:
        first = await parts.ask(wire.Remember(workspace=workspace, content="one"))
        reported = await asyncio.gather(
            *(
                parts.ask(
                    wire.Remember(workspace=workspace, content=f"agent {agent}", supersedes=first.memory_id)
                )
                for agent in range(4)
            )
        )
        chain = await parts.ask(wire.History(workspace=workspace, memory_id=first.memory_id))

    assert (first.replaced, first.base_moved, first.existed) == ("", False, False)
    links = {each.memory_id: each.replaced for each in reported}
    assert sorted(each.version for each in reported) == [2, 3, 4, 5]
    assert len(set(links.values())) == 4
    assert [each.base_moved for each in reported] == [each.replaced != first.memory_id for each in reported]
    assert chain.flags == ()
