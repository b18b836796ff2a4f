import tomllib
from pathlib import Path

import msgspec
import pytest

from forged import config
from forged.cli.configuration import MEANINGS, template


@pytest.fixture
def file(home: Path) -> Path:
    path = home / ".config/forged/config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_show_prints_every_key_and_with_origin_where_it_comes_from_and_no_secret(forgectl, file, monkeypatch):
    file.write_text('[memory]\nretrieval_top_k = 3\nembedding_api_key = "sk-secret"\n')
    monkeypatch.setenv("FORGED_MEMORY__RETRIEVAL_HOP_DEPTH", "2")

    plain, whence, as_json = (forgectl("config", "show", *more) for more in ((), ("--origin",), ("--json",)))

    rows = {line.split()[0]: line.split(maxsplit=3)[2:] for line in whence.out.splitlines()[:-1]}
    assert rows["memory.retrieval_top_k"] == ["3", f"file {file}"]
    assert rows["memory.retrieval_hop_depth"] == ["2", "environment FORGED_MEMORY__RETRIEVAL_HOP_DEPTH"]
    assert rows["memory.enabled"] == ["true", "default"]
    assert str(file) not in plain.out
    assert all("sk-secret" not in outcome.out + outcome.err for outcome in (plain, whence, as_json))


def test_path_is_printed_whether_or_not_there_is_a_file(forgectl, home):
    path = str(home / ".config/forged/config.toml")

    assert forgectl("config", "path").out == f"{path}\n"
    assert forgectl("config", "path", "--json").json == {"schema_version": 1, "path": path, "exists": False}


def test_init_writes_a_file_that_changes_nothing_and_is_ours_alone_and_never_again(forgectl, home):
    before, path = config.load({"HOME": str(home)}), home / ".config/forged/config.toml"

    first = forgectl("config", "init")

    assert (first.code, first.out) == (0, f"wrote {path}\n")

    after = config.load({"HOME": str(home)})
    assert after.config == before.config
    assert after.warnings == ()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("# mine\n")
    second = forgectl("config", "init")
    assert (second.code, second.out, path.read_text()) == (1, "", "# mine\n")


def test_the_template_has_every_key_with_its_default():
    switched_on = "\n".join(
        line.removeprefix("# ") if " = " in line else line for line in template().split("\n")
    )
    tables = tomllib.loads(switched_on)

    keys = {f"{section}.{name}" for section, table in tables.items() for name in table}
    known = {setting.key for setting in config.load({"HOME": "/nowhere"}).settings}
    assert msgspec.convert(tables, config.Config) == config.Config()
    assert keys | {"memory.retrieval_min_score"} == set(MEANINGS) == known


def test_check_names_key_value_range_and_origin(forgectl, file):
    file.write_text("[memory]\nretrieval_top_k = 500\n")

    shown, as_json = forgectl("config", "check"), forgectl("config", "check", "--json")

    assert shown.code == as_json.code == 78
    for reported in (shown.err, as_json.json["error"]["message"]):
        assert all(part in reported for part in ("memory.retrieval_top_k", "500", "from 1 to 100", str(file)))


def test_check_warns_of_an_unknown_key_and_is_content(forgectl, file):
    file.write_text("[memory]\nretrieval_topk = 5\n")

    shown = forgectl("config", "check")

    assert shown.code == 0
    assert "did you mean memory.retrieval_top_k" in shown.err


# --- the person's own agent ---


@pytest.fixture
def agent(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "some where" / "claude"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(path.parent))
    return path


def test_what_is_printed_for_an_agent_makes_it_the_classifier(forgectl, file, agent):
    shown = forgectl("config", "classifier", "cli:claude/opus")
    file.write_text(shown.out)
    loaded = config.load({"HOME": str(file.parents[2])})

    assert (shown.code, str(file) in shown.err, "280 tokens" in " ".join(shown.err.split())) == (
        0,
        True,
        True,
    )
    assert loaded.config.classifier == "cli:claude/opus"
    assert config.find_program(loaded.config, {}).command == (str(agent),)
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (("gpt-5",), "unknown classifier"),
        (("cli:vim",), "takes one of claude"),
        (("cli:codex",), "`codex` was not found"),
        (("cli:codex", "--program", "codex"), "`codex` was not found"),
    ],
)
def test_what_is_no_program_is_reported_and_nothing_is_printed(forgectl, agent, given, reported):
    shown = forgectl("config", "classifier", *given)

    assert (shown.code != 0, shown.out, reported in shown.err) == (True, "", True)


def test_a_program_of_the_repository_where_the_caller_works_is_declined(forgectl, agent, monkeypatch):
    """Nor by a folder of PATH that is relative."""
    for path in (str(agent.parent), "."):
        monkeypatch.setenv("PATH", path)
        shown = forgectl("config", "classifier", "cli:claude", workspace=str(agent.parent))
        assert (shown.code != 0, shown.out) == (True, "")
