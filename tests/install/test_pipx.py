"""The line for pipx on the page on upgrades, with a pipx of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.install.conftest import REPO, Place, blocks
from tests.support.clock import PATIENCE_S, eventually

PAGE = "forged/docs/upgrade.md"


@pytest.fixture(scope="module")
def installed(person: Place, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A person who has pipx and has run README's line; their shell finds what it puts into ~/.local/bin."""
    tools = tmp_path_factory.mktemp("tools")
    person.run(f"{sys.executable} -m venv {tools}\n{tools}/bin/pip install pipx", checkout)
    owner = Place(person.home, f"{person.home}/.local/bin:{tools}/bin:{person.path}")
    owner.run(blocks(PAGE, "Install")[1], checkout)
    return owner


def test_pipx_installs_a_forgectl_that_works(installed, work):
    printed = installed.run(blocks("README.md", "Daily use")[0], work)

    assert printed.count("Migrations run with atlas; goose is gone.") == 2  # by `search` and by `why`
    assert "local:multilingual-e5-small" in installed.run("forgectl status --all", work)


def test_pipx_takes_it_away_again(installed, work):
    *stop, _ = blocks(PAGE, "Uninstall")[0].splitlines()
    remove = re.search("With pipx the last line is `(pipx uninstall [^`]*)`", (REPO / PAGE).read_text())[1]

    installed.run("\n".join([*stop, remove]), work)

    eventually(lambda: not installed.daemons(), PATIENCE_S)
    assert not (installed.home / ".local" / "bin" / "forgectl").exists()
