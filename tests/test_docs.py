"""The manual is compared with the code, both ways: nothing is missing in it and nothing is invented."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import forged
import forged_client
from forged import config
from forged.__main__ import main as forged_command
from forged.cli.commands import GROUPS, PLUMBING, VERBS, SharedOption, forgectl
from forged.cli.exits import EXPLAINED
from forged.config.repository import RepoConfig
from forged_client import verbs as client_verbs
from forged_client.protocol import Request

REPO = Path(__file__).parents[1]
PAGES = {page.stem: page for page in (REPO / "forged" / "docs").glob("*.md")}
SECTIONS = {field.name: field.type for field in msgspec.structs.fields(config.Config)}
DOCUMENTS = [REPO / "README.md", REPO / "CHANGELOG.md", REPO / "client" / "README.md", *PAGES.values()]


def text_of(topic: str) -> str:
    return PAGES[topic].read_text(encoding="utf-8")


def section(topic: str, heading: str) -> str:
    return text_of(topic).partition(f"## {heading}")[2].partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """Cells of the rows of all tables, without their heads."""
    tables = re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for table in tables
        for line in table.strip().splitlines()[2:]
    ]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


# --- README and the pages ------------------------------------------------------------------------------


def test_readme_is_one_page_that_links_every_page():
    readme = (REPO / "README.md").read_text(encoding="utf-8")

    assert len(readme.splitlines()) <= 130
    assert set(re.findall(r"\]\(forged/docs/([\w-]+)\.md\)", readme)) == set(PAGES)


@pytest.mark.parametrize("topic", PAGES)
def test_page_has_a_title_and_says_in_a_line_what_it_is_about(topic):
    title, blank, about, after = text_of(topic).split("\n", 4)[:4]

    assert title.startswith("# ")
    assert about.endswith(".")
    assert len(about) <= 110
    assert (blank, after) == ("", "")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(REPO).as_posix())
def test_what_a_document_links_and_names_exists(document):
    """Paths are relative to the checkout; a bare name on a line is in the folder of its path."""
    text = document.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]
    paths = re.findall(r"`((?:forged|client|tests)/[\w./-]*)`", text)

    assert [link for link in links if not (document.parent / link.partition("#")[0]).is_file()] == []
    assert [path for path in paths if not (REPO / path).exists()] == []
    assert [name for name in next_to(text) if not name.exists()] == []


def next_to(text: str) -> Iterator[Path]:
    """Yield bare file names with the folder of the path before them on their line."""
    for line in text.splitlines():
        folder = None
        for found in re.finditer(r"`((?:forged|client|tests)/[\w./-]*)`|`([\w/]+\.py)`", line):
            if found[1]:
                folder = REPO / found[1] if found[1].endswith("/") else (REPO / found[1]).parent
            elif folder is not None:
                yield folder / found[2]


# --- commands ------------------------------------------------------------------------------------------


def subcommands(name: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, groups included, by the words that are typed."""
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        yield f"{name} {verb}", command
        if isinstance(command, click.Group):
            yield from subcommands(f"{name} {verb}", command, context)


def options(command: click.Command, *, shared: bool = False) -> set[str]:
    """Long names of a command's own options, or of those that it shares with others."""
    chosen = [
        param
        for param in command.params
        if isinstance(param, click.Option) and isinstance(param, SharedOption) is shared
    ]
    return {name for param in chosen for name in param.opts if name.startswith("--")}


def help_of_forged(*words: str) -> str:
    reported = io.StringIO()
    with contextlib.redirect_stdout(reported), contextlib.suppress(SystemExit):
        forged_command([*words, "--help"])
    return reported.getvalue()


def commands_of_forged() -> Iterator[tuple[str, set[str]]]:
    for verb in re.findall(r"^    ([a-z]+) ", help_of_forged(), re.MULTILINE):
        yield f"forged {verb}", set(re.findall(r"--[a-z-]+", help_of_forged(verb))) - {"--help"}


