"""The cutter: what is one statement, what is given along, and that no line of a text is lost."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forged.importing.agent_rules import batch_of_rules
from forged.importing.basic_memory import batch_of_note
from forged.importing.blocks import lines_of
from forged.importing.markdown import COMMENT, EMPTY_HEADING, TITLE, TOO_LONG, TOOL_BLOCK, cut
from forged.importing.values import MOST_CHARS

RULES = (Path(__file__).parents[1] / "data/imports/CLAUDE.md").read_text()


def said(text):
    return [each.said for each in cut(text).statements]


def test_each_statement_of_a_file_of_rules_says_something_by_itself():
    assert said(RULES) == [
        "This file guides agents in this repository. See @README.md for more.",
        "@docs/style.md",
        "Commands: Build with `make build`",
        (
            "Commands: Run all tests with `make test` before you push\n- a single one: `pytest -k NAME`\n"
            "```sh\nmake lint\n```"
        ),
        "Code style: Follow these rules: Use tabs in Makefiles, spaces elsewhere",
        "Code style: Follow these rules: Never use `any` in TypeScript",
        "Code style > Naming: Names are snake_case in Python.",
        "Releasing:\n1. Write the changelog\n2. Tag the commit",
        "Releasing:\n| branch | goes to |\n|---|---|\n| main | staging |",
        "Architecture: The daemon owns the vector map. Clients are thin.",
    ]


def test_what_is_no_statement_is_named_with_its_lines():
    assert cut(RULES).left == (
        (1, 1, TITLE),
        (3, 3, COMMENT),
        (39, 39, EMPTY_HEADING),
        (44, 46, TOOL_BLOCK),
    )


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("one\ntwo\n\nthree", ["one\ntwo", "three"]),
        ("* a\n\n  more of a\n* b", ["a\n\nmore of a", "b"]),
        ("- a\nlazy\n\nnot lazy", ["a\nlazy", "not lazy"]),
        ("Steps:\n1. a\n2. b", ["Steps:\n1. a\n2. b"]),
        ("Run:\n\n```\nx: 1\n# no heading\n```", ["Run:\n```\nx: 1\n# no heading\n```"]),
        ("```\nalone\n```", ["```\nalone\n```"]),
        ("```\nnever closed\n# x", ["```\nnever closed\n# x"]),
        ("Title\n===\n\ntext", ["text"]),
        ("leads nowhere:\n\n## next\nx", ["leads nowhere:", "next: x"]),
        ("leads nowhere:", ["leads nowhere:"]),
        ("> **Note**: never\n> push\n\na > b", ["**Note**: never\npush", "a > b"]),
        ("<details>\n\nhidden <b>x</b>\n\n</details>", ["hidden <b>x</b>"]),
        ("leads to marks:\n- ***\n- ", ["leads to marks:"]),
        ("rules:\n- a\n```\nx\n```\n- b", ["rules: a\n```\nx\n```", "rules: b"]),
        ("**Core Settings:**\n- `PORT` is 37777", ["**Core Settings:** `PORT` is 37777"]),
        ("leads on:\n\nno list", ["leads on:", "no list"]),
        ("rules:\n- a\n\n- b\n\nend", ["rules: a", "rules: b", "end"]),
        ("- \n-\n***\n", []),
        ("## A ##\n### B\nx\n## C\ny", ["A > B: x", "C: y"]),
        ("<!-- a --> said", ["<!-- a --> said"]),
        ("<!-- never closed\nsaid", ["<!-- never closed\nsaid"]),
        ("\ufeff- a\r\n- b\r\n", ["a", "b"]),
        ("- [ ] a task\n- 你好。", ["[ ] a task", "你好。"]),
    ],
)
def test_forms_of_markdown(text, statements):
    assert said(text) == statements


def test_a_statement_that_is_too_long_for_a_memory_is_named_and_not_cut():
    found = cut(f"short\n\n{'long ' * (MOST_CHARS // 5 + 1)}\n\nlast")

    assert [each.said for each in found.statements] == ["short", "last"]
    assert found.left == ((3, 3, TOO_LONG),)


_WORDS = st.sampled_from(
    ("tabs", "use", "make test", "你好", "`code`", "a:", "ends in a colon:", "@docs/x.md")
)
_LINES = st.one_of(
    st.builds(
        lambda mark, words: mark + " ".join(words),
        st.sampled_from(
            (
                "",
                "- ",
                "  - ",
                "* ",
                "1. ",
                "   2) ",
                "# ",
                "## ",
                "#### ",
                "| ",
                "> ",
                "    ",
                "<!-- ",
                "```",
                "~~~ ",
            )
        ),
        st.lists(_WORDS, max_size=3),
    ),
    st.sampled_from(
        (
            "",
            "",
            "---",
            "===",
            "***",
            "```",
            "-->",
            "<claude-mem-context>",
            "</claude-mem-context>",
            "<details>",
            "> </p>",
            "|---|",
        )
    ),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
)


@given(st.lists(_LINES, max_size=30).map("\n".join))
def test_no_line_of_any_text_is_lost(text):
    """Whatever a line says stands in a statement, in a heading of one, or is named as left out."""
    found = cut(text)
    reported = "\n".join(each.said for each in found.statements)
    left = {number for first, last, _ in found.left for number in range(first, last + 1)}

    for number, line in enumerate(lines_of(text), 1):
        words = re.findall(r"[^\W_]+", re.sub(r"^[\s>]*\d{1,9}[.)](?=\s)", "", line))
        assert number in left or all(word in reported for word in words), (number, line)


@pytest.mark.speed
@pytest.mark.parametrize(
    "unit",
    [
        "<!--\n",
        "<claude-mem-context>\n",
        "- \n\n",
        "- a\n\n\n",
        "1. a\n\n",
        "a:\n",
        "# a\n",
        "```\n",
        "|\n",
        "- ```\n",
        "# " + " " * 100_000 + "x #\n",
        "# " + "x #" * 30_000 + "\n",
        "- " + "- " * 50_000 + "x\n",
        "-" + " -" * 50_000 + "x\n",
        "1. " + " " * 100_000 + "\n",
        "<claude-mem-context " + "a" * 100_000 + "\n",
        "---\n",
        "---\na:\n",
        "@" * 100_000 + "a.b\n",
        "@" + "a." * 50_000 + "\n",
        "`" * 99_999 + "@a.b\n",
        "[" * 100_000 + "\n",
        "- [a] " + " " * 100_000 + "\n",
        "- a" + " " * 100_000 + "[[b]\n",
    ],
)
def test_a_text_made_to_take_long_takes_no_time(unit):
    text = unit * (200_000 // len(unit))
    began = time.process_time()

    cut(text)
    batch_of_rules(text, where="x", scope="repo")
    batch_of_note(text, where="x", name="x", scope="repo")

    assert time.process_time() - began < 10
