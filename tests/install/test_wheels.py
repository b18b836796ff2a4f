"""Both distributions as wheels: content, metadata, and use on their own."""

from __future__ import annotations

import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

import forged
from tests.install.conftest import REPO, Place


@pytest.fixture(scope="module")
def wheels(person: Place, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels by the name of their distribution."""
    folder = tmp_path_factory.mktemp("wheels")
    person.run(
        f"python3 -m venv {folder}/tools\n{folder}/tools/bin/pip wheel --no-deps -w {folder} ./client .",
        checkout,
    )
    return {file.name.partition("-")[0].replace("_", "-"): file for file in folder.glob("*.whl")}


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def test_there_are_two_wheels(wheels):
    assert sorted(wheels) == ["forged-memory", "forged-memory-client"]


@pytest.mark.parametrize("name", ["forged-memory", "forged-memory-client"])
def test_wheel_has_its_licence_types_and_classifiers(wheels, name):
    says = metadata(wheels[name])

    assert says["License-Expression"] == "Apache-2.0"
    assert any(file.endswith(".dist-info/licenses/LICENSE") for file in names(wheels[name]))
    assert {"Typing :: Typed", "Operating System :: POSIX :: Linux"} <= set(says.get_all("Classifier"))
    assert says["Version"] == forged.__version__
    assert any(file.endswith("/py.typed") for file in names(wheels[name]))


def test_server_has_the_manual_the_units_the_prompts_and_the_rules(wheels):
    wanted = {
        file.relative_to(REPO).as_posix()
        for folder in ("docs", "text/prompts", "capture/rules")
        for file in (REPO / "forged" / folder).iterdir()
        if file.is_file()
    }
    wanted |= {f"forged/units/{file.name}" for file in (REPO / "systemd").iterdir()}

    assert len(wanted) >= 16
    assert wanted <= names(wheels["forged-memory"])


def test_wheels_hold_their_package_and_nothing_else(wheels):
    tops = {
        name: {file.split("/")[0] for file in names(wheel) if ".dist-info/" not in file}
        for name, wheel in wheels.items()
    }

    assert tops == {"forged-memory": {"forged"}, "forged-memory-client": {"forged_client"}}


def test_server_requires_the_clients_exact_version_and_the_client_msgspec_alone(wheels):
    server = metadata(wheels["forged-memory"]).get_all("Requires-Dist")
    client = metadata(wheels["forged-memory-client"]).get_all("Requires-Dist")

    assert f"forged-memory-client=={forged.__version__}" in server
    assert [requirement.partition(">")[0] for requirement in client] == ["msgspec"]


def test_what_the_wheels_install_works_by_words_alone(person, wheels, work, tmp_path):
    files = " ".join(map(str, wheels.values()))
    person.run(f"python3 -m venv {tmp_path}/new\n{tmp_path}/new/bin/pip install {files}", tmp_path)
    owner = Place(person.home, f"{tmp_path}/new/bin:{person.path}")

    owner.run('forgectl remember "Migrations run with atlas." --category project-conventions', work)

    assert "Migrations run with atlas." in owner.run("forgectl search migrations", work)
    assert "builtin:lexical" in owner.run("forgectl status --all", work)
    assert owner.run("forgectl docs", work).startswith("agents")
