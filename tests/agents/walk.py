"""A person's walk through five agents that share a memory, and their requests to their models.

Each agent is told a rule of its own in a session of its own. Then, in a new session on a terminal, every one
is asked about all of them, asked again, made to compact the session, and asked once more.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.agents.scripted_api import Request, Turn
from tests.agents.stage import AGENTS, World
from tests.support.clock import eventually

RULES = {
    "claude": "From now on, we always deploy on Fridays.",
    "codex": "From now on, we always indent Go files with tabs.",
    "gemini": "From now on, we always name branches after the ticket.",
    "qwen": "From now on, we always log times in UTC.",
    "opencode": "From now on, we always squash commits before a merge.",
}
# As it is said to an agent without a person: of such a run only requests are kept.
RULE_GIVEN = {agent: f"Remember: {rule}" for agent, rule in RULES.items()}
_ASKS = (
    "How do we deploy, indent Go files, name branches, log times and squash commits here",
    "What was that about deploys, Go files, branches, times and commits",
    "And for the last time, how do deploys, Go files, branches, times and commits go here",
)
_NUMBER = re.compile(r"\(turn (\w+)\)")
_WORDS = (
    "train",
    "window",
    "branch",
    "stone",
    "lamp",
    "orange",
    "paper",
    "river",
    "mountain",
    "quick",
    "green",
)
_BLOCK = re.compile(r"forged-memories ([0-9a-f]+).*?/forged-memories \1", re.DOTALL)
_MARK = re.compile(r"(?:<|&lt;)(/?)forged-memories ([0-9a-f]+)")


def reply(request: Request) -> Turn:
    """Of the model: some lines, the last of which names the turn; where it has no tools it is to sum up."""
    if not request.tools:
        return Turn("<state_snapshot>They spoke about how things are done here.</state_snapshot>")
    numbers = _NUMBER.findall(_BLOCK.sub("", request.text))
    number = numbers[-1] if numbers else ""
    drawn = random.Random(len(request.text))  # no two are alike: an agent would see a loop
    filler = " ".join(f"{drawn.choice(_WORDS)}{drawn.randrange(999)}" for _ in range(120))
    return Turn(f"Understood. {filler} {_done(number)}")


def _done(number: str) -> str:
    return f"finished-{number}."


def tell(world: World) -> None:
    """Tell every agent its rule, and wait until all of them are kept."""
    world.run_all(RULE_GIVEN)
    eventually(lambda: set(RULES.values()) <= set(world.memories))


@dataclass(frozen=True)
class Marks:
    """The markers of blocks in a request; of each block its token."""

    opened: tuple[str, ...]
    closed: tuple[str, ...]

    @property
    def is_one(self) -> bool:
        return len(self.opened) == 1 and self.opened == self.closed


def marks(body: str) -> Marks:
    found = _MARK.findall(body)
    return Marks(tuple(t for slash, t in found if not slash), tuple(t for slash, t in found if slash))


@dataclass(frozen=True)
class Walk:
    """Requests to a model in one session: in its first turn, its second, the one after a compaction."""

    first: str
    second: str
    after: str
    is_compacted: bool


def walk(world: World, agent: str) -> Walk:
    """One session of an agent on its screen."""
    row = AGENTS[agent]
    with world.screen(agent) as screen:
        screen.wait_for(row.ready)
        numbers = [f"{agent}{n}" for n in range(len(_ASKS))]
        for number, ask in zip(numbers[:2], _ASKS[:2], strict=True):
            screen.say(f"{ask} (turn {number})")
            screen.wait_for(_done(number))
        screen.say(row.compact)
        screen.wait_for(row.compacted)
        screen.say(f"{_ASKS[2]} (turn {numbers[2]})")
        screen.wait_for(_done(numbers[2]))
        screen.leave(row.leave)
    first, second, after = (world.asked(f"(turn {number})") for number in numbers)
    return Walk(first, second, after, is_compacted=_done(numbers[0]) not in after)


def walk_all(world: World, agents: Collection[str] = AGENTS) -> dict[str, Walk]:
    """One session of each, side by side."""
    with ThreadPoolExecutor(len(agents)) as pool:
        begun = {agent: pool.submit(walk, world, agent) for agent in agents}
        return {agent: each.result() for agent, each in begun.items()}
