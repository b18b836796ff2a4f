"""Scripted embedders: vectors from a hash of the text, and failures by script."""

from __future__ import annotations

import asyncio

import numpy as np

from forged.errors import ProviderError
from forged.models import Kind, Purpose, Vectors
from tests.support.provider.server import hashed_vector

QUERY = Purpose("query", ("/repo",))


class FakeEmbedder:
    """Unit rows that depend on the text alone; `calls` holds the texts of every call, failed ones too.

    `poison` maps a text to the failure reason of any call with it. `down` is the reason for which every call
    fails, and `failures` are reasons for the next calls, one each. `hold`, when set, keeps every call
    waiting. `called` is set by every call, and `purposes` are those of the calls. Checks of the model's
    identity fail as calls do, but are counted in `looks` alone. `model` is the model behind the name; `cut`
    are texts that do not fit whole.
    """

    key = "fake"
    chunk = 64
    replaceable = True
    gives_layers = False
    health = renamed = None
    engine = engine_note = ""

    def __init__(self, dimension: int = 8) -> None:
        self.dimension = dimension
        self.calls: list[tuple[str, ...]] = []
        self.purposes: list[Purpose] = []
        self.poison: dict[str, str] = {}
        self.failures: list[str] = []
        self.down = ""
        self.hold: asyncio.Event | None = None
        self.called = asyncio.Event()
        self.closed = False
        self.looks = 0
        self.model = ""
        self.cut: set[str] = set()

    @property
    def texts(self) -> list[str]:
        """Return every embedded text, in order."""
        return [text for call in self.calls for text in call]

    async def prepare(self) -> None:
        pass

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, purpose: Purpose, deadline: float | None = None
    ) -> Vectors:
        if purpose.name == "identity":
            self.looks += 1
        else:
            await self._note(texts, purpose)
        reason = self._reason(texts)
        await asyncio.sleep(0)  # a real endpoint never answers within the same turn of the loop
        if reason:
            raise ProviderError(f"scripted {reason}", reason=reason)
        return np.stack([vector(self.model + text, self.dimension) for text in texts])

    async def _note(self, texts: list[str], purpose: Purpose) -> None:
        self.calls.append(tuple(texts))
        self.purposes.append(purpose)
        self.called.set()
        if self.hold is not None:
            await self.hold.wait()

    def _reason(self, texts: list[str]) -> str:
        if self.failures:
            return self.failures.pop(0)
        return self.down or next((self.poison[text] for text in texts if text in self.poison), "")

    def is_cut(self, text: str) -> bool:
        return text in self.cut

    async def aclose(self) -> None:
        self.closed = True


def vector(text: str, dimension: int = 8) -> Vectors:
    """Return the unit row of a text, shape (dimension,)."""
    return np.array(hashed_vector(text, dimension), np.float32)
