"""The eight phases of a durable event, and the calls in which a kill strikes each of them (`orders`)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.faults.orders import Faults


@dataclass(frozen=True)
class Spot:
    """Where a fault strikes, and whom: the call of the daemon or worker, and who is killed by it."""

    phase: str
    process: str
    call: str
    about: str
    does: str = "kill"
    after: bool = False
    at: int = 1

    @property
    def kills_daemon(self) -> bool:
        return self.process == "daemon" or self.does == "kill-daemon"

    @property
    def is_before_ack(self) -> bool:
        """Whether the event has not been acknowledged, so that it will be told again."""
        return self.phase in ("received", "stored")

    def arm(self, faults: Faults, *, skipped: int = 0) -> None:
        """Order the kill, for the event after so many others of three memories each."""
        calls = skipped * (3 if self.about == r"\.md$" else 1)
        faults.arm(self.process, self.call, self.about, at=self.at + calls, does=self.does, after=self.after)


def of_worker(phase: str, call: str, about: str, **how: object) -> tuple[Spot, Spot]:
    """A spot of the worker, which kills it, or the daemon at that moment."""
    return (
        Spot(phase, "worker", call, about, **how),
        Spot(phase, "worker", call, about, does="kill-daemon", **how),
    )


SPOTS = (
    Spot("received", "daemon", "commit", "INTO events"),
    Spot("stored", "daemon", "commit", "INTO events", after=True),
    *of_worker("handed over", "get", "FACT<", after=True),
    *of_worker("model replied", "send", "type.classified"),
    Spot("model replied", "daemon", "commit", "INTO journal"),
    Spot("journalled", "daemon", "commit", "INTO journal", after=True),
    Spot("journalled", "daemon", "commit", "INTO own_files"),
    Spot("journalled", "daemon", "fsync", r"\.forge/memory/#"),
    Spot("some files written", "daemon", "link", r"\.md$", at=2),
    Spot("some files written", "daemon", "link", r"\.md$", at=2, after=True),
    Spot("before removal", "daemon", "fsync", r"\.forge/memory$", after=True),
    Spot("before removal", "daemon", "commit", "DELETE FROM events"),
    Spot("after removal", "daemon", "commit", "DELETE FROM events", after=True),
)
PHASES = tuple(dict.fromkeys(spot.phase for spot in SPOTS))
assert len(PHASES) == 8
