"""`forgectl ui`, against a scripted daemon: what it asks, what it writes, and where it opens it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import stat
from pathlib import Path

import msgspec
import pytest

from forged.cli.ui import verb
from forged.cli.ui.verb import PageData
from forged_client import protocol as wire
from tests.cli import reports

WITHHELD = wire.WithheldFile(id="mem_w", path="/w/.forge/memory/mem_w.md", sha256="ab" * 32, text="Foreign.")
WAITS = wire.Proposed(id="mem_p", content="Proposed.", root="/w")


@pytest.fixture
def filled(daemon):
    """A daemon that has something for every part of the page."""
    trust = wire.RootTrust(root="/w", withheld=1)
    daemon.answers |= {
        wire.ListMemories: wire.Memories(memories=(reports.record("mem_a"),), total=1),
        wire.Review: wire.Reviewed(root=trust, files=(WITHHELD,), waiting=(WAITS,), elsewhere=("/v",)),
        wire.Trust: wire.Trusted(
            roots=(trust, wire.RootTrust(root="/x", withheld=2), wire.RootTrust(root="/y"))
        ),
        wire.ListCaptured: wire.CapturedPage(
            captured=(wire.CapturedEntry(at="2026-05-01T00:00:00Z", text="Said."),), total=1
        ),
        wire.ListInjections: wire.InjectionsPage(
            injections=(wire.InjectedTurn(at="2026-05-01T00:00:00Z", agent="codex"),), total=1
        ),
    }
    return daemon


def data_of(path: Path) -> dict[str, object]:
    html = path.read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(data)


def test_the_page_holds_all_that_the_daemon_tells_and_only_its_owner_reads_it(filled, forgectl, tmp_path):
    shown = forgectl("ui", "--out", str(tmp_path / "new/page.html"))

    path = tmp_path / "new/page.html"
    assert (shown.code, shown.out) == (0, f"{path}\n")
    assert "the page shows 1 memory as of now; run it again to refresh; open it in a browser" in shown.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    data = data_of(path)
    assert [each["id"] for each in data["memories"]] == ["mem_a"]
    assert [(each["root"], each["file"]["text"]) for each in data["withheld"]] == [("/w", "Foreign.")]
    assert [each["content"] for each in data["waiting"]] == ["Proposed."]
    assert [each["text"] for each in data["captured"]] == ["Said."]
    assert [each["agent"] for each in data["injections"]] == ["codex"]
    assert filled.asked(wire.ListMemories).all_versions
    assert not filled.requests_of(wire.Trust)


def test_of_all_repositories_every_root_where_something_waits_is_asked_once(filled, forgectl, tmp_path):
    forgectl("ui", "--all-repos", "--out", str(tmp_path / "page.html"))

    assert [each.workspace for each in filled.requests_of(wire.Review)] == ["/w", "/x", "/v"]
    assert [each["id"] for each in data_of(tmp_path / "page.html")["waiting"]] == ["mem_p"]
    for kind in (wire.ListMemories, wire.ListCaptured, wire.ListInjections):
        assert filled.asked(kind).all_repos


def test_outside_of_a_repository_nothing_is_withheld(filled, forgectl, tmp_path):
    filled.answers[wire.Review] = wire.Failed(status="error", code="invalid", message="no repository")

    shown = forgectl("ui", "--out", str(tmp_path / "page.html"), "--json")

    assert (shown.code, data_of(tmp_path / "page.html")["withheld"]) == (0, [])
    assert shown.json["memories"] == 1


def test_a_link_that_lies_there_is_replaced_and_not_followed(filled, forgectl, tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "page.html").symlink_to(tmp_path / "theirs")

    forgectl("ui", "--out", str(tmp_path / "page.html"))

    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "page.html").is_symlink()


@pytest.mark.parametrize("where", ["", "file/page.html"])
def test_where_it_cannot_be_written_it_says_so_and_what_to_do(filled, forgectl, tmp_path, where):
    (tmp_path / "file").write_text("")

    shown = forgectl("ui", "--out", str(tmp_path / where))

    assert shown.code != 0
    assert "give --out FILE" in shown.err
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("screen", "arguments"), [("DISPLAY", ()), ("WAYLAND_DISPLAY", ()), ("DISPLAY", ("--no-open",)), ("", ())]
)
def test_it_is_opened_where_there_is_a_screen_and_by_the_systems_own_program(
    filled, forgectl, tmp_path, screen, arguments
):
    program = tmp_path / "bin/xdg-open"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$1" > "{tmp_path}/asked"\n')
    program.chmod(0o755)
    out = tmp_path / "page.html"

    shown = forgectl(
        "ui", "--out", str(out), *arguments, "--json", environ={screen: ":0"}, programs=(str(program.parent),)
    )
    opened = bool(screen) and not arguments

    assert shown.json["opened"] is opened
    assert (tmp_path / "asked").exists() is opened
    if opened:
        assert (tmp_path / "asked").read_text() == f"{out}\n"


def test_a_program_that_fails_to_open_it_is_no_browser(filled, forgectl, tmp_path):
    program = tmp_path / "xdg-open"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)

    shown = forgectl("ui", "--out", str(tmp_path / "p"), environ={"DISPLAY": ":0"}, programs=(str(tmp_path),))

    assert (shown.code, "open it in a browser" in shown.err) == (0, True)


# --- the page as text ------------------------------------------------------------------------------------


class _Data(msgspec.Struct):
    text: str


def test_no_text_ends_the_block_that_it_is_in_and_none_is_changed():
    text = (
        "</script><!--<script> ]]> {{script}} {{data}} \\g<1> &amp; \u2028 \u202e \ud800 \x00 🎉 " + "x" * 9
    )
    html = verb.render_page(_Data(text))

    (data,) = re.findall(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["text"] == text
    assert data.isascii()
    assert not set("<>&") & set(data)


def test_the_policy_names_what_is_there_and_allows_nothing_else():
    html = verb.render_page(PageData(made_at="", workspace="/w"))
    (policy,) = re.findall(r'Content-Security-Policy" content="(.*?)"', html)
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "script-src": digest(script),
        "style-src": digest(style),
    }
    assert not re.search(
        r"\b(?:src|href|style)=|@import|url\((?!#)|innerHTML|insertAdjacent|document\.write|eval\(", html
    )
