"""The list of texts that must not come back: it survives crashes, holds no text, and stays small."""

from __future__ import annotations

import os
import threading

import pytest

from forged.errors import StoreError
from forged.state.forgotten import Forgotten, digest

TOP = "/repo"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "state" / "forgotten")


def digests(*texts: str) -> frozenset[str]:
    return frozenset(digest(TOP, text) for text in texts)


def test_a_digest_is_short_hex_and_the_same_for_the_same_text_in_other_typography():
    assert len(digest(TOP, "Use tabs.")) == 32
    assert int(digest(TOP, "Use tabs."), 16)
    assert digest(TOP, "Use tabs.") == digest(TOP, "  use **tabs**")
    assert digest(TOP, "Use tabs.") != digest(TOP, "Never use tabs.")


def test_nothing_is_forgotten_before_anything_was(path):
    assert Forgotten(path).load() == frozenset()


def test_what_one_process_adds_another_loads(path):
    daemon, worker = Forgotten(path), Forgotten(path)
    worker.load()

    daemon.add(TOP, ["use tabs", "deploy on Fridays"])
    assert worker.load() == digests("use tabs", "deploy on Fridays")

    daemon.add(TOP, ["a third"])
    assert worker.load() == digests("use tabs", "deploy on Fridays", "a third")


def test_the_file_holds_no_text_and_is_the_owners_alone(path):
    Forgotten(path, clock=lambda: 1_800_000_000.9).add(TOP, ["the walrus password"])

    with open(path) as file:
        assert file.read().split() == [digest(TOP, "the walrus password"), "1800000000"]
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700


def test_a_line_torn_by_a_crash_costs_nobody_elses(path):
    forgotten = Forgotten(path)
    forgotten.add(TOP, ["one", "two"])
    os.truncate(path, os.stat(path).st_size - 10)

    forgotten.add(TOP, ["three"])

    assert forgotten.load() == digests("one", "three")


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 5000,
        b"\xff\xfe\n" * 100,
        b"a" * 32 + b"b 1234567890\n",
        b"A" * 32 + b" 1234567890\n",
        b"a" * 32 + b"\n",
    ],
)
def test_a_damaged_file_is_partly_read(path, damage):
    Forgotten(path).add(TOP, ["one"])
    with open(path, "ab") as file:
        file.write(damage)

    forgotten = Forgotten(path)
    forgotten.add(TOP, ["two"])

    assert forgotten.load() == digests("one", "two")


def test_what_is_no_file_is_as_good_as_empty(path):
    os.makedirs(path)
    assert Forgotten(path).load() == frozenset()

    os.rmdir(path)
    os.mkfifo(path)
    assert Forgotten(path).load() == frozenset()


def test_a_symbolic_link_is_not_followed(path, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(f"{digest(TOP, 'one')}\n")
    os.makedirs(os.path.dirname(path))
    os.symlink(elsewhere, path)

    assert Forgotten(path).load() == frozenset()
    with pytest.raises(StoreError, match="cannot write"):
        Forgotten(path).add(TOP, ["two"])
    assert elsewhere.read_text() == f"{digest(TOP, 'one')}\n"


def test_what_could_not_be_added_is_said(path):
    os.makedirs(path)

    with pytest.raises(StoreError, match=path):
        Forgotten(path).add(TOP, ["one"])


def test_adding_nothing_touches_nothing(path):
    Forgotten(path).add(TOP, [])

    assert not os.path.exists(path)


def test_the_newest_are_kept_and_the_file_stays_small(path):
    forgotten = Forgotten(path, kept=10)
    for number in range(100):
        forgotten.add(TOP, [f"text {number}"])
        assert forgotten.load() >= digests(*(f"text {n}" for n in range(max(0, number - 9), number + 1)))
        assert len(forgotten.load()) <= 10

    with open(path) as file:
        assert len(file.read().splitlines()) <= 41
    assert os.listdir(os.path.dirname(path)) == ["forgotten"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_text_forgotten_again_is_among_the_newest(path):
    forgotten = Forgotten(path, kept=2)
    forgotten.add(TOP, ["one"])
    forgotten.add(TOP, ["two"])
    forgotten.add(TOP, ["one"])
    forgotten.add(TOP, ["three"])

    assert forgotten.load() == digests("one", "three")


def test_threads_lose_nothing_to_each_other_also_when_the_file_is_rewritten(path):
    forgotten = Forgotten(path, kept=40)
    names = [[f"text {thread} {number}" for number in range(25)] for thread in range(4)]

    def add_all(texts):
        for text in texts:
            forgotten.add(TOP, [text])

    threads = [threading.Thread(target=add_all, args=(texts,)) for texts in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(forgotten.load()) == 40
    assert forgotten.load() <= digests(*(text for texts in names for text in texts))
    forgotten.add(TOP, ["the last"])
    assert digest(TOP, "the last") in forgotten.load()


def test_what_was_forgotten_may_be_said_again_after_a_week(path):
    now = [1_800_000_000.0]
    forgotten = Forgotten(path, clock=lambda: now[0])
    forgotten.add(TOP, ["one"])
    now[0] += 6 * 86_400
    forgotten.add(TOP, ["two"])
    assert forgotten.load() == digests("one", "two")

    now[0] += 2 * 86_400

    assert forgotten.load() == digests("two")
