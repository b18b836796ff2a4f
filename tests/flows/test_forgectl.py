"""forgectl as people and scripts use it: a process of its own against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import FORGECTL, Shell, configuration, processes_with, running
from tests.support.provider import Answer, ScriptedProvider, items

# Everything that moves a cursor, sets a title, hides text or turns its direction; newline and tab do not.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_HOSTILE = "walrus\x1b]0;owned\x07\x1b[2J\r\x08\x9b31m \u202egnp.exe\u200b\ufeff \x7fend"


@pytest.fixture
def shell(daemon, repo) -> Shell:
    """A shell in a trusted repository of its own; these tests share the daemon and its user's memories."""
    daemon.trust(repo)
    return Shell(daemon.home, daemon.socket, repo)


@pytest.fixture
def alone(home, repo) -> Iterator[Shell]:
    """A shell without a daemon; one that a test starts is stopped."""
    with tempfile.TemporaryDirectory(prefix="fg") as directory:
        shell = Shell(home, f"{directory}/s/forged.sock", repo)
        try:
            yield shell
        finally:
            shell.stop_daemon()


def _configure(home: Path, text: str) -> None:
    (home / ".config/forged").mkdir(parents=True, exist_ok=True)
    (home / ".config/forged/config.toml").write_text(text)


def _remember(shell: Shell, *arguments: str) -> tuple[str, str]:
    """Id and generation of a new memory."""
    written = shell.run("remember", *arguments, "--json").json
    return written["memory_id"], written["generation"]


# --- a memory from its birth to the trash ------------------------------------------------------------


def test_a_memory_goes_through_every_verb(shell):
    reported = shell.run("remember", "Migrations run with goose.", "--category", "project-conventions")
    first = re.match(r"remembered (mem_\S+), version 1, repo/project-conventions\npath (.+)\n", reported.out)
    assert reported.code == 0
    assert Path(first[2]).read_text().endswith("---\nMigrations run with goose.")

    listed = shell.run("list")
    assert re.match(rf"{first[1]}  repo/project-conventions  v1  \d{{4}}-\d\d-\d\d  Migr", listed.out)
    shown = shell.run("show", first[1]).out
    assert f"\npath {first[2]}\n" in shown
    assert shown.endswith("\norigin agent\ntrigger explicit\n\nMigrations run with goose.\n")

    second, generation = _remember(shell, "Migrations run with atlas.", "--supersedes", first[1])
    found = shell.run("search", "migrations", "--min-generation", generation)
    assert f"  {second}  repo/project-conventions  v2  " in found.out
    assert f"older: v1 {listed.out.split()[3]} {first[1]}  Migrations run with goose." in found.out

    asked = shell.run("retrieve", "how do migrations run?", "--session", "s1", "--turn", "t1")
    assert re.match(r"<forged-memories [0-9a-f]{16}>\n", asked.out)
    assert " convention] Migrations run with atlas.\n(replaces:)\n> Migrations run with goose.\n" in asked.out
    assert "session s1, turn t1, injected" in shell.run("why", "--session", "s1").out
    assert second in shell.run("why", "migrations").out

    shown = shell.run("show", first[1]).out.partition("\nversions\n")[2].splitlines()
    assert [line.split()[:2] for line in shown] == [["v1", first[1]], ["*", "v2"]]
    assert f"  {second}  " in shown[1]

    gone = shell.run("forget", first[1], "--yes")
    trash = re.search(r"in the trash for 7 days: (.+)\n", gone.out)
    assert gone.out.startswith("forgotten: ")
    assert "not removed: copies in version control history" in gone.out
    assert len(list(Path(trash[1]).rglob(f"{second}.md"))) == 1
    left = shell.run("list")
    assert (left.code, left.out, left.err) == (0, "", "no memories\n")


@pytest.mark.parametrize(("key", "code"), [("y\n", 0), ("n\n", 1), ("\x03", 130), ("\x04", 130)], ids=repr)
def test_forget_asks_a_person_and_does_only_what_was_answered(shell, key, code):
    written, _ = _remember(shell, "the walrus sings")

    def answer(terminal):
        terminal.wait_for("[y/N]: ")
        terminal.type(key)

    ended, text = shell.on_terminal("forget", written, act=answer)

    assert ended == code
    assert text.endswith("\n")
    assert bool(list(shell.directory.rglob(f"{written}.md"))) is (code != 0)


