"""Cues: they raise and admit the memory that has them, and cost what they change."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.files import Root, with_hash
from forged.map import evidence_threshold, score_search, search_maps
from forged.maps import builder
from forged.memory import Evidence, Scope
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.maps.test_edits import DIMENSION, Bench
from tests.support.provider import vector

CUE = "cutting a release"
TEXTS = st.lists(
    st.sampled_from(("quokka", "zeppelin", "the", "file", "running", "marzipan", "迁移")), max_size=5
).map(" ".join)


def store(count=60, **cues):
    """Memories m00, m01 and so on, of which some have cues."""
    names = (f"m{n:02}" for n in range(count))
    plain = [memory(name, f"text {name[1:]}") for name in names]
    return [msgspec.structs.replace(each, cues=cues.get(each.id, ())) for each in plain]


def asked(home, text=CUE, *, words=0.3, vectors=True):
    rows = np.stack([vector(text, DIMENSION)]) if vectors else None
    return search_maps([home], texts=(text,), vectors=rows, lexical_weight=words, message=0)


def best(home, found, k=1):
    return [home.at(each.row).id for each in found.best(k)]


def places(home, **how):
    order = best(home, asked(home, **how), 100)
    return order.index("m07") if "m07" in order else None


@pytest.fixture
def large(monkeypatch):
    monkeypatch.setattr(builder, "_WORTH_KEEPING", 1)


@pytest.mark.parametrize("count", [10, 60])
@pytest.mark.parametrize(("words", "vectors"), [(0.3, True), (1e-6, True), (1.0, False)])
def test_a_memory_is_found_by_its_cue(repo, count, words, vectors):
    bare, cued = Bench(repo).show(store(count)), Bench(repo).show(store(count, m07=("x", CUE)))

    assert places(bare, words=words, vectors=vectors) != 0
    assert places(cued, words=words, vectors=vectors) == 0


def test_a_cue_beyond_the_fifth_is_not_looked_at(repo):
    home = Bench(repo).show(store(m07=(*"abcde", CUE)))

    assert places(home) != 0


def evidence_of(bench, memories, text, **how):
    """Evidence for memory m07 by its name."""
    home = bench.show(memories)
    return score_search(asked(home, text, **how), bench.baseline).evidence_of(0, home.row_of("m07"))


@pytest.mark.parametrize("vectors", [True, False])
def test_a_cue_is_as_good_as_the_text(repo, vectors):
    """What a cue names brings its memory in, as if its text said so, and only that memory."""
    bare, cued = store(), store(m07=("quokka zeppelin",), m09=("marzipan",))
    said = [
        msgspec.structs.replace(each, content="quokka zeppelin") if each.id == "m07" else each
        for each in bare
    ]

    def read(memories, text):
        return evidence_of(Bench(repo), memories, text, vectors=vectors)

    nothing, by_cue, by_text = (read(each, "quokka zeppelin") for each in (bare, cued, said))
    assert by_cue > evidence_threshold(0.95) > nothing
    assert by_cue == pytest.approx(by_text, rel=0.1)
    assert read(cued, "marzipan") < evidence_threshold(0.95)


@given(
    st.lists(st.tuples(TEXTS, st.lists(TEXTS.filter(str.strip), max_size=3)), min_size=1, max_size=8),
    TEXTS,
)
def test_odds_by_words_are_those_of_a_text_that_goes_on_with_its_cues(memories, text):
    plain = [memory(f"m{n}", content) for n, (content, _) in enumerate(memories)]
    joined = [memory(f"m{n}", " ".join((content, *cues))) for n, (content, cues) in enumerate(memories)]
    cued = vector_map(plain, cues=[tuple(cues) for _, cues in memories])

    def odds(home):
        found = search_maps([home], texts=[text], vectors=None, lexical_weight=0.3, message=0)
        reading = score_search(found, None)
        rows = [(0, row) for row in range(len(memories))]
        return [*reading.evidences(rows), reading.evidence, reading.familiarity]

    assert odds(cued) == pytest.approx(odds(vector_map(joined)), abs=1e-6)


@pytest.mark.usefixtures("large")
def test_another_cue_embeds_that_cue_and_moves_no_large_row(repo):
    bench = Bench(repo)
    before = bench.show(store(m03=("first",), m07=("second",)))
    done = len(bench.embedder.texts)
    after = bench.show(store(m03=("first",), m07=("second", CUE)))

    assert bench.embedder.texts[done:] == [CUE]
    assert after.parts[0].dense.blocks is before.parts[0].dense.blocks
    assert after.parts[0].cues.dense.blocks is before.parts[0].cues.dense.blocks
    assert (places(before) != 0, places(after)) == (True, 0)


@pytest.mark.usefixtures("large")
def test_the_cue_of_a_memory_that_went_finds_nothing_and_is_not_packed(repo):
    bench = Bench(repo)
    full = store(m07=(CUE,), m08=("other",))
    bench.show(full)
    home = bench.show([each for each in full if each.id != "m07"])
    pack_parts = bench.builder.pack_source().pack_parts
    packed = sum(pack_part.dense.vector_count for pack_part in pack_parts if pack_part.dense is not None)

    assert places(home) is None
    assert packed == len(home.memories) + 1


def test_a_memory_whose_evidence_changed_is_stale_after_the_next_scan_and_again_not(repo):
    file = repo / "Makefile"
    file.write_text("one")
    bench = Bench(repo)
    ground = with_hash(str(Root(str(repo), Scope.REPO).top), Evidence("Makefile"))
    memories = [msgspec.structs.replace(each, evidence=(ground,)) for each in store(3)]

    assert not any(each.stale for each in bench.show(memories).memories)
    done = len(bench.embedder.texts)
    file.write_text("two")
    assert {each.stale for each in bench.show(memories).memories} == {("Makefile",)}
    file.write_text("one")
    assert not any(each.stale for each in bench.show(memories).memories)
    assert bench.embedder.texts[done:] == []


def test_of_equal_memories_the_stale_one_comes_second(repo):
    (repo / "here").write_text("")
    ground = with_hash(str(repo), Evidence("here"))
    same = [memory(name, "the same text") for name in ("m01", "m02", "m03")]
    lost = msgspec.structs.replace(same[0], evidence=(Evidence("gone"),))
    held = msgspec.structs.replace(same[1], evidence=(ground,))
    home = Bench(repo).show([lost, held, same[2]])

    assert best(home, asked(home, "the same text"), 3) == ["m02", "m03", "m01"]
