"""The daemon's answers: wire type in, domain call, wire type out.

`dispatch` is the way in. `retrieve`, `memories`, `documents`, `capture`, `trust`, `health` and `records`
hold one function a verb, `context` is what they see of the daemon, `convert` the conversions and `refusals`
the errors they share. `RefusedWrites` are what a disk did not take.
"""

from forged.daemon.handlers.context import About, Daemon, Probe, RefusedWrites
from forged.daemon.handlers.dispatch import Dispatcher

__all__ = ["About", "Daemon", "Dispatcher", "Probe", "RefusedWrites"]
