"""Write constraints.txt from an environment: `.venv-newest/bin/python tests/install/constraints.py`.

In: the packages of the interpreter that runs this, and those that its pip would build with. Out: one exact
version for each, by name, without any address. A line with a marker is kept: it holds on other interpreters.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).parents[2] / "constraints.txt"
_HEAD = """\
# Exact versions of all that `make demo`, `make test`, `make install` and README's lines install, build tools
# too. `make test-newest` runs the tests on the newest ones and then writes this file.
"""
_NOT_OURS_TO_HOLD = {"forged-memory", "forged-memory-client", "pip", "setuptools", "wheel"}


def name_of(line: str) -> str:
    """The name of a package in the one form that all its spellings have."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~;\s]", line, maxsplit=1)[0]).lower()


def entries(text: str) -> dict[str, str]:
    """The lines of a constraints file, by name and marker."""
    lines = (line.strip() for line in text.splitlines())
    return {f"{name_of(line)};{line.partition(';')[2]}": line for line in lines if line and line[0] != "#"}


def renewed(text: str, installed: dict[str, str]) -> str:
    """The file with these versions in place of its own; lines with a marker stay."""
    kept = [line for line in entries(text).values() if ";" in line]
    fresh = [f"{name}=={version}" for name, version in installed.items()]
    return _HEAD + "".join(f"{line}\n" for line in sorted([*kept, *fresh], key=str.lower))


def main() -> None:
    """Write the file."""
    found = {name_of(each.metadata["Name"]): each.version for each in metadata.distributions()}
    installed = {name: version for name, version in found.items() if name not in _NOT_OURS_TO_HOLD}
    FILE.write_text(renewed(FILE.read_text("utf-8") if FILE.exists() else "", installed), "utf-8")


if __name__ == "__main__":
    main()
