"""Modules of the two packages as data: names, trees, interfaces and imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

REPO = Path(__file__).parents[2]
PACKAGES = (Path("forged"), Path("client/forged_client"))
Modules = dict[str, Path]


class Source:
    """One module by its dotted name; the name of a package's own file ends in `=`."""

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self.file = file
        self.text = file.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_door(self) -> bool:
        return self.name.endswith("=")


def sources(top: Path = REPO) -> dict[str, Source]:
    """Return all modules of both packages of a checkout, by name."""
    return {name: Source(name, file) for each in PACKAGES for name, file in sorted(found(top / each))}


def found(package: Path) -> Iterator[tuple[str, Path]]:
    """Yield the dotted names of a package's modules; a package's own file ends in `=`."""
    for file in package.rglob("*.py"):
        name = ".".join(file.relative_to(package.parent).with_suffix("").parts)
        yield name.replace(".__init__", "="), file


def listed(tree: ast.Module) -> frozenset[str]:
    """Return the names in a module's __all__."""
    lists = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )
    return frozenset(name for value in lists for name in ast.literal_eval(value))


def imported(node: ast.AST, name: str, modules: Modules | dict[str, Source]) -> Iterator[str]:
    """Yield the modules that a statement imports; `from package import module` names the module."""
    if isinstance(node, ast.Import):
        yield from (marked(alias.name, modules) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = base_of(node, name)
        for alias in node.names:
            inner = marked(f"{base}.{alias.name}", modules)
            yield inner if inner in modules else marked(base, modules)


def base_of(node: ast.ImportFrom, name: str) -> str:
    """Return the dotted name before `import`, with leading dots resolved in the module `name`."""
    here = name.removesuffix("=").split(".")
    above = here[: len(here) - node.level + name.endswith("=")] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def marked(name: str, modules: Modules | dict[str, Source]) -> str:
    return f"{name}=" if f"{name}=" in modules else name
