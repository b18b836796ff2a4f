"""The manual is compared with the code, both ways: nothing is missing in it and nothing is invented."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import forged
import forged_client
from forged import config
from forged.__main__ import main as forged_command
from forged.cli.commands import VERBS, forgectl
from forged.cli.exits import EXPLAINED
from forged.config.repository import RepoConfig

REPO = Path(__file__).parents[1]
PAGES = {page.stem: page for page in (REPO / "forged" / "docs").glob("*.md")}
SECTIONS = {"memory": config.MemoryConfig, "llm": config.LlmConfig, "capture": config.CaptureConfig}
DOCUMENTS = [REPO / "README.md", REPO / "CHANGELOG.md", REPO / "client" / "README.md", *PAGES.values()]
SHARED = {"--json", "--timeout", "--workspace", "--no-autostart"}


def text_of(topic: str) -> str:
    return PAGES[topic].read_text(encoding="utf-8")


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


def test_readme_is_one_page():
    assert len((REPO / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_readme_links_every_page():
    links = re.findall(r"\]\(forged/docs/([\w-]+)\.md\)", (REPO / "README.md").read_text(encoding="utf-8"))

    assert sorted(set(links)) == sorted(PAGES)


@pytest.mark.parametrize("topic", PAGES)
def test_page_has_a_title_and_says_in_a_line_what_it_is_about(topic):
    title, blank, about, after = text_of(topic).split("\n", 4)[:4]

    assert title.startswith("# ")
    assert about.endswith(".")
    assert len(about) <= 110
    assert (blank, after) == ("", "")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(REPO).as_posix())
def test_links_between_documents_resolve(document):
    text = document.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("http")]

    assert [link for link in links if not (document.parent / link.partition("#")[0]).is_file()] == []


# --- commands ------------------------------------------------------------------------------------------


def subcommands(name: str, group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that can be typed, groups included, by the words that are typed."""
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        yield f"{name} {verb}", command
        if isinstance(command, click.Group):
            yield from subcommands(f"{name} {verb}", command, context)


def options(command: click.Command) -> set[str]:
    return {name for param in command.params if isinstance(param, click.Option) for name in param.opts}


def help_of_forged(*words: str) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        forged_command([*words, "--help"])
    return told.getvalue()


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
def test_the_options_that_are_documented_are_those_that_there_are(name):
    told = [re.match(r"--[\w-]+", code(row[0])[0])[0] for row in rows(documented()[name])]

    assert sorted(told) == sorted(COMMANDS[name] - SHARED)


def test_options_of_many_verbs_belong_to_the_verbs_that_the_page_says():
    page = text_of("commands").partition("## Options of many verbs")[2].partition("\n## ")[0]
    sentence = " ".join(page.split())
    only_json, none = re.search(
        r"(`config`.*) ask no daemon and have `--json` alone, (.*) has none", sentence
    ).groups()
    leaves = [name for name, command in FORGECTL.items() if not isinstance(command, click.Group)]
    shared = {name: COMMANDS[name] & SHARED for name in leaves}

    def of(found: set[str]) -> set[str]:
        return {name.split()[1] for name, options in shared.items() if options == found}

    assert {re.match(r"--[\w-]+", code(row[0])[0])[0] for row in rows(page)} == SHARED
    assert (of({"--json"}), of(set())) == (set(code(only_json)), set(code(none)))
    assert of(SHARED) == set(VERBS) - of({"--json"}) - of(set())


@pytest.mark.parametrize("name", FORGECTL)
def test_arguments_that_are_documented_are_those_that_there_are(name):
    """A command with arguments shows them; one without is not shown with any."""
    shown = re.match(rf"\n?`{name} ([^`-][^`]*)`", documented()[name])
    context = click.Context(forgectl)
    there = [
        param.make_metavar(context) for param in FORGECTL[name].params if isinstance(param, click.Argument)
    ]

    assert ([] if shown is None else shown[1].split()) == there


def test_exit_codes_are_those_that_there_are():
    page = text_of("commands").partition("## Exit codes")[2].partition("\n## ")[0]

    assert [(int(code), meaning) for code, meaning in rows(page)] == list(EXPLAINED)


def mentions() -> Iterator[tuple[str, str]]:
    """Each command that any text or unit file of the project names, as a reader would type it."""
    files = [*DOCUMENTS, *REPO.glob("systemd/*"), *REPO.glob("forged/**/*.py")]
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            for found in re.finditer(r"(?:`|^|\$\()(forgectl(?: [a-z]+)+|forged serve)\b", line):
                yield f"{file.relative_to(REPO)}: {line.strip()}", found[1]


def test_no_file_names_a_verb_that_does_not_exist():
    assert [where for where, named in mentions() if " ".join(named.split()[:2]) not in COMMANDS] == []


def test_a_verb_that_does_not_exist_would_be_seen():
    named = {command for _, command in mentions()}

    assert {"forgectl status", "forgectl resume", "forged serve"} <= named


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


@pytest.mark.parametrize("key", FIELDS)
def test_the_default_that_is_documented_is_the_one_that_holds(key):
    default = FIELDS[key].default

    assert documented_keys()[key][0] == ("not set" if default is None else f"`{json.dumps(default)}`")


