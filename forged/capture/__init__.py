"""Finished turns become memory files: a queue, a worker process, and what decides what to keep.

    daemon                                                              worker, spawned, one task at a time
    hearing -> service -> queue -> dispatcher -> supervisor -> worker_process == Queue ==> worker
    intake       |          |  ^   ^                                      |          |
    slices       |        gate |   +------------- reports ------------ <= Pipe =  rules | llm
    watermark    +--- state.Events ----+                                              documents -> files

`hearing` finds what is new of a capture and makes events of it, `intake` cuts out what must not come in,
`service` answers with a word, `queue` holds the line, `dispatcher` gives the worker one event and ends it
once. What an event comes to is written to the state before the worker puts a file in place (ADR-0046).
Capture never talks to the indexer: it writes files.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.capture.hearing import Spoken
    from forged.capture.service import Pipeline
    from forged.capture.values import KnownMemory, WorkerSettings

__all__ = [
    "KnownMemory",
    "Pipeline",
    "Spoken",
    "WorkerSettings",
]

__getattr__ = door(
    __name__, hearing=("Spoken",), service=("Pipeline",), values=("KnownMemory", "WorkerSettings")
)
