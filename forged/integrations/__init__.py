"""The agents on this machine: finding them, connecting them, taking the connection away again."""

from __future__ import annotations

__all__: list[str] = []
