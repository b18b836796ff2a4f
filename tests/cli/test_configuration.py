import tomllib
from pathlib import Path

import msgspec
import pytest

from forged import config
from forged.cli.template import MEANINGS, template


@pytest.fixture
def file(home: Path) -> Path:
    path = home / ".config/forged/config.toml"
    path.parent.mkdir(parents=True)
    return path


def test_show_prints_every_key_and_with_origin_where_it_comes_from(forgectl, file, monkeypatch):
    file.write_text("[memory]\nretrieval_top_k = 3\n")
    monkeypatch.setenv("FORGED_MEMORY__RETRIEVAL_HOP_DEPTH", "2")

    out = forgectl("config", "show", "--origin").out

    rows = {line.split()[0]: line.split(maxsplit=3)[2:] for line in out.splitlines() if len(line.split()) > 3}
    assert rows["memory.retrieval_top_k"] == ["3", f"file {file}"]
    assert rows["memory.retrieval_hop_depth"] == ["2", "environment FORGED_MEMORY__RETRIEVAL_HOP_DEPTH"]
    assert rows["memory.enabled"] == ["true", "default"]
    assert str(file) not in forgectl("config", "show").out


def test_no_key_is_ever_shown(forgectl, file):
    file.write_text('[memory]\nembedding_api_key = "sk-secret"\n')

    shown = [forgectl("config", "show", "--origin"), forgectl("config", "show", "--json")]

    assert all("sk-secret" not in outcome.out + outcome.err for outcome in shown)


def test_path_is_printed_whether_or_not_there_is_a_file(forgectl, home):
    path = str(home / ".config/forged/config.toml")

    assert forgectl("config", "path").out == f"{path}\n"
    assert forgectl("config", "path", "--json").json == {"schema_version": 1, "path": path, "exists": False}


def test_init_writes_a_file_that_changes_nothing_and_is_ours_alone(forgectl, home):
    before = config.load({"HOME": str(home)})

    assert forgectl("config", "init").code == 0

    after = config.load({"HOME": str(home)})
    assert after.config == before.config
    assert after.warnings == ()
    assert (home / ".config/forged/config.toml").stat().st_mode & 0o777 == 0o600


def test_init_never_touches_a_file_that_is_there(forgectl, file):
    file.write_text("mine")

    shown = forgectl("config", "init")

    assert shown.code == 1
    assert "left as it is" in shown.err
    assert file.read_text() == "mine"


def test_the_template_has_every_key_with_its_default():
    switched_on = "\n".join(
        line.removeprefix("# ") if " = " in line else line for line in template().split("\n")
    )
    tables = tomllib.loads(switched_on.replace("Keys by", "# Keys by"))

    keys = {f"{section}.{name}" for section, table in tables.items() for name in table}
    assert msgspec.convert(tables, config.Config) == config.Config()
    assert keys | {"memory.retrieval_min_score"} == set(MEANINGS)


def test_every_key_of_the_configuration_is_explained():
    known = {setting.key for setting in config.load({"HOME": "/nowhere"}).settings}

    assert set(MEANINGS) == known


@pytest.mark.parametrize("as_json", [[], ["--json"]], ids=["text", "json"])
def test_check_names_key_value_range_and_origin(forgectl, file, as_json):
    file.write_text("[memory]\nretrieval_top_k = 500\n")

    shown = forgectl("config", "check", *as_json)

    assert shown.code == 78
    told = shown.json["error"]["message"] if as_json else shown.err
    assert all(part in told for part in ("memory.retrieval_top_k", "500", "from 1 to 100", str(file)))


def test_check_warns_of_an_unknown_key_and_is_content(forgectl, file):
    file.write_text("[memory]\nretrieval_topk = 5\n")

    shown = forgectl("config", "check")

    assert shown.code == 0
    assert "did you mean memory.retrieval_top_k" in shown.err
