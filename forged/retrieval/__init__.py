"""From a turn to the memories that it should see, by a deadline, and their text (ADR-0047).

Retriever.retrieve(Ask, Sources) -> Answer    what is injected
Retriever.search, Retriever.preview           a list; what would be injected
Retriever.turns                               what is kept of turns
"""

from forged.retrieval.retriever import FIRST_BUILD, Retriever, Tuning
from forged.retrieval.turns import Injected, Turns
from forged.retrieval.values import Answer, Ask

__all__ = ["FIRST_BUILD", "Answer", "Ask", "Injected", "Retriever", "Tuning", "Turns"]
