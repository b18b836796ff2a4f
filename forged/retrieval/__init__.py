"""From a turn to the memories that it should see, by a deadline, and their text (ADR-0047).

`Retriever.retrieve` answers an `Ask` over `Sources` with an `Answer`, of which `render` makes the text that
is injected, and `said` that of a session, with what is `standing` in it; `search` returns a list; `turns` is
what is kept.
"""

from forged.retrieval.continuing import before, goes_on
from forged.retrieval.injection import Injection, render
from forged.retrieval.retriever import Retriever
from forged.retrieval.sessions import Said, Turn, said
from forged.retrieval.standing import personas, standing
from forged.retrieval.turns import TurnKey
from forged.retrieval.values import Answer, Ask, ModelsInUse, Sources, Tuning

__all__ = [
    "Answer",
    "Ask",
    "Injection",
    "ModelsInUse",
    "Retriever",
    "Said",
    "Sources",
    "Tuning",
    "Turn",
    "TurnKey",
    "before",
    "goes_on",
    "personas",
    "render",
    "said",
    "standing",
]
