"""Find the memories for a turn, by a deadline (ADR-0047).

`Retriever.retrieve` answers an `Ask` in a workplace with an `Answer`, which `forged.sessions` turns into the
injected text. `search` returns a list. A `CachedAnswer` holds the answer of a turn.
"""

from forged.retrieval.retriever import CachedAnswer, Retriever
from forged.retrieval.values import Answer, Ask

__all__ = ["Answer", "Ask", "CachedAnswer", "Retriever"]
