"""What the harnesses of agents have written down of past sessions, as conversations of user and assistant."""

from __future__ import annotations

__all__: list[str] = []
