"""`make demo-shared`: two machines of one user, a team's PostgreSQL, and what happens when it is gone.

As the other demo it says what it does and checks every step; the first that does not come out as promised
ends it with an error.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping

import click
from click import echo

from forged.cli.demo.agent import milliseconds_since
from forged.cli.demo.stage import VISIBLE_S, expect, wait_until
from forged.cli.terminal import escape
from tests.demo.team import USER, Machine, Team, new_team

_BACK_S = 20.0  # a server that failed is looked for after a while, which grows
_HANDBOOK = """\
# Expenses

Travel is booked by the traveller. Receipts go to the finance office within thirty days, as photographs.

# On call

Whoever is on call carries the pager from Monday noon to Monday noon, and hands it over in person.
"""


def play(environ: Mapping[str, str]) -> None:
    """Play it to its end. Raises DemoFailed and NotInstalled."""
    began = time.perf_counter()
    with new_team(environ) as team:
        echo("\n1. A PostgreSQL with pgvector in a scratch directory, and two machines beside it")
        echo(f"  laptop and desktop have a HOME and a daemon each, and both are of the user {USER}")
        for machine in (team.laptop, team.desktop):
            _hears(machine)
        _one_remembers(team)
        _one_reads_a_document(team)
        _server_goes(team)
        _server_comes(team)
        echo("\n6. forgectl status on the desktop")
        for line in team.desktop.forgectl("status").splitlines():
            echo(f"  {escape(line)}")
    echo(f"\nDone in {time.perf_counter() - began:.1f} s; no process, no server and no folder is left.")


def _hears(machine: Machine) -> None:
    """Wait until the machine is in touch with the server, and its model is there."""
    complaint = f"the {machine.name} does not come to hear of others"
    took = wait_until(lambda: machine.shared().listening, lambda: complaint, _BACK_S)
    machine.recall("is there anything to know?")
    echo(f"  the {machine.name} hears of what others write, {took:.0f} ms after its start")


def _one_remembers(team: Team) -> None:
    echo("\n2. The laptop remembers something about the user; the desktop recalls it")
    _remember(team.laptop, "Ada wants commit messages in the imperative, without a full stop at their end.")
    took = team.desktop.finds("how should a commit message be worded?", "imperative", VISIBLE_S)
    echo(f"  the desktop recalls it {took:.0f} ms later")


def _one_reads_a_document(team: Team) -> None:
    echo("\n3. The laptop takes in a document; the desktop finds the passage that answers")
    document = team.laptop.home / "handbook.md"
    document.write_text(_HANDBOOK)
    for line in team.laptop.forgectl("ingest", str(document)).splitlines():
        echo(f"  {escape(line)}")
    took = team.desktop.finds("when do I have to hand in receipts?", "thirty days")
    (found, *_) = team.desktop.recall("when do I have to hand in receipts?").memories
    echo(f"  the desktop finds it {took:.0f} ms later, best of all: {escape(_opening(found.content))}")
    expect(found.scope == "org" and bool(found.document_id), "it is a piece of the document")


def _server_goes(team: Team) -> None:
    echo("\n4. The server is stopped; both machines go on")
    team.server.stop()
    _remember(team.laptop, "Ada reviews pull requests before lunch.")
    took = team.laptop.finds("when are pull requests reviewed?", "lunch")
    echo(f"  the laptop recalls it {took:.0f} ms later, from its own files")
    reply = team.laptop.recall("when are pull requests reviewed?")
    echo(f"  a recall takes {reply.elapsed_ms:.0f} ms; degraded: {escape(', '.join(reply.degraded))}")
    expect(
        any("shared" in reported for reported in reply.degraded),
        "the reply says that the server took no part",
    )
    known = [memory.content for memory in team.desktop.recall("when are pull requests reviewed?").memories]
    expect(not any("lunch" in text for text in known), "the desktop has not heard of it")


def _server_comes(team: Team) -> None:
    echo("\n5. The server is started again; no daemon is restarted")
    team.server.start()
    took = team.desktop.finds("when are pull requests reviewed?", "lunch", _BACK_S)
    echo(f"  the desktop recalls what the laptop wrote meanwhile, {took:.0f} ms later")
    wait_until(lambda: _is_quiet(team), lambda: "writes still wait for the server", _BACK_S)
    expect(_is_quiet(team), "nothing waits for the server any more, on neither machine")


def _is_quiet(team: Team) -> bool:
    return not any(machine.shared().waiting for machine in (team.laptop, team.desktop))


def _remember(machine: Machine, text: str) -> None:
    began = time.perf_counter()
    reply = machine.client.remember(machine.workspace, text, scope="user")
    took = milliseconds_since(began)
    echo(f"  {reply.memory_id}  {escape(text)}")
    echo(f"  {took:.0f} ms in the agent, on disk before the answer")


def _opening(text: str) -> str:
    return " ".join(text.split())[:70]


def main() -> None:
    # As Ctrl-C does, so that the server and both machines go too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        play(os.environ)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
