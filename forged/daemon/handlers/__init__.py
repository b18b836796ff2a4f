"""The daemon's answers: wire type in, domain call, wire type out.

`dispatch` is the way in. `retrieve`, `memories`, `capture` and `health` hold one function a verb,
`context` what they see of the daemon, `convert` the conversions and `refusals` the errors that they share.
"""

from forged.daemon.handlers.context import About, Daemon
from forged.daemon.handlers.dispatch import Dispatcher

__all__ = ["About", "Daemon", "Dispatcher"]
