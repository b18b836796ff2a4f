"""The code that can reach the network or run a program: all egress passes the guard."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[1]
SOURCES = (REPO / "forged", REPO / "client" / "forged_client")

# Every program that is run, by the function that runs it. None of them gets a text of a person, but for the
# one that a person named as the classifier: what it is given are its arguments, and what stands behind the
# colon says which these are.
PROGRAMS = {
    "forged.config.keys._key_from_command": "a `cmd:` key reference of the configuration: its own words",
    "forged.ensure_utf8": "this very program again, in UTF-8 mode: its own words",
    "forged.trust.git.Git._run": "git: revisions and paths",
    "forged.trust.git.ignore_file": "git: where the user's own configuration has its patterns",
    "forged.capture.supervisor.WorkerProcess._launch": "our own worker: its process is ours",
    "forged.models.programs.process.run": "the person's own agent, as classifier: flags, our instruction",
    "forged.models.programs.guard._spawn": "the same, by a process of ours that ends it",
    "forged.models.e5.graph_builder.GraphBuild.make": "our graph builder: paths of model and cache",
    "forged.cli.user_manager.run": "systemctl, systemd-analyze, loginctl: names of our units, files of ours",
    "forged.integrations.harness._run": "an agent's own command: names of our plug-in, and our folder",
    "forged.cli.ui.verb._open_in_browser": "the system's own opener of files: the path of the page",
    "forged.cli.logs._journal_lines": "journalctl: the name of our unit",
    "forged.cli.demo.stage.run_daemon": "our own daemon for the demo: serve",
    "forged.cli.demo.stage.Stage._run": "git, our own agent and forgectl: the demo's own sentences",
    "forged_client.autostart._start_unit": "systemctl: the name of our unit",
    "forged_client.autostart._spawn": "our own daemon: serve",
    "forged.documents.formats._run_converter": "Python: the text of a PDF, HTML or Word file of the person",
}
# What these read from us besides.
READ = {
    "forged.documents.formats._run_converter": "the file that is read, by its descriptor",
    "forged.trust.git.Git._run": "names of commits and objects, and paths",
    "forged.models.programs.process.run": "what the egress guard leaves of a conversation: see below",
}
_NOTHING = {"subprocess.DEVNULL", "null"}
_OF_OS = ("exec", "spawn", "posix_spawn", "fork", "system", "popen", "startfile")
_STARTS = frozenset(
    {
        *("Popen", "check_output", "check_call", "getoutput", "getstatusoutput", "create_subprocess_exec"),
        *("create_subprocess_shell", "subprocess_exec", "subprocess_shell", "Process", "ProcessPoolExecutor"),
    }
)
# `forgectl setup` asks model servers on loopback for the names of their models.
_LOOKS_AROUND = "forged.integrations.environment"
_NETWORK = frozenset({"AF_INET", "AF_INET6", "create_connection", "open_connection", "getaddrinfo"})
_CLIENTS = frozenset(
    {"http.client", "urllib.request", "urllib3", "requests", "aiohttp", "ftplib", "smtplib", "xmlrpc", "ssl"}
)


def functions(tree: ast.AST, name: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node with the dotted name of its function or class."""
    for node in ast.iter_child_nodes(tree):
        here = name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            here = f"{name}.{node.name}"
        yield here, node
        yield from functions(node, here)


@functools.cache
def nodes() -> tuple[tuple[str, ast.AST], ...]:
    found: list[tuple[str, ast.AST]] = []
    for folder in SOURCES:
        for file in folder.rglob("*.py"):
            module = ".".join(file.relative_to(folder.parent).with_suffix("").parts)
            found += functions(ast.parse(file.read_bytes()), module.removesuffix(".__init__"))
    return tuple(found)


