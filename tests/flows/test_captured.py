"""What a person sees of capture: `forgectl captured` and the next reply; a real daemon, a real shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import Shell, Stage, capturing, on_disk

pytestmark = pytest.mark.long

ASKED = "remember that our API speaks REST on port 8080"
RULE = "We always run the tests with nose2 here."


def shell_of(stage: Stage, top: Path) -> Shell:
    return Shell(stage.daemon.home, stage.daemon.socket, top)


def told(stage: Stage, top: Path, session: str) -> tuple[str, ...]:
    return stage.ask(top, "what now", mode="append", session_id=session).captured


def test_what_was_asked_for_is_kept_or_refused_aloud_and_stands_in_captured(home, repo):
    """Also after a restart before anybody was told, and without a secret anywhere."""
    key = "sk-proj-" + "a1B2c3D4" * 6
    with capturing(home) as stage:
        shell = shell_of(stage, repo)
        stage.captured(
            repo, "Remember this, please.", "ok", RULE, "ok", ASKED, agent="claude", kind="session_end"
        )
        stage.captured(repo, f"my key is {key}", session="keys", agent="codex", kind="explicit")
        stage.daemon.stop()
        stage.daemon.start()

        sentences = told(stage, repo, "s")
        assert [each.split(":")[0] for each in sentences].count("not kept") == 1
        assert any(each.startswith('not kept: "Remember this, please."') for each in sentences)
        assert any("port 8080" in each and "takes it back" in each for each in sentences)
        assert told(stage, repo, "s") == ()
        (secret,) = told(stage, repo, "keys")
        assert secret.startswith("not kept: ")

        found = shell.run("captured", "--json").json["judged"]
        (kept,) = [each for each in found if "8080" in each["text"]]
        assert (kept["why"], kept["agent"], kept["session_id"], kept["kind"]) == (
            "request",
            "claude",
            "s",
            "session_end",
        )
        assert (kept["classifier"], kept["is_there"]) == ("builtin:rules", True)
        assert {each["why"] for each in found if "nose2" in each["text"]} == {"rule"}
        (refused,) = [each for each in found if each["session_id"] == "keys"]
        assert (refused["agent"], refused["reason"] != "", refused["memory_id"]) == ("codex", True, "")
        assert key not in str(found)
        assert key not in str(sentences) + secret

        assert shell.run("captured", "--session", "keys").out.startswith("refused  ")
        assert shell.run("captured", "--today", "--session", "s").out.count("kept  ") == 2
        assert "nothing that you ask for" in shell.run("captured", "--session", "nobody").err


def test_what_is_taken_back_leaves_its_text_nowhere(home, repo):
    with capturing(home) as stage:
        shell = shell_of(stage, repo)
        (kept,) = stage.captured(repo, RULE)
        shown = shell.run("captured").out
        assert f"take it back: forgectl forget {kept.id}\n" in shown

        assert shell.run("forget", kept.id, "--yes").code == 0
        after = shell.run("captured").out

        assert after.startswith("forgotten  ")
        assert "    it was kept, and taken away since\n    why: a rule matched" in after
        assert kept.id not in after
        assert "nose2" not in after
        assert told(stage, repo, "s") == ()
        held = b"".join(file.read_bytes() for file in (home / ".local/state/forged").glob("state.db*"))
        assert b"nose2" not in held

        assert shell.run("restore", kept.id).code == 0
        assert shell.run("captured").out == after


def test_all_repos_shows_every_repository_and_the_way_back_works_from_anywhere(home, repo):
    other = repo.parent / "other repo"
    (other / ".git").mkdir(parents=True)
    with capturing(home) as stage:
        (kept,) = stage.captured(other, RULE)
        shell = shell_of(stage, repo)

        assert "--all-repos looks everywhere" in shell.run("captured").err
        line = next(
            each for each in shell.run("captured", "--all-repos").out.splitlines() if "forget" in each
        )
        assert line.strip() == f"take it back: forgectl forget {kept.id} --workspace '{other}'"
        listed = shell.run("list", "--all-repos", "--since", "1h", "--origin", "typed")
        assert listed.out.split()[4:6] == ["other", "repo"]

        assert shell.run("forget", kept.id, "--workspace", str(other), "--yes").code == 0
        assert on_disk(other) == []
        assert shell.run("list", "--all-repos").err == "no memories\n"
