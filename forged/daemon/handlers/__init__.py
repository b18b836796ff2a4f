"""The daemon's answers: wire type in, domain call, wire type out.

`dispatch` is the way in. `retrieve`, `memories`, `writing`, `moving`, `restoring`, `capture`, `trust`,
`health` and `records` hold one function a verb, `naming` finds the memory that one means, `context` is what
they see of the daemon, `convert` the conversions and `refusals` the errors they share. `RefusedWrites` are
what a disk did not take. `resume` finishes at the start what a kill interrupted, and `follow_absent` sweeps
what has no file any more.
"""

from forged.daemon.handlers.absent import follow_absent
from forged.daemon.handlers.context import About, Daemon, Probe, RefusedWrites
from forged.daemon.handlers.dispatch import Dispatcher
from forged.daemon.handlers.documents_gone import follow_documents
from forged.daemon.handlers.hook import follow_sessions, hand_over_all
from forged.daemon.handlers.memories import forgotten_elsewhere
from forged.daemon.handlers.restoring import resume

__all__ = [
    "About",
    "Daemon",
    "Dispatcher",
    "Probe",
    "RefusedWrites",
    "follow_absent",
    "follow_documents",
    "follow_sessions",
    "forgotten_elsewhere",
    "hand_over_all",
    "resume",
]
