"""From files and the map before to the next map: what is embedded, what is kept, what leaves."""

from __future__ import annotations

import asyncio
import sys
import threading

import msgspec
import numpy as np
import pytest

from forged.files.roots import Root
from forged.files.scan import Pace
from forged.files.store import MemoryStore
from forged.map.parts import Traits
from forged.maps import rows
from forged.maps.builder import Builder
from forged.maps.embedding import EmbeddingQueue
from forged.memory import Scope
from forged.trust import Admitted
from forged_client.protocol import WithheldFile
from tests.data.maps import rows_of
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, run
from tests.support.provider import vector

BOTH = pytest.mark.parametrize("lexical", [True, False], ids=["with_words", "weight_0"])


def only(counts):
    """A decision for a builder: by memory."""

    def admit(_, snapshot):
        files = zip(snapshot.memories, snapshot.paths, snapshot.hashes, strict=True)
        withheld = tuple(
            WithheldFile(id=each.id, path=path, sha256=sha) for each, path, sha in files if not counts(each)
        )
        return Admitted(tuple(filter(counts, snapshot.memories)), withheld)

    return admit


class Bench:
    """A builder over real files, driven one build at a time as the indexer does."""

    def __init__(self, top, embedder, *, lexical=True, admit=None):
        self.top, self.embedder = top, embedder
        store = MemoryStore(Root(str(top), Scope.REPO))
        self.queue = EmbeddingQueue(embedder) if embedder is not None else None
        self.identity = self.queue.identity if self.queue else None
        self.builder = Builder(store, self.queue, lexical=lexical, admit=admit)
        self.map, self.error = None, None

    async def embed(self, draft):
        """Get the missing vectors; why that failed, if so."""
        ((queue, run),) = self.builder.begin(draft).items()
        return await self.builder.embed(draft, queue, run)

    def build(self):
        """One build; returns the texts that it asked for."""
        asked = len(self.embedder.texts) if self.embedder else 0
        self.error = None
        draft = self.builder.draft()
        if draft is not None:
            if draft.missing:
                self.error = run(self.embed(draft))
            new = self.builder.finish(draft, 1)
            self.map = self.map if new is None else new
        return self.embedder.texts[asked:] if self.embedder else []

    @property
    def shown(self):
        return {each.id: each.content for each in self.map.memories}

    @property
    def embedded(self):
        """Ids of memories whose row is the vector of their text."""
        if self.map is None or self.map.parts[0].dense is None:
            return set()
        return {
            each.id
            for each, row in zip(self.map.memories, rows_of(self.map.parts[0].dense), strict=True)
            if np.allclose(row, vector(each.content, len(row)))
        }


@pytest.fixture
def bench(repo, embedder):
    return Bench(repo, embedder)


@pytest.fixture
def filled(repo, bench):
    """A bench whose three texts are embedded."""
    fill(repo, 3)
    bench.build()
    return bench


@pytest.fixture(params=[True, False], ids=["with_words", "weight_0"])
def either(repo, embedder, request):
    """As `filled`, with the words and without them."""
    bench = Bench(repo, embedder, lexical=request.param)
    fill(repo, 3)
    bench.build()
    return bench


@pytest.fixture
def silent(repo, embedder):
    """As `filled`, without the words, and the endpoint is gone since."""
    bench = Bench(repo, embedder, lexical=False)
    fill(repo, 3)
    bench.build()
    embedder.down = "unreachable"
    return bench


def fill(repo, count, text="text {}"):
    put(repo, *(memory(f"m{number:03}", text.format(number)) for number in range(count)))


def files(repo):
    return repo / ".forge/memory"


def traits_of(built):
    return built.created.tolist(), built.is_cjk.tolist()


# --- what is embedded ---------------------------------------------------------------------------------


