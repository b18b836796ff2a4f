"""README, change log and manual are short and in plain sentences, and each linked heading exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.words import BANNED, prose

REPO = Path(__file__).parents[1]
PAGES = {page.stem: page for page in (REPO / "forged" / "docs").glob("*.md")}
DOCUMENTS = [REPO / "README.md", REPO / "CHANGELOG.md", REPO / "client" / "README.md", *PAGES.values()]
# Pages for developers; all others are for users.
DEVELOPERS = {"architecture", "decisions", "measured"}
USER_WORDS, DEVELOPER_WORDS = 16_000, 9_000
LONGEST, LONG, SHARE = 45, 30, 0.9

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_BANNED = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)

of_each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: path.relative_to(REPO).as_posix()
)


def text_without_code(document: Path) -> str:
    """Return the text of a document without its code blocks."""
    return _FENCED.sub("", document.read_text(encoding="utf-8"))


@of_each_document
def test_a_document_has_short_sentences_and_at_most_one_semicolon_a_paragraph(document):
    """Nine of ten sentences have at most 30 words, and none has more than 45."""
    shown = prose(document.read_text(encoding="utf-8"))

    assert [sentence for sentence in shown.sentences if len(sentence.split()) > LONGEST] == []
    assert shown.lengths[int(SHARE * len(shown.lengths))] <= LONG
    assert shown.with_semicolons == []


@of_each_document
def test_a_document_has_no_banned_word(document):
    """Tables and headings included, code apart."""
    lines = re.sub(r"`[^`]*`", "", text_without_code(document)).splitlines()

    assert [line for line in lines if _BANNED.search(line)] == []


def test_the_manual_is_short():
    lengths = {name: prose(page.read_text(encoding="utf-8")).words for name, page in PAGES.items()}

    assert sum(lengths[name] for name in PAGES.keys() - DEVELOPERS) <= USER_WORDS
    assert sum(lengths[name] for name in DEVELOPERS) <= DEVELOPER_WORDS


def anchors(document: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text_without_code(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@of_each_document
def test_the_headings_that_a_document_links_exist(document):
    links = re.findall(r"\]\(([^)\s:]*)#([^)\s]+)\)", text_without_code(document))
    pages = {name: document.parent / name if name else document for name, _ in links}

    assert [name for name, page in pages.items() if not page.is_file()] == []
    assert [f"{name}#{anchor}" for name, anchor in links if anchor not in anchors(pages[name])] == []
