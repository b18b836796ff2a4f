"""Finished turns become memory files: a queue, a worker process, and what decides what to keep.

    daemon                                                          worker, spawned, one task at a time
    intake -> service -> queue -> dispatcher -> supervisor -> worker_process == Queue ==> worker
                |                  |  ^   ^                                      |          |
                |                gate |   +------------- reports ------------ <= Pipe =  rules | llm
                +--- state.Events ----+                                              documents -> files

`intake` cuts out what must not come in, `service` answers with a word, `queue` holds the line, `dispatcher`
gives the worker one event and ends it once. What an event comes to is written to the state before the worker
puts a file in place (ADR-0046). Capture never talks to the indexer: it writes files.
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.capture.intake import take_in
    from forged.capture.service import Pipeline
    from forged.capture.values import KnownMemory, WorkerSettings

__all__ = [
    "KnownMemory",
    "Pipeline",
    "WorkerSettings",
    "take_in",
]

__getattr__ = door(
    __name__, intake=("take_in",), service=("Pipeline",), values=("KnownMemory", "WorkerSettings")
)
