"""The seven phases of a durable event, and the calls in which a kill strikes each of them (`faults`)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.faults import Faults

_TEMP = r"/\.forged-"


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
        return self.phase in ("received", "spooled")

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
    Spot("received", "daemon", "fsync", f"/spool{_TEMP}"),
    Spot("spooled", "daemon", "link", r"\.event$", after=True),
    Spot("spooled", "daemon", "fsync", "/spool$", after=True),
    *of_worker("handed over", "get", "FACT<", after=True),
    *of_worker("model replied", "fsync", f"/spool{_TEMP}"),
    *of_worker("journalled", "send", "type.journalled"),
    *of_worker("some files written", "link", r"\.md$", at=2),
    *of_worker("before unlink", "send", "type.done"),
    Spot("before unlink", "daemon", "unlink", r"\.event$", after=True),
    Spot("before unlink", "daemon", "unlink", r"\.event$"),
)
PHASES = tuple(dict.fromkeys(spot.phase for spot in SPOTS))
assert len(PHASES) == 7
