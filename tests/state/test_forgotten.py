"""The list of texts that must not come back: it survives a restart, holds no text, and stays small."""

from __future__ import annotations

import threading
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.errors import StoreError
from forged.state import ForgottenTexts, forgotten
from forged.state.forgotten import digest, digests_within
from forged.text.redaction import INLINE_LENGTH
from forged.text.same_text import normalised
from forged.writing.root_writer import _letters
from tests.state.conftest import opened, raw
from tests.state.flaky import FlakyDatabase

TOP = "/repo"


def digests(*texts: str) -> frozenset[str]:
    return frozenset(digest(TOP, text) for text in texts)


# All that Unicode calls Default_Ignorable_Code_Point and gives a meaning to, and controls.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200c\u200d\u200e\u200f"
    "\u202a\u202b\u202c\u202d\u202e\u2060\u2061\u2062\u2063\u2064\u2066\u2067\u2068\u2069\u206a\u206f\u3164"
    "\ufe00\ufe0e\ufe0f\ufeff\uffa0\U0001bca0\U0001d173\U000e0001\U000e0020\U000e007f\U000e0100\U000e01ef"
    "\x00\x01\x08\x1b\x7f\x9b"
)
TEXTS = (
    "Never deploy on a Friday.",
    "Café opens at 9, Straße 12",
    "迁移使用 atlas",
    "デプロイは金曜日にしない。",
    "-",
)


def in_another_form(text: str, form: str, case: str, *, wide: bool) -> str:
    text = unicodedata.normalize(form, getattr(text, case)())
    return "".join(chr(ord(each) + 0xFEE0) if wide and "!" <= each <= "~" else each for each in text)


@given(
    st.sampled_from(TEXTS),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(INVISIBLE)), max_size=8),
    st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]),
    st.sampled_from(["lower", "upper", "swapcase"]),
    st.booleans(),
)
def test_a_text_has_one_digest_whatever_in_it_is_not_seen_or_written_in_another_form(
    text, unseen, form, case, wide
):
    odd = in_another_form(text, form, case, wide=wide)
    for at, each in unseen:
        odd = odd[:at] + each + odd[at:]

    assert digest(TOP, odd) == digest(TOP, text)
    assert normalised(odd) == normalised(text)
    assert _letters(odd) == _letters(text)


async def test_what_was_forgotten_is_known_at_once_and_after_a_restart(directory):
    async with opened(directory) as state:
        assert state.forgotten.digests() == frozenset()
        await state.forgotten.add(TOP, ["use tabs", "the walrus password"])
        await state.forgotten.add(TOP, ["a third"])
        assert state.forgotten.digests() == digests("use tabs", "the walrus password", "a third")
        assert b"walrus" not in raw(directory)  # no text is kept
        assert digest(TOP, "the walrus password").encode() in raw(directory)

    async with opened(directory) as state:
        assert state.forgotten.digests() == digests("use tabs", "the walrus password", "a third")


async def test_what_could_not_be_written_is_said_and_holds_all_the_same(state):
    state._database.__class__ = FlakyDatabase
    state._database.failing = frozenset({"forgotten"})
    with pytest.raises(StoreError):
        await state.forgotten.add(TOP, ["one"])

    assert state.forgotten.digests() == digests("one")


async def test_what_was_forgotten_may_be_said_again_after_a_week(state):
    now = [1_800_000_000.0]
    forgotten = ForgottenTexts(state._database, clock=lambda: now[0])
    await forgotten.add(TOP, ["one"])
    now[0] += 6 * 86_400
    await forgotten.add(TOP, ["two"])
    assert forgotten.digests() == digests("one", "two")
    now[0] += 2 * 86_400
    assert forgotten.digests() == digests("two")


async def test_when_a_text_was_forgotten_is_known_by_its_words_in_any_of_the_roots(directory):
    now = 1_800_000_000.25
    async with opened(directory) as state:
        forgotten = ForgottenTexts(state._database, clock=lambda: now)
        await forgotten.add(TOP, ["Use tabs, always."])
        assert forgotten.forgotten_at(("/other", TOP), "use tabs always") == now
        assert forgotten.forgotten_at(("/other",), "use tabs always") is None
        assert forgotten.forgotten_at((TOP,), "use tabs") is None

    async with opened(directory) as state:
        state.forgotten._clock = lambda: now
        assert state.forgotten.forgotten_at((TOP,), "Use tabs always!") == now


async def test_what_is_taken_back_may_be_said_again(state):
    await state.forgotten.add(TOP, ["one", "two"])
    await state.forgotten.withdraw(TOP, ["One!"])

    assert state.forgotten.digests() == digests("two")


@pytest.mark.parametrize(
    "text",
    [
        "We work in Lund. Use tabs, always. Releases are on Mondays.",
        "# Style\n\n- use tabs, always\n- no trailing blanks\n",
        "Use tabs,\nalways.",
        "one\n\n    use **tabs**\n    always!\n\ntwo",
    ],
)
async def test_a_text_that_holds_a_forgotten_one_as_sentences_counts_as_forgotten(state, text):
    await state.forgotten.add(TOP, ["Use tabs, always."])

    assert state.forgotten.forgotten_at((TOP,), text) is not None


async def test_a_long_text_costs_a_bounded_number_of_digests():
    text = "".join(f"Sentence number {number} of many.\n" for number in range(20_000))

    assert sum(1 for _ in digests_within((TOP, "/other"), text)) < 10_000


async def test_a_memory_is_known_by_its_id_and_its_id_is_no_text(directory):
    async with opened(directory) as state:
        await state.forgotten.add(TOP, ["Use tabs."], ["deploy"])
        assert state.forgotten.forgotten_at((TOP,), "Another text.", "deploy") is not None
        assert state.forgotten.forgotten_at((TOP,), "deploy") is None
        assert state.forgotten.forgotten_at(("/other",), "Another text.", "deploy") is None
        assert b"deploy" not in raw(directory)

    async with opened(directory) as state:
        assert state.forgotten.forgotten_at((TOP,), "Another text.", "deploy") is not None
        await state.forgotten.withdraw(TOP, ["Use tabs."], ["deploy"])
        assert state.forgotten.digests() == frozenset()


async def test_no_long_text_is_read_on_the_event_loop(state, monkeypatch):
    """A memory file holds up to 256 KiB, and its words are looked at one by one."""
    loops = threading.get_ident()
    on_loop = list[int]()

    def noting(top, text):
        if threading.get_ident() == loops:
            on_loop.append(len(text))
        return digest(top, text)

    monkeypatch.setattr(forgotten, "digest", noting)
    long = "the walrus sings " * 15_000
    await state.forgotten.add(TOP, ["use tabs", long])
    assert state.forgotten.digests() == digests("use tabs", long)

    await state.forgotten.withdraw(TOP, ["use tabs", long])
    assert state.forgotten.digests() == frozenset()
    assert sum(on_loop) < INLINE_LENGTH
