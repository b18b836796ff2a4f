"""Finished turns become memory files: a queue, a worker process, and the decision about each proposal.

    daemon                                            worker, spawned, one task at a time
    service -> intake, queue -> dispatcher -> supervisor == Queue ==> worker
       |                         |  ^   ^        |                      |
       |                       gate |   +- proposals, questions <== Pipe == rules | head | llm
       +---- state.EventStore ------+
                                 |
                               committer -> existing, deciding -> the Writer

`service` takes submissions and answers with a word; `intake` finds what is new of one, cuts out what must not
come in, and makes events of it; `queue` holds the line, `dispatcher` gives the worker one event and ends it
once. The worker proposes, the daemon commits: `existing` is the one set that proposals are compared with,
`deciding` judges each, and what an event comes to is written to the state before `committer` puts the first
file in place (ADR-0046).
"""

from typing import TYPE_CHECKING

from forged import door

if TYPE_CHECKING:
    from forged.capture.call_limiter import PROMPT_TOKENS
    from forged.capture.committer import Committer, Promotion
    from forged.capture.intake import Outcome, Submission, response_in
    from forged.capture.off_record import is_refused
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
    "is_refused",
    "response_in",
]

__getattr__ = door(
    __name__,
    call_limiter=("PROMPT_TOKENS",),
    committer=("Committer", "Promotion"),
    intake=("Outcome", "Submission", "response_in"),
    slices=("WINDOW_LIMIT",),
    off_record=("is_refused",),
    service=("CaptureService",),
    values=("KnownMemory", "WorkerSettings"),
    vectors=("LocalVectors",),
)
