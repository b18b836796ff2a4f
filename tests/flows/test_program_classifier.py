"""A program of the person's own decides what is kept: by a real daemon and its worker."""

from __future__ import annotations

from pathlib import Path

from tests.support.clock import eventually
from tests.support.daemon import capturing, contents, is_alive, on_disk

KEPT = '[{"content": "Deploy on Fridays.", "scope": "repo", "category": "project-conventions"}]'


def tool(folder: Path, *lines: str) -> str:
    folder.mkdir()
    path = folder / "tool"
    path.write_text("\n".join(("#!/bin/sh", f"OUT={folder}", *lines, "")))
    path.chmod(0o755)
    return str(path)


def test_what_it_says_is_kept_counted_and_listed_and_it_is_asked_by_name_alone(home, repo, tmp_path):
    command = tool(tmp_path / "bin", "cat >> $OUT/in", f"echo '{KEPT}'")
    env = {"FORGED_LLM__COMMAND": command}
    with capturing(home, env=env, classifier_model="cmd:mine") as stage:
        stage.capture(repo, "we deploy on fridays, remember that")
        stage.until(lambda now: now.finished == 1)
        cost = stage.client.cost()
        left = stage.client.egress()
        status = stage.client.status()

        assert contents(on_disk(repo)) == ["Deploy on Fridays."]
        assert "we deploy on fridays" in (tmp_path / "bin" / "in").read_text()
        assert [(day.purpose, day.calls, day.failed) for day in cost.days] == [("capture", 1, 0)]
        assert [(each.host, each.purpose, each.calls) for each in left.days] == [("cmd:mine", "capture", 1)]
        assert status.capture.classifier == "cmd:mine"
        assert not [reported for reported in status.warnings if "forged put there" in reported], (
            "its folder is ours"
        )
        assert stage.provider.requests() == []


def test_a_person_sees_it_answer_or_why_not(home, tmp_path):
    """By a call that the daemon makes itself."""
    command = tool(
        tmp_path / "bin", "test -e $OUT/login && echo ok && exit", "echo 'not logged in' >&2; exit 1"
    )
    with capturing(home, env={"FORGED_LLM__COMMAND": command}, classifier_model="cmd:mine") as stage:
        (refused,) = stage.client.try_endpoints().trials
        (tmp_path / "bin" / "login").touch()
        (fine,) = stage.client.try_endpoints().trials

    assert (refused.host, refused.ok, refused.reason) == ("cmd:mine", False, "auth")
    assert refused.message == "cmd:mine: not logged in"
    assert (fine.ok, fine.uses) == (True, ("capture",))


def test_a_daemon_that_is_killed_leaves_no_program_behind(home, repo, tmp_path):
    command = tool(tmp_path / "bin", "trap '' TERM", "echo $$ > $OUT/new; mv $OUT/new $OUT/pid", "sleep 77")
    with capturing(home, env={"FORGED_LLM__COMMAND": command}, classifier_model="cmd:mine") as stage:
        stage.capture(repo, "we deploy on fridays, remember that")
        eventually((tmp_path / "bin" / "pid").exists)
        stage.daemon.kill()

    pid = int((tmp_path / "bin" / "pid").read_text())
    eventually(lambda: not is_alive(pid))