@pytest.mark.parametrize(
    "arguments",
    [
        *("status", "ping", "list", "show ID", "usage", "search walrus", "retrieve walrus"),
        *("retrieve walrus --turn t", "why walrus", "why", "rebuild", "rebuild --wait", "doctor"),
        *("config show", "config path", "config check"),
    ],
)
def test_json_is_one_versioned_object_on_stdout(daemon, shell, arguments):
    with daemon.client(strict=True) as client:
        written = client.remember(str(shell.directory), "the walrus sings")
        message = [{"role": "user", "content": "walrus"}]
        client.retrieve(str(shell.directory), message, min_generation=written.generation)

    shown = shell.run(*arguments.replace("ID", written.memory_id).split(), "--json")

    assert (shown.code, shown.err) == (0, "")
    assert shown.json["schema_version"] == 1
    assert "error" not in shown.json


# --- exit codes --------------------------------------------------------------------------------------


def test_status_without_a_daemon_is_3_and_starts_none(alone):
    shown = alone.run("status")

    assert (shown.code, shown.out) == (3, "")
    assert shown.err.startswith("forgectl: forged is not running; `forgectl ping` starts it (no daemon")
    assert alone.run("status", "--json").json["error"]["code"] == "not_running"
    assert alone.run("list", "--no-autostart").code == 3
    eventually(lambda: processes_with(alone.socket) == [])
    assert list(alone.home.rglob("*")) == []
    assert not os.path.exists(alone.socket)


@pytest.mark.parametrize(
    "verb", [("show", "mem_x"), ("forget", "mem_x", "--yes"), ("forget", "-y", "x", "y")]
)
def test_a_memory_that_is_not_there_is_1(shell, verb):
    shown = shell.run(*verb)

    assert (shown.code, shown.out) == (1, "")
    assert shown.err.startswith("forgectl: no memory ")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["remember", " \n"], "the text is blank"),
        (["remember", "x", "--related", "mem_a:banana"], "unknown relationship 'banana'; use one of "),
        (["list", "--workspace", "/does/not/exist"], "No such file or directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_the_daemon_refuses_is_2_and_says_what_to_change(shell, arguments, complaint):
    shown = shell.run(*arguments)

    assert (shown.code, shown.out) == (2, "")
    assert complaint in shown.err
    assert "Traceback" not in shown.err


def test_a_directory_that_is_gone_is_named_as_the_trouble(shell, tmp_path):
    def from_nowhere(verb):
        place = tmp_path / verb
        place.mkdir()
        script = 'rmdir "$PWD" && exec "$0" "$1"'
        return subprocess.run(
            ["sh", "-c", script, FORGECTL, verb],
            env=shell.env,
            cwd=place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    listed, pinged = from_nowhere("list"), from_nowhere("ping")

    assert (listed.returncode, listed.stdout) == (2, "")
    # A shell that starts it, as pip has one where the path has blanks, may complain first.
    *_, reported = listed.stderr.splitlines()
    assert reported == "forgectl: the current directory no longer exists; name another with --workspace PATH"
    assert (pinged.returncode, pinged.stdout) == (0, "pong\n")


def test_a_provider_that_refuses_is_69_where_nothing_else_can_answer(home, repo):
    put(repo, memory("mem_a", "the walrus sings"))
    with ScriptedProvider() as provider:
        config = configuration(provider, retrieval_lexical_weight=0)
        with running(home, config=config) as daemon:
            daemon.trust(repo)
            shell = Shell(home, daemon.socket, repo)
            assert shell.run("rebuild", "--wait").code == 0
            provider.embeddings = Answer({"error": {"message": "no"}}, status=401)

            shown = shell.run("search", "walrus")

    assert (shown.code, shown.out, shown.err) == (69, "", "forgectl: provider: auth\n")


def test_a_daemon_that_does_not_answer_is_75_and_works_when_it_goes_on(home, repo):
    with running(home) as daemon:
        shell = Shell(home, daemon.socket, repo)
        os.kill(daemon.pid, signal.SIGSTOP)
        shown = [shell.run(verb, "--timeout", "0.3") for verb in ("ping", "status", "list")]
        os.kill(daemon.pid, signal.SIGCONT)

        assert [(each.code, each.out) for each in shown] == [(75, "")] * 3
        assert all("no answer within 0.3 s" in each.err for each in shown)
        assert shell.run("ping").out == "pong\n"


def test_a_first_build_that_hangs_is_75(home, repo):
    put(repo, memory("mem_a", "the walrus sings"))
    with ScriptedProvider() as provider:
        provider.embeddings = Answer(hold=threading.Event())
        config = configuration(provider, retrieval_lexical_weight=0, retrieval_timeout_s=0.3)
        with running(home, config=config) as daemon:
            daemon.trust(repo)
            shell = Shell(home, daemon.socket, repo)
            verbs = [("search", "walrus"), ("retrieve", "walrus"), ("list",), ("show", "mem_a")]
            with ThreadPoolExecutor(len(verbs)) as threads:
                shown = list(threads.map(lambda verb: shell.run(*verb), verbs))
            report = shell.run("status")

    assert [(each.code, each.out) for each in shown] == [(75, "")] * 4
    assert {each.err for each in shown} == {"forgectl: the first index is still being built\n"}
    assert report.code == 0
    assert "search: not ready yet; embedding 0 of 1" in report.out


def test_a_wrong_configuration_is_78_wherever_it_is_met(alone):
    _configure(alone.home, "[memory]\nretrieval_top_k = 900\n")

    shown = [
        alone.run(*verb) for verb in (("ping",), ("remember", "x"), ("config", "check"), ("config", "show"))
    ]

    for each in shown:
        assert (each.code, each.out) == (78, "")
        assert "memory.retrieval_top_k = 900 (file " in each.err
        assert "must be a whole number from 1 to 100" in each.err
    assert alone.run("status").code == 3
    assert Shell(alone.home, "relative.sock", alone.directory).run("ping").code == 78


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ('[trust]\nmode = "pin"\n', "locked"),
        ("[memory]\nstanding_token_budget = 200\n", "memory.pinned_token_budget"),
    ],
)
def test_an_old_word_in_the_configuration_is_78_and_names_the_new_one(alone, written, named):
    _configure(alone.home, written)

    shown = alone.run("ping")

    assert (shown.code, shown.out) == (78, "")
    assert named in shown.err


