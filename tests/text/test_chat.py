"""Small talk: the shipped model, its training data, and unseen lines."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from array import array

import msgspec
import numpy as np
import pytest

from forged.models import Purpose, split_layers
from forged.text.chat import FILE, SIGNS, ChatDetector, ChatFile, ChatWeights, is_chat, signs
from forged.text.linear import Weights, feature_weight, hashed_features
from tests.support.provider.installed import local_model, needs_onnxruntime
from tests.training import train_chat
from tests.training.train_chat import JUDGE, LEARN, Turn, labelled

MOST_BYTES = 20 << 10
NONE = Weights(b"", 1.0, (0.0,) * SIGNS)


def shipped() -> ChatFile:
    with open(FILE, "rb") as file:
        return msgspec.msgpack.decode(file.read(), type=ChatFile)


def judged(label: str) -> list[str]:
    return [text for text, is_chat in labelled(JUDGE) if is_chat is (label == "chat")]


def test_what_is_shipped_was_trained_on_the_data_in_the_tree_and_is_small():
    assert shipped().data == train_chat.digest(), "make linear-models"
    assert os.path.getsize(FILE) <= MOST_BYTES


def test_no_evaluation_line_is_trained_on():
    learnt = {turn.text.lower() for turn in train_chat.turns() if turn.group}
    lines = {text.lower() for text, _ in labelled(LEARN)}
    assert not lines & {text.lower() for text, _ in labelled(JUDGE)}
    assert len(lines - learnt) < len(lines) / 20, "what was written to learn from is learnt"


def test_by_words_hardly_any_work_is_taken_for_chat_and_some_chat_is_found():
    assert sum(map(is_chat, judged("work"))) <= 2
    assert sum(map(is_chat, judged("chat"))) >= 15


@pytest.mark.long
@needs_onnxruntime
def test_by_rows_of_the_local_model_half_of_the_chat_is_found_and_hardly_any_work(tmp_path):
    texts = [*judged("work"), *judged("chat")]

    async def rows() -> np.ndarray:
        model = local_model("onnxruntime", tmp_path)
        await model.prepare()
        found = await model.embed(texts, "layers", purpose=Purpose("query"))
        await model.aclose()
        return split_layers(found)[0]

    taken = [is_chat(text, row.tolist()) for text, row in zip(texts, asyncio.run(rows()), strict=True)]
    count = len(judged("work"))
    assert sum(taken[:count]) <= 2
    assert sum(taken[count:]) >= 105


def test_words_and_vectors_have_weights_and_bars_of_their_own():
    text, place = "so tired", hashed_features("so tired")[0]
    table = array("b", bytes(1 << 14))
    table[place] = 6
    words = ChatWeights(0.25, msgspec.structs.replace(NONE, pieces=table.tobytes(), pieces_step=0.5))
    row = ChatWeights(1.0, msgspec.structs.replace(NONE, row=array("h", [3, -1]).tobytes(), row_step=2.0))
    judge = ChatDetector(ChatFile("", "", words, row))
    assert judge.score(text) == pytest.approx(3.0 * feature_weight(len(hashed_features(text))) - 0.25)
    assert judge.score(text, [1.0, 0.5]) == pytest.approx(2.0 * (3.0 - 0.5) - 1.0)
    with pytest.raises(ValueError, match="a row of 3 numbers for one of 2"):
        judge.score(text, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("lol 😂", "lol"),
        ("why?", "why"),
        ("v1.2", "v"),
        ("fix foo.py", "fix foo py"),
        ("ok!", "ok"),
        ("a\nb", "a b"),
    ],
)
def test_the_form_of_a_text_shows_in_its_signs(text, others):
    assert len(signs(text)) == SIGNS
    assert signs(text) != signs(others)
    assert all(0 <= each <= 2 for each in signs(text))


def test_the_bar_is_what_five_of_a_thousand_reach_of_the_group_that_reaches_more():
    written = [Turn(str(at), False, "written", "") for at in range(1000)]
    lives = [Turn(str(at), False, "lives", "") for at in range(200)]
    chat, other = [Turn("c", True, "lives", "")] * 9, [Turn("o", False, "", "")] * 9
    found = [*written, *lives, *chat, *other]
    leanings = np.array([*range(1000), *range(2000, 2200), *[5000.0] * 18])
    assert sum(value > train_chat.bar_of(found, leanings) for value in range(2000, 2200)) == 1
    leanings[1000:1200] = 0.0
    assert sum(value > train_chat.bar_of(found, leanings) for value in range(1000)) == 5
    assert train_chat.bar_of(found, np.full(len(found), -1.0)) == 0.0


def test_nothing_is_read_before_the_first_message():
    read = "print(c._shipped_detector.cache_info().currsize)"
    code = f"import forged.text.chat as c; {read}; c.is_chat('hi'); {read}"
    reported = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert reported.stdout.split() == ["0", "1"]
