"""The daemon's answers: wire type in, domain call, wire type out.

`dispatch` is the way in. `retrieve`, `memories`, `capture`, `health` and `endpoints` hold one function a
verb, `context` what they see of the daemon, `convert` the conversions and `refusals` the errors they share.
"""

from forged.daemon.handlers.context import About, Daemon, Probe
from forged.daemon.handlers.dispatch import Dispatcher

__all__ = ["About", "Daemon", "Dispatcher", "Probe"]
