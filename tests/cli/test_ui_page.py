"""The page of `forgectl ui` in a real browser: what a person sees, and does with keys and mouse.

Each test that opens a page ends with the same question: nothing on the console, no request.
"""

from __future__ import annotations

import random
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from forged.cli.ui import verb as pages
from forged.cli.ui.verb import PageData, WithheldRow
from forged_client import protocol as wire
from tests.data.memories import memory, put
from tests.support.browser import Chromium, Page, browsing, needs_chromium
from tests.support.daemon import Shell, running

pytestmark = needs_chromium

TOP = "/home/me/shop"
NOW = "2026-11-23T12:00:00+00:00"
Look = Callable[..., Page]


def record(memory_id: str, content: str, **fields: object) -> wire.MemoryRecord:
    given: dict[str, object] = {
        "scope": "repo",
        "category": "patterns",
        "version": 1,
        "created_at": "2026-11-20T10:00:00Z",
        "updated_at": "2026-11-20T10:00:00Z",
        "session_id": "s-1",
        "trigger": "cadence",
        "root": TOP,
        "origin": "typed",
    }
    return wire.MemoryRecord(id=memory_id, content=content, **{**given, **fields})  # type: ignore[arg-type]


OLD = record("mem_old", "Deploys happen on Mondays.", is_head=False)
NEW = record("mem_new", "Deploys happen on Tuesdays, by hand.", version=2, supersedes="mem_old")
STALE = record(
    "mem_stale",
    "Tests run by make.\n\nNever call the runner itself.",
    category="project-conventions",
    evidence=("Makefile:3", "it's here.md"),
    stale=("Makefile",),
    cues=("when a runner is chosen",),
)
MINE = record("mem_mine", "Answer in short sentences.", scope="user", root="/home/me", origin="explicit")
LINKED = record(
    "mem_linked",
    "Queues are drained first.",
    related=(wire.Edge("mem_new", "refines"), wire.Edge("mem_gone")),
    root=TOP,
)
FAR = record("mem_far", "Of another repository.", root="/srv/other shop", stale=("x",), origin="agent")
STORE = (NEW, STALE, MINE, LINKED, FAR, OLD)
TURN = wire.InjectedTurn(
    at="2026-11-22T09:00:00Z",
    roots=(TOP, "/home/me"),
    session_id="s-9",
    agent="codex",
    turn_id="4",
    strategy="direct",
    memories=(
        wire.InjectedMemory(
            id="mem_new", root=TOP, version=2, found_by="search", admitted_as="strong", sessions=2
        ),
        wire.InjectedMemory(id="mem_unknown", root=TOP, version=1, found_by="pinned", admitted_as="pinned"),
    ),
)
KEPT = wire.CapturedEntry(
    at="2026-11-22T08:00:00Z",
    text="Deploys happen on Tuesdays",
    memory_id="mem_new",
    root=TOP,
    agent="claude",
    kind="session_end",
    why="rule",
    classifier="builtin:rules",
    is_there=True,
)
REFUSED = wire.CapturedEntry(
    at="2026-11-20T08:00:00Z",
    text="Remember this.",
    reason="it does not say what",
    kind="turn",
    classifier="gpt-x",
)
FOREIGN = wire.WithheldFile(
    id="mem_w",
    path=".forge/memory/mem_w.md",
    sha256="ab12" * 16,
    why="nobody trusted it",
    text="Run anything.",
)
WAITS = wire.Proposed(
    id="mem_p", content="Pasted, perhaps.", why="it was pasted", pasted="From: them", root=TOP
)
SEEN = PageData(
    made_at=NOW,
    workspace=f"{TOP}/src",
    memories=STORE,
    withheld=(WithheldRow(TOP, FOREIGN),),
    waiting=(WAITS,),
    captured=(KEPT, REFUSED),
    injections=(TURN,),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with browsing() as browser:
        yield browser


@pytest.fixture
def look(browser: Chromium, tmp_path: Path) -> Iterator[Look]:
    """Open a page of what was seen; at the end of the test none may have complained or asked for anything."""
    opened: list[Page] = []

    def opening(seen: PageData = SEEN, **window: object) -> Page:
        file = tmp_path / f"page {len(opened)}.html"
        file.write_text(pages.render_page(seen))
        opened.append(Page(browser, **window))  # type: ignore[arg-type]
        opened[-1].open(file)
        return opened[-1]

    yield opening
    assert [fault for page in opened for fault in page.faults] == []


def rows(page: Page) -> list[str]:
    return page.texts("#list .line")


def choose(page: Page, field: str, value: str) -> None:
    script = f"""(() => {{
        const select = document.querySelector('select[data-field="{field}"]');
        select.value = {value!r};
        select.dispatchEvent(new Event("change", {{bubbles: true}}));
    }})()"""
    page.value(script)


def search(page: Page, query: str) -> list[str]:
    if focus(page) != "query":
        page.press("/")
    page.value("document.querySelector('#query').select()")
    page.type(query)
    return rows(page)


# --- search and filters --------------------------------------------------------------------------------


def test_a_search_finds_what_holds_every_word_as_it_is_typed_and_marks_the_words(look):
    page = look()

    assert len(rows(page)) == 5
    assert search(page, "DEPLOYS hand") == ["Deploys happen on Tuesdays, by hand."]
    assert page.texts("#list mark") == ["Deploys", "hand"]
    assert page.texts("#detail mark") == ["Deploys", "hand"]
    assert page.text("#count") == "1 of 5"
    assert search(page, '"happen on tuesdays" deploys') == ["Deploys happen on Tuesdays, by hand."]
    assert search(page, '"tuesdays happen"') == []


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("chosen", "Tests run by make."),  # a cue
        ("here.md", "Tests run by make."),  # what it stands on
        ("mem_mine", "Answer in short sentences."),
        ("itself", "…Never call the runner itself."),  # the line that has it
        ("a.b*c(", None),
    ],
)
def test_a_search_looks_at_all_of_a_memory_and_shows_the_line_that_has_it(look, query, line):
    assert search(look(), query) == ([line] if line else [])


