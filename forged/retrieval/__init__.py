"""From a turn to the memories that it should see, by a deadline, and their text (ADR-0047).

`Retriever.retrieve` answers an `Ask` over `Sources` with an `Answer`, of which `render` makes the text that
is injected, and `said` that of a session, with what is `standing` in it; `search` returns a list; `turns` is
what is kept.
"""

from forged.retrieval.continuing import before, goes_on
from forged.retrieval.injection import Injection, render
from forged.retrieval.pipeline import FIRST_BUILD
from forged.retrieval.recall import Facts, Known, Limits, Recollection, combined, compared_by, is_asked_for
from forged.retrieval.recaller import Place, Recollected
from forged.retrieval.retriever import Retriever
from forged.retrieval.sessions import Said, Turn, said
from forged.retrieval.standing import personas, standing
from forged.retrieval.tuning import ModelsInUse, Tuning
from forged.retrieval.turns import TurnKey
from forged.retrieval.values import Answer, Ask, Sources

__all__ = [
    "FIRST_BUILD",
    "Answer",
    "Ask",
    "Facts",
    "Injection",
    "Known",
    "Limits",
    "ModelsInUse",
    "Place",
    "Recollected",
    "Recollection",
    "Retriever",
    "Said",
    "Sources",
    "Tuning",
    "Turn",
    "TurnKey",
    "before",
    "combined",
    "compared_by",
    "goes_on",
    "is_asked_for",
    "personas",
    "render",
    "said",
    "standing",
]
