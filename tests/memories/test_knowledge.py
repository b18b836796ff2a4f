"""Documents in the daemon: written in pieces, replaced whole, removed whole, and mended after a kill."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from forged.errors import InvalidRequest, StoreError
from forged.files import org_root, parse
from forged_client import protocol as wire
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.provider import FakeEmbedder

SECRET = "ghp_" + "x9Kd83jfLs02mQpZ" + "77aBcDeFgHiJkLmNoPqR"


def units(count: int, word: str = "walrus") -> str:
    """A text of so many tokens that begins with a word and has no sentence."""
    return f"{word:<8}" + "".join(f"{number % 1000:03d} " for number in range(count - 2))


def doc(text: str, source: str = "docs/a.md") -> wire.Document:
    return wire.Document(source=source, text=text, is_markdown=True)


async def ingested(parts: Parts, *documents: wire.Document, **fields) -> tuple[wire.DocumentOutcome, ...]:
    reply = await parts.ask(wire.Ingest(documents=documents, **fields))
    assert isinstance(reply, wire.Ingested)
    return reply.outcomes


async def result(parts: Parts, *documents: wire.Document, **fields) -> list[str]:
    return [each.result for each in await ingested(parts, *documents, **fields)]


def files(home: Path) -> list[Path]:
    return sorted((home / ".forge/org/memory").glob("*.md"))


async def listed(parts: Parts) -> list[tuple[str, int, int]]:
    reply = await parts.ask(wire.ListDocuments())
    return [(each.source, each.pieces, each.of) for each in reply.documents]


async def found(parts: Parts, query: str = "walrus", **fields) -> list[wire.MemoryRecord]:
    return list((await parts.ask(wire.Recall(query=query, scopes=("org",), **fields))).memories)


async def test_a_document_of_1200_tokens_becomes_three_numbered_files_that_both_agents_find(home):
    async with assembled(home) as parts:
        (outcome,) = await ingested(parts, doc(units(1200)), agent_id="claude", metadata={"team": "core"})
        mine, other = await found(parts, agent_id="claude"), await found(parts, agent_id="codex")

    assert (outcome.result, outcome.pieces, outcome.written, outcome.reason) == ("new", 3, 3, "")
    stored = [parse(each.read_bytes(), "org", each.stem) for each in files(home)]
    assert [(each.piece.index, each.piece.of, each.piece.source) for each in stored] == [
        (0, 3, "docs/a.md"), (1, 3, "docs/a.md"), (2, 3, "docs/a.md")
    ]  # fmt: skip
    assert [len(each.content) // 4 for each in stored] == [512, 512, 276]
    assert {each.id for each in stored} == {f"mem_{outcome.document_id[4:]}_{each:05d}" for each in range(3)}
    assert [each.id for each in mine] == [each.id for each in other]
    assert (mine[0].source, mine[0].document_id, mine[0].chunk_index) == ("docs/a.md", outcome.document_id, 0)


async def test_the_same_text_again_does_nothing_and_another_one_takes_its_place_whole(home):
    async with assembled(home) as parts:
        first = await result(parts, doc(units(1200)))
        before = {each: each.stat().st_mtime_ns for each in files(home)}
        again = await ingested(parts, doc(units(1200)))
        unchanged = {each: each.stat().st_mtime_ns for each in files(home)}
        changed = await result(parts, doc(units(600, "otter")))
        hits = await found(parts, "otter walrus")
        stock = await listed(parts)

    assert (first, again[0].result, again[0].written, changed) == (["new"], "exists", 0, ["replaced"])
    assert before == unchanged
    assert {each.content.split()[0] for each in hits if each.chunk_index == 0} == {"otter"}
    assert stock == [("docs/a.md", 2, 2)]
    assert len(files(home)) == 2


async def test_what_a_kill_left_of_a_document_is_completed_and_what_it_left_of_the_old_one_goes(home):
    async with assembled(home) as parts:
        await result(parts, doc(units(1200)))
        old = {each: each.read_bytes() for each in files(home)}
        await result(parts, doc(units(1300, "otter")))
    new = files(home)
    new[1].unlink()  # a kill between two pieces of the new text
    for path, data in old.items():
        path.write_bytes(data)

    async with assembled(home) as parts:
        halves = await listed(parts)
        (outcome,) = await ingested(parts, doc(units(1300, "otter")))
        whole = await listed(parts)

    assert sorted(halves) == [("docs/a.md", 2, 3), ("docs/a.md", 3, 3)]
    assert (outcome.result, outcome.written, whole) == ("replaced", 1, [("docs/a.md", 3, 3)])
    assert files(home) == new


async def test_the_old_text_stays_until_all_of_the_new_one_is_there(home, monkeypatch):
    async with assembled(home) as parts:
        await result(parts, doc(units(1200)))
        old, write = files(home), parts.memories.writer.add_all

        async def full(index, drafts):
            return (*await write(index, drafts[:1]), *[StoreError("no space left")] * (len(drafts) - 1))

        monkeypatch.setattr(parts.memories.writer, "add_all", full)
        (outcome,) = await ingested(parts, doc(units(1200, "otter")))
        left = files(home)
        monkeypatch.undo()
        (mended,) = await ingested(parts, doc(units(1200, "otter")))

    assert (outcome.result, outcome.reason) == ("refused", "no space left")
    assert set(old) < set(left)
    assert (mended.result, mended.written, len(files(home))) == ("replaced", 2, 3)


async def test_several_texts_of_one_source_at_once_leave_one_of_them_whole(home):
    texts = [units(1200, word) for word in ("ant", "bee", "cow", "dog")]
    async with assembled(home) as parts:
        await asyncio.gather(*[result(parts, doc(text)) for text in texts])
        stock = await listed(parts)

    assert stock == [("docs/a.md", 3, 3)]


async def test_a_document_that_is_removed_is_gone_with_all_its_pieces_and_can_come_back(home):
    async with assembled(home) as parts:
        (outcome, _) = await ingested(
            parts, doc(units(1200)), doc("An otter.", "docs/b.md"), metadata={"a": 1}
        )
        top = str(home / ".forge/org")
        gone = await parts.ask(wire.RemoveDocument(name="docs/a.md"))
        hits = await found(parts)
        detail = parts.state.attributes.of(top, f"mem_{outcome.document_id[4:]}_00000")
        back = await result(parts, doc(units(1200)))
        by_id = await parts.ask(wire.RemoveDocument(name=outcome.document_id))

    assert (gone.pieces, [each.source for each in gone.documents], hits) == (3, ["docs/a.md"], [])
    assert detail.metadata == {}
    assert (back, by_id.pieces) == (["new"], 3)
    assert len(files(home)) == 1


async def test_a_secret_is_named_by_its_shape_unless_someone_insists_and_never_alone_stops_the_others(home):
    async with assembled(home) as parts:
        secret, other = await ingested(parts, doc(f"The zebra uses {SECRET} here."), doc("Fine.", "b"))
        insisted = await result(parts, doc(f"The zebra uses {SECRET} here."), allow_secret=True)
        index = parts.indexer.open(org_root(str(home)))  # as a recall does not wait for what is new
        await index.until_tried(index.generations.wanted, time.monotonic() + PATIENCE_S)
        (hit,) = await found(parts, "zebra")

    assert (secret.result, other.result, insisted) == ("secret", "new", ["new"])
    assert "GitHub" in secret.reason or "github" in secret.reason
    assert SECRET not in secret.reason
    assert SECRET in hit.content


async def test_private_spans_are_left_out_and_a_document_of_nothing_else_is_refused(home):
    async with assembled(home) as parts:
        some, none = await ingested(
            parts, doc("A walrus. <private>An otter.</private> An ant."), doc("<private>all</private>", "b")
        )

    assert (some.result, none.result) == ("new", "refused")
    assert "nothing is left" in none.reason
    (only,) = files(home)
    assert b"otter" not in only.read_bytes()


@pytest.mark.parametrize("source", ["", " ", "a\nb", "x" * 1025, "\x1b[31m"])
async def test_a_source_that_is_no_line_is_refused_alone(home, source):
    async with assembled(home) as parts:
        reported = await result(parts, doc("text", source), doc("text", "fine"))

    assert reported == ["refused", "new"]


@pytest.mark.parametrize(
    "fields",
    [{"agent_id": "../x"}, {"metadata": {str(key): 1 for key in range(33)}}, {"metadata": {"key": SECRET}}],
)
async def test_an_agent_or_metadata_that_are_none_are_refused_before_anything_is_written(home, fields):
    async with assembled(home) as parts:
        with pytest.raises(InvalidRequest):
            await result(parts, doc("text"), **fields)

    assert files(home) == []


async def test_the_headings_above_a_piece_find_it_though_they_stand_in_another_one(home):
    text = "# Guide\n\n## Kraken\n\n" + "".join(f"{number:04d}" for number in range(1200))
    async with assembled(home) as parts:
        await result(parts, doc(text))
        hits = await found(parts, "kraken")

    assert {each.chunk_index for each in hits} == {0, 1, 2}


async def test_a_piece_that_was_forgotten_does_not_come_back_with_its_document(home):
    async with assembled(home) as parts:
        (outcome,) = await ingested(parts, doc(units(1200)))
        path = files(home)[1]
        text = parse(path.read_bytes(), "org", path.stem).content
        path.unlink()
        await parts.state.forgotten.add(str(home / ".forge/org"), [text])
        (again,) = await ingested(parts, doc(units(1200)))

        assert len(files(home)) == outcome.pieces - 1
        (kept,) = await ingested(parts, doc(units(1200)), allow_forgotten=True)

    assert (again.result, again.written, again.forgotten) == ("exists", 0, 1)
    assert (kept.result, kept.written, kept.forgotten) == ("completed", 1, 0)
    assert len(files(home)) == outcome.pieces


@pytest.mark.parametrize("scope", ["user", "repo"])
async def test_a_document_does_not_bring_back_a_memory_that_was_forgotten(home, repo, scope):
    put(home if scope == "user" else repo, memory("mem_1", "The zebra sleeps at noon.", scope=scope))
    text = "# Animals\n\nAn emu runs.\n\nThe zebra sleeps at noon.\n"
    async with assembled(home) as parts:
        await parts.loaded(repo)
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1", scope=scope))
        (left,) = await ingested(parts, doc(text), workspace=str(repo))
        hits = await found(parts, "zebra")

    assert (left.pieces, left.written, left.forgotten) == (1, 0, 1)
    assert hits == []


@pytest.mark.parametrize(("metadata", "erased"), [({}, 0), ({"team": "core"}, 1)])
async def test_traces_of_a_removed_document_are_erased_where_it_has_metadata(
    home, monkeypatch, metadata, erased
):
    calls = []
    async with assembled(home) as parts:
        await ingested(parts, doc("Plain words."), metadata=metadata)
        erase = parts.state.erase_traces

        async def counted() -> None:
            calls.append(None)
            await erase()

        monkeypatch.setattr(parts.state, "erase_traces", counted)
        await parts.ask(wire.RemoveDocument(name="docs/a.md"))

    assert len(calls) == erased


# --- files of a folder -----------------------------------------------------------------------------------


def of_file(text: str, name: str, folder: str = "/docs", **fields) -> wire.Document:
    return wire.Document(source=name, text=text, file=wire.LocalFile(f"{folder}/{name}", "1 /"), **fields)


async def recorded(parts: Parts, below: str = "/docs") -> dict[str, str]:
    """Source and path of the documents whose file is recorded below a folder."""
    reply = await parts.ask(wire.ListDocuments(below=below))
    return {each.source: each.file.path for each in reply.documents}


async def pruned(parts: Parts, *outcomes: wire.DocumentOutcome, below: str = "/docs", **fields) -> list[str]:
    ids = tuple(each.document_id for each in outcomes)
    reply = await parts.ask(wire.RemoveDocuments(document_ids=ids, below=below, **fields))
    return [each.source for each in reply.documents]


async def test_files_are_on_record_by_their_folder_and_no_folder_of_a_like_name(home):
    async with assembled(home) as parts:
        await ingested(
            parts,
            of_file("An ant.", "a.md"),
            of_file("A bee.", "sub/b.md"),
            of_file("A cow.", "c.md", "/docs2"),
            doc("A dog.", "d.md"),
        )
        assert await recorded(parts) == {"a.md": "/docs/a.md", "sub/b.md": "/docs/sub/b.md"}
        assert await recorded(parts, "/docs/sub") == {"sub/b.md": "/docs/sub/b.md"}
        assert len(await recorded(parts, "/")) == 3
    async with assembled(home) as parts:
        assert len(await recorded(parts, "/")) == 3


async def test_a_record_follows_its_document_and_ends_with_it(home):
    async with assembled(home) as parts:
        await ingested(parts, of_file("An ant.", "a.md"))
        await ingested(parts, of_file("An ant.", "a.md", "/new"))
        assert (await recorded(parts), await recorded(parts, "/new")) == ({}, {"a.md": "/new/a.md"})
        await ingested(parts, of_file("Another ant.", "a.md", "/new"))
        assert await recorded(parts, "/new") == {"a.md": "/new/a.md"}
        await ingested(parts, of_file(f"The key is {SECRET}.", "a.md"))  # refused
        assert await recorded(parts, "/new") == {"a.md": "/new/a.md"}
        await ingested(parts, doc("A program's text.", "a.md"))
        assert await recorded(parts, "/") == {}


async def test_a_prune_takes_nothing_from_outside_of_the_folder_and_no_unknown_document(home):
    async with assembled(home) as parts:
        mine, other, program = await ingested(
            parts, of_file("An ant.", "a.md"), of_file("A bee.", "b.md", "/docs2"), doc("A cow.", "c.md")
        )
        with pytest.raises(InvalidRequest, match="which folder"):
            await pruned(parts, mine, below="")
        for batch in ("a b", "../x", "x" * 65):
            with pytest.raises(InvalidRequest, match="batch"):
                await pruned(parts, mine, batch=batch)
        unknown = wire.DocumentOutcome(source="x", result="new", document_id="doc_0a")
        assert await pruned(parts, other, program, unknown) == []
        assert len(await listed(parts)) == 3
        assert await pruned(parts, mine, other, program) == ["a.md"]
        assert await pruned(parts, mine) == []
        assert sorted(each[0] for each in await listed(parts)) == ["b.md", "c.md"]


async def test_a_pruned_text_is_not_forgotten_and_may_be_ingested_at_once(home):
    async with assembled(home) as parts:
        (outcome,) = await ingested(parts, of_file(units(600), "a.md"))
        await pruned(parts, outcome)
        (again,) = await ingested(parts, of_file(units(600), "a.md"))

    assert (again.result, again.forgotten, again.written) == ("new", 0, 2)


async def test_several_requests_of_one_batch_come_back_together(home):
    async with assembled(home) as parts:
        outcomes = await ingested(parts, *(of_file(f"Note {name}.", f"{name}.md") for name in "abc"))
        for outcome in outcomes[:2]:
            await pruned(parts, outcome, batch="b1")
        await pruned(parts, outcomes[2], batch="b2")
        groups = (await parts.ask(wire.Restore(workspace=str(home)))).restorable
        assert [(each.first_line, len(each.ids), each.why) for each in groups] == [
            ("c.md", 1, "prune"),
            ("a.md and 1 more", 2, "prune"),
        ]
        await parts.ask(wire.Restore(workspace=str(home), memory_id="b.md"))

        assert sorted(each[0] for each in await listed(parts)) == ["a.md", "b.md"]
        assert set(await recorded(parts)) == {"a.md", "b.md"}


@pytest.mark.parametrize(
    ("moved", "before", "result_"),
    [
        (of_file("An ant.", "new.md", moved_from="old.md"), (), "moved"),
        (of_file("An aunt.", "new.md", moved_from="old.md"), (), "new"),
        (of_file("An ant.", "new.md", moved_from="other.md"), (), "new"),
        (doc("An ant.", "new.md"), (), "new"),
        (wire.Document(source="new.md", text="An ant.", moved_from="old.md"), (), "new"),
        (of_file("An ant.", "new.md", moved_from="old.md"), (of_file("An ant.", "new.md"),), "exists"),
        (of_file("An ant.", "new.md", moved_from="old.md"), (of_file("A bee.", "new.md"),), "replaced"),
        (of_file("An ant.", "old.md", moved_from="old.md"), (), "exists"),
    ],
)
async def test_a_rename_is_one_only_of_a_recorded_file_with_the_same_text(home, moved, before, result_):
    async with assembled(home) as parts:
        await ingested(parts, of_file("An ant.", "old.md"), *before, metadata={"team": "core"})
        (shown,) = await ingested(parts, moved, preview=True)
        (outcome,) = await ingested(parts, moved)
        stock = [each[0] for each in await listed(parts)]

    assert (shown.result, outcome.result) == (result_, result_)
    assert ("old.md" in stock) is (result_ != "moved" or moved.source == "old.md")
    assert moved.source in stock


async def test_a_renamed_file_keeps_attributes_and_counts_and_embeds_nothing(home):
    embedder = FakeEmbedder()
    async with assembled(home, embedder) as parts:
        index, top = parts.indexer.open(org_root(str(home))), str(home / ".forge/org")
        (old,) = await ingested(parts, of_file(units(1200), "old.md"), agent_id="ada", metadata={"k": 1})
        await index.until_ended(index.generations.wanted)
        pieces = [f"mem_{old.document_id[4:]}_{number:05d}" for number in range(3)]
        parts.state.accesses.hit([(top, pieces[1])])
        calls = list(embedder.calls)
        (new,) = await ingested(parts, of_file(units(1200), "new.md", moved_from="old.md"))
        await index.until_ended(index.generations.wanted)

        facts = [parts.state.facts(top, f"mem_{new.document_id[4:]}_{number:05d}") for number in range(3)]
        assert [(each.agent_id, each.metadata, each.access_count) for each in facts] == [
            ("ada", {"k": 1}, 0), ("ada", {"k": 1}, 1), ("ada", {"k": 1}, 0)
        ]  # fmt: skip
        assert embedder.calls == calls
        (again,) = await ingested(parts, of_file(units(1200), "old.md", moved_from="new.md"), agent_id="bob")
        fact = parts.state.facts(top, pieces[1])
        assert (again.result, fact.access_count) == ("moved", 1)
        assert (fact.agent_id, fact.metadata) == ("bob", {"k": 1})
        assert await recorded(parts) == {"old.md": "/docs/old.md"}


async def test_a_record_that_cannot_be_written_costs_no_document(home, monkeypatch, caplog):
    async with assembled(home) as parts:

        async def full(_):
            raise StoreError("no space left")

        monkeypatch.setattr(parts.state.ingested, "store", full)
        assert await result(parts, of_file("An ant.", "a.md")) == ["new"]
        monkeypatch.undo()
        assert "files of documents are not recorded" in caplog.text
        assert await result(parts, of_file("An ant.", "a.md")) == ["exists"]
        assert await recorded(parts) == {"a.md": "/docs/a.md"}
