import pytest

from forged_client.protocol import Status
from tests.support import reports


def test_status_shows_state_roots_and_what_was_counted(daemon, forgectl):
    daemon.answers[Status] = reports.status()

    shown = forgectl("status")

    assert shown.code == 0
    assert shown.out.splitlines() == [
        "ok",
        "  forged 0.1.0, pid 7, up 2 h, 1 connection, /run/forged.sock",
        "  strategy auto, embedding model auto, retrieval model none",
        "",
        "ready  repo  /w",
        "  2,000 memories, legs lexical+dense, generation e:4, built 1 min ago in 12 ms",
        "  watched by inotify, 1 watch",
        "",
        "counted since start: retrieves 3",
    ]


@pytest.mark.parametrize("state", ["degraded", "disabled"])
def test_a_state_that_is_not_ok_comes_first_and_is_no_failure(daemon, forgectl, state):
    daemon.answers[Status] = reports.status(state=state, reason="because", warnings=("mind this",))

    shown = forgectl("status")

    assert shown.code == 0
    assert shown.out.startswith(f"{state}: because\n")
    assert "warning: mind this" in shown.out


def test_status_names_the_first_ten_problem_files_and_counts_the_rest(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=(reports.root(problems=reports.problems(12)),))

    lines = forgectl("status").out.splitlines()

    assert "  12 problems:" in lines
    assert "    /w/.forge/memory/bad9.md: reason 9" in lines
    assert not any("bad10" in line for line in lines)
    assert "    and 2 more" in lines


def test_status_shows_a_build_that_runs_and_one_that_failed(daemon, forgectl):
    building = reports.root(state="building", embedded=40, to_embed=400)
    failed = reports.root(state="failed", last_error="endpoint unreachable", quarantined=1)
    daemon.answers[Status] = reports.status(roots=(building, failed))

    out = forgectl("status").out

    assert "embedding 40 of 400" in out
    assert "last error: endpoint unreachable" in out
    assert "quarantined: 1 text that" in out


def test_status_without_a_daemon_says_so_and_starts_none(no_daemon, forgectl, tmp_path):
    started = tmp_path / "started"
    script = tmp_path / "forged"
    script.write_text(f"#!/bin/sh\ntouch {started}\n")
    script.chmod(0o700)

    shown = forgectl("status", executable=str(script))

    assert (shown.code, shown.out) == (3, "")
    assert "forged is not running" in shown.err
    assert not started.exists()


def test_status_as_json_is_the_whole_report(daemon, forgectl):
    daemon.answers[Status] = reports.status()

    report = forgectl("status", "--json").json

    assert (report["state"], report["socket"], report["counters"]["remembered"]) == (
        "ok",
        "/run/forged.sock",
        0,
    )
    assert report["roots"][0]["legs"] == ["lexical", "dense"]
    assert "type" not in report
    assert "id" not in report


def test_watching_repeats_until_interrupted(daemon, forgectl):
    answers = iter((reports.status(), reports.status(state="degraded")))

    def answer(request):
        return next(answers, None) or reports.status(state="error", status="error", reason="enough")

    daemon.answers[Status] = answer

    shown = forgectl("status", "--watch", "--json", watch_period_s=0.0)

    assert shown.out.count('"schema_version":1') == 3
    assert shown.code == 69
