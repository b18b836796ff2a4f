"""A small deliberate bug: where it goes, what it writes there, and which tests must notice.

Code moves and is renamed, so a mutation is found by its lines, anywhere in the source, and never by a path;
indentation does not count, as long as the lines keep theirs among each other. `place` raises Gone when no
file holds the lines and Ambiguous when they stand in more than one place. Files of mutations are TOML that a
person can edit.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

SOURCES = ("forged", "client/forged_client")
KILLED = "killed"
SURVIVED = "survived"


class Gone(Exception):  # noqa: N818 - reads as the state it names
    """No source file holds the lines any more."""


class Ambiguous(Exception):  # noqa: N818
    """The lines are found in more than one place."""


class Mutation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of a file, its fields in this order."""

    name: str
    area: str = ""  # of a planted one
    operator: str = ""  # of a drawn one
    hint: str  # the file it was made for; nothing looks there
    find: str
    replace: str
    outcome: str = ""  # of a drawn one, empty until it was tried
    tried: int = 0  # how many tests let a drawn one live
    tests: tuple[str, ...] = ()  # these must turn red
    retired: str = ""  # why its code is gone


class Place(msgspec.Struct, frozen=True):
    """One occurrence: the file, and its text with and without the mutation."""

    path: Path
    original: str
    mutated: str

    @property
    def line(self) -> int:
        """The first that differs, from 1."""
        pairs = zip(self.original.splitlines(), self.mutated.splitlines(), strict=False)
        return next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 1)


class _File(msgspec.Struct, frozen=True):
    mutation: tuple[Mutation, ...] = ()


def load(path: Path) -> tuple[Mutation, ...]:
    mutations = tuple(map(_trimmed, msgspec.toml.decode(path.read_bytes(), type=_File).mutation))
    names = [mutation.name for mutation in mutations]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{path.name} has these names more than once: {', '.join(sorted(twice))}")
    if deep := [one.name for one in mutations if textwrap.dedent(one.find) != one.find]:
        raise ValueError(f"{path.name}: the lines to find are indented as a whole: {', '.join(deep)}")
    return mutations


def _trimmed(mutation: Mutation) -> Mutation:
    find, new = mutation.find.strip("\n"), mutation.replace.strip("\n")
    return msgspec.structs.replace(mutation, find=find, replace=new)


def save(path: Path, head: str, mutations: Iterable[Mutation]) -> None:
    """Write the file anew; `head` becomes the comment at its top."""
    comment = "".join(f"# {line}\n" for line in head.splitlines())
    path.write_text("\n".join([comment, *map(_as_toml, mutations)]), encoding="utf-8")


def head_of(path: Path) -> str:
    """The comment at the top of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    count = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(line[1:].strip() for line in lines[:count])


def place(mutation: Mutation, tree: Path) -> Place:
    """Where the mutation belongs in `tree`; raises Gone or Ambiguous."""
    found = [one for path in source_files(tree) for one in _in_file(mutation, path)]
    if not found:
        raise Gone(f"{mutation.name}: its lines are gone (once in {mutation.hint})")
    if len(found) > 1:
        places = ", ".join(str(one.path.relative_to(tree)) for one in found)
        raise Ambiguous(f"{mutation.name}: its lines are in {places}")
    return found[0]


def source_files(tree: Path) -> Iterator[Path]:
    for source in SOURCES:
        yield from sorted((tree / source).rglob("*.py"))


def occurrences(wanted: str, text: str) -> list[tuple[int, str]]:
    """Line numbers from 0 at which the lines of `wanted` begin, each with how much deeper it is indented."""
    block = textwrap.dedent(wanted).strip("\n").splitlines()
    lines = text.splitlines() if block[0] in text else []
    return [
        (at, deeper)
        for at, line in enumerate(lines)
        if line.endswith(block[0])
        and not (deeper := line.removesuffix(block[0])).strip()
        and lines[at : at + len(block)] == _indented(block, deeper)
    ]


def _in_file(mutation: Mutation, path: Path) -> Iterator[Place]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    height = len(mutation.find.strip("\n").splitlines())
    new = mutation.replace.strip("\n").splitlines()
    for at, deeper in occurrences(mutation.find, text):
        mutated = [*lines[:at], *_indented(new, deeper), *lines[at + height :]]
        yield Place(path, text, "\n".join(mutated) + "\n")


def _indented(block: list[str], deeper: str) -> list[str]:
    return [deeper + line if line else "" for line in block]


def _as_toml(mutation: Mutation) -> str:
    lines = ["[[mutation]]"]
    for name, value in msgspec.structs.asdict(mutation).items():
        if name in {"find", "replace"}:
            lines.append(f"{name} = {_block(value)}")
        elif isinstance(value, tuple):
            lines += [f"{name} = [", *(f"    {_string(test)}," for test in value), "]"] if value else []
        elif isinstance(value, int):
            lines += [f"{name} = {value}"] if value else []
        elif value:
            lines.append(f"{name} = {_string(value)}")
    return "\n".join(lines) + "\n"


def _string(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _block(text: str) -> str:
    """Lines as they stand in the source, if TOML can hold them so."""
    text = text.strip("\n")
    if "'''" in text:
        return _string(text)
    return f"'''\n{text}\n'''"
