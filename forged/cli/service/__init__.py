"""`forgectl service`: have the user's systemd hold the socket and run the daemon, or no longer.

`units` knows the files, `user_manager` the systemd that reads them; here is what one verb does with both, in
which order, and that it is said. Doing it again does nothing again. Nothing outside of the user's own unit folder
is written, and lingering is offered only: it is a right of the machine's owner to give.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator

import click

from forged.cli.call import Invocation, show
from forged.cli.commands import reads
from forged.cli.exits import Stop
from forged.cli.service import links, units
from forged.cli.service.units import Standing
from forged.cli.terminal import escape_line, tell
from forged.cli.user_manager import SERVICE, SOCKET, UNITS, UserManager, program, run, surroundings

_LINGER_S = 5.0


@click.group("service")
def service_command() -> None:
    """Have systemd run the daemon: install, uninstall, status."""