# --- what is wrong is shown --------------------------------------------------------------------------


@pytest.mark.inotify
def test_a_broken_memory_is_named_by_status_and_doctor_and_breaks_nothing(shell):
    put(shell.directory, memory("mem_a", "the walrus sings"))
    broken = shell.directory / ".forge/memory/mem_b.md"
    broken.write_bytes(b"---\nid: mem_b\n---\ncaf\xe9\n")
    shell.run("rebuild", "--wait")

    report, findings = shell.run("status"), shell.run("doctor")

    assert report.out.partition("\n")[0].endswith("; 1 problem (see below)")
    assert f"  {broken}: not a text file in UTF-8 (see line 4)" in report.out
    assert f"warn  file: {broken}: not a text file in UTF-8" in findings.out
    assert f"ok    repo memories: {broken.parent}, 1 memory, ready\n" in findings.out
    assert (report.code, findings.code) == (0, 0)
    assert "mem_a" in shell.run("search", "walrus").out
    broken.unlink()
    assert eventually(lambda: "; no problems\n" in shell.run("status").out)


@pytest.mark.inotify
def test_files_that_are_no_memories_are_counted_and_named_and_are_no_problem(shell):
    put(shell.directory, memory("mem_a", "the walrus sings"))
    folder = shell.directory / ".forge/memory"
    (folder / "sub").mkdir()
    for name in ("sub/api.md", "deploy.MD", "todo.txt", ".hidden", "mem_a.md~"):
        (folder / name).write_text("text")

    named = shell.run("list", "--problems")
    report = shell.run("status").out

    assert [line.split(": ")[0] for line in named.out.splitlines()] == [
        f"{folder}/{name}" for name in ("deploy.MD", "sub/api.md", "todo.txt")
    ]
    assert "; no problems\n" in report
    assert "3 files are not memories and not read; `forgectl list --problems` shows why" in report
    (folder / "mem_b.md").write_bytes(b"caf\xe9")
    shell.run("rebuild", "--wait")
    assert f"{folder}/mem_b.md: not a text file in UTF-8" in shell.run("list", "--problems").out
    roots = json.loads(shell.run("list", "--problems", "--json").out)["roots"]
    assert [len(each["no_memories"]) for each in roots if each["root"] == str(shell.directory)] == [3]


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("enabled = false", "memory.enabled is false"),
        ('embedding_model = ""', "memory.embedding_model is empty"),
    ],
)
def test_disabled_is_loud_and_no_failure(home, repo, setting, reason):
    put(repo, memory("mem_a", "the walrus sings"))
    with running(home, config=f"[memory]\n{setting}\n") as daemon:
        shell = Shell(home, daemon.socket, repo)
        report = shell.run("status")
        asked = [
            shell.run(*verb) for verb in (("search", "walrus"), ("retrieve", "walrus"), ("why", "walrus"))
        ]
        findings = shell.run("doctor")

    assert report.code == 0
    assert report.out.startswith(f"OFF: {reason}\n")
    assert {(each.code, each.out, each.err) for each in asked} == {
        (0, "", f"forgectl: memory is disabled: {reason}\n")
    }
    assert findings.code == 0
    assert f"warn  state: disabled: {reason}\n" in findings.out


