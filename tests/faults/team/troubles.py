"""Troubles of a team's machines and server, and the sentences of status that each of them allows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from forged.cli.shared_status import shared_troubles
from tests.faults.team.world import World
from tests.postgres.meeting import Machine
from tests.postgres.test_forgetting import set_read_only
from tests.support.clock import eventually

AWAY, READ_ONLY, FULL, ALONE = "away", "read-only", "full", "alone"
TABLES = ("organizational_memories", "user_memories", "agent_memories", "tombstones")

# A reason that status gives, and the troubles in which it is true. Read-only closes connections.
REASONS = {
    "cannot be reached": {AWAY},
    "is starting or stopping": {AWAY},
    "did not answer in time": {AWAY},
    "cannot be asked": {AWAY},
    "has ended the connection": {AWAY, READ_ONLY},
    "it is read-only now": {READ_ONLY},
    "its disk is full": {FULL},
}
NO_VECTOR = re.compile(r"\d+ memor(y|ies) cannot be found there yet, for lack of a vector")
MORE = re.compile(r"\d+ more files? of .* not on the server")
NO_REASON = (
    re.compile(r"\d+ writes? waiting here until the server accepts them"),
    re.compile("documents of the team are left out of turns until the server was read"),
)
ALONE_WARNING = "memories here are shared with a team's server, and this daemon knows of none"


class Troubles:
    """Brings trouble, and asserts that status tells of it, and of nothing else."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.recent: dict[str, set[str]] = {each.name: set() for each in world.machines}
        self._let_rows_in("RETURN NEW")
        for table in TABLES:
            world.database.sql(
                f"CREATE TRIGGER let_in BEFORE INSERT OR UPDATE ON forged.{table} FOR EACH ROW"
                " EXECUTE FUNCTION forged.let_in()"
            )

    def _let_rows_in(self, how: str) -> None:
        """Make the trigger before each row do something else; that needs no lock on a table."""
        self.world.database.sql(
            "CREATE OR REPLACE FUNCTION forged.let_in() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {how}; END $$"
        )

    def sentences(self, machine: Machine) -> list[str]:
        """Return the sentences on the team's server in a machine's status; each must be true."""
        report = machine.status
        if report is None:
            assert ALONE in self.recent[machine.name], f"{machine.name} knows of no server"
            return []
        found = list(shared_troubles(report))
        for sentence in found:
            self._check(machine, sentence)
        return found

    def _check(self, machine: Machine, sentence: str) -> None:
        """Assert that a sentence is true of the troubles since the machines last agreed."""
        recent = self.recent[machine.name]
        if NO_VECTOR.fullmatch(sentence):  # as for a moment after each write
            assert self.world.acted_on
            return
        if MORE.fullmatch(sentence):  # the reasons of the first ones are given
            assert recent & {READ_ONLY, FULL}, f"{machine.name}: {sentence}"
            return
        reasons = [causes for words, causes in REASONS.items() if words in sentence]
        if any(pattern.fullmatch(sentence) for pattern in NO_REASON):
            assert recent, f"{machine.name}: {sentence}"
            return
        assert reasons, f"{machine.name} has no such trouble: {sentence}"
        assert all(causes & recent for causes in reasons), (
            f"{machine.name} has {recent}, and says: {sentence}"
        )
        if named := re.match(r"(\S+) of .* is not on the server: ", sentence):
            assert named[1] in self.world.acted_on, f"{machine.name}: no act changed {named[1]}: {sentence}"

    def forget_past(self) -> None:
        """All machines agree again: nothing of earlier troubles may be said from now on."""
        for reasons in self.recent.values():
            reasons.clear()

    def _begin(self, trouble: str, *machines: Machine) -> None:
        self.world.counts[f"trouble: {trouble}"] += 1
        for each in machines:
            self.recent[each.name].add(trouble)

    # --- troubles, each with acts in it ---------------------------------------------------------------

    @contextlib.contextmanager
    def offline(self) -> Iterator[Callable[[], None]]:
        """Take the way to the server from one or two machines."""
        cut = self.world.random.sample(self.world.machines, self.world.random.choice([1, 1, 2]))
        self._begin(AWAY, *cut)
        for each in cut:
            each.cut()
        yield lambda: self._are_away(cut)
        for each in cut:
            each.mend()

    @contextlib.contextmanager
    def server_killed(self) -> Iterator[Callable[[], None]]:
        """Kill the server, as a power cut does."""
        self._begin(AWAY, *self.world.machines)
        self.world.counts["trouble: server killed"] += 1
        self.world.database.server.kill()
        yield lambda: self._are_away(self.world.machines)
        self.world.database.server.start()

    @contextlib.contextmanager
    def read_only(self) -> Iterator[Callable[[], None]]:
        """Let the server refuse all writes."""
        self._begin(READ_ONLY, *self.world.machines)
        set_read_only(self.world.database, True)
        yield lambda: self._refuse("it is read-only now")
        set_read_only(self.world.database, False)

    @contextlib.contextmanager
    def full(self) -> Iterator[Callable[[], None]]:
        """Let the server refuse each new row, as one with a full disk."""
        self._begin(FULL, *self.world.machines)
        self._let_rows_in("RAISE EXCEPTION 'full' USING ERRCODE = '53100'")
        yield lambda: self._refuse("its disk is full")
        self._let_rows_in("RETURN NEW")

    @contextlib.contextmanager
    def alone(self) -> Iterator[Callable[[], None]]:
        """Run one machine without a server, and again with it."""
        machine = self.world.random.choice(self.world.machines)
        self._begin(ALONE, machine)
        machine.restart(url=None)
        yield lambda: self._is_alone(machine)
        machine.restart()

    @contextlib.contextmanager
    def daemon_killed(self) -> Iterator[Callable[[], None]]:
        """Kill a daemon and start it; the check does it once more."""
        machine = self.world.random.choice(self.world.machines)
        self._begin("daemon killed", machine)

        def again() -> None:
            machine.daemon.kill()
            machine.daemon.start()

        again()
        yield again

    # --- checks while they last -----------------------------------------------------------------------

    def _are_away(self, machines: list[Machine]) -> None:
        for each in machines:
            if each.status is None:  # alone as well
                continue
            eventually(
                lambda each=each: any(said.startswith("failing for ") for said in self.sentences(each))
            )
            report = each.status
            assert report is not None
            assert (report.state, report.listening) == ("failing", False), report
            waiting = self.world.waiting[each.name]
            assert bool(report.waiting) == bool(waiting), f"{each.name}: {report.waiting} of {waiting}"

    def _refuse(self, reason: str) -> None:
        """A machine with a new memory says why it is not on the server, and that this still answers."""
        for each in self.world.machines:
            if each.status is None:
                continue
            self.world.act(each, "remember")
            if self.recent[each.name] & {AWAY}:
                continue
            eventually(lambda each=each: any(reason in said for said in self.sentences(each)))
            report = each.status
            assert report is not None
            assert report.refused == ()

    def _is_alone(self, machine: Machine) -> None:
        assert machine.status is None
        assert any(ALONE_WARNING in each for each in machine.warnings), machine.warnings
