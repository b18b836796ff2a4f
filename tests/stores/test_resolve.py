"""Roots of a workspace, resolved without a delay for other clients."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.config import Config, MemoryConfig
from forged.counters import Metrics
from forged.errors import WorkspaceError
from forged.maps.indexer import Indexer
from forged.memory import Scope
from forged.stores.resolver import KEPT_S, Resolver
from tests.support.clock import Clock, run

# The worst for the parser that is allowed: 15 ms.
WORST = f"[{'a.' * 23}a]\n" + "".join(f"{'a.' * 24}{number}=1\n" for number in range(75))


@contextlib.asynccontextmanager
async def resolving(home: Path, config: Config | None = None, clock: Clock | None = None):
    indexer = Indexer(embedder=None, lexical=True, metrics=Metrics())
    resolver = Resolver(str(home), config or Config(), indexer, clock or Clock())
    try:
        yield resolver
    finally:
        resolver.close()


def resolved(home: Path, workspace: Path, config: Config | None = None):
    async def body():
        async with resolving(home, config) as resolver:
            return await resolver.resolve(str(workspace))

    return run(body())


def override(repo: Path, text: str) -> None:
    (repo / ".forge").mkdir(exist_ok=True)
    (repo / ".forge/config.toml").write_text(text)


@contextlib.contextmanager
def calls(*places: tuple[str, str]) -> Iterator[collections.Counter[tuple[str, bool]]]:
    """Count calls of functions, given as ends of file names and names, by name and whether on this thread."""
    counted: collections.Counter[tuple[str, bool]] = collections.Counter()
    here = threading.get_ident()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and any(code.co_filename.endswith(f) and code.co_name == n for f, n in places):
            counted[code.co_name, threading.get_ident() == here] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield counted
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


PARSED = ("tomllib/_parser.py", "loads")
WALKED = ("files/roots.py", "resolve")


# --- roots --------------------------------------------------------------------------------------------


def test_a_workspace_in_a_repository_sees_its_root_before_the_users(home, repo):
    inside = repo / "src/deep"
    inside.mkdir(parents=True)

    place = resolved(home, inside)

    assert [(root.top, root.scope) for root in place.roots] == [
        (str(repo), Scope.REPO),
        (str(home), Scope.USER),
    ]
    assert place.tops == (str(repo), str(home))


async def test_a_workspace_that_is_no_directory_is_refused_each_time(home, tmp_path):
    async with resolving(home) as resolver:
        for _ in range(2):
            with pytest.raises(WorkspaceError):
                await resolver.resolve(str(tmp_path / "nowhere"))
        (tmp_path / "nowhere").mkdir()
        assert (await resolver.resolve(str(tmp_path / "nowhere"))).tops == (
            str(tmp_path / "nowhere"),
            str(home),
        )


# --- settings of a repository -------------------------------------------------------------------------


def test_a_repository_sets_its_own_top_k_and_no_endpoint(home, repo):
    override(repo, '[memory]\nretrieval_top_k = 3\nembedding_base_url = "https://evil.example/v1"\n')

    place = resolved(home, repo)

    assert place.settings.retrieval_top_k == 3
    assert place.settings.embedding_base_url == MemoryConfig().embedding_base_url
    assert any("embedding_base_url" in warning for warning in place.warnings)


def test_a_repository_can_switch_memory_off_for_itself_alone(home, repo, tmp_path):
    override(repo, "[memory]\nenabled = false\n")
    (tmp_path / "other/.git").mkdir(parents=True)

    assert resolved(home, repo).off == "memory.enabled is false"
    assert resolved(home, tmp_path / "other").off == ""


def test_a_repository_cannot_switch_on_what_the_user_switched_off(home, repo):
    override(repo, "[memory]\nenabled = true\n")

    place = resolved(home, repo, Config(memory=MemoryConfig(enabled=False)))

    assert place.off == "memory.enabled is false"


def test_a_file_of_more_than_four_kib_is_a_warning_and_is_not_parsed(home, repo):
    override(repo, "[memory]\nretrieval_top_k = 3\n" + "#" * 4096)

    with calls(PARSED) as parses:
        place = resolved(home, repo)

    assert place.settings == MemoryConfig()
    assert "larger than 4096 bytes" in place.warnings[0]
    assert not parses


# --- a repository is looked at seldom, and beside the loop --------------------------------------------


async def test_subdirectories_of_one_repository_share_one_parse_and_the_loop_does_none(home, repo):
    override(repo, WORST)
    inside = [repo / f"package{number}" for number in range(12)]
    for directory in inside:
        directory.mkdir()
    with calls(PARSED, WALKED) as counted:
        async with resolving(home) as resolver:
            for _ in range(2):
                await asyncio.gather(*(resolver.resolve(str(directory)) for directory in inside))

    assert counted == {("resolve", False): 12, ("loads", False): 1}


async def test_a_version_of_the_file_is_parsed_once_and_the_next_one_is_seen(home, repo):
    override(repo, "[memory]\nretrieval_top_k = 3\n")
    clock, found = Clock(), []
    with calls(PARSED) as parses:
        async with resolving(home, clock=clock) as resolver:
            for moment in range(4):
                clock.now = moment * KEPT_S
                if moment == 3:
                    override(repo, "[memory]\nretrieval_top_k = 14\n")
                found.append((await resolver.resolve(str(repo))).settings.retrieval_top_k)

    assert found == [3, 3, 3, 14]
    assert parses == {("loads", False): 2}


async def test_settings_are_never_older_than_five_seconds_however_often_they_were_asked_for(home, repo):
    override(repo, "[memory]\nretrieval_top_k = 3\n")
    (repo / "inside").mkdir()
    clock = Clock()
    async with resolving(home, clock=clock) as resolver:
        await resolver.resolve(str(repo))
        clock.now = KEPT_S - 1
        await resolver.resolve(str(repo / "inside"))
        override(repo, "[memory]\nretrieval_top_k = 14\n")
        clock.now = KEPT_S
        assert (await resolver.resolve(str(repo / "inside"))).settings.retrieval_top_k == 14


async def test_a_concurrent_caller_shares_the_look_up_and_may_give_up(home, repo):
    with calls(WALKED) as looks:
        async with resolving(home) as resolver:
            waiting = [asyncio.ensure_future(resolver.resolve(str(repo))) for _ in range(20)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            first, *others = await asyncio.gather(*waiting, return_exceptions=True)

    assert isinstance(first, asyncio.CancelledError)
    assert {place.tops for place in others} == {(str(repo), str(home))}
    assert looks == {("resolve", False): 1}