@pytest.mark.long
def test_no_control_of_a_hostile_memory_reaches_the_terminal(shell):
    put(shell.directory, memory("mem_evil", _HOSTILE), memory("mem_b", "b", supersedes="mem_old\x1b[2J"))
    fields = "\n".join(f"{name}: {_yaml(_HOSTILE)}" for name in ("category", "session_id", "created_at"))
    (shell.directory / ".forge/memory/plain.md").write_text(f"---\n{fields}\n---\nwalrus")
    (shell.directory / ".forge/memory/\x1b[2Jevil\u202e.md").write_text("---\nid: x\n")
    shell.run("rebuild", "--wait")

    verbs = [
        *(("list",), ("show", "mem_evil", "plain", "mem_b"), ("search", "walrus")),
        *(("why", "walrus" + _HOSTILE.replace("\x00", "")), ("retrieve", "walrus"), ("status",), ("doctor",)),
        *(("rebuild", "--wait"), ("show", _HOSTILE), ("search", "walrus", "--workspace", "\x1b[2J")),
    ]
    for verb in verbs:
        for form in ((), ("--json",)):
            shown = shell.run(*verb, *form)
            assert shown.out + shown.err
            assert _UNSAFE.search(shown.out + shown.err) is None, verb


def _yaml(text: str) -> str:
    return '"' + "".join(f"\\u{ord(letter):04x}" for letter in text) + '"'


# --- what takes a while ------------------------------------------------------------------------------


@pytest.fixture
def slow(home, repo) -> Iterator[tuple[Shell, Callable[..., None]]]:
    """A shell in a repository of 300 memories, and what lets the provider answer once somebody watches."""
    put(repo, *(memory(f"mem_{number}", f"text number {number}") for number in range(300)))
    with ScriptedProvider() as provider, running(home, config=configuration(provider)) as daemon:
        daemon.trust(repo)
        shell = Shell(home, daemon.socket, repo)
        assert shell.run("rebuild", "--wait").code == 0
        asked, watched = len(provider.requests()), threading.Event()
        provider.embeddings = lambda p, request: Answer({"data": items(p, request)}, hold=watched)

        def release(*_):
            """With one connection for the rebuild, one for its events and one of ours."""
            provider.wait_for(asked + 1)
            with daemon.client() as client:
                eventually(lambda: client.status().connections == 3)
            watched.set()

        yield shell, release


def test_on_a_terminal_a_rebuild_draws_a_bar_and_wipes_it(slow):
    shell, release = slow

    code, text = shell.on_terminal("rebuild", "--full", "--wait", act=release)

    assert code == 0
    assert re.search(r"\r\[#+\.*\] embedding \d+/300\x1b\[K", text)
    assert re.search(r"\r\x1b\[Kall memory files were read\r\n", text)


