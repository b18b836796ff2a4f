"""README is the user's map: what can be typed and what can be set must be in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from forged import config
from forged.cli.commands import VERBS
from forged.cli.exits import EXPLAINED

README = Path(__file__).parents[1] / "README.md"
SETTINGS = [setting.key for setting in config.load({"HOME": "/nowhere"}).settings]


@pytest.fixture(scope="module")
def readme() -> str:
    return README.read_text(encoding="utf-8")


def named(word: str, text: str) -> bool:
    """Whether a word stands in the text in its own right, not as a part of a longer name."""
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", text) is not None


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_readme(readme, verb):
    rows = "\n".join(line for line in readme.splitlines() if "forgectl " in line)

    assert named(f"forgectl {verb}", rows) or f"`{verb}`" in rows


@pytest.mark.parametrize("key", SETTINGS)
def test_every_configuration_key_is_in_the_readme(readme, key):
    section, name = key.split(".")

    assert f"[{section}]" in readme
    assert named(name, readme)


@pytest.mark.parametrize("code", [code for code, _ in EXPLAINED])
def test_every_exit_code_is_in_the_readme(readme, code):
    assert named(str(code), readme)
