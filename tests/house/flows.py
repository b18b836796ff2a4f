"""The recorded flows: requests to a daemon with some thirty memories, and their visible ends.

Each is recorded as in daily use: the agent is connected, and a moment before it has searched the workspace
for something else. So the daemon has resolved the workspace already, and that is not counted. A captured
turn ends when its memory file is linked to its name; the build that follows is the flow of an edit.
`remember` ends when the memory is found; it is also shown until its reply.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.house.stage import SESSION, Flow, Run, Stage, staged, until_answered, until_linked
from tests.support.clock import PATIENCE_S, eventually

_SUBJECTS = ("billing", "search", "login", "upload", "mail", "report", "export", "import", "audit", "backup")
_SENTENCES = (
    "The {} service writes its log to the shared disk every night.",
    "Alarms of the {} service go to the team that built it.",
    "The {} tables were moved to the new cluster in March.",
)
MEMORIES = tuple(sentence.format(subject) for subject in _SUBJECTS for sentence in _SENTENCES)
_FACT = "Flamingo migrations run with the tool called sqitch."
_ORDERS = (
    "From now on, always run the linter before you commit.",
    "From now on, always write the changelog in English.",
    "From now on, never push to the main branch on Fridays.",
    "From now on, use pnpm instead of npm in this repository.",
    "From now on, always add a test for each bug that you fix.",
    "From now on, keep functions shorter than forty lines.",
    "From now on, sign every release with the hardware key.",
    "From now on, put screenshots into the design folder.",
)


def record() -> list[Flow]:
    """Record all flows; with and without the local model at the same time, as most of it is waiting."""
    with ThreadPoolExecutor() as pool:
        by_words, by_model = pool.submit(_by_words), pool.submit(_by_model)
        first, *others = by_words.result()
        return [first, by_model.result(), *others]


def _by_words() -> list[Flow]:
    with tempfile.TemporaryDirectory(prefix="house") as top, staged(Path(top), "builtin:lexical") as stage:
        _fill(stage)
        stage.learn_heartbeats()
        return [
            _retrieve(stage, "Retrieve, by words"),
            _turn(stage),
            _edit(stage),
            *_remember(stage),
            _flow(stage, "`status`", lambda _: stage.say("status", str(stage.repo))),
        ]


def _by_model() -> Flow:
    model = "local:multilingual-e5-small"
    with tempfile.TemporaryDirectory(prefix="house") as top, staged(Path(top), model) as stage:
        _fill(stage)
        eventually(lambda: _has_learned(stage), PATIENCE_S)
        stage.learn_heartbeats()
        return _retrieve(stage, "Retrieve, local model")


def _fill(stage: Stage) -> None:
    for text in (*MEMORIES, _FACT):
        stage.say("remember", str(stage.repo), text)
    eventually(lambda: _finds(stage, _FACT), PATIENCE_S)


def _finds(stage: Stage, text: str) -> bool:
    found = stage.say("search", str(stage.repo), text, limit=1)
    return [hit["content"] for hit in found["memories"]] == [text]


def _flow(
    stage: Stage,
    title: str,
    act: Callable[[int], object],
    is_whole: Callable[[int], bool] = lambda _: True,
) -> Flow:
    return stage.flow(title, _recorded(stage, title, act, is_whole))


def _recorded(
    stage: Stage, title: str, act: Callable[[int], object], is_whole: Callable[[int], bool]
) -> list[Run]:
    """Record with another request before."""

    def search(_: int) -> None:
        stage.say("search", str(stage.repo), "tables of the new cluster")

    return stage.record(title, act, before=search, is_whole=is_whole)


def _has_learned(stage: Stage) -> bool:
    status = stage.say("status", str(stage.repo))
    roots = [root for root in status["roots"] if root["memories"]]
    return status["gate"]["state"] == "vectors" and all("dense" in root["indexes"] for root in roots)


def _retrieve(stage: Stage, title: str) -> Flow:
    def ask(number: int) -> None:
        found = stage.say(
            "retrieve",
            str(stage.repo),
            _conversation(f"With which tool do flamingo migrations run, attempt {number}?"),
            session_id=SESSION,
            turn_id=f"turn {number}",
        )
        assert _FACT in found["text"], found

    return _flow(stage, title, ask)


def _turn(stage: Stage) -> Flow:
    def tell(number: int) -> None:
        before = stage.memory_files()
        stage.say("on_turn_complete", _conversation(_ORDERS[number]))
        eventually(lambda: stage.memory_files() > before, PATIENCE_S)

    def is_whole(number: int) -> bool:
        return _is_settled(stage, len(MEMORIES) + 2 + number)

    title = "Captured turn"
    return stage.flow(title, list(map(until_linked, _recorded(stage, title, tell, is_whole))))


def _is_settled(stage: Stage, count: int) -> bool:
    status = stage.say("status", str(stage.repo))
    shown = sum(root["memories"] for root in status["roots"])
    return status["capture"]["state"] == "idle" and shown == count


def _edit(stage: Stage) -> Flow:
    path = next(path for path in stage.memory_files() if MEMORIES[0] in path.read_text())

    def words(number: int) -> str:
        return MEMORIES[0].replace("night", f"{number + 2} hours")

    def edit(number: int) -> None:
        old = MEMORIES[0] if number == 0 else words(number - 1)
        fresh = path.with_name(".fresh")
        fresh.write_text(path.read_text().replace(old, words(number)))
        fresh.rename(path)

    return _flow(stage, "File edit to new map", edit, lambda number: _finds(stage, words(number)))


def _remember(stage: Stage) -> Iterator[Flow]:
    def fact(number: int) -> str:
        return f"Ticket {number} of the zebra project waits for the customer's answer."

    def remember(number: int) -> None:
        stage.say("remember", str(stage.repo), fact(number))

    title = "`remember`"
    runs = _recorded(stage, title, remember, lambda number: _finds(stage, fact(number)))
    yield stage.flow(title, runs)
    yield stage.flow("`remember` until its reply", list(map(until_answered, runs)), has_limit=False)


def _conversation(last: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "Have a look at the failing job, please."},
        {"role": "assistant", "content": "It is green again; a mirror was slow."},
        {"role": "user", "content": last},
    ]
