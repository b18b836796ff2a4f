"""Contract of models: an `Embedder` returns vectors, a `ChatModel` completes a prompt.

Both raise ProviderError and nothing else. `factory` makes them from the configuration, or returns the reason
that there is none, which is a state and no error (ADR-0045). Importing this package imports no provider.
"""

from __future__ import annotations

import os

# From 1.29 on onnxruntime reports the process and the machine to its maker as soon as it is imported, unless
# this variable is set. Set before any other thread runs.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged import lazy_exports
from forged.errors import ProviderError
from forged.models.health import LONGEST_ASKED_S, Attempt, EndpointHealth, RetryBudget
from forged.models.texts import sendable

if TYPE_CHECKING:
    from forged.models.budget import GovernedChat, Governor
    from forged.models.egress import GOVERNED, EgressGuard, cleaned
    from forged.models.factory import (
        EndpointHealths,
        classifier_key,
        make_chat_model,
        make_classifier,
        make_embedder,
        make_endpoint_healths,
    )
    from forged.models.in_process import LAYERS, split_layers
    from forged.models.programs.chat import ProgramChat

# "layers": layers of the local model for a text, next to its vector as a query.
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
    "EndpointHealth",
    "EndpointHealths",
    "GovernedChat",
    "Governor",
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
    "make_endpoint_healths",
    "sendable",
    "split_layers",
]

__getattr__ = lazy_exports(
    __name__,
    budget=("GovernedChat", "Governor"),
    factory=(
        "EndpointHealths",
        "classifier_key",
        "make_chat_model",
        "make_classifier",
        "make_embedder",
        "make_endpoint_healths",
    ),
    in_process=("LAYERS", "split_layers"),
    egress=("GOVERNED", "EgressGuard", "cleaned"),
    **{"programs.chat": ("ProgramChat",)},
)


class Purpose(msgspec.Struct, frozen=True):
    """Purpose of a call that sends text, with the roots of the text and the time of a waiting agent.

    `name` is query, build, gate, identity, hyde, capture, doctor or shared. `tops` are the roots' top
    folders; none for forged's own texts. `waiting` is the budget of a waiting agent; a call that cannot be
    in time is not made. `suspect`: the text may be the cause of a failure, so a failure is no evidence about
    the endpoint.
    """

    name: str
    tops: tuple[str, ...] = ()
    waiting: RetryBudget | None = None
    suspect: bool = False


class Prompt(msgspec.Struct, frozen=True):
    """One prompt of a chat model: an instruction (`system`) and its input (`user`).

    `schema` of the JSON is optional for the server. `enough` gets the text so far, where the server streams;
    True ends the call. `clear` returns True for a text that cannot be leaked reasoning. Without it a
    streamed reply is used only as a whole.
    """

    system: str
    user: str
    purpose: Purpose
    schema: dict[str, object] | None = None
    enough: Enough | None = None
    clear: Enough | None = None


class Completion(msgspec.Struct, frozen=True):
    """A chat model's answer without reasoning, its tokens (counted or estimated), and a failure if any.

    Not `whole` when it was cut off, or the caller had enough. `failure` is the reason that the answer is
    unreliable (refused, filtered, cut, empty, or server), and `message` its sentence. The text is kept in
    any case.
    """

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    whole: bool = True
    failure: str = ""
    message: str = ""

    def error(self) -> ProviderError:
        """Return the failure as a ProviderError, for a caller that needs an answer."""
        return ProviderError(self.message, reason=self.failure)


class Embedder(Protocol):
    """Interface: turns texts into unit vectors, at an endpoint or in process, on one event loop."""

    @property
    def key(self) -> str:
        """Return the identity of the vectors: model, its endpoint or engine, and prefixes."""
        ...

    @property
    def replaceable(self) -> bool:
        """Return True if the model behind the key may change, as an endpoint can replace it silently."""
        ...

    @property
    def chunk(self) -> int:
        """Return the number of passages that a caller should give to each call of `embed`."""
        ...

    @property
    def engine(self) -> str:
        """Return the engine of a model in this process; empty for an endpoint."""
        ...

    @property
    def gives_layers(self) -> bool:
        """Return True if the kind "layers" may be used: only by the local model in onnxruntime."""
        ...

    @property
    def health(self) -> EndpointHealth | None:
        """Return the health of the model's endpoint; None in process, or where the caller admits calls."""
        ...

    renamed: Callable[[], None]
    """Callback for a changed `key`, from any thread; the owner of stored vectors sets it."""

    @property
    def engine_note(self) -> str:
        """Return the reason that another engine than the intended one runs, for the person; or ""."""
        ...

    async def prepare(self) -> None:
        """Wait until `key` is final for this process, which may load the model. Raises ProviderError."""
        ...

    async def embed(
        self, texts: list[str], kind: Kind = "passage", *, purpose: Purpose, deadline: float | None = None
    ) -> Vectors:
        """Return finite float32 unit rows of shape (len(texts), dimension). Raises ProviderError.

        No text may be blank. The prefix of `kind` is added, long texts are clipped, and batches are made. No
        attempt is made after `deadline`, in `time.monotonic()` seconds.
        """
        ...

    def is_cut(self, text: str) -> bool:
        """Return True if only the beginning of this embedded passage fits into the model."""
        ...

    async def aclose(self) -> None: ...


class ChatModel(Protocol):
    """Interface of a chat model, which completes prompts, by an endpoint or a program."""

    @property
    def health(self) -> EndpointHealth | None:
        """Return the health of the model's endpoint or program; None where the caller admits calls."""
        ...

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Return the model's reply; `deadline` is in `time.monotonic()` seconds. Raises ProviderError.

        For a streamed prompt it also raises if the reply was refused, filtered or cut without any text.
        """
        ...

    async def aclose(self) -> None: ...