FORGECTL = dict(subcommands("forgectl", forgectl, click.Context(forgectl)))
# The options of each command.
COMMANDS = {name: options(command) for name, command in FORGECTL.items()} | dict(commands_of_forged())


def documented() -> dict[str, str]:
    """Sections of the page of commands by what their heading names."""
    parts = re.split(r"^### `([^`]+)`\n", text_of("commands"), flags=re.MULTILINE)
    return {
        name: re.split(r"^#", part, flags=re.MULTILINE)[0]
        for name, part in zip(parts[1::2], parts[2::2], strict=True)
    }


def test_the_commands_that_are_documented_are_those_that_there_are():
    assert sorted(documented()) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_and_arguments_that_are_documented_are_those_that_there_are(name):
    """A command with arguments shows them; one without is not shown with any."""
    reported, context = documented()[name], click.Context(forgectl)
    shown = re.match(rf"\n?`{name} ([^`-][^`]*)`", reported)
    params = FORGECTL[name].params if name in FORGECTL else ()
    there = [param.make_metavar(context) for param in params if isinstance(param, click.Argument)]

    assert sorted(flags(reported)) == sorted(COMMANDS[name])
    assert ([] if shown is None else shown[1].split()) == there


def flags(text: str) -> list[str]:
    """The options that the rows of its tables are about."""
    return [re.match(r"--[\w-]+", code(row[0])[0])[0] for row in rows(text)]


def test_options_of_many_commands_belong_to_the_commands_that_the_page_says():
    page = section("commands", "Options of many commands")
    reported = r"(`config`.*) ask no daemon and have `--json` alone, (.*) have none of them"
    only_json, none = (set(code(part)) for part in re.search(reported, " ".join(page.split())).groups())
    shared = {
        name.split()[1]: options(command, shared=True)
        for name, command in FORGECTL.items()
        if not isinstance(command, click.Group)
    }
    every = set().union(*shared.values())

    assert set(flags(page)) == every
    assert every == options(forgectl, shared=True)
    others = set(VERBS) - only_json - none
    kinds = ((only_json, {"--json", "--version"}), (none, {"--version"}), (others, every))
    for verbs, having in kinds:
        assert {verb for verb, found in shared.items() if found == having} == verbs


def test_the_page_has_the_groups_of_the_help():
    parts = dict(
        part.split("\n", 1) for part in re.split(r"^## ", text_of("commands"), flags=re.MULTILINE)[1:]
    )

    for heading, verbs in (GROUPS | {"Plumbing": PLUMBING}).items():
        told = re.findall(r"^### `forgectl (\w+)`$", parts.get(heading, ""), re.MULTILINE)
        assert set(told) == set(verbs), heading


def test_exit_codes_are_those_that_there_are():
    page = section("commands", "Exit codes")

    assert [(int(code), meaning) for code, meaning in rows(page)] == list(EXPLAINED)


def mentions() -> Iterator[tuple[str, str]]:
    """Each command that any text or unit file of the project names, as a reader would type it."""
    files = [*DOCUMENTS, *REPO.glob("systemd/*"), *REPO.glob("forged/**/*.py")]
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            for found in re.finditer(r"(?:`|^|\$\()(forgectl(?: [a-z]+)+|forged serve)\b", line):
                yield f"{file.relative_to(REPO)}: {line.strip()}", found[1]


def test_no_file_names_a_verb_that_does_not_exist():
    named = list(mentions())

    assert [where for where, command in named if " ".join(command.split()[:2]) not in COMMANDS] == []
    assert {"forgectl status", "forgectl resume", "forged serve"} <= {command for _, command in named}


# --- the client ----------------------------------------------------------------------------------------


def test_the_calls_that_are_documented_are_those_that_there_are():
    calls = rows(text_of("client").partition("## Calls")[2].partition("\n## ")[0])
    reported = {re.match(r"\w+", call)[0] for names, _ in calls for call in code(names)}

    assert reported == {name for name in dir(forged_client.Client) if not name.startswith("_")} - {"close"}


