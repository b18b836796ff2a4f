"""What a harness tells a hook and what a hook tells a harness: payloads in, canonical events, output bytes.

Pure functions over bytes; which fields a harness uses stands in `forged/text/harnesses.toml`.
"""

from __future__ import annotations

from forged.hooks.events import HookEvent, event_of
from forged.hooks.outputs import output, takes_context

__all__ = ["HookEvent", "event_of", "output", "takes_context"]
