"""Tables of measured.md: each names its data, and these have not changed since."""

from __future__ import annotations

import pytest

from tests.evaluation import replay

SMALL = ("tests/data/eval_small", "--injected", "--model", "builtin:lexical")


def quoted():
    return replay.quoted(replay.PAGE.read_text(encoding="utf-8"))


def test_the_tables_of_measured_md_are_of_commands_that_replay_them():
    """A table that was not measured yet may be missing: `make eval ARGS=--write` adds it."""
    assert list(quoted()) == [each for each in replay.COMMANDS if each in quoted()] != []


@pytest.mark.parametrize(("command", "data"), quoted().items())
def test_no_figure_of_measured_md_is_of_other_data(command, data):
    """After a change of a set measure again: `make eval ARGS="--write PATH"`."""
    assert replay.data_sum(command) == data


def test_the_sum_is_of_names_and_bytes_of_all_files(tmp_path, monkeypatch):
    place = tmp_path / "tests/data/set"
    place.mkdir(parents=True)
    monkeypatch.setattr(replay, "REPO", tmp_path)
    sums = []
    for name, text in (("a", "1"), ("a", "2"), ("b", "2")):
        (place / f"{name}.jsonl").write_text(text)
        sums.append(replay.data_sum(["tests/data/set", "--model", "m"]))

    assert len(set(sums)) == 3
    (place / "b.jsonl").unlink()
    assert replay.data_sum(["tests/data/set"]) == sums[1]


OTHER = ("tests/data/eval_small", "--in-session", "--model", "builtin:lexical")
OLD = '`make eval ARGS="tests/data/eval_small --in-session --model builtin:lexical"`, data `0`:\n\n| old |'
PAGE = f"# Measured\n\n{replay.HEADING}\n\nAn opening.\n\n{OLD}\n\n## Speed\n\nlast\n"


def test_without_a_path_all_tables_are_printed_and_on_request_written(evaluate, tmp_path, monkeypatch):
    page = tmp_path / "measured.md"
    page.write_text(PAGE)
    monkeypatch.setattr(replay, "COMMANDS", (SMALL,))
    monkeypatch.setattr(replay, "PAGE", page)

    shown = evaluate()
    unchanged = page.read_text()
    monkeypatch.setattr(replay, "COMMANDS", (SMALL, OTHER))
    monkeypatch.setattr(replay, "chosen", lambda _: (SMALL,))
    again = evaluate("--write", SMALL[0])

    assert (shown.code, shown.err, again.out) == (0, "", shown.out)
    assert "| recall of all that came | 0.833 (0.500-1.000) |" in shown.out
    assert replay.quoted(shown.out) == {SMALL: replay.data_sum(SMALL)}
    assert unchanged == PAGE
    assert page.read_text() == PAGE.replace(OLD, f"{shown.out}{OLD}")


@pytest.mark.parametrize(
    "paths", [(), ("tests/data/stores/dev",), ("tests/data/life/",), ("tests/data/none",)]
)
def test_a_path_chooses_the_tables_of_its_set(paths):
    found = replay.chosen(paths)

    assert found == tuple(
        each for each in replay.COMMANDS if not paths or any(path.rstrip("/") in each for path in paths)
    )
    assert bool(found) == (paths != ("tests/data/none",))
