"""What a harness tells a hook and what a hook tells a harness: payloads in, canonical events, output bytes.

Pure functions over bytes; which fields a harness uses stands in `forged/text/harnesses.toml`.
"""

from __future__ import annotations

__all__: list[str] = []