ALL = {"m000", "m001", "m002"}
LATER, WIDE = "2025-03-05T05:06:07Z", "数据库迁移脚本"
# What goes, what is written, the texts that are asked for, and whose row is the vector of its text.
EDITS = {
    "a text": ((), [memory("m001", "edited")], ["edited"], ALL),
    "touched files": ((), [memory(f"m00{n}", f"text {n}") for n in range(3)], [], ALL),
    "an edge": ((), [memory("m000", "text 0", related=["m001"])], [], ALL),
    "a time": ((), [memory("m001", "text 1", created_at=LATER)], [], ALL),
    "another name": (("m000",), [memory("z", "text 0")], [], {"m001", "m002", "z"}),
    "a text that is there": ((), [memory("z", "text 0")], [], {*ALL, "z"}),
    "two of one text": ((), [memory("y", "new"), memory("z", "new")], ["new"], {*ALL, "y", "z"}),
    "a blank body": ((), [memory("z", " \n\t")], [], ALL),
    "one gone": (("m001",), [], [], {"m000", "m002"}),
    "all gone": (("m000", "m001", "m002"), [], [], set()),
    "at both ends and between": (
        ("m000",),
        [memory("a", WIDE, created_at=LATER), memory("m001", "edited"), memory("z", "last now")],
        [WIDE, "edited", "last now"],
        {"a", "m001", "m002", "z"},
    ),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_embeds_what_is_new_and_nothing_else(repo, either, edit):
    gone, written, asked, embedded = edit
    for name in gone:
        (files(repo) / f"{name}.md").unlink()
    put(repo, *written)

    assert either.build() == asked
    new = either.map
    assert [each.id for each in new.memories] == sorted((ALL - set(gone)) | {each.id for each in written})
    assert all(each in new.memories for each in written)
    assert all(new.find(each.id) is each for each in new.memories)
    assert either.embedded == embedded
    assert traits_of(new.parts[0].traits) == traits_of(Traits.of(new.memories))
    assert new.parts[0].dense is None or new.parts[0].dense.vector_count == len(embedded)


# --- what leaves and what is empty --------------------------------------------------------------------


# --- what a search asks about memories beside words and vectors ------------------------------------------


@BOTH
def test_traits_after_edits_equal_those_from_scratch(repo, embedder, lexical):
    bench = Bench(repo, embedder, lexical=lexical)
    put(repo, *(memory(f"m{number}", WIDE if number % 2 else f"text {number}") for number in range(8)))
    bench.build()
    edits = [
        [memory("m1", "in English now"), memory("m4", WIDE)],
        [memory("a", WIDE, created_at=LATER), memory("z", "last now", created_at=LATER)],
        [memory("m5", WIDE, created_at=LATER), memory("m6", "text 6", created_at="")],
    ]
    for changed in edits:
        put(repo, *changed)
        (files(repo) / f"{bench.map.memories[0].id}.md").unlink()
        bench.build()

        assert traits_of(bench.map.parts[0].traits) == traits_of(Traits.of(bench.map.memories))

    shown = dict(zip(bench.shown, bench.map.parts[0].traits.is_cjk.tolist(), strict=True))
    assert (shown["m4"], shown["m6"], shown["m7"]) == (True, False, True)


def test_whatever_is_done_for_each_memory_lets_the_loop_answer_meanwhile(repo, bench, monkeypatch):
    yielded = set()

    class Noting(Pace):
        def yield_if_due(self):
            yielded.add(sys._getframe(1).f_code.co_name)

    monkeypatch.setattr(rows, "Pace", Noting)
    fill(repo, 2)
    bench.build()
    put(repo, memory("m000", "edited"))
    bench.build()

    assert yielded == {"compare_rows", "_hash_texts", "_tokenise"}


# --- failures -----------------------------------------------------------------------------------------


def test_with_words_a_failed_edit_is_shown_without_a_vector(repo, filled, embedder):
    embedder.down = "unreachable"
    put(repo, memory("m001", "edited"))
    filled.build()

    assert filled.error.reason == "unreachable"
    assert filled.shown["m001"] == "edited"
    assert filled.embedded == {"m000", "m002"}


def test_at_weight_0_a_failed_edit_keeps_the_older_text_with_its_vector_and_traits(repo, silent):
    put(repo, memory("m001", "数据库迁移脚本"), memory("new", "数据库"))
    silent.build()

    assert silent.shown == {"m000": "text 0", "m001": "text 1", "m002": "text 2"}
    assert silent.embedded == set(silent.shown)
    assert traits_of(silent.map.parts[0].traits) == traits_of(Traits.of(silent.map.memories))
    assert not silent.map.parts[0].traits.is_cjk.any()


@BOTH
def test_what_failed_is_built_by_the_next_build_although_no_file_changed(repo, embedder, lexical):
    bench = Bench(repo, embedder, lexical=lexical)
    fill(repo, 3)
    embedder.down = "unreachable"
    bench.build()
    embedder.down = ""

    bench.build()

    assert bench.embedded == {"m000", "m001", "m002"}


def test_a_full_rebuild_that_fails_keeps_the_old_vectors_and_is_finished_later(either, embedder):
    embedder.down = "unreachable"
    either.builder.forget_vectors()
    either.build()

    assert either.error.reason == "unreachable"
    assert either.embedded == {"m000", "m001", "m002"}

    embedder.down = ""
    assert sorted(either.build()) == ["text 0", "text 1", "text 2"]
    assert either.build() == []


def test_a_full_rebuild_asked_for_in_the_middle_of_a_build_is_not_lost(repo, bench, embedder):
    fill(repo, 3)
    draft = bench.builder.draft()
    bench.builder.forget_vectors()
    assert run(bench.embed(draft)) is None
    bench.builder.finish(draft, 1)

    assert len(bench.build()) == 3


async def test_a_full_rebuild_asked_for_while_texts_are_out_breaks_nothing(repo, bench, embedder):
    fill(repo, 3)
    draft = bench.builder.draft()
    embedder.hold = asyncio.Event()
    task = asyncio.create_task(bench.embed(draft))
    await embedder.called.wait()
    bench.builder.forget_vectors()
    embedder.hold.set()

    assert await task is None
    bench.map = bench.builder.finish(draft, 1)
    assert len(bench.embedded) == 3


def test_the_newest_memories_are_embedded_first_and_an_edit_is_new(repo, bench, embedder):
    put(
        repo,
        *(memory(f"m{day}", f"text {day}", created_at=f"2026-01-{day:02}T00:00:00Z") for day in (3, 20, 7)),
        msgspec.structs.replace(memory("edited", "an old one"), updated_at="2026-01-10T00:00:00Z"),
    )

    assert bench.build() == ["text 20", "an old one", "text 7", "text 3"]


# --- one bad text -------------------------------------------------------------------------


@pytest.fixture
def quarantined(repo, bench, embedder):
    """A bench whose second text of three is refused."""
    fill(repo, 3)
    embedder.poison = {"text 1": "bad_input"}
    bench.build()
    return bench


@pytest.fixture
def cured(quarantined, embedder):
    """As `quarantined`, and it would be taken now."""
    embedder.poison.clear()
    return quarantined


def test_a_quarantined_text_is_sent_again_when_a_person_asks(cured):
    cured.builder.retry_quarantined()

    assert cured.build() == ["text 1"]
    assert len(cured.embedded) == 3
    assert cured.builder.problems == ()


def test_a_quarantine_ends_after_an_hour_although_no_file_changed(cured):
    (key, (reason, until)), *_ = cured.queue._set_aside.items()
    cured.queue._set_aside[key] = (reason, until - 3601)

    assert cured.build() == ["text 1"]
    assert cured.builder.problems == ()


# --- another dimension behind the same name ------------------------------------------------------


@pytest.mark.parametrize("edited", ["m000", "m002"])
def test_an_edit_that_comes_back_in_another_dimension_embeds_all_and_mixes_nothing(
    repo, embedder, either, edited
):
    embedder.dimension = 16
    put(repo, memory(edited, "edited"))
    for _ in range(2):
        either.build()

    assert either.map.parts[0].dense.dimension == 16
    assert either.embedded == {"m000", "m001", "m002"}


def test_other_threads_may_look_at_problems_during_builds(repo, bench, embedder):
    fill(repo, 50)
    embedder.poison = {"text 1": "bad_input"}
    bench.build()
    stop, failures = threading.Event(), []

    def look():
        while not stop.is_set():
            try:
                assert len(bench.builder.problems) <= 1
            except Exception as error:  # noqa: BLE001 - handed to the test
                failures.append(error)
                return

    looking = threading.Thread(target=look)
    looking.start()
    for number in range(3):
        put(repo, memory(f"n{number}", f"new {number}"))
        bench.builder.retry_quarantined()
        bench.build()
    stop.set()
    looking.join(PATIENCE_S)

    assert failures == []


# --- what does not count ------------------------------------------------------------------------------


def test_a_memory_that_is_not_accepted_is_neither_shown_nor_embedded_and_is_counted(repo, embedder):
    bench = Bench(repo, embedder, admit=only(lambda each: each.id != "m001"))
    fill(repo, 3)

    assert sorted(bench.build()) == ["text 0", "text 2"]
    assert sorted(bench.shown) == ["m000", "m002"]
    assert [each.id for each in bench.builder.withheld] == ["m001"]


@pytest.mark.parametrize("order", ["then", "no longer"])
def test_what_is_accepted_later_or_no_longer_needs_no_change_of_a_file(repo, embedder, order):
    accepted = {"m000"} if order == "then" else {"m000", "m001"}
    bench = Bench(repo, embedder, admit=only(lambda each: each.id in accepted))
    fill(repo, 2)
    bench.build()
    before = set(bench.shown)
    accepted ^= {"m001"}

    assert bench.build() == (["text 1"] if order == "then" else [])
    assert set(bench.shown) == before ^ {"m001"}
    assert bench.build() == []