def calls_whose(holds: Callable[[type[Request[Any]]], bool]) -> set[str]:
    """Names of the client's calls whose request is so, as its class says."""
    made = {
        name: each for name, each in vars(client_verbs.Verbs).items() if isinstance(each, client_verbs.verb)
    }
    return {name for name, each in made.items() if holds(each.request)}


def test_the_calls_that_a_bypass_and_a_lost_reply_change_are_those_of_the_contract():
    page = text_of("client")
    bypassed = re.search(r"in the agent's environment (.*?)answer", page, re.DOTALL)[1]
    once = re.search(r"\. ([^.]*) has no key and is sent once", page)[1]

    assert set(code(bypassed)) == calls_whose(lambda request: request.bypassable)
    assert set(code(once)) == calls_whose(
        lambda request: not request.repeatable and "key" not in request.__struct_fields__
    )


# --- configuration -------------------------------------------------------------------------------------

FIELDS = {
    f"{section}.{field.name}": field
    for section, kind in SECTIONS.items()
    for field in msgspec.structs.fields(kind)
}


def documented_keys() -> dict[str, list[str]]:
    """Cells of the row of each key: default, range, meaning."""
    parts = re.split(r"^## `\[(\w+)\]`\n", text_of("configuration"), flags=re.MULTILINE)
    return {
        f"{section}.{key}": cells
        for section, part in zip(parts[1::2], parts[2::2], strict=True)
        for names, *cells in rows(re.split(r"^## ", part, flags=re.MULTILINE)[0])
        for key in code(names)
    }


def test_the_keys_that_are_documented_are_those_that_there_are():
    assert list(documented_keys()) == [setting.key for setting in config.load({"HOME": "/nowhere"}).settings]


_WORDS = ("auto", "hyde", "direct", "follow", "locked", "exclude", "commit")


@pytest.mark.parametrize("key", FIELDS)
def test_the_default_and_range_that_are_documented_are_those_that_hold(key):
    default, reported = FIELDS[key].default, documented_keys()[key]

    assert reported[0] == ("not set" if default is None else f"`{json.dumps(default)}`")
    assert reported[1] == allowed(msgspec.inspect.type_info(FIELDS[key].type))


def allowed(kind: msgspec.inspect.Type) -> str:
    match kind:
        case msgspec.inspect.UnionType():
            return allowed(
                next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
            )
        case msgspec.inspect.LiteralType():
            return ", ".join(sorted(kind.values, key=_WORDS.index))
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return f"{kind.ge:g} or more" if kind.le is None else f"{kind.ge:g} to {kind.le:g}"
        case _:
            return ""


def test_what_a_repository_may_set_is_documented():
    words = code(section("configuration", "What a repository may set"))

    assert {word for word in words if f"memory.{word}" in FIELDS} == set(RepoConfig.__struct_fields__)


def test_every_variable_that_is_read_is_documented():
    """By name, in the code; a key's own variable is made from the key's name."""
    sources = [*REPO.glob("forged/**/*.py"), *REPO.glob("client/forged_client/*.py")]
    quoted = re.compile(r"\"((?:FORGED|OPENAI|EMBEDDING|PGVECTOR)_[A-Z_]+)\"")
    read = {name for source in sources for name in quoted.findall(source.read_text(encoding="utf-8"))}
    reported = {name for row in rows(text_of("configuration")) for cell in row for name in code(cell)}

    own = {name for name in read if "__" not in name and not name.endswith("_")}
    assert own == {name for name in reported if name.isupper()} - {"UID"}


# --- the code map --------------------------------------------------------------------------------------


def code_map() -> set[str]:
    """The packages that have a paragraph, where each has its own row."""
    cells = [row for row in rows(section("architecture", "Code map")) if len(row) == 2]
    return {code(row[0])[0] for row in cells if row[1]}


def test_every_package_has_a_paragraph_in_the_code_map_and_nothing_else_has():
    def packages(top: Path) -> set[str]:
        """Folders of modules, and those of them that hold a subject of their own in the layers."""
        return {f"{each.parent.relative_to(REPO).as_posix()}/" for each in top.glob("*/__init__.py")}

    inner = {"forged/daemon/handlers/", "forged/capture/rules/"}
    there = packages(REPO / "forged") | inner | {"client/forged_client/", "forged/docs/"}

    assert code_map() == there
    assert [each for each in there if not (REPO / each).is_dir()] == []


