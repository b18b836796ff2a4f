"""Patterns that every Python from 3.11 on matches alike."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from forged.capture.rules.engine import scope_of
from forged.capture.rules.replacement import replaced_by
from forged.entities import mentions_in
from forged.retrieval.values import is_elliptical, only_continues, says_nothing
from forged.state.forgotten import digest
from forged.text.dates import _named_dates
from forged.text.injected_text import InjectedText, one_line, quoted
from forged.text.redaction import redact
from forged.text.same_text import TextIndex
from forged.text.terms import terms
from forged.text.tool_markup import without_tool_text
from forged_client.private_spans import without_private

REPO = Path(__file__).parents[2]
FILES = sorted(
    path
    for folder in ("forged", "client")
    for suffix in ("py", "toml")
    for path in (REPO / folder).glob(f"**/*.{suffix}")
    if ".venv" not in path.parts
)
# A group that is repeated without going back: `(...)*+`. Of one character or class it is right everywhere.
_POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{[0-9]+,?[0-9]*\})\+")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(REPO)))
def test_no_group_is_repeated_possessively(path):
    """Python 3.11.0 to 3.11.4, as in Debian 12, lose matches of these; `(?>(...)*)` is right in all."""
    found = [line for line in path.read_text("utf-8").splitlines() if _POSSESSIVE_GROUP.search(line)]

    assert found == []


@pytest.mark.parametrize("repeat", ["*+", "++", "?+", "{0,4}+", "{2}+"])
def test_each_form_is_seen(repeat):
    assert _POSSESSIVE_GROUP.search(f"(?:a|b){repeat}")


# --- what any text may cost -------------------------------------------------------------------------------

LONG = 64_000
PIECES = [
    *(
        "x",
        "1",
        "\\",
        "/",
        "-",
        ".",
        "_",
        "<",
        "&",
        "[",
        "(",
        "`",
        '"',
        "'",
        "*",
        ">",
        "=",
        ":",
        " ",
        "\n",
        "\t",
    ),
    *(
        "a.",
        "a-",
        "a_",
        "a/",
        "a:",
        "a@",
        "a ",
        "a\n",
        "- ",
        "`a ",
        '"a ',
        "*a ",
        "<a ",
        "</",
        "[a](",
        "&amp;",
    ),
    *(
        "key=",
        "aB3/",
        "1.",
        "Ab Cd ",
        "we use ",
        "我们",
        "の",
        "ü",
        "é ",
        " \n",
        "forged \\",
        "{",
        "a, ",
        "\t",
        "&amp;",
    ),
]
READERS = {
    "judged": lambda text: replaced_by("We use PostgreSQL now, no longer MySQL.", [text]),
    "judging": lambda text: replaced_by(text, ["We use MySQL for the orders."]),
    "scope": scope_of,
    "spoken of": mentions_in,
    "says nothing": says_nothing,
    "goes on": only_continues,
    "is_elliptical": is_elliptical,
    "digest": lambda text: digest("/repo", text),
    "dates": lambda text: [*_named_dates(text)],
    "injected": lambda text: InjectedText([text]).cut(text, inline=True),
    "private": without_private,
    "quoted": lambda text: quoted(f"forged {text}"),
    "one line": lambda text: one_line(f"forged {text}", 80),
    "secrets": lambda text: redact(f"API_KEY=Xy1zQ9wRt7LpK2mN8vB3{text}"),
    "same": lambda text: TextIndex([text]).has_like("We use PostgreSQL."),
    "terms": terms,
    "tools": without_tool_text,
}


def _cpu_seconds(read, text: str) -> float:
    began = time.thread_time()
    read(text)
    return time.thread_time() - began


@pytest.mark.speed
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("piece", PIECES)
def test_the_time_a_text_takes_grows_no_faster_than_the_text(name, piece):
    """A pattern keeps the interpreter while it works; to the end from each letter takes minutes."""
    read = READERS[name]
    read("We use tabs, not spaces, for Go.")
    short, long = (piece * (length // len(piece)) for length in (LONG // 8, LONG))

    once = _cpu_seconds(read, short)
    assert _cpu_seconds(read, long) < 0.2 + 32 * once
