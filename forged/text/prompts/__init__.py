"""Prompts for models, as plain files: NAME.md is sent unchanged.

A prompt is tuned as a whole and by measuring, so it is a file and not a string. Its reasons and measurements
are in NAME.why.md, which is never opened here, so that they cannot be sent by mistake. `$name` marks text to
fill in; a prompt without one is sent literally.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

_HERE = Path(__file__).parent


def text(name: str) -> str:
    """Return the prompt NAME.md without its final line end. Reads a file: not for the retrieve path."""
    return (_HERE / f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")


def template(name: str) -> Template:
    """Return the prompt NAME.md with places to fill in; filled-in text is not expanded again."""
    return Template(text(name))
