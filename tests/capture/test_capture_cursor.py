"""New messages of a window, in any order of windows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.conversation import Utterance
from forged.state import CaptureCursor, digests
from forged.state.captures import DIGEST_BYTES, MOST_MESSAGES


def row(letters: str) -> bytes:
    return digests([Utterance("user", letter) for letter in letters], "s")


# What is known, the window, and where its messages stand.
WINDOWS = {
    "the first one": ("", "ab", (None, None)),
    "the same again": ("ab", "ab", (0, 1)),
    "it grew": ("ab", "abc", (0, 1, None)),
    "an older one": ("abc", "ab", (0, 1)),
    "it lost its beginning": ("abc", "bcd", (1, 2, None)),
    "after a summary": ("abc", "xyz", (None, None, None)),
    "an older one with something new": ("abde", "abc", (0, 1, None)),
    "another agent's": ("abc", "axy", (0, None, None)),
    "something is said again": ("ayb", "ayby", (0, 1, 2, None)),
    "it goes on after another's": ("abxy", "abc", (0, 1, None)),
    "said again after another's": ("abxy", "aba", (None, 1, 0)),
    "nothing": ("abc", "", ()),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_what_is_new(name):
    known, window, expected = WINDOWS[name]

    assert CaptureCursor(row(known)).places(row(window)) == expected


@given(st.lists(st.text("abcde", max_size=6), max_size=6))
def test_every_message_of_every_window_counts_once_for_each_time_it_was_sent(windows):
    known = CaptureCursor()
    for window in windows:
        holds = known.places(row(window))
        new = "".join(letter for letter, place in zip(window, holds, strict=True) if place is None)
        known = known.grown(row(new), 1)
        digest = {letter: row(letter) for letter in window}
        held = [known.digests[at : at + DIGEST_BYTES] for at in range(0, len(known.digests), DIGEST_BYTES)]
        assert all(held.count(digest[letter]) >= window.count(letter) for letter in window)


def test_of_too_many_messages_the_newest_are_known_with_their_times():
    mark = CaptureCursor().grown(row("a") * (MOST_MESSAGES - 1), 1).grown(row("bcd"), 2)

    assert len(mark.digests) == MOST_MESSAGES * DIGEST_BYTES
    assert mark.digests.endswith(row("bcd"))
    assert mark.times == (1,) * (MOST_MESSAGES - 3) + (2,) * 3


def test_a_long_window_is_aligned_quickly():
    """Ten thousand messages without anything in common, in well under a second."""
    known = b"".join(number.to_bytes(8, "big") for number in range(10_000))
    window = b"".join(number.to_bytes(8, "big") for number in range(50_000, 60_000))

    assert CaptureCursor(known).places(window) == (None,) * 10_000
