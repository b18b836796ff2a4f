"""Prompts are files: each has its reasons in a file, and the request is the prompt alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged.text import prompts

FOLDER = Path(prompts.__file__).parent
SENT = sorted(file.stem for file in FOLDER.glob("*.md") if not file.name.endswith(".why.md"))
PLACES = {
    "hyde": set(),
    "hyde.ask": {"window", "count"},
    "classifier": set(),
    "classifier.ask": {"mark", "said", "existing"},
}


def test_every_prompt_is_known_here():
    assert set(SENT) == set(PLACES)


@pytest.mark.parametrize("name", SENT)
def test_what_is_filled_in_is_what_the_code_fills_in(name):
    """A `$` too many would raise while an agent waits, one too few would send a prompt without its window."""
    template = prompts.template(name)

    assert template.is_valid()
    assert set(template.get_identifiers()) == PLACES[name]
