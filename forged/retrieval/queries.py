"""The queries of a retrieval as a model sees them: their vectors, and of the message how it is said.

In go an embedder and texts, out come `Queried`. The local model's layers say whether a message is chat, and
the last of them is its vector: both come of one pass. Of any other model there is the vector, and words say
whether it is chat.
Raises what the embedder raises.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from forged.models import Embedder, Kind, Purpose, Vectors, first_layers, gives_layers, query_vectors
from forged.text.chat import is_chat


class Queried(msgspec.Struct, frozen=True):
    """Unit vectors of some texts, and of each the layers before it where the model gives them out."""

    texts: tuple[str, ...] = ()
    vectors: Vectors | None = None
    before: Vectors | None = None

    def is_chat(self, message: str) -> bool:
        """Whether a message is chat, by its layers if it is one of the texts."""
        if self.before is None or message not in self.texts:
            return is_chat(message)
        return is_chat(message, self.before[self.texts.index(message)].tolist())


async def queried(embedder: Embedder, texts: Sequence[str], purpose: Purpose, deadline: float) -> Queried:
    """Ask for the vectors of texts as queries."""
    kind: Kind = "layers" if gives_layers(embedder.key, embedder.engine) else "query"
    rows = await embedder.embed(list(texts), kind, purpose=purpose, deadline=deadline)
    if kind == "query":
        return Queried(tuple(texts), rows)
    return Queried(tuple(texts), query_vectors(rows), first_layers(rows))
