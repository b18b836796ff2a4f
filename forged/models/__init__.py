"""Contract of models: an `Embedder` makes vectors, a `ChatModel` completes a prompt.

Both raise ProviderError and nothing else. `factory` makes them from the configuration, or says why there is
none, which is a state and no error (ADR-0045). Importing this package imports no provider's module.
"""

from __future__ import annotations

import os

# Nothing leaves the machine: from 1.29 on onnxruntime tells its maker of the process and the machine as soon
# as it is imported, before it can be asked not to, unless it finds this. Set before any other thread runs.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged import door
from forged.errors import ProviderError
from forged.models.health import LONGEST_ASKED_S, Attempt, Health, RetryBudget
from forged.models.texts import sendable

if TYPE_CHECKING:
    from forged.models.budget import GovernedChat, Governor
    from forged.models.egress import GOVERNED, EgressGuard, cleaned
    from forged.models.factory import (
        Healths,
        classifier_key,
        make_chat_model,
        make_classifier,
        make_embedder,
        make_healths,
    )
    from forged.models.in_process import LAYERS, split_layers
    from forged.models.programs.chat import ProgramChat

# "layers": what the local model says of a text on its way, beside its vector as a query.
Kind = Literal["query", "passage", "layers"]
Vectors = NDArray[np.float32]
Enough = Callable[[str], bool]

__all__ = [
    "GOVERNED",
    "LAYERS",
    "LONGEST_ASKED_S",
    "Attempt",
    "ChatModel",
    "Completion",
    "EgressGuard",
    "Embedder",
    "GovernedChat",
    "Governor",
    "Health",
    "Healths",
    "Kind",
    "ProgramChat",
    "Prompt",
    "Purpose",
    "RetryBudget",
    "Vectors",
    "classifier_key",
    "cleaned",
    "make_chat_model",
    "make_classifier",
    "make_embedder",
    "make_healths",
    "sendable",
    "split_layers",
]

__getattr__ = door(
    __name__,
    budget=("GovernedChat", "Governor"),
    factory=(
        "Healths",
        "classifier_key",
        "make_chat_model",
        "make_classifier",
        "make_embedder",
        "make_healths",
    ),
    in_process=("LAYERS", "split_layers"),
    egress=("GOVERNED", "EgressGuard", "cleaned"),
    **{"programs.chat": ("ProgramChat",)},
)


class Purpose(msgspec.Struct, frozen=True):
    """What a text leaves the machine for, and whose it is.

    `name` is query, build, gate, identity, hyde, capture, doctor or shared. `tops` are of the roots it comes
    from; none for texts of our own. `waiting` is the agent that waits: no call is made that is not worth the
    wait. `suspect`: a text may be at fault, so a failure says nothing about the endpoint.
    """

    name: str
    tops: tuple[str, ...] = ()
    waiting: RetryBudget | None = None
    suspect: bool = False


class Prompt(msgspec.Struct, frozen=True):
    """One question to a chat model: an instruction (`system`) and what it is applied to (`user`).

    `schema` of the JSON is a wish, for not every server grants it. `enough` is asked about the text so far,
    where the server lets it be watched; True ends the call. `clear` is asked whether a text can be no thought
    that a chat template began; without it such a reply is used only as a whole.
    """

    system: str
    user: str
    purpose: Purpose
    schema: dict[str, object] | None = None
    enough: Enough | None = None
    clear: Enough | None = None


class Completion(msgspec.Struct, frozen=True):
    """A chat model's answer without its thoughts, and the tokens it took: counted there or estimated here.

    Not `whole` when it broke off, or the caller had enough. `flaw` is why it is no answer to rely on
    (refused, filtered, cut, empty, or server), `told` the sentence; the text is what came all the same.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    whole: bool = True
    failure: str = ""
    message: str = ""

    def error(self) -> ProviderError:
        """What is wrong with it, to be raised by whoever needs an answer."""
        return ProviderError(self.message, reason=self.failure)


class Embedder(Protocol):
    """Texts to unit vectors. Safe for concurrent use on one event loop."""

    @property
    def key(self) -> str:
        """What the vectors depend on: endpoint, model and prefixes. Equal keys, equal vectors."""
        ...

    @property
    def replaceable(self) -> bool:
        """Whether another model may come to answer behind the key: an endpoint tells nobody."""
        ...

    @property
    def chunk(self) -> int:
        """How many passages to ask for at a time; who watches sees progress after each."""
        ...

    @property
    def engine(self) -> str:
        """What runs a model in this process; nothing for an endpoint's."""
        ...

    @property
    def gives_layers(self) -> bool:
        """Return True if "layers" of a text may be asked for: of the local model, by one of its engines."""
        ...

    @property
    def health(self) -> Health | None:
        """The health of its endpoint; None in this process, and where another lets calls through."""
        ...

    renamed: Callable[[], None]
    """Called, by any thread, when `key` has changed; for whoever keeps vectors to set."""

    @property
    def engine_note(self) -> str:
        """What a person should know of the engine, or nothing: why it is not the one that was meant."""
        ...

    async def prepare(self) -> None:
        """Return when `key` is what it will be while this process lives. Raises ProviderError."""
        ...

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, purpose: Purpose, deadline: float | None = None
    ) -> Vectors:
        """Return finite float32 unit rows of shape (len(texts), dimension). Raises ProviderError.

        No text is blank; the prefix of `kind` is added, long texts are clipped, and batches are made.
        Nothing is retried past `deadline`, `time.monotonic()` seconds.
        """
        ...

    def is_cut(self, text: str) -> bool:
        """Whether only the beginning of this passage, which was embedded, fits into the model."""
        ...

    async def aclose(self) -> None: ...


class ChatModel(Protocol):
    """One completion of a prompt."""

    @property
    def health(self) -> Health | None:
        """See `Embedder`."""
        ...

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Return the reply; `deadline` is absolute `time.monotonic()` seconds. Raises ProviderError.

        Of a prompt that is watched also for a reply that was refused, filtered or cut with nothing to read.
        """
        ...

    async def aclose(self) -> None: ...
