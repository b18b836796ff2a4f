"""`forgectl ingest`, against a scripted daemon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forged.cli.call import Invocation
from forged.cli.terminal import ProgressBar
from forged.documents import place_of, text_digest
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
    LocalFile,
    RemoveDocument,
    RemoveDocuments,
    RootReport,
    Status,
    StatusReport,
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


@pytest.fixture(autouse=True)
def nothing_ingested_before(daemon):
    daemon.answers[ListDocuments] = Documents(status="empty")
    daemon.answers[Status] = report()


def report(**fields) -> StatusReport:
    """A daemon's report about the root of documents."""
    return StatusReport(roots=(RootReport(root="/o", scope="org", state="ready", **fields),))


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
        Document(source="guide/a.md", text="# A", is_markdown=True, file=file_at(docs / "a.md")),
        Document(source="guide/b.txt", text="B", file=file_at(docs / "b.txt")),
    )
    assert (asked.metadata, asked.preview) == ({"team": "core", "year": 2026}, False)


def file_at(path: Path) -> LocalFile:
    return LocalFile(*place_of(str(path)))


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

    daemon.answers[ListDocuments] = Documents(status="empty")

    by_path = forgectl("ingest", "--remove", path)
    by_other_spelling = forgectl("ingest", "--remove", f"{tmp_path}/../{tmp_path.name}/a.md")
    unknown = forgectl("ingest", "--remove", "guide")

    assert by_path.out == by_other_spelling.out == "removed /docs/a.md (3 parts)\n"
    assert unknown.code != 0
    assert "no document" in unknown.err


