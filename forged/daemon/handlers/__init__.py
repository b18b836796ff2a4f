"""The daemon's answers: wire type in, domain call, wire type out.

`dispatch` is the way in; modules of verbs hold one function a verb, `context` is what they see of the daemon.
"""

from forged.daemon.handlers.dispatch import Dispatcher
from forged.daemon.handlers.request_context import About, Daemon, Probe, RefusedWrites

__all__ = ["About", "Daemon", "Dispatcher", "Probe", "RefusedWrites"]