def test_watching_status_ends_on_ctrl_c_as_a_success(shell):
    with shell.start("status", "--watch") as process:
        assert process.stdout.readline().startswith("on")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, err) == (0, "")
    assert "Traceback" not in out


def test_the_demo_succeeds_and_leaves_neither_process_nor_directory(home, repo):
    scratch = tempfile.mkdtemp(prefix="fd")
    try:
        shown = Shell(home, "/tmp/forged-nobody/forged.sock", repo, {"TMPDIR": scratch}).run("demo")

        assert (shown.code, shown.err) == (0, "")
        assert "\nDone in " in shown.out
        assert os.listdir(scratch) == []
        eventually(lambda: processes_with(scratch) == [])  # a daemon's helpers end a moment after it
        assert list(home.iterdir()) == []
    finally:
        shutil.rmtree(scratch)


def test_a_demo_that_is_ended_takes_its_daemon_and_its_directory_along(home, repo):
    with tempfile.TemporaryDirectory(prefix="fd") as scratch:
        with Shell(home, "/tmp/forged-nobody/forged.sock", repo, {"TMPDIR": scratch}).start(
            "demo"
        ) as process:
            eventually(lambda: os.listdir(scratch) and processes_with(f"{os.listdir(scratch)[0]}/run"))
            process.terminate()
            assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM

        assert os.listdir(scratch) == []
        eventually(lambda: processes_with(scratch) == [])


# --- text in a locale that cannot say it -----------------------------------------------------------------

LOCALES = {
    "C": {"LANG": "C", "LC_ALL": "C"},
    "C, not coerced": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ASCII streams": {"PYTHONIOENCODING": "ascii"},
    "latin-1 streams": {"PYTHONIOENCODING": "latin-1"},
    "no locale": {"LANG": ""},
}
_WORDS = "Größe 页边距 naïve 🦊"


def _in_locales(*values: str) -> list[object]:
    """The first of these in every locale and the others in one; `make test-all` has all of them in all."""
    return [
        pytest.param(value, LOCALES[locale], id=f"{value}-{locale}", marks=marks)
        for value in values
        for locale in LOCALES
        for marks in [() if value == values[0] or locale == "C, not coerced" else pytest.mark.long]
    ]


@pytest.mark.parametrize(("way", "locale"), _in_locales("stdin", "argument", "path"))
def test_a_text_is_utf_8_whatever_the_locale_says(daemon, repo, locale, way):
    deeper = repo / _WORDS
    deeper.mkdir()
    daemon.trust(repo)
    shell = Shell(daemon.home, daemon.socket, deeper if way == "path" else repo, locale)
    reported = f"The margin is called {_WORDS}."

    done = subprocess.run(
        [FORGECTL, "remember", "-" if way == "stdin" else reported],
        env=shell.env,
        cwd=shell.directory,
        input=reported.encode(),
        capture_output=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    (path,) = (repo / ".forge/memory").iterdir()
    assert path.read_text("utf-8").endswith(f"---\n{reported}")
    shown = subprocess.run(
        [FORGECTL, "list"], env=shell.env, cwd=shell.directory, capture_output=True, timeout=60
    )
    assert (shown.returncode, shown.stderr) == (0, b"")
    assert path.stem.encode() in shown.stdout


@pytest.mark.parametrize(
    ("verb", "locale"), _in_locales("remember -", "retrieve -", "retrieve --stdin-json", "edit mem_x -")
)
def test_bytes_that_are_no_utf_8_are_refused_and_nothing_is_stored(daemon, repo, locale, verb):
    shell = Shell(daemon.home, daemon.socket, repo, locale)

    done = subprocess.run(
        [FORGECTL, *verb.split()],
        env=shell.env,
        cwd=repo,
        input="café is the word".encode("latin-1"),
        capture_output=True,
        timeout=60,
    )

    assert (done.returncode, done.stdout) == (2, b"")
    assert b"stdin is not UTF-8 at byte 3; nothing was done: convert it first" in done.stderr
    assert not (repo / ".forge").exists()