@pytest.mark.parametrize(
    "words",
    [(), ("--list", "--remove", "a"), ("/", "--list"), ("/nowhere/at/all",), (".", "..", "--source", "x"),
     (".", "--meta", "alone"), ("--list", "--prune"), ("--remove", "a", "--dry-run")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_as_such_before_anything_is_asked(daemon, forgectl, words):
    shown = forgectl("ingest", *words)

    assert shown.code == 2
    assert daemon.requests_of(Ingest) == []


def test_where_there_is_no_text_file_it_is_said(daemon, forgectl, tmp_path):
    shown = forgectl("ingest", str(tmp_path))

    assert (shown.code, shown.out) == (0, "")
    assert "no markdown, text, PDF, HTML or Word file was found" in shown.err


# --- documents follow their folder -----------------------------------------------------------------------


def recorded(path: Path, text: str, source: str = "", **fields) -> DocumentRecord:
    """A document whose file this machine ingested."""
    return DocumentRecord(
        document_id=f"doc_{path.stem}",
        source=source or str(path),
        pieces=2,
        of=2,
        file=file_at(path),
        digest=text_digest(text),
        **fields,
    )


def known(daemon, *records: DocumentRecord) -> None:
    """Have the daemon know these documents of the folder, and of no other."""

    def answer(request: ListDocuments) -> Documents:
        start = f"{request.below}/" if request.below else ""
        here = [each for each in records if each.file is None or each.file.path.startswith(start)]
        page = tuple(here[request.offset : request.offset + request.limit])
        return Documents(status="ok" if page else "empty", documents=page, total=len(here))

    daemon.answers[ListDocuments] = answer


def removes_all(request: RemoveDocuments) -> DocumentRemoved:
    """As an answer: all documents are removed."""
    records = (DocumentRecord(document_id=each, source=each, pieces=2, of=2) for each in request.document_ids)
    return DocumentRemoved(documents=tuple(records), pieces=2 * len(request.document_ids))


@pytest.fixture
def many(daemon, tmp_path: Path) -> Path:
    """A folder with 100 documents on record, of which four files are gone."""
    folder = tmp_path / "many"
    folder.mkdir()
    paths = [folder / f"{number:03}.md" for number in range(100)]
    for path in paths[4:]:
        path.write_text("text")
    known(daemon, *(recorded(path, "text") for path in paths))
    daemon.answers[Ingest] = result(*["exists"] * 100)
    daemon.answers[RemoveDocuments] = removes_all
    return folder


def test_files_that_are_gone_are_named_and_nothing_is_removed_without_prune(daemon, forgectl, many):
    shown = forgectl("ingest", str(many))

    assert (shown.code, shown.out.count("gone  ")) == (0, 4)
    assert f"gone  {many}/003.md  2 parts" in shown.out
    assert "4 documents whose file is gone; `--prune` removes them" in shown.err
    assert daemon.requests_of(RemoveDocuments) == []


def test_a_prune_removes_exactly_these_from_this_folder_and_says_how_to_undo_it(daemon, forgectl, many):
    shown = forgectl("ingest", str(many), "--prune")

    asked = daemon.asked(RemoveDocuments)
    assert asked.document_ids == tuple(f"doc_{number:03}" for number in range(4))
    assert (asked.below, asked.erase) == (str(many), False)
    assert "pruned 4 documents (8 parts)" in shown.out
    assert "forgectl restore doc_000" in shown.err


def test_a_dry_run_of_a_prune_removes_nothing(daemon, forgectl, many):
    shown = forgectl("ingest", str(many), "--prune", "--dry-run")

    assert (shown.code, shown.out.count("gone  ")) == (0, 4)
    assert daemon.requests_of(RemoveDocuments) == []


@pytest.mark.parametrize(
    ("of", "gone", "asks"),
    [(200, 10, False), (200, 11, True), (20, 2, False), (20, 3, True), (5, 1, True), (10, 1, False)],
)
def test_more_than_ten_documents_or_a_tenth_go_only_with_an_answer(
    daemon, forgectl, tmp_path, monkeypatch, *, of, gone, asks
):
    paths = [tmp_path / f"{number:03}.md" for number in range(of)]
    for path in paths[gone:]:
        path.write_text("text")
    known(daemon, *(recorded(path, "text") for path in paths))
    daemon.answers[Ingest] = result(*["exists"] * of * 4)
    daemon.answers[RemoveDocuments] = removes_all
    answers = iter([False, True])
    monkeypatch.setattr("forged.cli.confirm.click.confirm", lambda *_, **__: next(answers))

    alone = forgectl("ingest", str(tmp_path), "--prune")
    assert (alone.code, len(daemon.requests_of(RemoveDocuments))) == ((2, 0) if asks else (0, 1))
    assert ("--yes" in alone.err) is asks
    if asks:
        declined = forgectl("ingest", str(tmp_path), "--prune", interactive=True)
        assert (declined.code, daemon.requests_of(RemoveDocuments)) == (1, [])
        agreed = forgectl("ingest", str(tmp_path), "--prune", interactive=True)
        assert (agreed.code, len(daemon.asked(RemoveDocuments).document_ids)) == (0, gone)
        assert forgectl("ingest", str(tmp_path), "--prune", "--yes").code == 0


def test_the_json_says_why_a_prune_was_not_carried_out(daemon, forgectl, tmp_path):
    (tmp_path / "a.md").write_text("text")
    known(daemon, recorded(tmp_path / "a.md", "text"), recorded(tmp_path / "b.md", "text"))
    daemon.answers[Ingest] = result("exists", "exists")
    daemon.answers[RemoveDocuments] = removes_all

    refused = forgectl("ingest", str(tmp_path), "--prune", "--json")
    agreed = forgectl("ingest", str(tmp_path), "--prune", "--json", "--yes")

    assert (refused.code, agreed.code) == (2, 0)
    assert "--yes" in refused.json["not_pruned"]
    assert [[each["removed"] for each in shown.json["gone"]] for shown in (refused, agreed)] == [
        [False],
        [True],
    ]
    assert (refused.json["complete"], agreed.json["not_pruned"]) == (True, "")


def test_one_folder_that_lost_most_of_its_documents_asks_although_another_is_large(daemon, forgectl, many):
    small = many.parent / "small"
    small.mkdir()
    (small / "stays.md").write_text("text")
    lost = [small / f"lost{number}.md" for number in range(3)]
    every = [recorded(many / f"{number:03}.md", "text") for number in range(100)]
    known(daemon, *every, *(recorded(each, "text") for each in lost))

    shown = forgectl("ingest", str(many), str(small), "--prune")

    assert (shown.code, daemon.requests_of(RemoveDocuments)) == (2, [])


def test_a_file_that_comes_back_during_the_question_stays(daemon, forgectl, tmp_path, monkeypatch):
    paths = [tmp_path / f"{name}.md" for name in "abc"]
    paths[2].write_text("text")
    known(daemon, *(recorded(path, "text") for path in paths))
    daemon.answers[Ingest] = result("exists")
    daemon.answers[RemoveDocuments] = removes_all
    monkeypatch.setattr(
        "forged.cli.confirm.click.confirm", lambda *_, **__: bool(paths[0].write_text("text"))
    )

    forgectl("ingest", str(tmp_path), "--prune", interactive=True)

    assert daemon.asked(RemoveDocuments).document_ids == ("doc_b",)


@pytest.mark.parametrize("prunes", [False, True])
def test_a_missing_or_empty_folder_makes_nothing_gone(daemon, forgectl, tmp_path, prunes):
    """An unmounted disk is an empty folder; a folder with other files is none of documents."""
    empty = tmp_path / "empty"
    empty.mkdir()
    known(daemon, recorded(empty / "a.md", "text"))
    options = ["--prune", "--yes"] if prunes else []
    (empty / "lost+found").mkdir()

    shown, missing = forgectl("ingest", str(empty), *options), forgectl("ingest", f"{empty}/no", *options)

    assert "there is no document in" in shown.err
    assert "forgectl ingest --remove" in shown.err
    assert "forgectl ingest --remove" in missing.err
    assert (shown.code, missing.code, daemon.requests_of(Ingest)) == (2 if prunes else 0, 2, [])
    assert daemon.requests_of(RemoveDocuments) == []


def test_a_prune_of_no_folder_is_refused(daemon, forgectl, docs):
    shown = forgectl("ingest", str(docs / "a.md"), "--prune")

    assert (shown.code, daemon.requests_of(Ingest)) == (2, [])
    assert "needs a folder" in shown.err


def test_a_refused_or_unreadable_file_is_named_and_not_gone(daemon, forgectl, docs, monkeypatch):
    """One that is no text any more, one with a secret, one in a folder that may not be entered."""
    (docs / "d").mkdir()
    records = [recorded(docs / name, "text") for name in ("a.md", "b.txt", "c.md", "d/e.md", "f.md")]
    known(daemon, *records)
    daemon.answers[Ingest] = result("secret", "exists")
    look = os.lstat

    def forbidden(path, **how):
        if str(path).endswith("d/e.md"):
            raise PermissionError(13, "Permission denied")
        return look(path, **how)

    monkeypatch.setattr(os, "lstat", forbidden)
    reported = forgectl("ingest", str(docs), "--json").json

    states = {Path(each["source"]).name: each["is_unseen"] for each in reported["gone"]}
    assert states == {"e.md": True, "f.md": False}
    assert "Permission denied" in next(each["stays"] for each in reported["gone"] if each["is_unseen"])


def test_a_new_file_with_the_text_of_a_gone_one_is_sent_with_its_former_name(daemon, forgectl, tmp_path):
    """The one with the same file name comes first, each is meant once, and a copy is none."""
    (tmp_path / "new").mkdir()
    for name in ("copy.md", "new/a.md", "z.md"):
        (tmp_path / name).write_text("alike")
    gone = [recorded(tmp_path / name, "alike") for name in ("0.md", "a.md", "other.md")]
    known(daemon, *gone, recorded(tmp_path / "copy.md", "alike"), recorded(tmp_path / "other.md", "else"))
    moved = iter(["exists", "moved", "moved"])

    def answer(request: Ingest) -> Ingested:
        outcomes = [
            DocumentOutcome(source=each.source, result=next(moved), pieces=1, moved_from=each.moved_from)
            for each in request.documents
        ]
        return Ingested(outcomes=tuple(outcomes))

    daemon.answers[Ingest] = answer
    shown = forgectl("ingest", str(tmp_path))

    sent = {Path(each.source).name: Path(each.moved_from).name for each in daemon.asked(Ingest).documents}
    assert sent == {"copy.md": "", "a.md": "a.md", "z.md": "0.md"}
    assert f"{tmp_path}/0.md -> {tmp_path}/z.md" in shown.out
    assert [line.split()[1] for line in shown.out.splitlines() if line.startswith("gone")] == [
        f"{tmp_path}/other.md"
    ]


def test_a_renamed_file_that_is_refused_keeps_its_document(daemon, forgectl, tmp_path):
    (tmp_path / "new.md").write_text("with a key")
    known(daemon, recorded(tmp_path / "old.md", "with a key"))
    daemon.answers[Ingest] = result("secret")
    daemon.answers[RemoveDocuments] = removes_all

    shown = forgectl("ingest", str(tmp_path), "--prune", "--yes")

    assert daemon.requests_of(RemoveDocuments) == []
    assert "has the same text, and was refused" in shown.out


def test_all_documents_of_a_folder_are_removed_for_good_after_a_question(daemon, forgectl, tmp_path):
    """By their sources and by their files, also when the folder is gone; other folders keep theirs."""
    known(
        daemon,
        recorded(tmp_path / "x/a.md", "a"),
        recorded(tmp_path / "x/b.md", "b", source="guide/b.md"),
        recorded(tmp_path / "xy/c.md", "c"),
        DocumentRecord(document_id="doc_far", source=f"{tmp_path}/x/far.md", pieces=1, of=1, here=False),
    )
    daemon.answers[RemoveDocument] = Failed(status="error", code="not_found", message="no document")
    daemon.answers[RemoveDocuments] = removes_all

    alone = forgectl("ingest", "--remove", str(tmp_path / "x"))
    assert (alone.code, daemon.requests_of(RemoveDocuments)) == (2, [])
    shown = forgectl("ingest", "--remove", str(tmp_path / "x"), "--yes")

    asked = daemon.asked(RemoveDocuments)
    assert (set(asked.document_ids), asked.erase) == ({"doc_a", "doc_b", "doc_far"}, True)
    assert shown.out.count("removed ") == 3


def test_large_removals_go_in_portions_of_one_batch(daemon, forgectl, tmp_path):
    from msgspec.structs import replace

    (tmp_path / "stays.md").write_text("text")
    gone = [replace(recorded(tmp_path / f"{number}.md", "x"), pieces=900) for number in range(5)]
    known(daemon, *gone)
    daemon.answers[Ingest] = result("exists")
    daemon.answers[RemoveDocuments] = removes_all

    shown = forgectl("ingest", str(tmp_path), "--prune", "--yes")

    asked = daemon.requests_of(RemoveDocuments)
    assert [len(each.document_ids) for each in asked] == [2, 2, 1]
    assert len({each.batch for each in asked}) == 1
    assert "pruned 5 documents" in shown.out


# --- progress and end ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("roots", "said"),
    [
        (report(), "searches find them now"),
        (report(to_embed=9, embedded=2, left_s=89.0), "by words now, by meaning in about 1 min"),
        (report(to_embed=9, embedded=2), "by words now, by meaning after 7 more texts"),
        (report(to_embed=9, last_error="timeout: no answer"), "by meaning later: timeout: no answer"),
        (Failed(status="error", code="internal", message="x"), "searches find them soon"),
    ],
)
def test_the_end_is_one_line_with_counts_and_the_time_until_searches_find_them(
    daemon, forgectl, docs, monkeypatch, *, roots, said
):
    monkeypatch.setattr("forged.cli.ingest_report._SEEN_S", 0.2)
    daemon.answers[Ingest] = result("new", "exists")
    daemon.answers[Status] = roots

    shown = forgectl("ingest", str(docs))

    assert "3 files: 1 unchanged, 1 new, 1 refused; 4 parts in" in shown.err
    assert said in shown.err
    assert "\r" not in shown.err


def test_a_terminal_shows_files_and_parts_and_a_pipe_does_not(daemon, forgectl, docs, monkeypatch):
    drawn = []
    monkeypatch.setattr(Invocation, "can_redraw", lambda *_: True)
    monkeypatch.setattr(ProgressBar, "draw", lambda _, *shown: drawn.append(shown))
    daemon.answers[Ingest] = result("new", "new")

    forgectl("ingest", str(docs))

    assert drawn[-1] == ("ingesting", 3, 3, "4 parts")
