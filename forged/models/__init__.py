"""The two seams to models: an `Embedder` and a `ChatModel`, and nothing else about providers.

Implementations live beside this file; `factory` picks one from the configuration. None means that the
model is not configured, which is a state and not an error (ADR-0045).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

Kind = Literal["query", "passage"]
Vectors = NDArray[np.float32]
Enough = Callable[[str], bool]


class Completion(msgspec.Struct, frozen=True):
    """A chat model's answer, and its tokens as the endpoint counted them, else estimated at 4 bytes each.

    It is not `whole` where it broke off, or the caller had enough before it was over.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    whole: bool = True


class Embedder(Protocol):
    """Texts to unit vectors. Safe for concurrent use on one event loop."""

    @property
    def key(self) -> str:
        """What the vectors depend on: endpoint, model and passage prefix. Equal keys, equal vectors."""
        ...

    @property
    def chunk(self) -> int:
        """How many passages to ask for at a time; who watches sees progress after each."""
        ...

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, deadline: float | None = None
    ) -> Vectors:
        """Return float32 unit rows of shape (len(texts), dimension).

        Args:
            texts: what to embed, none of them blank; the implementation adds the prefix of `kind`,
                clips over-long texts and splits into batches.
            kind: "query" or "passage".
            deadline: absolute `time.monotonic()` seconds; nothing is retried past it.

        Raises ProviderError; never returns non-finite, zero or odd-sized rows.
        """
        ...

    def forget(self) -> None:
        """Accept vectors of another dimension from now on: `rebuild --full`."""
        ...

    async def aclose(self) -> None: ...


class ChatModel(Protocol):
    """One completion from a system and a user prompt."""

    async def complete(
        self,
        system: str,
        user: str,
        *,
        deadline: float,
        schema: dict[str, object] | None = None,
        enough: Enough | None = None,
    ) -> Completion:
        """Return the reply, its text without think blocks.

        Args:
            system: the instruction.
            user: what it is applied to.
            deadline: absolute `time.monotonic()` seconds.
            schema: of the JSON that is wanted; a wish, for not every server can grant it.
            enough: asked about the text so far whenever more of it came, where the server lets it be
                watched; True ends the call there and then.

        Raises ProviderError.
        """
        ...

    async def aclose(self) -> None: ...
