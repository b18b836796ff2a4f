"""Handlers of requests: wire type in, domain call, wire type out.

`dispatch` is the entry. Each module of verbs has one function for each verb. `request_context` holds the
parts of the daemon that they use.
"""

from forged.daemon.handlers.dispatch import Dispatcher
from forged.daemon.handlers.request_context import Daemon, DaemonFacts, DiskRefusals, Probe

__all__ = ["Daemon", "DaemonFacts", "DiskRefusals", "Dispatcher", "Probe"]