@pytest.mark.parametrize(
    ("field", "value", "ids"),
    [
        ("scope", "user", {MINE.content}),
        ("category", "project-conventions", {"Tests run by make."}),
        ("origin", "agent", {FAR.content}),
        ("root", "/srv/other shop", {FAR.content}),
        ("state", "stale", {"Tests run by make.", FAR.content}),
        ("state", "superseded", {OLD.content}),
        ("state", "withheld", {"Run anything."}),
        ("state", "waiting", {"Pasted, perhaps."}),
        ("state", "all", {"Tests run by make.", "Run anything.", "Pasted, perhaps.", NEW.content, OLD.content}
         | {MINE.content, FAR.content, LINKED.content}),
    ],
)  # fmt: skip
def test_filters_show_what_they_name(look, field, value, ids):
    page = look()

    choose(page, field, value)

    assert set(rows(page)) == ids


# --- one memory ----------------------------------------------------------------------------------------


def test_a_chain_shows_every_version_newest_first_and_word_by_word_what_changed(look):
    page = look()
    search(page, "deploys")

    versions = page.texts("#detail .versions li")
    assert [text.split()[0] for text in versions] == ["v2", "v1"]
    assert page.texts("#detail del") == ["Mondays"]
    assert page.texts("#detail ins") == ["Tuesdays, by hand"]
    page.click("#detail .versions li:last-child button")
    assert page.text("#detail h2") == OLD.content
    assert page.texts("#detail ins") == []
    page.click("#detail .versions summary")
    page.wait("document.querySelector('#detail ins')?.checkVisibility()")
    assert page.texts("#detail ins") == ["Tuesdays, by hand"]
    assert "superseded" in page.text("#detail .badges")


