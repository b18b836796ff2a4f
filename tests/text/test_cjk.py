"""The model for a text, if Chinese, Japanese and Korean have one of their own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.map import are_cjk
from forged.text.terms import is_cjk


@pytest.mark.parametrize(
    "text",
    [
        "数据库迁移脚本放在 db/migrations 目录下。",
        "用 pytest 跑测试",
        "テストは毎朝九時に実行します",
        "커밋 메시지는 한국어로 씁니다",
        "我",
    ],
)
def test_a_text_counts_as_cjk_with_latin_words_in_it(text):
    assert is_cjk(text)


@given(st.text(max_size=40))
def test_every_text_is_for_one_model_and_always_the_same_one(text):
    assert is_cjk(text) is is_cjk(text)
    assert are_cjk([text, "x"]).tolist() == [is_cjk(text), False]
