from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import msgspec

import forged_client
from forged_client import AsyncClient, AsyncObserver, Client, Observer, protocol
from forged_client.verbs import verb

NAMED = inspect.Parameter.KEYWORD_ONLY
PACKAGE = Path(forged_client.__file__).parent
HEAVY = {"numpy", "httpx", "asyncio", "click", "platformdirs", "socket", "threading", "subprocess", "logging"}


def modules_after(statement: str) -> set[str]:
    """Names of all modules a fresh interpreter has loaded after the statement."""
    path = [str(PACKAGE.parent), str(Path(msgspec.__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {path!r}; {statement}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing():
    added = modules_after("import forged_client") - modules_after("pass")

    assert added == {"forged_client"}


def test_the_clients_import_only_msgspec_and_the_standard_library():
    for name in ("Client", "AsyncClient", "Observer", "AsyncObserver"):
        top = {module.partition(".")[0] for module in modules_after(f"from forged_client import {name}")}
        others = {"forged_client", "msgspec", "typing_extensions", "__main__"}
        assert top - set(sys.stdlib_module_names) <= others


def test_the_blocking_client_imports_nothing_heavy_and_finding_and_dialling_no_msgspec():
    dialled = modules_after("import forged_client.address, forged_client.dial")

    assert not HEAVY & modules_after("from forged_client import Client")
    assert not (HEAVY | {"msgspec", "typing", "collections"}) & dialled


def test_all_names_exist_and_are_typed():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    typed = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("forged_client.")
        for alias in node.names
        for name in (vars(import_module(node.module)) if alias.name == "*" else [alias.name])
    }

    assert set(forged_client.__all__) == set(dir(forged_client)) <= typed
    assert all(getattr(forged_client, name) is not None for name in forged_client.__all__)


def test_every_reply_of_a_method_and_all_that_is_in_it_is_exported():
    reported = {
        name
        for method in public_methods(Client)
        for kind in hints(method).values()
        for name in structs_in(kind)
    }

    assert (
        {"Retrieved", "Ranking", "Trusted", "CapturedEntry", "Progress"}
        <= reported
        <= set(forged_client.__all__)
    )


def public_methods(kind: type) -> list[Callable[..., object]]:
    found = inspect.getmembers(kind, lambda each: inspect.isfunction(each) or isinstance(each, verb))
    return [method for name, method in found if name[0] != "_"]


def hints(named: Callable[..., object]) -> dict[str, object]:
    if isinstance(named, verb):
        return {"return": inspect.signature(named).return_annotation}
    names = {**vars(protocol), **getattr(named, "__globals__", {})}
    return typing.get_type_hints(named, names)


def structs_in(kind: object) -> Iterator[str]:
    """Names of the structs of which a value of this type is made."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind.__name__
        for field in typing.get_type_hints(kind).values():
            yield from structs_in(field)
    for part in typing.get_args(kind):
        yield from structs_in(part)


# What these are about is no workspace's, and may be asked from anywhere.
_ANYWHERE = {name: {"workspace"} for name in ("recall", "documents", "remove_document")}


def test_every_method_that_is_about_a_workspace_takes_it_first_then_what_and_all_options_by_name():
    first = {"messages", "query", "content", "memory_id", "ids", "accept"}
    for method in public_methods(Client):
        given = [each for name, each in inspect.signature(method).parameters.items() if name != "self"]
        names = [each.name for each in given if each.kind is each.POSITIONAL_OR_KEYWORD]
        assert {each.kind for each in given} <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, NAMED}, method
        if "workspace" in {each.name for each in given} - _ANYWHERE.get(method.__name__, set()):
            assert names[0] == "workspace", method
            assert len(names) < 2 or names[1] in first, method
        assert all(each.default is not each.empty for each in given if each.kind is NAMED), method


def test_every_verb_says_what_it_does_and_gives_back_to_help_and_to_a_type_checker(folder):
    asked = folder / "asked.py"
    asked.write_text(_TYPED)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(asked)],
        env={"PATH": os.environ["PATH"], "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 1 source file\n")
    for kind in (Client, AsyncClient, Observer, AsyncObserver):
        assert [method.__name__ for method in public_methods(kind) if not method.__doc__] == []


# What a type checker holds true of both clients and both observers. What it must refuse is ignored by name:
# an ignore that is not needed is an error of `--strict`.
_TYPED = """
from typing import assert_type

from forged_client import AsyncClient, AsyncObserver, Captured, Chain, Client, Observer, Retrieved

said = [{"role": "user", "content": "text"}]


def blocking(client: Client, observer: Observer) -> None:
    assert_type(client.retrieve("/w", said, session_id="s"), Retrieved)
    assert_type(client.capture("/w", said, "s", kind="turn"), Captured)
    client.capture("/w", "s", said)  # type: ignore[arg-type]
    client.search("/w", "query", limits=3)  # type: ignore[call-arg]
    assert_type(client.history("/w", "mem_1", scope="repo"), Chain)
    client.history("/w")  # type: ignore[call-arg]
    client.history("/w", "mem_1", "repo")  # type: ignore[call-arg, arg-type]
    client.get("/w", "mem_1")  # type: ignore[arg-type]
    client.list("/w", limits=3)  # type: ignore[call-arg]
    observer.on_turn_complete(said)
    assert_type(observer.close(), bool)


async def awaited(client: AsyncClient, observer: AsyncObserver) -> None:
    assert_type(await client.retrieve("/w", said, session_id="s"), Retrieved)
    assert_type(await client.capture("/w", said, "s", kind="turn"), Captured)
    await client.capture("/w", "s", said)  # type: ignore[arg-type]
    await client.search("/w", "query", limits=3)  # type: ignore[call-arg]
    assert_type(await client.history("/w", "mem_1", scope="repo"), Chain)
    await client.history("/w")  # type: ignore[call-arg]
    await client.history("/w", "mem_1", "repo")  # type: ignore[call-arg, arg-type]
    await client.get("/w", "mem_1")  # type: ignore[arg-type]
    await client.list("/w", limits=3)  # type: ignore[call-arg]
    observer.on_turn_complete(said)
    assert_type(await observer.aclose(), bool)
"""


def test_only_address_and_the_hook_read_the_environment_and_the_current_directory():
    for file in PACKAGE.glob("*.py"):
        names = {
            node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)
        }
        assert not names & {"getcwdb", "getenv"}
        assert not names & {"environ", "getcwd"} or file.name in {"address.py", "hook.py"}


def test_the_readmes_example_runs_without_a_daemon(folder):
    text = (PACKAGE.parent / "README.md").read_text()
    examples = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    path = os.pathsep.join([str(PACKAGE.parent), str(Path(msgspec.__file__).parents[1])])
    env = {"HOME": str(folder), "PYTHONPATH": path, "FORGED_SOCKET": str(folder / "s")}

    assert examples
    for example in examples:
        subprocess.run(
            [sys.executable, "-W", "error", "-c", example], env=env, check=True, capture_output=True
        )
