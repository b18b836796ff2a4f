"""Filters of `list`: time, session, origin and stale evidence, in one or all repositories."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from forged_client import protocol as wire
from tests.daemon.parts import assembled
from tests.data.memories import memory, put


def made(name: str, day: int, session: str = "s-1", **fields):
    return replace(
        memory(name, f"text of {name}"),
        created_at=f"2026-05-{day:02}T12:00:00Z",
        session_id=session,
        **fields,
    )


async def listed(parts, top, **fields) -> list[str]:
    return [each.id for each in (await parts.ask(wire.ListMemories(workspace=str(top), **fields))).memories]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, ["mem_c", "mem_b", "mem_a"]),
        ({"since": "2026-05-02T12:00:00Z"}, ["mem_c", "mem_b"]),
        ({"since": "2026-05-02T14:00:00+02:00"}, ["mem_c", "mem_b"]),
        ({"session_id": "s-"}, ["mem_b", "mem_a"]),
        ({"session_id": "s-", "since": "2026-05-02"}, ["mem_b"]),
        ({"origin": "file"}, ["mem_c", "mem_b", "mem_a"]),  # nobody saw them being written
        ({"origin": "typed"}, []),
        ({"scope": "user", "since": "2026-05-02"}, []),
        ({"stale": True}, []),
    ],
)
async def test_of_several_filters_all_hold(home, repo, filters, expected):
    for each in (made("mem_a", 1), made("mem_b", 2), made("mem_c", 3, "t-1")):
        put(repo, each)
    async with assembled(home) as parts:
        assert await listed(parts, repo, **filters) == expected


async def test_what_this_daemon_wrote_has_the_origin_that_it_knows(home, repo):
    async with assembled(home) as parts:
        for origin in ("agent", "explicit"):
            await parts.ask(wire.Remember(workspace=str(repo), content=f"by {origin}", origin=origin))
        found = (await parts.ask(wire.ListMemories(workspace=str(repo), origin="agent"))).memories

    assert [each.content for each in found] == ["by agent"]


def another(repo, name: str):
    top = repo.with_name(name)
    (top / ".git").mkdir(parents=True)
    return top


async def test_with_all_repos_every_repository_that_was_seen_is_listed_and_none_is_indexed_for_it(home, repo):
    other, unseen = another(repo, "other"), another(repo, "unseen")
    put(repo, made("mem_a", 1))
    put(other, made("mem_b", 2))
    put(unseen, made("mem_c", 3))
    put(home, replace(made("mem_u", 4), scope="user"))
    async with assembled(home) as parts:
        await listed(parts, other)
    async with assembled(home) as parts:  # another daemon, which nobody has told of `other`
        assert await listed(parts, repo) == ["mem_u", "mem_a"]
        assert await listed(parts, repo, all_repos=True) == ["mem_u", "mem_b", "mem_a"]
        assert await listed(parts, repo, all_repos=True, scope="repo", since="2026-05-02") == ["mem_b"]
        assert all(root.top != str(other) for root in parts.indexer._roots)


async def test_with_all_repos_what_is_withheld_or_off_stays_out(home, repo):
    foreign, off = another(repo, "foreign"), another(repo, "off")
    put(repo, made("mem_a", 1))
    put(foreign, made("mem_b", 2))
    put(off, made("mem_c", 3))
    async with assembled(home) as parts:
        for top in (repo, off):
            await listed(parts, top)
    (off / ".forge/config.toml").write_text("[memory]\nenabled = false\n")
    async with assembled(home, trusting=False) as parts:
        assert await listed(parts, foreign) == []

        assert await listed(parts, repo, all_repos=True) == ["mem_a"]
