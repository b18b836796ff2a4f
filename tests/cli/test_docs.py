import re
from pathlib import Path

import pytest

import forged
from forged.cli.docs import rendered
from forged.cli.tables import cells
from forged.cli.terminal import Painter
from tests.support.daemon import Shell

PAGES = {page.stem: page.read_text() for page in (Path(forged.__file__).parent / "docs").glob("*.md")}


def test_every_page_is_listed_with_what_it_is_about(forgectl, no_daemon):
    shown = forgectl("docs")

    assert (shown.code, shown.err) == (0, "")
    assert [line.split(maxsplit=1) for line in shown.out.splitlines()] == [
        [topic, PAGES[topic].splitlines()[2]] for topic in sorted(PAGES)
    ]


@pytest.mark.parametrize("topic", PAGES)
def test_a_page_is_printed_as_it_is(forgectl, no_daemon, topic):
    assert forgectl("docs", topic).out == PAGES[topic]


@pytest.mark.parametrize(
    ("topic", "reported"),
    [
        ("configuratoin", "there is no page 'configuratoin'; did you mean 'configuration'?"),
        ("zzz", f"there is no page 'zzz'; there are: {', '.join(sorted(PAGES))}"),
        ("../config/keys", "there is no page '../config/keys'"),
    ],
)
def test_an_unknown_page_is_refused_with_what_was_perhaps_meant(forgectl, topic, reported):
    shown = forgectl("docs", topic)

    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"forgectl: {reported}")


def test_pages_and_their_list_as_json(forgectl):
    assert forgectl("docs", "--json").json["topics"].keys() == PAGES.keys()
    assert forgectl("docs", "privacy", "--json").json["text"] == PAGES["privacy"].rstrip("\n")
    assert forgectl("docs", "nonsense", "--json").json["error"]["code"] == "usage"


def test_the_folder_of_the_pages_can_be_asked_for(forgectl):
    folder = Path(forgectl("docs", "--path").out.rstrip("\n"))

    assert {page.stem for page in folder.glob("*.md")} == PAGES.keys()


def test_a_terminal_gets_a_pager(home, tmp_path):
    """`cat` in its place: it alone sees the page."""
    shell = Shell(home, "/tmp/forged-nobody-listens/forged.sock", tmp_path, extra={"PAGER": "cat"})

    code, shown = shell.on_terminal("docs", "privacy")

    assert (code, shown.splitlines()[0]) == (0, "Privacy")


PAGE = """# A head

Some words that are long
enough, with a [link](other.md#there):

- one item
  of two lines
- another

| key | range | |
|---|---|---|
| `a` | 1 to 3 | a \\| b |

| option | |
|---|---|
| `--long-option VALUE` | a text that has no room next to it |

```sh
forgectl  docs
```
"""


def test_a_page_is_laid_out_for_a_terminal():
    assert list(rendered(PAGE.rstrip("\n"), Painter(), 40)) == [
        *("A head", ""),
        *("Some words that are long enough, with a", "link:", ""),
        *("- one item of two lines", "- another", ""),
        *("key  range   ", "`a`  1 to 3  a | b", ""),
        *("`--long-option VALUE`", "    a text that has no room next to it", ""),
        "    forgectl  docs",
    ]


@pytest.mark.parametrize("topic", PAGES)
@pytest.mark.parametrize("width", [60, 100])
def test_each_page_fits_a_terminal_and_keeps_its_words(topic, width):
    lines = list(rendered(PAGES[topic].rstrip("\n"), Painter(), width))
    # Without targets of links, languages of code, and heads of tables, some of which have one word.
    text = re.sub(r"\]\([^)]*\)|^```.*$|^\|.*\n(?=\|---)", "", PAGES[topic], flags=re.MULTILINE)
    words = set(re.findall(r"[a-z]{4,}", text))

    assert max(cells(line) for line in lines if not line.startswith("    ")) <= width
    assert words <= set(re.findall(r"[a-z]{4,}", " ".join(lines)))
