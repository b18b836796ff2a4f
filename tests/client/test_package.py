from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import forged_client
from forged_client import errors

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
    for name in ("Client", "AsyncClient", "Observer"):
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


def test_every_exception_is_exported_and_an_unknown_name_is_an_attribute_error():
    exceptions = {name for name, value in vars(errors).items() if isinstance(value, type)}

    assert exceptions <= set(forged_client.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        forged_client.nonsense  # noqa: B018


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
