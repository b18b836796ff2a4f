"""What models are told, as plain files: NAME.md is sent as it stands.

A prompt is tuned by reading it whole and by measuring, so it is a text and no string in a module. Why it
reads as it does, and what was measured, stands beside it in NAME.why.md, which is never opened here: a
header that is cut off before sending would be one slip away from being sent. `$name` marks what is filled
in; a prompt that has no such place is sent to the letter.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

_HERE = Path(__file__).parent


def text(name: str) -> str:
    """Return a prompt without the line end of its last line. Reads a file: not for the retrieve path."""
    return (_HERE / f"{name}.md").read_text(encoding="utf-8").removesuffix("\n")


def template(name: str) -> Template:
    """Return a prompt with places; what is filled in is never read for places itself."""
    return Template(text(name))
