"""Capture: turn finished conversation turns into memory files, by a queue and a worker process.

    daemon                                            worker, spawned, one task at a time
    service -> intake, queue -> dispatcher -> supervisor == Queue ==> worker
       |                         |  ^   ^        |                      |
       |                 call_limiter |   +- proposals, questions <== Pipe == rules | linear_model | llm
       +---- state.EventStore ------+
                                 |
                               committer -> existing, decision -> the Writer

`service` accepts submissions. `intake` finds the new messages, cleans them and makes events. `queue` orders
the events, and `dispatcher` gives the worker one at a time. The worker proposes and the daemon commits:
`existing` collects the memories to compare with, and `decision` decides about each proposal. The decision is
stored before `committer` writes the first file (ADR-0046).
"""

from typing import TYPE_CHECKING

from forged import lazy_exports

if TYPE_CHECKING:
    from forged.capture.call_limiter import PROMPT_TOKENS
    from forged.capture.committer import Committer, Promotion
    from forged.capture.intake import Outcome, Submission, response_in
    from forged.capture.off_record import is_opted_out
    from forged.capture.service import CaptureService
    from forged.capture.slices import WINDOW_LIMIT
    from forged.capture.values import KnownMemory, WorkerSettings
    from forged.capture.vectors import LocalVectors

__all__ = [
    "PROMPT_TOKENS",
    "WINDOW_LIMIT",
    "CaptureService",
    "Committer",
    "KnownMemory",
    "LocalVectors",
    "Outcome",
    "Promotion",
    "Submission",
    "WorkerSettings",
    "is_opted_out",
    "response_in",
]

__getattr__ = lazy_exports(
    __name__,
    call_limiter=("PROMPT_TOKENS",),
    committer=("Committer", "Promotion"),
    intake=("Outcome", "Submission", "response_in"),
    slices=("WINDOW_LIMIT",),
    off_record=("is_opted_out",),
    service=("CaptureService",),
    values=("KnownMemory", "WorkerSettings"),
    vectors=("LocalVectors",),
)
