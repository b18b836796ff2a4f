"""Rows of texts stay in memory for who asks again."""

from __future__ import annotations

from forged.capture import vectors as rows
from forged.capture.vectors import RememberedVectors


class StandIn:
    """Gives a row for each text; after it `fails` none."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.fails = False

    async def __call__(self, texts) -> tuple[bytes, ...]:
        self.asked.append(list(texts))
        return () if self.fails else tuple(text.encode() for text in texts)


async def test_a_row_is_asked_for_once_and_each_text_has_its_own() -> None:
    model = StandIn()
    remembered = RememberedVectors(model)

    assert await remembered(["a", "b"]) == (b"a", b"b")
    assert await remembered(["c", "b", "c"]) == (b"c", b"b", b"c")
    assert await remembered([]) == ()
    assert model.asked == [["a", "b"], ["c"]]


async def test_where_one_cannot_be_had_there_are_none_and_what_is_known_stays() -> None:
    model = StandIn()
    remembered = RememberedVectors(model)
    await remembered(["a"])
    model.fails = True

    assert await remembered(["a", "b"]) == ()
    assert await remembered(["a"]) == (b"a",)


async def test_the_rows_that_were_asked_for_last_stay(monkeypatch) -> None:
    monkeypatch.setattr(rows, "_MOST_ROWS", 2)
    model = StandIn()
    remembered = RememberedVectors(model)
    for texts in (["a", "b"], ["a"], ["c"]):
        await remembered(texts)

    model.asked.clear()
    await remembered(["a", "c"])
    assert model.asked == []
    await remembered(["b"])
    assert model.asked == [["b"]]