@pytest.mark.parametrize("key", FIELDS)
def test_the_range_that_is_documented_is_the_one_that_holds(key):
    assert documented_keys()[key][1] == allowed(msgspec.inspect.type_info(FIELDS[key].type))


def allowed(kind: msgspec.inspect.Type) -> str:
    match kind:
        case msgspec.inspect.UnionType():
            return allowed(
                next(each for each in kind.types if not isinstance(each, msgspec.inspect.NoneType))
            )
        case msgspec.inspect.LiteralType():
            return ", ".join(sorted(kind.values, key=["auto", "hyde", "direct"].index))
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return f"{kind.ge:g} or more" if kind.le is None else f"{kind.ge:g} to {kind.le:g}"
        case _:
            return ""


def test_what_a_repository_may_set_is_documented():
    part = text_of("configuration").partition("## What a repository may set")[2].partition("\n## ")[0]
    named = {word for word in code(part) if f"memory.{word}" in FIELDS}

    assert named == set(RepoConfig.__struct_fields__)


def test_every_variable_that_is_read_is_documented():
    """By name, in the code; a key's own variable is made from the key's name."""
    sources = [*REPO.glob("forged/**/*.py"), *REPO.glob("client/forged_client/*.py")]
    read = {
        name
        for source in sources
        for name in re.findall(
            r"\"((?:FORGED|OPENAI|EMBEDDING)_[A-Z_]+)\"", source.read_text(encoding="utf-8")
        )
    }

    assert {name for name in read if "__" not in name and not name.endswith("_")} == {
        name
        for row in rows(text_of("configuration"))
        for cell in row
        for name in code(cell)
        if name.isupper()
    } - {"UID"}


# --- packaging -----------------------------------------------------------------------------------------


def project(file: str) -> dict[str, object]:
    return tomllib.loads((REPO / file).read_text(encoding="utf-8"))["project"]


def test_the_server_requires_the_clients_exact_version():
    assert f"forged-memory-client=={forged_client.__version__}" in project("pyproject.toml")["dependencies"]
    assert forged.__version__ == forged_client.__version__


def test_no_extra_is_empty():
    extras = project("pyproject.toml")["optional-dependencies"]

    assert [name for name, packages in extras.items() if not packages] == []


def test_every_dependency_has_its_reason_in_a_line():
    lines = [
        line
        for file in ("pyproject.toml", "client/pyproject.toml")
        for table in re.findall(
            r"^dependencies = \[\n(.*?)^\]", (REPO / file).read_text(), re.MULTILINE | re.DOTALL
        )
        for line in table.splitlines()
    ]

    assert len(lines) == sum(
        len(project(file)["dependencies"]) for file in ("pyproject.toml", "client/pyproject.toml")
    )
    assert [line for line in lines if not re.search(r'",\s+# \w', line)] == []


def test_both_distributions_carry_the_same_licence():
    assert (REPO / "LICENSE").read_bytes() == (REPO / "client" / "LICENSE").read_bytes()


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
            told = file.relative_to(REPO).as_posix()
            if file.is_file() and file.suffix in PROSE and not told.startswith("tests/data/"):
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


@pytest.mark.parametrize(
    "text",
    [
        *(
            "(bug 26)",
            "bugs 25 and 26",
            "as B76 has it",
            "B2, B3: a daemon",
            "design.md section 4",
            "Design D13 says",
        ),
        *(
            "D11",
            "(C28)",
            "C5",
            "(m10)",
            "seed 002",
            "reliability E6",
            "feasibility 1.2",
            "see behaviours C33",
        ),
        *("performance-anchors.md 2c", "the four of ADR-0044"),
    ],
)
def test_every_kind_of_pointer_would_be_seen(text):
    assert pointers(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "ADR-0047",
            "# noqa: B018",
            "# noqa: C901",
            '"evidence": ["D1:1"]',
            "C1 CSI",
            "BM25",
            "a bug in 3 of 4",
        ),
        *("forged/docs/decisions.md", "a reliability of 0.9", "UTF-8", "x86_64", "SHA256", "Blake2b"),
    ],
)
def test_what_looks_like_a_pointer_and_is_none_is_left_alone(text):
    assert pointers(text) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(REPO).as_posix())
def test_every_file_that_a_document_names_exists(document):
    """Written from the top of the checkout; a bare name after it in the same line lies beside it."""
    text = document.read_text(encoding="utf-8")
    paths = re.findall(r"`((?:forged|client|tests)/[\w./-]*)`", text)

    assert [path for path in paths if not (REPO / path).exists()] == []
    assert [name for name in beside(text) if not name.exists()] == []


def beside(text: str) -> Iterator[Path]:
    """Files named bare, with the folder of the path that stands before them on their line."""
    for line in text.splitlines():
        folder = None
        for found in re.finditer(r"`((?:forged|client|tests)/[\w./-]*)`|`([\w/]+\.py)`", line):
            if found[1]:
                folder = REPO / found[1] if found[1].endswith("/") else (REPO / found[1]).parent
            elif folder is not None:
                yield folder / found[2]
