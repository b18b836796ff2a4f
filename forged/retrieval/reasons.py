"""Reasons of an answer: why it is empty, or less than it could be."""

from __future__ import annotations

from forged.errors import ProviderError
from forged.retrieval.values import Answer, Ask
from forged.stores import FIRST_BUILD, GIVEN, Question, SearchResult, View

NO_MEMORIES = "no memories yet"
NO_MESSAGE = "there is no message to search for"
IDLE = "the message names no topic, so nothing was searched (memory.retrieval_min_score)"
CHAT = "looks like small talk, so nothing was searched (memory.retrieval_min_score)"
OFF_TOPIC = "no memory matches well enough"
WORDS_ONLY = "keyword results only; embeddings are still being computed"
OTHER_MODEL = "keyword results only; the embedding model was changed"
UNCALIBRATED = "keyword matching only, a few memories at most; the embedding model is still being calibrated"
_TURNS_SHOWN = 3


def late_answer(view: View) -> Answer:
    """Return the answer at a passed deadline: a timeout, or not_ready if roots have no map yet."""
    if view.waiting:
        return Answer(status="not_ready", reason=FIRST_BUILD)
    return Answer(
        status="timeout",
        reason=("the time limit (memory.retrieval_timeout_s) was reached"),
        generation=view.generation,
    )


def no_memory_reason(view: View) -> str:
    """Return the reason why no memory is searchable: there are none, or all are left out."""
    left_out = view.left_out()
    return f"no memory can be used here: {left_out}" if left_out else NO_MEMORIES


def no_match_reason(view: View) -> str:
    """Return the reason why an answer is empty although the gate rejected nothing."""
    if not view.size:
        return no_memory_reason(view)
    return "; ".join(filter(None, ("no memory matches", view.left_out())))


def gate_reason(rows: SearchResult, question: Question) -> str:
    """Return the reason why the gate admitted nothing; "" if the gate was not the cause."""
    stayed = any(each.rejected != GIVEN for each in rows.rejected)
    if rows.evidence >= question.least_evidence and not stayed:
        return ""
    return f"{OFF_TOPIC} (to loosen: lower memory.retrieval_min_score)"


def already_injected_reason(rows: SearchResult, ask: Ask) -> str:
    """Return a sentence that counts matches injected before and names their turns; "" for none."""
    fit = dict.fromkeys(each.key for each in rows.rejected if each.rejected == GIVEN)
    if not fit:
        return ""
    turns = list(dict.fromkeys(filter(None, (ask.in_context.get(key) for key in fit))))
    when = f"{'turn' if len(turns) == 1 else 'turns'} {', '.join(turns[:_TURNS_SHOWN])}"
    when += " and others" if len(turns) > _TURNS_SHOWN else ""
    what = "1 matching memory was" if len(fit) == 1 else f"{len(fit):,} matching memories were"
    return f"{what} already injected in {when if turns else 'this session'}"


def egress_reason(error: ProviderError | TimeoutError) -> str:
    """Return an error's text if it says why no text may leave, such as a pause; else ""."""
    return str(error) if reason_code(error) == "held" else ""


def reason_code(error: ProviderError | TimeoutError) -> str:
    """Return the reason code of a model's error, "timeout" if the time was up."""
    return error.reason if isinstance(error, ProviderError) else "timeout"
