"""From a turn to the memories that it should see, by a deadline (ADR-0047).

`Retriever.retrieve` answers an `Ask` in a workplace with an `Answer`, of which `forged.sessions` makes the
text that is injected; `search` returns a list. A `CachedAnswer` is that of a turn.
"""

from forged.retrieval.retriever import CachedAnswer, Retriever
from forged.retrieval.values import Answer, Ask

__all__ = ["Answer", "Ask", "CachedAnswer", "Retriever"]