def test_the_text_is_whole_and_next_to_it_is_where_it_is_from_and_what_became_of_it(look):
    page = look()
    search(page, "runner")

    assert page.text("#detail h2") == "Tests run by make."
    assert page.text("#detail > .text") == "Never call the runner itself."
    assert page.texts("#detail section h3") == ["Cues", "Evidence", "Injected", "About this memory"]
    assert "Makefile:3 changed" in page.texts("#detail li")
    search(page, "tuesdays")
    assert "1 turn of 1 session in the last 30 days; 2 sessions found this version" in page.text("#detail")
    assert "codex strong match" in page.text("#detail")
    assert "a rule matched what you typed; judged by builtin:rules" in page.text("#detail dl")
    search(page, "queues")
    assert page.texts("#detail .links li") == [
        "→ refines Deploys happen on Tuesdays, by hand.",
        "→ relates-to mem_gone (no longer there)",
    ]


def test_what_is_stale_or_withheld_or_waits_comes_with_the_commands_that_mend_it(look):
    page = look()
    page.press("4")

    assert page.texts("#attention .command code") == [
        "forgectl review --keep mem_p",
        "forgectl review --drop mem_p",
        "forgectl review --accept ab12ab12ab12ab12",
        "forgectl trust",
        "forgectl edit mem_stale --evidence Makefile:3 --evidence 'it'\\''s here.md'",
        "forgectl edit mem_stale",
        "forgectl forget mem_stale",
        "forgectl edit mem_far --workspace '/srv/other shop'",
        "forgectl forget mem_far --workspace '/srv/other shop'",
    ]
    assert page.text("#tab-attention .badge") == "4"
    page.value("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.click("#attention .copy")
    assert page.value("window.copied") == "forgectl review --keep mem_p"


@pytest.mark.parametrize("path", ["a\u202eb", "a\nb", "a\tb", "\u200bMakefile"])
def test_a_path_that_is_not_what_it_looks_like_gets_into_no_command(look, path):
    page = look(replace(SEEN, memories=(replace(STALE, evidence=(path,)),), withheld=(), waiting=()))
    page.press("4")

    assert page.texts("#attention .command code") == ["forgectl edit mem_stale", "forgectl forget mem_stale"]
    assert "It is still true: no command, because an id or path" in page.text("#attention .trouble")


def test_versions_that_are_concurrent_are_named_with_both_ways_out(look):
    fork = replace(NEW, id="mem_fork", concurrent_heads=("mem_new",))
    page = look(
        replace(SEEN, memories=(replace(NEW, concurrent_heads=("mem_fork",)), fork), withheld=(), waiting=())
    )
    page.press("4")

    assert page.texts("#attention .command code")[:2] == [
        "forgectl edit mem_new --relate mem_fork:supersedes",
        "forgectl edit mem_fork --relate mem_new:supersedes",
    ]


# --- captures and injections ---------------------------------------------------------------------------


def test_captures_stand_day_by_day_kept_and_refused_with_the_reason_and_a_bar_shows_its_day(look):
    page = look()
    page.press("2")

    assert [text.split()[0] for text in page.texts("#captures li")] == ["Saved", "Not"]
    assert "Why not: it does not say what" in page.texts("#captures li")[1]
    assert page.value("document.querySelectorAll('#captures .bar').length") == 30
    page.click('#captures .bar[data-day="2026-11-20"]')
    assert [text.split()[0] for text in page.texts("#captures li")] == ["Not"]
    page.click('#captures .bar[data-day="2026-11-20"]')
    assert len(page.texts("#captures li")) == 2
    page.click("#captures li .link")
    assert page.text("#detail h2") == NEW.content


def test_injections_say_who_got_what_and_how_much_spoke_for_it_and_claim_no_more(look):
    page = look()
    page.press("3")

    (turn,) = page.texts("#injections .cards > li")
    assert "codex 2026-11-22 09:00 session s-9, turn 4, direct, /home/me/shop" in turn
    assert "strong strong match" in turn
    assert "mem_unknown (not shown here)" in turn
    assert page.texts("#injections tbody tr:first-child td")[1:] == ["1", "1", "1", "codex"]
    assert "4 of 5 memories never injected in the last 30 days" in page.text("#injections")
    assert "whether the agent made use of it is not known" in page.text("#injections")
    page.click("#injections tbody .link")
    assert page.text("#detail h2") == NEW.content


def test_an_empty_store_says_so_in_every_view(look):
    page = look(PageData(made_at=NOW, workspace=TOP))
    reported = [page.text("#detail .nothing")]
    for key, view in (("2", "captures"), ("3", "injections"), ("4", "attention")):
        page.press(key)
        reported.append(page.text(f"#{view} .nothing"))

    assert [text.split(".")[0] for text in reported] == [
        "There is no memory yet",
        "Nothing was captured here yet",
        "No turn of an agent has got a memory here in the last 30 days",
        "Nothing waits for you",
    ]


# --- keys, themes, windows -----------------------------------------------------------------------------


def focus(page: Page) -> str:
    return str(page.value("document.activeElement.id || document.activeElement.tagName"))


def test_everything_can_be_done_by_keys(look):
    page = look()
    title = "#detail h2"
    assert page.text(title) == NEW.content
    page.press("j")
    assert page.text(title) == "Tests run by make."
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("k")
    assert page.text(title) == MINE.content
    assert page.value("document.querySelector('#list [aria-selected=true]').id") == page.value(
        "document.querySelector('#list').getAttribute('aria-activedescendant')"
    )
    page.press("Enter")
    assert focus(page) == "pane"
    page.press("Escape")
    assert focus(page) == "list"
    page.press("/")
    page.type("j")
    assert (focus(page), page.value("document.querySelector('#query').value")) == ("query", "j")
    page.press("Escape")
    assert page.value("document.querySelector('#query').value") == ""
    page.press("Escape")
    page.press("?")
    assert page.value("document.querySelector('#help').open")
    page.press("Escape")
    assert not page.value("document.querySelector('#help').open")
    for key, view in enumerate(("memories", "captures", "injections", "attention"), 1):
        page.press(str(key))
        shown = "[...document.querySelectorAll('main > section:not([hidden])')].map((each) => each.id)"
        assert page.value(shown) == [view]
        assert page.value(f"document.querySelector('#tab-{view}').ariaSelected") == "true"
    page.press("Escape")
    assert page.value("document.querySelector('#memories').checkVisibility()")


def test_what_has_the_focus_is_seen(look):
    page = look()
    page.press("4")
    page.value("document.querySelector('#tab-attention').focus()")
    page.press("ArrowLeft")

    assert focus(page) == "tab-injections"
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def luminance(page: Page, what: str, selector: str = "body") -> float:
    colour = page.value(f"getComputedStyle(document.querySelector({selector!r})).{what}")
    red, green, blue = (
        (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4)
        for part in (int(each) / 255 for each in re.findall(r"\d+", colour)[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_either_theme_is_that_of_the_system_until_someone_chooses_and_can_be_read(look, theme):
    page = look(theme=theme)
    is_dark = theme == "dark"

    assert (luminance(page, "backgroundColor") < 0.2) is is_dark
    for selector in ("body", "#detail .hint, #detail h3", "#list .about", "#filters select"):
        one, other = sorted((luminance(page, "color", selector), luminance(page, "backgroundColor")))
        assert (other + 0.05) / (one + 0.05) >= 4.5, selector
    page.press("t")
    assert (luminance(page, "backgroundColor") < 0.2) is not is_dark
    page.value("localStorage.removeItem('forged-theme')")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 760, 1280, 1920])
def test_no_window_is_too_narrow_for_any_view(look, width, theme):
    page = look(width=width, height=700, theme=theme)
    for key in "1234":
        page.press(key)
        assert page.value("document.scrollingElement.scrollWidth") <= width, key
        shown = "document.querySelector('main > section:not([hidden])')"
        assert page.value(f"{shown}.scrollWidth <= {shown}.clientWidth"), key


def test_on_a_narrow_window_the_text_lies_over_the_list(look):
    page = look(width=390, height=780)

    assert page.texts("#detail h2") == []
    page.click("#list .row:nth-child(2)")
    assert page.text("#detail h2") == "Tests run by make."
    assert rows(page) == []
    page.click("#back")
    assert len(rows(page)) == 5


# --- foreign text --------------------------------------------------------------------------------------

_WICKED = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg onload=window.hacked=1>",
    "javascript:window.hacked=1",
    "&lt;b&gt; &amp;amp; &#60;script&#62; &nbsp;",
    "]]> --> */ {{script}} {{data}} ${1} \\u003c \\x3c \\",
    "\u202eevil\u202c \u2066isolated\u2069 \u200f",
    "zero\u200bwidth\u200d\ufeff\u2060 soft\u00adhyphen \u034f\u115f\u3164",
    "\U000e0041\U000e0042 tags \U0001d173",
    "\x00\x07\x1b[31m\x7f\x9b controls\r",
    "\ud800 lone \udfff surrogates \udc00\ud800",
    "שלום עולם مرحبا",
    "🎉 👩‍💻 e\u0301\u0327\u0324\u0330",
    "' \" ` = > < /",
    "x" * 20_000,
    "nbsp\u00a0and\u2028separators\u2029",
    "__proto__ constructor toString",
    "<style>*{display:none}</style><base href=//evil.example><meta http-equiv=refresh content=0>",
)


def wicked() -> list[str]:
    """200 texts: each of the wicked, then two or three of them together."""
    draw, short = random.Random(1), [each for each in _WICKED if len(each) < 1000]
    together = (" ".join(draw.sample(short, draw.randint(2, 3))) for _ in range(200 - len(_WICKED)))
    return [*_WICKED, *together]


def seen_as(text: str) -> str:
    """What of a text must stand on the screen."""
    fillers = "\u034f\u115f\u3164\u2028\u2029"
    return "".join(
        f"U+{ord(each):04X}"
        if each in fillers or (unicodedata.category(each) in {"Cc", "Cf", "Cs"} and each not in "\n\t")
        else each
        for each in text
    )


def test_200_wicked_texts_in_every_field_stand_there_as_text(look):
    texts = wicked()
    memories = tuple(
        record(
            f"mem_{number}",
            f"begin\n{text}\nend",
            category=text,
            session_id=text,
            origin=text[:50],
            cues=(text,),
            evidence=(text,),
            stale=(text,),
            related=(wire.Edge(f"mem_{number - 1}", text), wire.Edge(text, "to")),
            supersedes=f"mem_{number - 7}",
            entities=(text, "goose"),
            relations=(wire.Relation(text, text, "goose"),),
        )
        for number, text in enumerate(texts)
    )
    page = look(
        PageData(
            made_at=NOW,
            workspace=TOP,
            memories=memories,
            captured=tuple(replace(REFUSED, text=each, reason=each, why=each, agent=each) for each in texts),
            injections=tuple(
                replace(TURN, agent=each, memories=(replace(TURN.memories[0], id=each, admitted_as=each),))
                for each in texts
            ),
            withheld=tuple(
                WithheldRow(TOP, replace(FOREIGN, path=str(n), text=each, why=each))
                for n, each in enumerate(texts)
            ),
            waiting=tuple(
                replace(WAITS, id=str(n), content=each, pasted=each) for n, each in enumerate(texts)
            ),
        )
    )
    script = """store.data.memories.map((memory) => {
        go(keyOf(memory));
        return ["#detail > .text", "#detail dl"].map((each) => document.querySelector(each).textContent);
    })"""
    for text, (shown, facts) in zip(texts, page.value(script), strict=True):
        assert shown == f"{seen_as(text)}\nend"
        assert seen_as(text) in facts
    for key in "4321":
        page.press(key)
    assert page.value("typeof window.hacked") == "undefined"
    ours = "script, style, img, base, iframe, object, link, main [onload], main [onerror]"
    assert page.value(f"document.querySelectorAll('{ours}').length") == 3  # the data, the script, the style


def test_whatever_got_into_the_page_could_not_run(browser, tmp_path):
    (tmp_path / "page.html").write_text(pages.render_page(SEEN))
    page = Page(browser)
    page.open(tmp_path / "page.html")

    page.value(
        """document.body.append(
            Object.assign(document.createElement("script"), {textContent: "window.hacked = 1"}),
            Object.assign(new Image(), {src: "http://127.0.0.1:9/x.png"}),
        )"""
    )

    assert page.value("typeof window.hacked") == "undefined"
    assert page.value("fetch('http://127.0.0.1:9/').then(() => 'asked', () => 'refused')") == "refused"
    assert "violates the following Content Security Policy" in " ".join(page.faults)


# --- size, and the whole way ---------------------------------------------------------------------------


def many(count: int) -> Sequence[wire.MemoryRecord]:
    words = (
        "deploy",
        "queue",
        "test",
        "runner",
        "staging",
        "flag",
        "release",
        "migration",
        "webhook",
        "retry",
    )
    draw = random.Random(2)
    return tuple(
        record(f"mem_{number}", f"Memory {number}: {' '.join(draw.choices(words, k=60))}.", cues=("a cue",))
        for number in range(count)
    )


def test_5_000_memories_are_there_at_once_and_only_those_in_sight_are_drawn(browser, tmp_path, capsys):
    file = tmp_path / "page.html"
    memories = tuple(
        replace(each, entities=(f"part_{at % 700}", f"service_{at % 97}", f"alone_{at}"))
        for at, each in enumerate(many(5000))
    )
    seen = PageData(made_at=NOW, workspace=TOP, memories=memories)
    file.write_text(pages.render_page(seen))
    page = Page(browser)

    took = page.open(file)
    before = time.monotonic()
    found = search(page, "4711")
    with capsys.disabled():
        print(
            f"\n5,000 memories, {file.stat().st_size / 1e6:.1f} MB: {took:.2f} s until they are there,",
            end=" ",
        )
        print(f"{time.monotonic() - before:.2f} s for a search as a person types it")

    assert [text[:12] for text in found] == ["Memory 4711:"]
    page.press("Escape")
    page.press("Escape")
    page.value("document.querySelector('#list').scrollTop = 1e9")
    page.wait("document.querySelector('#row-4999') !== null")
    assert page.value("document.querySelectorAll('#list .row').length") < 60
    assert page.faults == []


def test_from_a_daemon_to_the_browser_and_gone_when_it_is_forgotten(home, repo, look, browser):
    put(repo, memory("mem_pytest", "The tests of this repository run with pytest and never with unittest."))
    with running(home) as daemon:
        shell = Shell(home, daemon.socket, repo)
        daemon.trust(repo)
        with daemon.client() as client:
            asked = "Which runner do the tests of this repository use, pytest or unittest?"
            got = client.retrieve(
                str(repo), [{"role": "user", "content": asked}], session_id="s", agent="gemini"
            )
            assert got.memories
        path = Path(shell.run("ui", "--no-open", "--json").json["path"])
        page = Page(browser)
        page.open(path)

        assert rows(page) == ["The tests of this repository run with pytest and never with unittest."]
        assert "gemini" in page.text("#detail")
        page.press("3")
        assert len(page.texts("#injections .cards > li")) == 1
        assert page.faults == []

        assert shell.run("forget", "mem_pytest", "--yes").code == 0
        assert not path.exists()
