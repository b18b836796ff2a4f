"""What was answered for a turn, so that its sub-turns cost nothing (ADR-0047 "Cache keying note").

One daemon serves many agents: the key holds the session, the roots, the turn and a digest of the request.
A good answer stays for the turn; a failure stays for 5 s, so that a hiccup neither mutes a long turn nor
turns into a storm of calls (design.md D9, C11). An entry that is older than the generation asked for is
a miss.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from forged.retrieval.values import Answer

CACHE_SIZE = 512
FAILURE_TTL_S = 5.0

TurnKey = tuple[str, tuple[str, ...], str, bytes]


class TurnCache:
    """Least recently used answers by turn. `clock` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float], size: int = CACHE_SIZE) -> None:
        self._clock = clock
        self._size = size
        self._answers: OrderedDict[TurnKey, tuple[Answer, float]] = OrderedDict()
        self.purges = 0  # whoever began before the last purge must not put what it found then

    def get(self, key: TurnKey, min_generation: int) -> Answer | None:
        """Return the answer of a turn if it is still good and new enough."""
        answer, expires = self._answers.get(key, (None, 0.0))
        if answer is None or answer.generation < min_generation:
            return None
        if self._clock() >= expires:
            del self._answers[key]
            return None
        self._answers.move_to_end(key)
        return answer

    def put(self, key: TurnKey, answer: Answer) -> None:
        """Keep an answer: for good, or for a short while if it is a failure or a fallback.

        Those never replace a good one, which still serves whoever asks for no newer generation.
        """
        lasting = answer.status in {"ok", "empty"} and not answer.degraded
        if not lasting and self._answers.get(key, (answer, 0.0))[1] == float("inf"):
            return
        self._answers[key] = (answer, float("inf") if lasting else self._clock() + FAILURE_TTL_S)
        self._answers.move_to_end(key)
        while len(self._answers) > self._size:
            self._answers.popitem(last=False)

    def purge(self) -> None:
        """Drop everything; a `forget` must not be answered from here."""
        self._answers.clear()
        self.purges += 1
