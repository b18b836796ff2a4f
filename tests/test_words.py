"""The source and the screen use the words of the field: no finding of `tests.words` is left."""

from __future__ import annotations

import re

import pytest

from tests import words

BANNED = re.compile(rf"\b({'|'.join(words.BANNED)})\b", re.IGNORECASE)
PAGE_FILES = sorted((words.REPO / "forged" / "cli" / "ui").glob("*.*s")) + sorted(
    (words.REPO / "forged" / "cli" / "ui").glob("*.html")
)


@pytest.mark.parametrize("package", words.packages())
def test_package_uses_the_words_of_the_field(package):
    found = [str(each) for module in words.modules(package) for each in words.findings(module)]

    assert found == []


@pytest.mark.parametrize("path", PAGE_FILES, ids=lambda path: path.name)
def test_page_of_the_browser_uses_the_words_of_the_field(path):
    lines = path.read_text(encoding="utf-8").splitlines()

    assert [line.strip() for line in lines if BANNED.search(line) and not words.REASON.search(line)] == []


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('"""What a thing is."""', "a first line opens with a question word"),
        ('class Thing:\n    """Whether it is one."""', "a first line opens with a question word"),
        (f'def thing():\n    """Return {"x" * 100}."""', "a first line of 108 characters"),
        ('def _thing():\n    """Return it.\n\n    Twice.\n    """', "a private function has one line"),
        ('"""Return it, for nobody asked."""', "a text says 'nobody'"),
        ('raise ValueError("it stands in the way")', "a text says 'stands'"),
        ('print(f"{name} was told twice")', "a text says 'told'"),
        ('label = "Speaks for it"', "a text says 'Speaks for'"),
        ("was_told = True", "an identifier"),
        ("def f(beside): ...", "an identifier"),
        ("class HeardList: ...", "an identifier"),
        ("f(is_told=1)", "an identifier"),
        ("from forged.state import heard", "an identifier"),
    ],
)
def test_each_rule_finds_its_breach(source, rule):
    found = words.findings_in(source, words.REPO / "module.py")

    assert rule in [each.rule for each in found]


@pytest.mark.parametrize(
    "source",
    [
        '"""Return the thing."""',
        'def _thing():\n    """Return it."""',
        'def __eq__(self, other):\n    """Compare.\n\n    By name.\n    """',
        'PATTERN = re.compile(r"\\bnobody\\b")',
        'QUERY = "SELECT told FROM injected"',
        'WORDS = "nobody told me"  # word: quoted from a user',
        'WORDS = (  # word: quoted from users\n    "nobody",\n    "somebody",\n)',
        "standing = untold = besides = 1",
    ],
)
def test_words_of_others_and_longer_words_are_exempt(source):
    assert list(words.findings_in(source, words.REPO / "module.py")) == []


def test_module_is_found_by_its_name():
    found = words.findings_in('"""Return the thing."""', words.REPO / "forged" / "hook_beside.py")

    assert [each.rule for each in found] == ["a module's name"]


def test_prose_leaves_out_tables_code_and_headings():
    text = "# Head\n\nOne `a b c` two; three. Four\nin 64. forged five.\n\n| a | b |\n\n"
    page = words.prose(f"{text}```sh\nx y\n```\n\n- six\n- seven\n")

    assert page.paragraphs == ("One `a b c` two; three. Four in 64. forged five.", "six", "seven")
    assert page.lengths == [1, 1, 2, 3, 4]
    assert page.with_semicolons == []
    assert words.prose("a; b; c").with_semicolons == ["a; b; c"]
