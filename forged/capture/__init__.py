"""Finished turns become memory files: a queue, a worker process, and what decides what to keep.

    daemon                                                              worker, spawned, one task at a time
    hearing -> service -> queue -> dispatcher -> supervisor -> worker_process == Queue ==> worker
    intake       |          |  ^   ^                                      |          |
    slices       |        gate |   +-------- proposals, questions ---- <= Pipe =  rules | llm
    watermark    +--- state.Events ----+
                                       |
                                     keeper -> candidates, documents -> the Writer

`hearing` finds what is new of a capture and makes events of it, `intake` cuts out what must not come in,
`service` answers with a word, `queue` holds the line, `dispatcher` gives the worker one event and ends it
once. The worker proposes, the daemon commits: `keeper` judges what is proposed against the maps, and what an
event comes to is written to the state before the first file is put in place (ADR-0046).
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.capture.gate import PROMPT_TOKENS
    from forged.capture.hearing import Spoken
    from forged.capture.keeper import Keeper
    from forged.capture.off_record import is_refused
    from forged.capture.promotion import Promotion, response_in
    from forged.capture.service import Pipeline
    from forged.capture.slices import WINDOW_LIMIT
    from forged.capture.values import KnownMemory, WorkerSettings
    from forged.capture.vectors import RememberedVectors, local_vectors

__all__ = [
    "PROMPT_TOKENS",
    "WINDOW_LIMIT",
    "Keeper",
    "KnownMemory",
    "Pipeline",
    "Promotion",
    "RememberedVectors",
    "Spoken",
    "WorkerSettings",
    "is_refused",
    "local_vectors",
    "response_in",
]

__getattr__ = door(
    __name__,
    gate=("PROMPT_TOKENS",),
    hearing=("Spoken",),
    keeper=("Keeper",),
    off_record=("is_refused",),
    promotion=("Promotion", "response_in"),
    service=("Pipeline",),
    slices=("WINDOW_LIMIT",),
    values=("KnownMemory", "WorkerSettings"),
    vectors=("RememberedVectors", "local_vectors"),
)
