"""Findings about the words of the source and the prose of the manual: run it to list them.

python -m tests.words                 # counts for each package and page
python -m tests.words forged/capture  # each finding under this path
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPO = Path(__file__).parents[1]
SOURCES = ("forged", "client/forged_client")
BANNED = ("stands", "beside", "fares", "speaks for", "somebody", "nobody", "heard", "told")
OPENINGS = ("What", "Whose", "Whether", "Who", "How", "Why", "Which")
FIRST_LINE = 100
REASON = re.compile(r"#.*\bword: \S")
"""A comment that exempts its line, or the statement that it begins: `# word: quoted from a user`."""

_BANNED = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
_NAMES = {each for each in BANNED if " " not in each}
_OPENING = re.compile(rf"({'|'.join(OPENINGS)})\b")
_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|WITH)\b[^a-z]*\s")
_REGEX_MODULE = "re"
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_DOCUMENTED = (*_DEFINITIONS, ast.Module)


class Finding(NamedTuple):
    """A place of the source and the rule that it breaks."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(REPO)}:{self.line}: {self.rule}: {self.text}"


def packages() -> list[str]:
    """Return the packages of the source and its top-level modules, as paths from the checkout."""
    found = []
    for top in SOURCES:
        for path in sorted((REPO / top).iterdir()):
            has_code = path.suffix == ".py" or (path.is_dir() and any(path.rglob("*.py")))
            if has_code and path.name != "__pycache__":
                found.append(path.relative_to(REPO).as_posix())
    return found


def modules(under: str) -> list[Path]:
    """Return the Python files at or under a path from the checkout."""
    path = REPO / under
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def findings(path: Path) -> Iterator[Finding]:
    """Yield each break of the rules in one Python file."""
    source = path.read_text(encoding="utf-8")
    yield from findings_in(source, path)


def findings_in(source: str, path: Path) -> Iterator[Finding]:
    """Yield each break of the rules in the text of a Python file."""
    tree = ast.parse(source)
    exempt = _exempt_lines(source, tree)
    found = [*_docstrings(tree), *_banned_words(tree)]
    if path.stem != "__init__" and _banned_parts(path.stem):
        found.append((1, "a module's name", path.stem))
    for line, rule, text in sorted(set(found)):
        if line not in exempt:
            yield Finding(path, line, rule, text)


def _exempt_lines(source: str, tree: ast.Module) -> set[int]:
    """Return the lines with a reason, and all lines of a statement that begins on one."""
    marked = {number for number, line in enumerate(source.splitlines(), 1) if REASON.search(line)}
    exempt = set(marked)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, _DEFINITIONS) and node.lineno in marked:
            exempt.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return exempt


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield docstrings that begin badly, and those of private functions with more than one line."""
    for node in ast.walk(tree):
        if not isinstance(node, _DOCUMENTED) or not (text := ast.get_docstring(node)):
            continue
        line = node.body[0].lineno
        first, _, rest = text.partition("\n")
        if len(first) > FIRST_LINE:
            yield line, f"a first line of {len(first)} characters", first
        if _OPENING.match(first):
            yield line, "a first line opens with a question word", first
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if node.name.startswith("_") and not node.name.endswith("__") and rest.strip():
            yield line, "a private function has one line", first


def _banned_words(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield identifiers and texts with a word of BANNED; SQL and regular expressions are exempt."""
    patterns = set(_patterns(tree))
    for node in ast.walk(tree):
        for name in _names(node):
            if _banned_parts(name):
                yield getattr(node, "lineno", 1), "an identifier", name
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in patterns:
            for number, line in enumerate(node.value.splitlines()):
                if (word := _BANNED.search(line)) and not _SQL.search(node.value):
                    yield node.lineno + number, f"a text says {word[0]!r}", line.strip()


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the identifiers that a node defines or uses."""
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.keyword):
        yield node.arg or ""
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield from node.name.split(".")


def _banned_parts(name: str) -> bool:
    """Return True if a word of an identifier is banned."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_")
    return not _NAMES.isdisjoint(words)


def _patterns(tree: ast.Module) -> Iterator[int]:
    """Yield the ids of constants that are handed to the module `re`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if isinstance(node.func.value, ast.Name) and node.func.value.id == _REGEX_MODULE:
            for below in ast.walk(node):
                yield id(below)


# --- prose ---------------------------------------------------------------------------------------------

_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"\s*([-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'(*`0-9]|forged\b)")


class Prose(NamedTuple):
    """Paragraphs of a page, tables and code apart; a list item is a paragraph."""

    paragraphs: tuple[str, ...]

    @property
    def words(self) -> int:
        """Count the words."""
        return sum(len(each.split()) for each in self.paragraphs)

    @property
    def sentences(self) -> list[str]:
        """Return the sentences, shortest first; code in backticks is one word."""
        found = [part for each in self.paragraphs for part in _END.split(_plain(each)) if part.strip()]
        return sorted(found, key=lambda sentence: len(sentence.split()))

    @property
    def lengths(self) -> list[int]:
        """Return the words of each sentence, fewest first."""
        return [len(sentence.split()) for sentence in self.sentences]

    @property
    def with_semicolons(self) -> list[str]:
        """Return the paragraphs with more than one semicolon."""
        return [each for each in self.paragraphs if _plain(each).count(";") > 1]


def prose(markdown: str) -> Prose:
    """Read the prose of a markdown page."""
    paragraphs: list[str] = []
    for block in re.split(r"\n\s*\n", _FENCED.sub("", markdown)):
        item: list[str] = []
        for line in block.splitlines():
            if line.lstrip().startswith("|") or line.startswith("#"):
                continue
            if item and _ITEM.match(line):
                paragraphs.append(" ".join(item))
                item = []
            mark = _ITEM.match(line)
            item.append(line[mark.end() if mark else 0 :].strip())
        if item:
            paragraphs.append(" ".join(item))
    return Prose(tuple(paragraphs))


def _plain(paragraph: str) -> str:
    """Replace code by one word and links by their text."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "CODE", paragraph))


def main(paths: list[str]) -> None:
    """Print the findings under paths, or the counts of all packages and pages."""
    for path in paths:
        for module in modules(path):
            for finding in findings(module):
                print(finding)
    if paths:
        return
    for package in packages():
        count = sum(1 for module in modules(package) for _ in findings(module))
        print(f"{count:5} {package}")
    for page in [REPO / "README.md", REPO / "CHANGELOG.md", *sorted((REPO / "forged/docs").glob("*.md"))]:
        read = prose(page.read_text(encoding="utf-8"))
        lengths = read.lengths
        print(
            f"{page.relative_to(REPO)}: {read.words} words, {len(lengths)} sentences,"
            f" p90 {lengths[int(0.9 * len(lengths))]}, longest {lengths[-1]},"
            f" {len(read.with_semicolons)} paragraphs with two semicolons"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
