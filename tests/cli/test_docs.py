from pathlib import Path

import pytest

import forged
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
    """`wc -l` in its place: it alone sees the page, and all of it."""
    shell = Shell(home, "/tmp/forged-nobody-listens/forged.sock", tmp_path, extra={"PAGER": "wc -l"})

    code, shown = shell.on_terminal("docs", "privacy")

    assert (code, shown.split()) == (0, [str(PAGES["privacy"].count("\n"))])
