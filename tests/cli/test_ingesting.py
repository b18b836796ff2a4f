"""`forgectl ingest`, against a scripted daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged.documents.reading import MOST_BYTES
from forged_client.protocol import (
    Document,
    DocumentOutcome,
    DocumentRecord,
    DocumentRemoved,
    Documents,
    Failed,
    Ingest,
    Ingested,
    ListDocuments,
    RemoveDocument,
)

RECORD = DocumentRecord(
    document_id="doc_0a", source="/docs/a.md", pieces=3, of=3, created_at="2026-05-01T12:00:00Z"
)


def result(*names: str):
    """As an answer: these fates, one after the other, of whatever is ingested."""
    reported = iter(names)

    def answer(request: Ingest) -> Ingested:
        outcomes = (
            DocumentOutcome(
                source=each.source, result=next(reported), document_id="doc_1", pieces=2, reason=""
            )
            for each in request.documents
        )
        return Ingested(outcomes=tuple(outcomes))

    return answer


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("# A")
    (folder / "b.txt").write_text("B")
    (folder / "c.md").write_bytes(b"\xff\xfe")
    return folder


def test_what_became_of_each_file_is_said_and_what_is_refused_ends_with_code_1(daemon, forgectl, docs):
    daemon.answers[Ingest] = result("new", "replaced")

    shown = forgectl("ingest", str(docs), "--source", "guide", "--meta", "team=core", "--meta", "year=2026")

    assert [line.split(maxsplit=2) for line in shown.out.splitlines()] == [
        ["new", "guide/a.md", "2 parts"],
        ["replaced", "guide/b.txt", "2 parts"],
        ["refused", "guide/c.md", "UTF-16; save it as text in UTF-8"],
    ]
    assert shown.code == 1
    asked = daemon.asked(Ingest)
    assert asked.documents == (
        Document(source="guide/a.md", text="# A", is_markdown=True),
        Document(source="guide/b.txt", text="B"),
    )
    assert (asked.metadata, asked.preview) == ({"team": "core", "year": 2026}, False)


def test_what_is_there_already_is_counted_and_named_only_when_asked(daemon, forgectl, docs):
    (docs / "c.md").unlink()
    daemon.answers[Ingest] = result("exists", "exists", "exists", "exists")

    shown, long = forgectl("ingest", str(docs)), forgectl("ingest", str(docs), "--verbose")

    assert (shown.code, shown.out) == (0, "2 documents unchanged\n")
    assert long.out.count(str(docs)) == 2


def test_a_dry_run_asks_for_nothing_to_be_written(daemon, forgectl, docs):
    daemon.answers[Ingest] = result("new", "new")

    shown = forgectl("ingest", str(docs / "a.md"), str(docs / "b.txt"), "--dry-run")

    assert daemon.asked(Ingest).preview is True
    assert "nothing was written" in shown.err


def test_the_json_has_each_fate_and_whether_all_was_done(daemon, forgectl, docs):
    daemon.answers[Ingest] = result("new", "secret")

    reported = forgectl("ingest", str(docs), "--json")

    assert (reported.code, reported.json["done"], reported.json["complete"]) == (1, True, True)
    assert reported.json["counts"] == {"new": 1, "secret": 1, "refused": 1}
    assert [each["result"] for each in reported.json["documents"]] == ["new", "secret", "refused"]


def test_large_documents_go_in_requests_of_their_own(daemon, forgectl, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.md").write_text("x" * (MOST_BYTES // 2))
    daemon.answers[Ingest] = result(*["new"] * 3)

    forgectl("ingest", str(tmp_path))

    assert [len(each.documents) for each in daemon.requests_of(Ingest)] == [1, 1, 1]


def test_an_interrupted_run_says_how_far_it_came_and_that_the_same_command_goes_on(
    daemon, forgectl, tmp_path, monkeypatch
):
    from forged_client.client import Client

    for number in range(60):
        (tmp_path / f"{number:02}.md").write_text("text")
    daemon.answers[Ingest] = result(*["new"] * 60)
    ask, count = Client.ask, iter(range(9))

    def interrupted(self, request, **how):
        if isinstance(request, Ingest) and next(count) == 1:
            raise KeyboardInterrupt
        return ask(self, request, **how)

    monkeypatch.setattr(Client, "ask", interrupted)
    shown = forgectl("ingest", str(tmp_path))

    assert shown.code == 130
    assert len(shown.out.splitlines()) == 50
    assert "interrupted after 50 of 60 files; run it again to go on" in shown.err


def test_documents_are_listed_by_pages_with_what_is_missing_of_them(daemon, forgectl):
    from msgspec.structs import replace

    pages = {0: (RECORD,), 1: (replace(RECORD, source="b\x1b.md", pieces=1),)}
    daemon.answers[ListDocuments] = lambda request: Documents(documents=pages[request.offset], total=2)

    shown = forgectl("ingest", "--list")

    first, second = shown.out.splitlines()
    assert first.split() == ["/docs/a.md", "3", "parts", "2026-05-01", "12:00", "doc_0a"]
    assert "1 of 3 parts" in second
    assert "\x1b" not in shown.out


def test_an_empty_list_says_what_brings_documents(daemon, forgectl):
    daemon.answers[ListDocuments] = Documents(status="empty")

    shown = forgectl("ingest", "--list")

    assert (shown.code, shown.out) == (0, "")
    assert "forgectl ingest PATH" in shown.err


def test_a_document_is_removed_by_the_name_that_is_given_or_the_path_that_it_means(
    daemon, forgectl, tmp_path
):
    path = str(tmp_path / "a.md")

    def answer(request: RemoveDocument) -> DocumentRemoved | Failed:
        if request.name != path:
            return Failed(status="error", code="not_found", message="no document")
        return DocumentRemoved(documents=(RECORD,), pieces=3)

    daemon.answers[RemoveDocument] = answer

    by_path = forgectl("ingest", "--remove", path)
    by_other_spelling = forgectl("ingest", "--remove", f"{tmp_path}/../{tmp_path.name}/a.md")
    unknown = forgectl("ingest", "--remove", "guide")

    assert by_path.out == by_other_spelling.out == "removed /docs/a.md (3 parts)\n"
    assert unknown.code != 0
    assert "no document" in unknown.err


@pytest.mark.parametrize(
    "words",
    [(), ("--list", "--remove", "a"), ("/", "--list"), ("/nowhere/at/all",), (".", "..", "--source", "x"),
     (".", "--meta", "alone")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_as_such_before_anything_is_asked(daemon, forgectl, words):
    shown = forgectl("ingest", *words)

    assert shown.code == 2
    assert daemon.requests_of(Ingest) == []


def test_where_there_is_no_text_file_it_is_said(daemon, forgectl, tmp_path):
    shown = forgectl("ingest", str(tmp_path))

    assert (shown.code, shown.out) == (0, "")
    assert "no markdown or text file was found" in shown.err