# --- packaging -----------------------------------------------------------------------------------------


def project(file: str) -> dict[str, object]:
    return tomllib.loads((REPO / file).read_text(encoding="utf-8"))["project"]


def test_the_server_requires_the_clients_exact_version_and_no_extra_is_empty():
    server = project("pyproject.toml")

    assert f"forged-memory-client=={forged_client.__version__}" in server["dependencies"]
    assert forged.__version__ == forged_client.__version__
    assert all(server["optional-dependencies"].values())
    assert (REPO / "LICENSE").read_bytes() == (REPO / "client" / "LICENSE").read_bytes()


@pytest.mark.parametrize("file", ["pyproject.toml", "client/pyproject.toml"])
def test_every_dependency_has_its_reason_in_a_line(file):
    (table,) = re.findall(
        r"^dependencies = \[\n(.*?)^\]", (REPO / file).read_text(), re.MULTILINE | re.DOTALL
    )
    lines = table.splitlines()

    assert len(lines) == len(project(file)["dependencies"])
    assert [line for line in lines if not re.search(r'",\s+# \w', line)] == []


# --- what only a finished house keeps ------------------------------------------------------------------

# Marks of documents that are not in the repository: numbered defects, behaviours, decisions, field notes.
POINTERS = re.compile(
    r"\b[Bb]ugs? \d"
    r"|(?<![\"'\\\w-])(?:B(?!0)\d{1,3}|C(?![01]\b)\d{1,2}|D\d{1,2})\b(?!:\d)"
    r"|(?<!= )\([AEFGH]\d{1,2}[-,;)]"
    r"|\b[Dd]esign\.md|\b[Dd]esign D\d|\b[a-z]+-anchors\b|\bfeasibility(?:\.md| \d)"
    r"|\bbehaviours(?:\.md| [A-Z]\d)"
    r"|\breliability [A-Z]?\d|\(m\d+\)|\bseeds? \d|\bADR-(?!0045|0046|0047)\d"
)
PROSE = {".py", ".md", ".toml", ".service", ".socket", ".c", ""}


def project_files() -> Iterator[Path]:
    """Text that people read: sources, tests, manual, units; not data."""
    for folder in ("forged", "client", "tests"):
        for file in (REPO / folder).rglob("*"):
            reported = file.relative_to(REPO).as_posix()
            if file.is_file() and file.suffix in PROSE and not reported.startswith("tests/data/"):
                yield file
    yield from (REPO / name for name in ("README.md", "CHANGELOG.md", "Makefile", ".ci/run"))


def pointers(text: str) -> list[str]:
    return [found[0] for found in POINTERS.finditer(text)]


def test_no_sentence_points_to_a_document_that_is_not_in_the_repository():
    found = [
        f"{file.relative_to(REPO)}:{number}: {mark}"
        for file in project_files()
        if file != Path(__file__)
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        for mark in pointers(line)
    ]

    assert found == []


def test_every_kind_of_pointer_would_be_seen_and_what_only_looks_like_one_is_left_alone():
    for text in (
        *("(bug 26)", "bugs 25 and 26", "as B76 has it", "B2, B3: a daemon", "D11", "(C28)", "C5", "(m10)"),
        *("design.md section 4", "Design D13 says", "seed 002", "reliability E6", "feasibility 1.2"),
        *("see behaviours C33", "performance-anchors.md 2c", "the four of ADR-0044"),
    ):
        assert pointers(text), text
    for text in (
        *("ADR-0047", "# noqa: B018", "# noqa: C901", '"evidence": ["D1:1"]', "C1 CSI", "BM25", "SHA256"),
        *(
            "a bug in 3 of 4",
            "forged/docs/decisions.md",
            "a reliability of 0.9",
            "UTF-8",
            "x86_64",
            "Blake2b",
        ),
    ):
        assert pointers(text) == [], text
