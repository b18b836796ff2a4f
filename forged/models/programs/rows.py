"""How each agent is called so that it is nothing but a model: `rows.toml` as values.

In goes a row's name, a program, the prompt and the folder of one call; out come command, environment and
input of it, with all that the row wants in the folder made. Raises OSError.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from forged.models.programs.answers import Form
from forged.program import Program

_SYSTEM, _MODEL, _FOLDER = "{system}", "{model}", "{folder}"
_INSTRUCTION = "system.md"
# What every program may see of the environment: where its person's things lie, and how to reach a network.
_SEEN = frozenset({
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"),
})  # fmt: skip
_ALSO = ("LC_", "XDG_")


class ProgramRow(msgspec.Struct, frozen=True):
    """One table of the file, which says what its keys mean."""

    tried: str
    model: str
    reply: Form
    key: str
    keeps: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    links: dict[str, str] = {}


class ProgramCall(msgspec.Struct, frozen=True):
    """One call as a process: `text` is for its standard input."""

    command: tuple[str, ...]
    env: dict[str, str]
    text: str


@cache
def rows() -> dict[str, ProgramRow]:
    """All rows by their names."""
    return msgspec.convert(
        tomllib.loads(Path(__file__).with_name("rows.toml").read_text("utf-8")), dict[str, ProgramRow]
    )


def prepared(program: Program, system: str, user: str, folder: str) -> ProgramCall:
    """Return the call, and make in `folder` what it wants there."""
    row = rows()[program.row]
    env = environment(program, row)
    files = {name: content.replace(_FOLDER, folder) for name, content in row.files.items()}
    for name, content in {**files, _INSTRUCTION: system}.items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for name, target in row.links.items():
        os.symlink(target.replace("~", env.get("HOME", "~"), 1), os.path.join(folder, name))
    said = {_SYSTEM: system, _MODEL: program.model or row.model}
    args = tuple(said.get(arg, arg.replace(_FOLDER, folder)) for arg in row.args)
    env |= {name: value.replace(_FOLDER, folder) for name, value in row.env.items()}
    text = user if row.args else f"{system}\n\n{user}"
    return ProgramCall((*program.command, *args), env, text)


def environment(program: Program, row: ProgramRow) -> dict[str, str]:
    """What the program may see; whatever it starts leaves memory alone."""
    seen = {
        name: value
        for name, value in program.env.items()
        if name in _SEEN or name.startswith((*_ALSO, *row.keeps))
    }
    key = {row.key: program.key} if row.key and program.key else {}
    # A script finds its interpreter where it lies itself, as version managers put them.
    path = f"{os.path.dirname(program.command[0])}:{seen.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    return {**seen, **key, "PATH": path, "FORGED_BYPASS": "1", "NO_COLOR": "1"}
