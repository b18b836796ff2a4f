"""Daemon of the tests: a real `forged serve`, its users and agents, and fake daemons.

- `DaemonProcess` and `running` start a daemon under a HOME and socket of its own, and `activated` one behind
  systemd's socket; ready when it reports so, killed at the end, and its log must hold no traceback.
- `user_manager` is a real `systemd --user` in namespaces, for a daemon under forged's units (root only);
  `fd_keeper` is a fake one that keeps descriptors.
- `staged` adds a scripted provider: a `Scene` sends requests and inspects; `capturing` gives a `Stage`, which
  captures turns and waits until they are processed.
- `Shell` is forgectl as a person runs it, in a pipe or on a terminal.
- `Peer` and `FakeDaemon` play the daemon for a client, well or badly; `stop` hangs up on all and ends the
  threads.
- `processes_with`, `usage` and others query processes, and `stored` reads a daemon's `state.db`.
"""

from tests.support.daemon.activated import Activated, activated, needs_activation
from tests.support.daemon.agents import Agents
from tests.support.daemon.capturing import FREE, UNLIMITED, Stage, capturing, contents, on_disk, said
from tests.support.daemon.fd_keeper import FdKeeper, fd_keeper
from tests.support.daemon.peer import (
    FakeDaemon,
    Peer,
    PeerConnection,
    Script,
    answering,
    any_answer,
    cut,
    full_backlog,
    listener_of_another_user,
    needs_two_users,
    stopped_server,
)
from tests.support.daemon.process import ALTERED, DaemonProcess, running
from tests.support.daemon.processes import (
    Usage,
    children_of,
    is_alive,
    of_threads,
    proc,
    processes_with,
    state_of,
    usage,
    wait_for_end,
)
from tests.support.daemon.scene import Scene, configuration, ids, renewed, shared_scene, staged
from tests.support.daemon.shell import FORGECTL, FORGED, Shell
from tests.support.daemon.stored import stored
from tests.support.daemon.user_manager import UserManager, needs_user_manager, user_manager

__all__ = [
    "ALTERED",
    "FORGECTL",
    "FORGED",
    "FREE",
    "UNLIMITED",
    "Activated",
    "Agents",
    "DaemonProcess",
    "FakeDaemon",
    "FdKeeper",
    "Peer",
    "PeerConnection",
    "Scene",
    "Script",
    "Shell",
    "Stage",
    "Usage",
    "UserManager",
    "activated",
    "answering",
    "any_answer",
    "capturing",
    "children_of",
    "configuration",
    "contents",
    "cut",
    "fd_keeper",
    "full_backlog",
    "ids",
    "is_alive",
    "listener_of_another_user",
    "needs_activation",
    "needs_two_users",
    "needs_user_manager",
    "of_threads",
    "on_disk",
    "proc",
    "processes_with",
    "renewed",
    "running",
    "said",
    "shared_scene",
    "staged",
    "state_of",
    "stopped_server",
    "stored",
    "usage",
    "user_manager",
    "wait_for_end",
]
