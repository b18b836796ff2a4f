"""Files of a person as documents: what is read, what is refused and why."""

from __future__ import annotations

import os

import pytest

from forged.documents import DocumentFile, DocumentText, UnreadFile, find_files, read, reading
from forged.documents.reading import MOST_BYTES


def documents(path: str, source: str = "") -> list[DocumentText | UnreadFile]:
    return [read(each) if isinstance(each, DocumentFile) else each for each in find_files(path, source)]


def test_markdown_and_text_below_a_folder_are_read_in_the_order_of_their_names(tmp_path):
    for name in (
        "b.md",
        "a.txt",
        "sub/c.markdown",
        "picture.png",
        ".hidden.md",
        ".git/d.md",
        "node_modules/e.md",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"the text of {name}")

    assert documents(str(tmp_path), "docs/") == [
        DocumentText("docs/a.txt", "the text of a.txt", False),
        DocumentText("docs/b.md", "the text of b.md", True),
        DocumentText("docs/sub/c.markdown", "the text of sub/c.markdown", True),
    ]


def test_a_file_that_is_named_itself_is_read_whatever_it_is_called_and_through_a_link(tmp_path):
    (tmp_path / "README").write_text("read me")
    (tmp_path / "link").symlink_to(tmp_path / "README")

    assert (documents(str(tmp_path / "link"))) == [DocumentText(str(tmp_path / "link"), "read me", False)]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b" \n\t\n", "it is empty"),
        ("text".encode("utf-16"), "UTF-16; save it as text in UTF-8"),
        (b"caf\xe9", "not a text; save it as text in UTF-8"),
        (b"a\0b", "not a text: it contains NUL characters"),
        (b"x" * (MOST_BYTES + 1), "larger than 900 KiB; split it"),
    ],
    ids=range(6),
)
def test_a_file_that_is_no_text_in_utf_8_is_refused_with_the_reason(tmp_path, data, why):
    (tmp_path / "a.md").write_bytes(data)
    (tmp_path / "b.md").write_text("fine")

    assert (documents(str(tmp_path), "d")) == [
        UnreadFile("d/a.md", why),
        DocumentText("d/b.md", "fine", True),
    ]


def test_links_and_what_is_no_file_below_a_folder_are_refused_and_never_opened(tmp_path):
    outside = tmp_path / "secret.md"
    outside.write_text("not yours")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.md").symlink_to(outside)
    (tmp_path / "docs/folder").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "docs/b.md")

    assert documents(str(tmp_path / "docs"), "d") == [
        UnreadFile("d/a.md", "a symbolic link; ingest the file that it points to"),
        UnreadFile("d/b.md", "not a regular file"),
    ]


def test_a_walk_ends_after_so_many_entries_and_so_deep_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_MOST_ENTRIES", 3)
    monkeypatch.setattr(reading, "_MOST_DEPTH", 1)
    (tmp_path / "a/b/c").mkdir(parents=True)
    for number in range(5):
        (tmp_path / f"a/b/c/{number}.md").write_text("x")

    deep = documents(str(tmp_path), "d")
    wide = documents(str(tmp_path / "a/b/c"), "d")

    assert (
        deep
        == [UnreadFile("d/a/b/", "lies more than 1 folders deep"), UnreadFile("d", deep[-1].why)][: len(deep)]
    )
    assert [type(each) for each in wide] == [DocumentText, DocumentText, DocumentText, UnreadFile]
    assert "ingest it in parts" in wide[-1].why
