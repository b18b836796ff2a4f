"""From a turn to the memories that it should see, by a deadline, and their text (ADR-0047).

`Retriever.retrieve` answers an `Ask` over `Sources` with an `Answer` whose text is injected; `search` returns
a list; `turns` is what is kept.
"""

from forged.retrieval.pipeline import FIRST_BUILD, ModelsInUse, Tuning
from forged.retrieval.retriever import Retriever
from forged.retrieval.turns import Injected, Turns
from forged.retrieval.values import Answer, Ask, Sources

__all__ = [
    "FIRST_BUILD",
    "Answer",
    "Ask",
    "Injected",
    "ModelsInUse",
    "Retriever",
    "Sources",
    "Tuning",
    "Turns",
]
