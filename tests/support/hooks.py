"""Payloads of hooks: as real harnesses sent them (with other paths), and of two as documented."""

from __future__ import annotations

import json
from pathlib import Path

PAYLOADS = Path(__file__).parents[1] / "data" / "hooks"


def payload(harness: str, name: str) -> dict:
    """Return the harness's payload for this event."""
    found: dict = json.loads((PAYLOADS / harness / f"{name}.json").read_text())
    return found
