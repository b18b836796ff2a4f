"""The process that sends a request: a person's at a terminal, or one of an agent."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged.agent_table import AgentRow, agent_rows, agent_that_runs
from forged.daemon import connection
from forged.daemon.connection import Peer
from tests.support.clock import eventually
from tests.support.daemon.terminals import shell_of_its_own

ROWS = list(agent_rows().values())
PACKAGES = {row.program: row.install.split()[-1] for row in ROWS if row.install.startswith("npm ")}
FOLDERS = {row.program: row.folders for row in ROWS if row.folders}
# Runs a file as a process of another name: file, name, arguments.
RENAMED = f"{sys.executable} -c 'import os, sys; os.execv(sys.argv[1], sys.argv[2:])'"
FORMS = {
    "program": "{bin}/{program} -c '{inner}; true'",
    "another program of it": "{bin}/{program}-beta -c '{inner}; true'",
    "script": "{bin}/node {bin}/{program}.js",
    "script with an option": "{bin}/node -e {bin}/{program}",
    "npm package": "{bin}/node {bin}/node_modules/{package}/cli.js",
    "folder": "{bin}/{folder}/bin/node {bin}/main.js",
    "folder, under another name": "{renamed} {bin}/{folder}/bin/node main {bin}/main.js",
    "program under another name": "{renamed} {bin}/copies/{program} main {bin}/main.js",
    "script under another name": "{renamed} {bin}/copies/node main {bin}/{program}.js",
}


class Scene:
    """Programs with the names of agents, and a process that waits until `end`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.waits = folder / "waits"
        self.inner = f'sh -c "echo \\$\\$; exec cat {self.waits}"'

    def command(self, form: str, program: str) -> str:
        """The command that runs the waiting process below an agent's program."""
        package = PACKAGES.get(program, program)
        script = f"{self.inner}; true\n"
        folder = FOLDERS.get(program, ("none",))[0]
        for name in (f"node_modules/{package}/cli.js", f"{program}.js", "main.js"):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(script)
        for name in (f"{folder}/bin/node", "copies/node", f"copies/{program}"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy("/bin/sh", self.folder / name)
        for name in (program, f"{program}-beta", "node"):
            if not (self.folder / name).exists():
                (self.folder / name).symlink_to("/bin/sh")
        if form == "script with an option":
            (self.folder / program).unlink()
            (self.folder / program).write_text(script)
        quoted = self.inner.replace("'", "'\\''")
        names = {"program": program, "package": package, "folder": folder}
        return FORMS[form].format(bin=self.folder, inner=quoted, renamed=RENAMED, **names)

    @contextlib.contextmanager
    def process(self, command: str, *, on_terminal: bool = True) -> Iterator[int]:
        """Run a command; yield the id of the process that waits below it."""
        os.mkfifo(self.waits)
        with shell_of_its_own(command, on_terminal=on_terminal) as lines:
            try:
                yield int(next(lines))
            finally:
                # Who waits for a writer gets one, and who comes later finds no file.
                writer = os.open(self.waits, os.O_RDWR)
                self.waits.unlink()
                os.close(writer)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def doubt_about(pid: int) -> str:
    return Peer(pid, os.geteuid()).doubt()


def test_a_person_at_a_terminal_is_believed(scene):
    with scene.process(f"{scene.inner}; true") as pid:
        assert doubt_about(pid) == ""


@pytest.mark.parametrize("form", FORMS)
def test_a_process_below_an_agent_is_the_agents(scene, form):
    program, title = ("cursor", "Cursor") if "folder" in form else ("codex", "Codex")
    with scene.process(f"{scene.command(form, program)}; true") as pid:
        assert doubt_about(pid) == f"it came from a process of {title}"


COMMANDS = [
    ("{program}",),
    ("-{program}", "--continue"),
    ("/opt/bin/{program}-insiders", "x"),
    ("C:/{program}.exe",),
    ("/usr/bin/node", "--max-old-space-size=4096", "/usr/bin/{program}"),
    ("bun", "/x/{program}.js", "run"),
    ("python3.11", "-I", "/x/{program}.py"),
]
IN_PACKAGES = [
    ("node", "/usr/lib/node_modules/{package}/dist/cli.js"),
    ("/usr/lib/node_modules/{package}/vendor/x86_64/main",),
]
IN_FOLDERS = [
    ("/home/me/{folder}/bin/1a2b/node", "/home/me/{folder}/bin/1a2b/out/server-main.js", "--port=0"),
    ("node", "/opt/{folder}/out/bootstrap-fork", "--type=ptyHost"),
]


def commands_of(row: AgentRow) -> Iterator[list[str]]:
    """Command lines of an agent's processes."""
    forms = [(each, "") for each in COMMANDS] + [
        (each, "") for each in IN_PACKAGES if row.program in PACKAGES
    ]
    forms += [(each, folder) for folder in row.folders for each in IN_FOLDERS]
    for form, folder in forms:
        names = {"program": row.program, "package": PACKAGES.get(row.program), "folder": folder}
        yield [word.format(**names) for word in form]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_agent_is_known_by_its_program_script_package_or_folder(row):
    unknown = [command for command in commands_of(row) if agent_that_runs(command) != row.title]

    assert unknown == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_agent_is_known_by_the_file_that_it_runs_whatever_its_name_is(row):
    for program, *script in commands_of(row):
        assert agent_that_runs(["main", *script], program) == row.title


@pytest.mark.parametrize(
    ("command", "on_terminal", "why"),
    [
        ("{inner}; true", False, "it did not come from a terminal"),
        ("({inner} & ) ; cat {waits}", True, "the process that sent it has lost its terminal's shell"),
        ("setsid {inner}; true", True, "it did not come from a terminal"),
    ],
    ids=["no terminal", "lost", "left the terminal"],
)
def test_a_process_without_a_person_in_sight_is_not_believed(scene, command, on_terminal, why):
    with scene.process(command.format(inner=scene.inner, waits=scene.waits), on_terminal=on_terminal) as pid:
        eventually(lambda: doubt_about(pid) == why)  # once a shell between them has ended


def test_a_process_that_is_gone_or_another_one_is_not_believed(scene, monkeypatch):
    unseen = "the process that sent it cannot be seen"
    with scene.process(f"{scene.inner}; true") as pid:
        sender = Peer(pid, os.geteuid())
        with monkeypatch.context() as patched:
            patched.setattr(connection.time, "clock_gettime", lambda _: 0.0)
            earlier = Peer(pid, os.geteuid())
        assert (sender.doubt(), earlier.doubt()) == ("", unseen)

    assert [each.doubt() for each in (sender, Peer(0, 0), Peer(-1, -1))] == [unseen] * 3


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("",),
        ("bash", "claude"),
        ("vim", "/home/me/codex"),
        ("/usr/bin/node", "/srv/app/codex-report/main.js"),
        ("/usr/bin/node", "--title", "server.js"),
        ("geminiserver",),
        ("/opt/code/bin/make",),
        ("/home/me/cursor-agents/build",),
        ("vim", "/home/me/.vscode-server/settings.json"),
    ],
)
def test_another_program_is_no_agent(command):
    assert agent_that_runs(command) == ""