def starts_a_program(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    base = called.value.id if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else ""
    if base == "subprocess" or name in _STARTS:
        return name[0].isupper() or name in _STARTS or name in {"run", "call"}
    return base == "os" and name.startswith(_OF_OS)


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_programs_that_are_run_are_those_that_are_listed():
    found = {where for where, node in nodes() if starts_a_program(node)}

    assert found == PROGRAMS.keys()


def test_no_program_is_named_so_that_it_cannot_be_found():
    """`from subprocess import run as quietly` would run one under another name."""
    borrowed = [
        (where, name)
        for where, node in nodes()
        for name in imported(node)
        if name.startswith("subprocess.") or (name.startswith("os.") and name[3:].startswith(_OF_OS))
    ]

    assert borrowed == []


def test_no_program_is_handed_anything_to_read():
    given = [
        where
        for where, node in nodes()
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if (keyword.arg == "stdin" and ast.unparse(keyword.value) not in _NOTHING)
        or (keyword.arg == "input" and starts_a_program(node))
    ]
    reported = [
        where
        for where, node in nodes()
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") == "communicate"
        and (node.args or any(keyword.arg == "input" for keyword in node.keywords))
    ]
    # A loop's own call has a pipe where nothing is said of it.
    piped = [
        where
        for where, node in nodes()
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") in {"subprocess_exec", "subprocess_shell"}
        and all(keyword.arg != "stdin" for keyword in node.keywords)
    ]

    assert set(given + reported + piped) == READ.keys()


def test_nothing_but_the_endpoint_reaches_the_network():
    clients = [
        (where, name)
        for where, node in nodes()
        for name in imported(node)
        if name in _CLIENTS or name.split(".")[0] in _CLIENTS | {"httpx", "httpcore"}
    ]
    used = [
        (where, node.attr)
        for where, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr in _NETWORK
    ]

    assert {where for where, _ in clients} == {"forged.models.endpoint", _LOOKS_AROUND}
    assert used == []


def test_who_looks_for_model_servers_asks_this_machine_only_and_sends_nothing():
    calls = [
        ast.unparse(node)
        for where, node in nodes()
        if where.startswith(f"{_LOOKS_AROUND}.") and isinstance(node, ast.Call)
    ]

    assert [call for call in calls if "HTTP" in call] == [
        "http.client.HTTPConnection('127.0.0.1', port, timeout=_WITHIN_S)"
    ]
    assert [call for call in calls if ".request" in call] == ["connection.request('GET', path)"]


def test_the_client_is_used_in_one_function_behind_the_egress_guard():
    inside = [
        (where, node) for where, node in nodes() if where.startswith("forged.models.endpoint.Endpoint.")
    ]
    sends = {where for where, node in inside if ast.unparse(node) == "self._http_client()"}
    exchanges = {where for where, node in inside if getattr(node, "attr", "") == "_send"}
    (once,) = (
        node
        for where, node in inside
        if isinstance(node, ast.AsyncFunctionDef) and node.name == "_attempt_once"
    )
    awaited = [ast.unparse(node.value.func) for node in ast.walk(once) if isinstance(node, ast.Await)]

    assert sends == {"forged.models.endpoint.Endpoint._send"}
    assert exchanges == {"forged.models.endpoint.Endpoint._attempt_once"}
    assert awaited == ["self._egress.check", "self._send"]


def test_the_program_that_reads_a_conversation_is_run_in_one_function_behind_the_egress_guard():
    runs = {
        where for where, node in nodes() if isinstance(node, ast.Call) and ast.unparse(node.func) == "run"
    }
    (asked,) = (
        node
        for where, node in nodes()
        if where == "forged.models.programs.chat.ProgramChat._run_program"
        and isinstance(node, ast.AsyncFunctionDef)
    )
    awaited = [ast.unparse(node.value.func) for node in ast.walk(asked) if isinstance(node, ast.Await)]

    assert {where for where in runs if where.startswith("forged.models")} == {
        "forged.models.programs.chat.ProgramChat._run_program"
    }
    assert set(awaited) == {"self._egress.cleared", "self._egress.check", "run"}


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run(['curl'])",
        "subprocess.Popen(['curl'])",
        "os.system('curl')",
        "os.posix_spawn('curl')",
        "os.execv('curl', ())",
        "asyncio.create_subprocess_exec('curl')",
        "loop.subprocess_shell('curl')",
        "context.Process(target=work)",
    ],
)
def test_a_program_that_is_run_in_any_way_is_seen(code):
    assert any(starts_a_program(node) for node in ast.walk(ast.parse(code)))
