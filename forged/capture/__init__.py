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

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forged.capture.intake import take_in, window_id_of
    from forged.capture.service import Pipeline
    from forged.capture.values import KnownMemory, WorkerSettings

__all__ = ["KnownMemory", "Pipeline", "WorkerSettings", "take_in", "window_id_of"]

# The worker's process is started through this package and needs none of the daemon's side.
_IN = {
    "KnownMemory": "values",
    "Pipeline": "service",
    "WorkerSettings": "values",
    "take_in": "intake",
    "window_id_of": "intake",
}


def __getattr__(name: str) -> object:
    if name not in _IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_IN[name]}"), name)
