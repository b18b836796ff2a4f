"""One HTML page that holds all it needs: its code, its looks and its data; no network and nothing beside it.

The data stand in a block that browsers do not run, as JSON in ASCII without a character that could end the
block. The policy in the page's head names the digests of its one script and its one style and allows nothing
else, so what the data say can be no code even if something here were wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from importlib import resources

import msgspec

from forged.cli.terminal import whole

_FILES = resources.files("forged.cli.ui")
SCRIPTS = ("text.js", "store.js", "list.js", "detail.js", "views.js", "page.js")
_STYLE = "page.css"
_PLACE = re.compile(r"\{\{(\w+)\}\}")
_ESCAPED = str.maketrans({each: f"\\u{ord(each):04x}" for each in "<>&"})


def page(data: msgspec.Struct) -> str:
    """The whole page, in ASCII but for its own words."""
    script, style = "\n".join(map(_text, SCRIPTS)), _text(_STYLE)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    )
    parts = {"policy": policy, "style": style, "data": as_json(data), "script": script}
    return _PLACE.sub(lambda place: parts[place[1]], _text("page.html"))


def as_json(data: msgspec.Struct) -> str:
    """A value as JSON that may stand in HTML."""
    return json.dumps(whole(data), separators=(",", ":")).translate(_ESCAPED)


def _text(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
