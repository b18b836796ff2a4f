"""What a search asks about memories: the script they are in, and the second they were made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forged.map.dense import are_cjk
from forged.map.vector_map import Traits
from forged.memory import Memory


def memory(content="text", created_at=""):
    return Memory("m", content, created_at, "", 1, "repo", "patterns", "s", "explicit")


@pytest.mark.parametrize(
    "text",
    ["迁移脚本在哪里", "用 ruff 检查代码", "テストを実行する", "タワー", "한국어 프로젝트", "猫", "豈更"],
)
def test_chinese_japanese_and_korean_texts_are_cjk(text):
    assert are_cjk([text]).tolist() == [True]


@pytest.mark.parametrize(
    "text", ["", "plain words", "naïve Größe", "пример", "ภาษาไทย", "“quoted”, …!", "，。！？"]
)
def test_other_texts_are_narrow(text):
    assert are_cjk([text]).tolist() == [False]


@pytest.mark.parametrize(("text", "wide"), [("abcd测", False), ("abc测", True), ("abcdefgh测试x", False)])
def test_more_than_a_fifth_of_wide_characters_makes_a_text_wide(text, wide):
    assert are_cjk([text]).tolist() == [wide]


@given(st.lists(st.text(alphabet="ab 测试", max_size=8), max_size=5))
@settings(deadline=None)
def test_texts_are_judged_one_by_one(texts):
    assert are_cjk(texts).tolist() == [are_cjk([text]).item() for text in texts]


@pytest.mark.parametrize(
    ("created_at", "seconds"),
    [
        ("1970-01-02T00:00:00Z", 86_400),
        ("1970-01-02", 86_400),
        ("1970-01-02T01:00:00+01:00", 86_400),
        ("1970-01-01T19:00:00-05:00", 86_400),
        ("1970-01-02T00:00:00.999999999Z", 86_400),
        ("9999-12-31T23:59:59-12:00", 253_402_343_999),
        ("0001-01-01T00:00:00+12:00", 0),
        ("1969-12-31T23:59:59Z", 0),
        ("yesterday", 0),
        ("", 0),
    ],
)
def test_created_is_seconds_since_the_epoch_in_utc_and_0_if_unknown(created_at, seconds):
    assert Traits.of([memory(created_at=created_at)]).created.tolist() == [seconds]


def test_offsets_do_not_tear_an_occasion_apart():
    times = ["2024-05-07T12:00:00Z", "2024-05-07T21:10:00+09:00", "2024-05-07T12:20:00+02:00"]

    first, same, other = Traits.of([memory(created_at=time) for time in times]).occasion.tolist()

    assert first == same != other


def test_of_looks_at_every_memory():
    traits = Traits.of([memory("words"), memory("迁移脚本")])

    assert traits.is_cjk.tolist() == [False, True]


@given(st.data())
@settings(deadline=None)
def test_traits_after_an_edit_equal_those_of_all_memories(data):
    texts, times = st.sampled_from(["words", "迁移脚本"]), st.sampled_from(["", "2024-05-07", "2024-05-08"])
    memories = st.builds(memory, texts, times)
    old = data.draw(st.lists(memories, max_size=8))
    kept = sorted(data.draw(st.sets(st.integers(0, len(old) - 1)))) if old else []
    new: list[Memory] = [old[row] for row in kept]
    for _ in range(data.draw(st.integers(0, 3))):
        new.insert(data.draw(st.integers(0, len(new))), data.draw(memories))
    places = [next((i for i in kept if old[i] is each), -1) for each in new]
    fresh = [row for row, place in enumerate(places) if place < 0]
    if new and data.draw(st.booleans()):  # its text stays
        new[0] = memory(new[0].content, "2020-01-01")
        fresh.append(0)

    edited = Traits.of(old).edited(
        new,
        np.array([place for place in places if place >= 0], np.int32),
        np.array([row for row, place in enumerate(places) if place >= 0], np.int32),
        np.array(fresh, np.int32),
    )

    whole = Traits.of(new)
    assert edited.created.tolist() == whole.created.tolist()
    assert edited.occasion.tolist() == whole.occasion.tolist()
    assert edited.is_cjk.tolist() == whole.is_cjk.tolist()


def test_no_memories_have_empty_traits():
    traits = Traits.of([])

    assert [len(traits.created), len(traits.occasion), len(traits.is_cjk)] == [0, 0, 0]
