"""`forged serve`: run the daemon in the foreground, with logging and exit codes.

75: another daemon runs already and, with `--replace`, does not hand over. 78: the configuration has an error,
and systemd does not restart. 69: another user owns the place of the socket. 70: an internal error. Each
capture worker imports this module, so imports of the daemon are late. argparse parses the options, as click
takes 0.7 MB.
"""

from __future__ import annotations

import os

# One BLAS thread: with two, a search on a busy machine is six times slower. Must be set before numpy is
# imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

from forged import __version__, ensure_utf8

logger = logging.getLogger("forged")


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line of the program `forged`, and run its command `serve`."""
    from argparse import ArgumentParser  # noqa: PLC0415 - a worker has no arguments

    ensure_utf8()
    parser = ArgumentParser("forged", description="Long-term memory of the coding agents on this machine.")
    parser.add_argument("--version", action="version", version=f"%(prog)s, version {__version__}")
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    verb = verbs.add_parser("serve", help=serve.__doc__, description=serve.__doc__)
    verb.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    verb.add_argument("--replace", action="store_true", help="Replace the running daemon.")
    given = parser.parse_args(arguments)
    serve(given.log_level, replace=given.replace)


def serve(log_level: str, *, replace: bool = False) -> None:
    """Run the daemon in the foreground until SIGTERM; exit with an error code if it cannot run."""
    from forged import config, log  # noqa: PLC0415 - not needed for a usage error
    from forged.daemon import app  # noqa: PLC0415
    from forged.daemon.build import log_settings  # noqa: PLC0415
    from forged.daemon.listening import AlreadyRunning  # noqa: PLC0415
    from forged.daemon.process import turn_away  # noqa: PLC0415
    from forged.errors import ConfigError, ForgedError  # noqa: PLC0415
    from forged_client.errors import AddressError  # noqa: PLC0415

    env = dict(os.environ)
    try:
        log.begin(log_settings(env, log_level))
        loaded = config.load(env)
        for warning in loaded.warnings:
            logger.warning("config %s", warning)
        os.chdir("/")  # keeps no directory in use; a worker cannot start in one that was removed
        asyncio.run(app.serve(loaded, env, replace=replace))
    except (ConfigError, AddressError) as error:
        turn_away(env, f"the daemon cannot start: {error}")
        _exit_with(error, os.EX_CONFIG)
    except AlreadyRunning as error:
        _exit_with(error, os.EX_TEMPFAIL)
    except ForgedError as error:
        _exit_with(error, os.EX_UNAVAILABLE)
    except Exception:
        logger.exception("the daemon broke")
        sys.exit(os.EX_SOFTWARE)


def _exit_with(error: Exception, code: int) -> NoReturn:
    """Print an error on stderr and end the process with an exit code."""
    sys.stderr.write(f"forged: {error}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
