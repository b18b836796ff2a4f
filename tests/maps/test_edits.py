"""Edits of a map: small parts next to its large rows answer like a full layout."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from forged.files.roots import Root
from forged.files.store import MemoryStore
from forged.map import Baseline, evidence_threshold, gate_decisions, newest_page, score_search, search_maps
from forged.maps import builder
from forged.maps.builder import Builder
from forged.maps.embedding import EmbeddingQueue
from forged.memory import Scope
from forged.trust import Admitted
from tests.data.memories import memory
from tests.faults.amount import times
from tests.support.clock import run
from tests.support.provider import FakeEmbedder, vector

DIMENSION = 64
WORDS = ["ruff", "lints", "the", "production", "database", "migrations", "迁移脚本在生产", "Kafka", "frozen"]
TIMES = ["2025-03-04T05:06:07Z", "2025-03-04T05:30:00Z", "2025-03-06T00:00:00Z", ""]
QUESTIONS = ["the production database", "Kafka", "迁移", "what did ruff say on 2025-03-04"]


class Bench:
    """A builder of whatever memories it is given, without their files."""

    def __init__(self, top, *, lexical=True, embedder=None):
        self.memories = ()
        self.embedder = FakeEmbedder(DIMENSION) if embedder is None else embedder
        queue = EmbeddingQueue(self.embedder)
        self.builder = Builder(
            MemoryStore(Root(str(top), Scope.REPO)), queue, lexical=lexical, admit=self.admit
        )
        rows = np.stack([vector(f"everyday {n}", DIMENSION) for n in range(32)])
        self.baseline = Baseline.of(queue.identity.kept, rows, rows[::-1].copy())
        queue.learner.set_baseline(self.baseline)

    def admit(self, _root, _snapshot):
        return Admitted(self.memories)

    def show(self, memories):
        """The map of these memories, by a build after the one before."""
        self.memories = tuple(sorted(memories, key=lambda each: each.id))
        draft = self.builder.draft()
        if draft is not None:
            if draft.missing:
                ((queue, work),) = self.builder.begin(draft).items()
                run(self.builder.embed(draft, queue, work))
            self.builder.finish(draft, 1)
        return self.builder._map


@pytest.fixture
def small(monkeypatch):
    """MapRows stand beside however few; more than six are laid out with the others."""
    monkeypatch.setattr(builder, "_WORTH_KEEPING", 1)
    monkeypatch.setattr(builder, "_MOST_RECENT", 6)
    monkeypatch.setattr(builder, "_MOST_GONE", 1)


@pytest.fixture
def next_to(small, repo):
    """A bench whose map has been edited once."""
    bench = Bench(repo)
    bench.show([memory(f"m{n:02}", f"text {n}") for n in range(20)])
    bench.show([memory("m07", "edited"), *(each for each in bench.memories if each.id != "m07")])
    return bench


def reported(home, baseline, text, *, words, vectors):
    """What a search of a map comes to: ids with their scores, evidence, and ids of what is let in."""
    asked = np.stack([vector(text, DIMENSION)]) if vectors else None
    found = search_maps([home], texts=(text,), vectors=asked, lexical_weight=words, message=0)
    reading, best = score_search(found, baseline), found.best(8)
    hits = [(home.at(each.row).id, each.score, each.cosine or 0.0, each.lexical or 0.0) for each in best]
    return hits, reading.evidence, [home.at(each.row).id for each in _let_in(reading, best)]


def _let_in(reading, best):
    return [
        each for each in gate_decisions(reading, best, evidence_threshold(0.95), most=8) if not each.rejected
    ]


def assert_alike(edited, whole, baseline):
    assert list(edited.memories) == list(whole.memories)
    assert [edited.find(each.id) for each in whole.memories] == list(whole.memories)
    assert sorted(each.id for _, each in edited.numbered()) == [each.id for each in whole.memories]
    assert all(edited.row_of(each.id) == row for row, each in edited.numbered())
    assert msgspec.to_builtins(edited.chains) == msgspec.to_builtins(whole.chains)
    pages = [
        [each.id for _, each in newest_page([(one, [row for row, _ in one.numbered()])], 2, 7)]
        for one in (edited, whole)
    ]
    assert pages[0] == pages[1]
    for text in QUESTIONS:
        for words, vectors in ((0.3, True), (0.0, True), (1.0, False)):
            mine, other = (
                reported(one, baseline, text, words=words, vectors=vectors) for one in (edited, whole)
            )
            assert [hit[0] for hit in mine[0]] == [hit[0] for hit in other[0]]
            assert np.allclose([hit[1:] for hit in mine[0]], [hit[1:] for hit in other[0]], atol=1e-4)
            assert mine[1] == pytest.approx(other[1], abs=1e-3)
            assert mine[2] == other[2]


@st.composite
def histories(draw):
    """Some sets of memories, one after the other; from one to the next few are others."""
    texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
    count = draw(st.integers(8, 70))
    shown = {f"m{n:02}": memory(f"m{n:02}", f"{draw(texts)} number{n}") for n in range(count)}
    for name in draw(st.sets(st.sampled_from(sorted(shown)), max_size=5)):
        shown[name] = msgspec.structs.replace(shown[name], cues=(draw(texts), "the production database"))
    states = [tuple(shown.values())]
    for edit in range(draw(st.integers(1, 4))):
        for number in draw(st.sets(st.integers(0, count + 4), max_size=4)):
            name = f"m{number:02}"
            kind = draw(st.sampled_from(["text", "time", "gone", "back", "version", "cues"]))
            if kind == "gone":
                shown.pop(name, None)
            elif kind == "back":
                shown |= {each.id: each for each in states[0] if each.id == name}
            elif kind == "version":
                older = draw(st.sampled_from(sorted(shown) or ["m00"]))
                shown[name] = memory(name, f"{draw(texts)} version{edit}", supersedes=older)
            elif name in shown and kind == "time":
                when = draw(st.sampled_from(TIMES))
                shown[name] = msgspec.structs.replace(shown[name], created_at=when)
            elif name in shown and kind == "cues":
                cues = tuple(draw(st.lists(texts, max_size=6)))
                shown[name] = msgspec.structs.replace(shown[name], cues=cues)
            else:
                shown[name] = memory(name, draw(texts))
        states.append(tuple(shown.values()))
    return states


@given(states=histories())
@settings(max_examples=times(30, 8), phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_a_map_that_was_edited_answers_like_one_made_from_scratch(tmp_path_factory, states):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_WORTH_KEEPING", 1), ("_MOST_RECENT", 6), ("_MOST_GONE", 1)):
            patch.setattr(builder, name, value)
        top = tmp_path_factory.getbasetemp()
        edited = Bench(top)
        for state in states:
            shown = edited.show(state)
        assert_alike(shown, Bench(top).show(states[-1]), edited.baseline)


def test_an_edit_shares_the_large_rows_with_the_map_before(small, repo):
    bench = Bench(repo)
    before = bench.show([memory(f"m{n:02}", f"text {n}") for n in range(20)])
    after = bench.show([memory("m07", "edited"), *(each for each in bench.memories if each.id != "m07")])

    (large,), (same, next_to) = before.parts, after.parts
    assert same.dense.blocks is large.dense.blocks
    assert same.lexical.rows is large.lexical.rows
    assert same.traits is large.traits
    assert [each.id for each in next_to.memories] == ["m07"]


def test_the_map_before_an_edit_answers_as_it_did(small, repo):
    bench = Bench(repo)
    before = bench.show([memory(f"m{n:02}", f"text {n}") for n in range(20)])
    asked = [reported(before, bench.baseline, "text 7", words=0.3, vectors=True)]
    bench.show([each for each in bench.memories if each.id != "m07"])

    assert reported(before, bench.baseline, "text 7", words=0.3, vectors=True) == asked[0]
    assert before.find("m07").content == "text 7"


def test_a_second_edit_leaves_the_map_of_the_first_as_it_was(next_to):
    first = next_to.builder._map
    asked = reported(first, next_to.baseline, "text 3", words=0.3, vectors=True)
    next_to.show([each for each in next_to.memories if each.id != "m03"])

    assert reported(first, next_to.baseline, "text 3", words=0.3, vectors=True) == asked
    assert first.find("m03").content == "text 3"


def test_many_edits_are_laid_out_with_the_others(next_to):
    many = {f"m{n:02}": memory(f"m{n:02}", f"other {n}") for n in range(7)}
    shown = next_to.show([*many.values(), *(each for each in next_to.memories if each.id not in many)])

    assert len(shown.parts) == 1


def test_what_an_edit_took_away_and_brought_back_is_not_embedded_again(next_to):
    asked = len(next_to.embedder.texts)
    next_to.show([each for each in next_to.memories if each.id != "m03"])
    next_to.show([memory("m03", "text 3"), *next_to.memories])
    next_to.show([memory("m07", "text 7"), *(each for each in next_to.memories if each.id != "m07")])
    next_to.show([memory("m07", "edited"), *(each for each in next_to.memories if each.id != "m07")])

    assert len(next_to.embedder.texts) == asked


def test_vectors_of_an_edit_are_known_when_all_is_laid_out(next_to):
    asked = len(next_to.embedder.texts)
    many = [memory(f"n{n:02}", f"text {n}") for n in range(9)]
    shown = next_to.show([*next_to.memories, *many])

    assert len(shown.parts) == 1
    assert len(next_to.embedder.texts) == asked
    assert shown.parts[0].dense.vector_count == 29


def test_a_chain_ends_when_an_older_version_goes(small, repo):
    bench = Bench(repo)
    older, newer = memory("m03", "text 3"), memory("m05", "text 5", supersedes="m03")
    others = [memory(f"m{n:02}", f"text {n}") for n in range(20) if n not in {3, 5}]
    assert bench.show([older, newer, *others]).chains.head("m03") == "m05"
    shown = bench.show([newer, *others])

    assert len(shown.parts) == 2
    assert shown.chains.flags == {"m05": ("missing:m03",)}
