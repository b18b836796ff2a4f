"""A request that comes twice under one key is carried out once, and answered twice as the first time.

It comes again to the same daemon, also while that is at it, or to another one after a kill at any step.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.documents.pieces import document_id
from forged.errors import Conflict
from forged.files import MemoryStore, root_at
from forged.memories.restore import resume
from forged.memory import Memory, utc_now
from forged.state import DecidedMemory
from forged.state.database import Database
from forged.writing import trash
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.faults.amount import times
from tests.support.clock import run

GONE_FILE = wire.Document(source="gone.md", text="The kettle is gone.", file=wire.LocalFile("/docs/gone.md"))
PRUNED_FILE = wire.Document(source="pruned.md", text="The teapot is gone.", file=wire.LocalFile("/docs/p.md"))
OLD_FILE = wire.Document(source="old.md", text="Tea is at four.", file=wire.LocalFile("/docs/old.md"))
RENAMED = replace(OLD_FILE, source="new.md", file=wire.LocalFile("/docs/new.md"), moved_from="old.md")
DOCUMENT, PRUNED = (document_id(each.source, each.text, 512, 50) for each in (GONE_FILE, PRUNED_FILE))
# The root is told with the time at which it was trusted.
REPORTED = {"generation", "path", "reason", "root"}
# Of each verb that writes memories, what is asked; `{top}` is the repository.
ASKED: dict[str, Callable[[str], wire.Request]] = {
    "remember": lambda top: wire.Remember(workspace=top, content="We sail at noon."),
    "supersede": lambda top: wire.Remember(workspace=top, content="goose is gone", supersedes="mem_x1"),
    "edit": lambda top: wire.Edit(workspace=top, memory_id="mem_x1", content="goose flies", base="mem_x2"),
    "edit category": lambda top: wire.Edit(workspace=top, memory_id="mem_x2", category="patterns", base="2"),
    "relate": lambda top: wire.Edit(workspace=top, memory_id="mem_x1", relate=(wire.Edge("mem_x3"),)),
    "move": lambda top: wire.Move(workspace=top, memory_id="mem_x1", to="user"),
    "forget": lambda top: wire.Forget(workspace=top, memory_id="mem_x2"),
    "forget one version": lambda top: wire.Forget(workspace=top, memory_id="mem_x1", version_only=True),
    "erase": lambda top: wire.Forget(workspace=top, memory_id="mem_x1", erase_now=True),
    "erase from the trash": lambda top: wire.Forget(workspace=top, memory_id="mem_x4", erase_now=True),
    "restore": lambda top: wire.Restore(workspace=top, memory_id="mem_x4"),
    "undo": lambda top: wire.Undo(workspace=top),
    "import": lambda top: wire.Import(
        workspace=top,
        drafts=(
            wire.ImportedDraft(memory_id="mem_a", content="ink"),
            wire.ImportedDraft(memory_id="mem_x3", content="x"),
        ),
    ),
    "ingest": lambda top: wire.Ingest(workspace=top, documents=(wire.Document(source="b.md", text="Sea."),)),
    "remove a document": lambda top: wire.RemoveDocument(workspace=top, name="a.md"),
    "prune": lambda top: wire.RemoveDocuments(workspace=top, document_ids=(DOCUMENT,), below="/docs"),
    "restore a document": lambda top: wire.Restore(workspace=top, memory_id="pruned.md"),
    "rename a document": lambda top: wire.Ingest(workspace=top, documents=(RENAMED,)),
    "review": lambda top: wire.Review(workspace=top, keep=("mem_w",), drop=("mem_y",)),
}
# Of the others that write, why twice is no harm.
NO_KEY = {
    wire.Capture: "its event_id is the key",
    wire.Learn: "what was learned of a session is known",
}


def test_every_verb_of_a_workspace_that_writes_has_a_key():
    keyed = {type(asked("/")) for asked in ASKED.values()}
    assert keyed == {each for each in wire.REQUESTS if "key" in each.__struct_fields__}
    writes = {each for each in wire.REQUESTS if each.effect == "write" and each.needs}
    assert keyed | NO_KEY.keys() == writes | {wire.Review}


class Killed(BaseException):
    """The daemon goes at this step."""


async def _stage(parts: Parts, home: Path, repo: Path) -> None:
    """A chain of two, two captured memories of a turn, one in the trash, documents, two proposals."""
    old = memory("mem_x1", "goose"), memory("mem_x2", "goose two", supersedes="mem_x1", version=2)
    captured = [
        replace(each, trigger="cadence") for each in (memory("mem_x3", "redis"), memory("mem_x5", "kafka"))
    ]
    put(repo, *old, *captured, memory("mem_x4", "nginx"))
    put(home, replace(memory("mem_x6", "tea", scope="user"), trigger="cadence"))
    await parts.loaded(repo)
    await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_x4"))
    document = wire.Document(source="a.md", text="Ships sail at noon.")
    ingested = (document, GONE_FILE, PRUNED_FILE, OLD_FILE)
    await parts.ask(wire.Ingest(workspace=str(repo), documents=ingested, metadata={"team": "core"}))
    await parts.ask(wire.RemoveDocuments(workspace=str(repo), document_ids=(PRUNED,), below="/docs"))
    root = root_at(str(repo), str(home))
    for each in ("mem_w", "mem_y"):
        waiting = memory(each, f"It waits, {each}.", created_at=utc_now())
        await parts.state.to_review.add([DecidedMemory(root, waiting, waits="why")])


def _plain(reply: wire.Reply) -> dict[str, object]:
    """Return the parts of a reply that must be equal: all but times and new ids."""
    return {name: getattr(reply, name) for name in reply.__struct_fields__ if name not in REPORTED}


async def _there(parts: Parts, home: Path, repo: Path) -> tuple[list[tuple[str, ...]], list[str], list[str]]:
    """Return the heads of all roots, the review list and the trash."""
    found: list[Memory] = []
    for top in (str(repo), str(home), str(home / ".forge/org")):
        if Path(top).is_dir():
            snapshot, _ = await parts.trust.look(root_at(top, str(home)))
            found += snapshot.memories
    texts = sorted((each.content, str(each.version), each.category, str(len(each.related))) for each in found)
    held = sorted(path.read_text().split("---")[-1].strip() for path in (home / "state/trash").rglob("*.md"))
    return texts, [each.memory.id for each in parts.state.to_review.of()], held


@contextlib.contextmanager
def _homes():
    with tempfile.TemporaryDirectory() as folder:
        home, repo = Path(folder, "home"), Path(folder, "repo")
        (repo / ".git").mkdir(parents=True)
        home.mkdir()
        yield home, repo


@pytest.mark.parametrize("verb", ASKED)
async def test_the_same_daemon_answers_as_the_first_time(home, repo, verb):
    """Also where the first of the two is still being carried out."""
    request = replace(ASKED[verb](str(repo)), key="k")
    async with assembled(home) as parts:
        await _stage(parts, home, repo)
        first, next_to = await asyncio.gather(parts.ask(request), parts.ask(request))
        after = await _there(parts, home, repo)
        again = await parts.ask(request)

        assert first == next_to
        assert first == again
        assert _plain(again)["status"] == "ok"
        assert await _there(parts, home, repo) == after
        other = {"workspace": f"{repo}/."}
        with pytest.raises(Conflict, match="another request"):
            await parts.ask(replace(request, **other))


@pytest.mark.parametrize("verb", ASKED)
async def test_the_next_daemon_answers_as_the_first_one(home, repo, verb):
    request = replace(ASKED[verb](str(repo)), key="k")
    async with assembled(home) as parts:
        await _stage(parts, home, repo)
        first = await parts.ask(request)
        after = await _there(parts, home, repo)
    async with assembled(home) as parts:
        await resume(parts.memories)
        again = await parts.ask(request)

        assert _plain(again) == _plain(first)
        assert await _there(parts, home, repo) == after


@given(st.sampled_from(sorted(ASKED)), st.integers(0, 40))
@settings(max_examples=times(100, 16))
def test_a_request_that_a_kill_interrupted_comes_to_the_same(verb, step):
    """The daemon is killed at one of its steps, before or behind it."""

    async def scenario(home: Path, repo: Path, *, at: int | None) -> tuple[wire.Reply, object]:
        request = replace(ASKED[verb](str(repo)), key="k")
        async with assembled(home) as parts:
            await _stage(parts, home, repo)
            if at is None:
                return await parts.ask(request), await _there(parts, home, repo)
            with contextlib.suppress(Killed), _killing(parts.state._database, at):
                await parts.ask(request)
        async with assembled(home) as parts:
            await resume(parts.memories)
            return await parts.ask(request), await _there(parts, home, repo)

    with _homes() as (home, repo):
        wanted, after = run(scenario(home, repo, at=None))
        shutil.rmtree(home)
        shutil.rmtree(repo)
        home.mkdir()
        (repo / ".git").mkdir(parents=True)
        reply, there = run(scenario(home, repo, at=step))
    assert there == after
    outcomes = [
        name for name in ("ids", "kept", "dropped", "existed", "version", "pieces") if hasattr(reply, name)
    ]
    assert reply.status == wanted.status == "ok"
    assert [getattr(reply, name) for name in outcomes] == [getattr(wanted, name) for name in outcomes]
    if isinstance(reply, wire.Restored | wire.Undone):
        assert [(each.id, each.content) for each in reply.memories] == [
            (each.id, each.content) for each in wanted.memories
        ]


@contextlib.contextmanager
def _killing(database: Database, at: int) -> Iterator[None]:
    """End the daemon with a step from now on: before it for even numbers, behind it for odd ones.

    Steps are transactions, and what is done to one file.
    """
    done, change = 0, database.run

    def is_reached() -> bool:
        nonlocal done
        done += 1
        if done > at // 2 + 1 or (done == at // 2 + 1 and not at % 2):
            raise Killed
        return done == at // 2 + 1

    async def counted(work, **options):
        is_last = is_reached()
        result = await change(work, **options)
        if is_last:
            raise Killed
        return result

    def step(function):
        def stepped(*args, **options):
            is_last = is_reached()
            result = function(*args, **options)
            if is_last:
                raise Killed
            return result

        return stepped

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "run", counted)
        for owner, name in (
            (MemoryStore, "_move_file"),
            (MemoryStore, "_erase_file"),
            (MemoryStore, "put_back"),
        ):
            patched.setattr(owner, name, step(getattr(owner, name)))
        patched.setattr(trash, "_remove_entry", step(trash._remove_entry))
        yield
