"""Tables of measured.md: each names its data, and these have not changed since."""

from __future__ import annotations

import pytest

from tests.evaluation import replay

SMALL = ("tests/data/eval_small", "--injected", "--model", "builtin:lexical")
PAGE = f"# Measured\n\n{replay.HEADING}\n\nold\n\n## Speed\n\nnew\n"


def quoted():
    return replay.quoted(replay.PAGE.read_text(encoding="utf-8"))


def test_every_table_that_can_be_replayed_is_in_measured_md():
    assert [command for command, _ in quoted()] == list(replay.COMMANDS)


@pytest.mark.parametrize(("command", "data"), quoted())
def test_no_figure_of_measured_md_is_of_other_data(command, data):
    """After a change of a set: measure again, by `make eval ARGS=--write` or that table alone."""
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


def test_without_a_path_all_tables_are_printed_and_on_request_written(evaluate, tmp_path, monkeypatch):
    page = tmp_path / "measured.md"
    page.write_text(PAGE)
    monkeypatch.setattr(replay, "COMMANDS", (SMALL,))
    monkeypatch.setattr(replay, "PAGE", page)

    shown = evaluate()
    unchanged = page.read_text()
    again = evaluate("--write")

    assert (shown.code, shown.err, again.out) == (0, "", shown.out)
    assert "| recall of all that came | 0.833 (0.500-1.000) |" in shown.out
    assert replay.quoted(shown.out) == [(SMALL, replay.data_sum(SMALL))]
    assert unchanged == PAGE
    assert page.read_text() == PAGE.replace(f"{replay.HEADING}\n\nold\n", shown.out)
