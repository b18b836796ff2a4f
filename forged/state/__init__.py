"""Small durable state besides memories: one SQLite file, `state.db`, and one thread that uses it.

Only the daemon opens it. Data that must survive a power cut is on disk before the reply. Write-behind data
(counts) is written every five seconds and may lose the last five. The capture worker imports values from here
and opens nothing, so modules that need the file are imported on use.
"""

from typing import TYPE_CHECKING

from forged import lazy_exports
from forged.state.event_values import DeadLetter, DecidedMemory, Event, Kind, new_event_id

if TYPE_CHECKING:
    from forged.state.attributes import Attributes
    from forged.state.capture_log import CaptureLog, CaptureLogEntry
    from forged.state.captures import CaptureCursor, CapturePart, LearnedSession, digests, new_digests
    from forged.state.copy_folder import CopyFolder, PieceCopy
    from forged.state.cutting import CutCount, CutEvent, cut
    from forged.state.database import Change
    from forged.state.forgotten import ForgottenTexts
    from forged.state.ingested import IngestedFile
    from forged.state.injected_sets import InjectedEntry, InjectedSet, InjectionRecord, RecordedMemory, SetKey
    from forged.state.intents import Intent, Intents, Rewrite
    from forged.state.outbox import Write, WriteFailure
    from forged.state.removal import MoveTarget, RootIds, RootListing, TrashedRows
    from forged.state.replicas import (
        DOCUMENTS,
        NEVER_MET,
        Owner,
        OwnRemovalMarks,
        RemovalMark,
        Replica,
        Replicas,
        SharedOwners,
        is_newer,
    )
    from forged.state.requests import PendingWrite, Receipt, RequestOutcome, Requests
    from forged.state.state import State
    from forged.state.to_review import MOST_LEARNED
    from forged.state.trust import Exclude, Excludes, OwnFile, RootRecord, TrustFindings, TrustRecords

__all__ = [
    "DOCUMENTS",
    "MOST_LEARNED",
    "NEVER_MET",
    "Attributes",
    "CaptureCursor",
    "CaptureLog",
    "CaptureLogEntry",
    "CapturePart",
    "Change",
    "CopyFolder",
    "CutCount",
    "CutEvent",
    "DeadLetter",
    "DecidedMemory",
    "Event",
    "Exclude",
    "Excludes",
    "ForgottenTexts",
    "IngestedFile",
    "InjectedEntry",
    "InjectedSet",
    "InjectionRecord",
    "Intent",
    "Intents",
    "Kind",
    "LearnedSession",
    "MoveTarget",
    "OwnFile",
    "OwnRemovalMarks",
    "Owner",
    "PendingWrite",
    "PieceCopy",
    "Receipt",
    "RecordedMemory",
    "RemovalMark",
    "Replica",
    "Replicas",
    "RequestOutcome",
    "Requests",
    "Rewrite",
    "RootIds",
    "RootListing",
    "RootRecord",
    "SetKey",
    "SharedOwners",
    "State",
    "TrashedRows",
    "TrustFindings",
    "TrustRecords",
    "Write",
    "WriteFailure",
    "cut",
    "digests",
    "is_newer",
    "new_digests",
    "new_event_id",
]

__getattr__ = lazy_exports(
    __name__,
    database=("Change",),
    copy_folder=("CopyFolder", "PieceCopy"),
    cutting=("CutCount", "CutEvent", "cut"),
    attributes=("Attributes",),
    forgotten=("ForgottenTexts",),
    captures=("CaptureCursor", "CapturePart", "LearnedSession", "digests", "new_digests"),
    ingested=("IngestedFile",),
    injected_sets=("RecordedMemory", "InjectedEntry", "InjectedSet", "InjectionRecord", "SetKey"),
    intents=("Intent", "Intents", "Rewrite"),
    capture_log=("CaptureLog", "CaptureLogEntry"),
    outbox=("Write", "WriteFailure"),
    removal=("MoveTarget", "RootListing", "TrashedRows", "RootIds"),
    replicas=(
        *("DOCUMENTS", "NEVER_MET", "OwnRemovalMarks", "Owner", "RemovalMark", "Replica", "Replicas"),
        *("SharedOwners", "is_newer"),
    ),
    requests=("PendingWrite", "RequestOutcome", "Receipt", "Requests"),
    state=("State",),
    to_review=("MOST_LEARNED",),
    trust=("Exclude", "Excludes", "TrustFindings", "OwnFile", "RootRecord", "TrustRecords"),
)
