"""Messages about capture: conversations that are sent, and the log of what was kept or refused."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from forged_client.contract.memories import MemoryRecord
from forged_client.contract.retrieval import Message
from forged_client.envelope import Reply, Request, one_of

MAX_CAPTURE_BYTES = 2 << 20

# When a conversation is sent.
CaptureKind = Literal["turn", "compaction", "explicit", "session_end"]
KindWord = Annotated[str, one_of("kind", get_args(CaptureKind))]

# Characters. The end of a message that continues in the next part is repeated there. So a secret or a
# sentence at the cut is whole in one of the two parts.
CONTINUED_OVERLAP = 48_000


class Captured(Reply, frozen=True, tag="captured"):
    """Reply to Capture: the outcome, and counts of slices and of unread messages.

    `outcome` is accepted, coalesced, durable, or rejected with a `reason`. `durable` means that all parts are
    on disk. A part that is stored while others are missing is `accepted`. `slices` counts the pieces in which
    the text is classified. `unread` counts messages with content that is not text, such as an image.
    """

    outcome: str = "rejected"
    slices: int = 0
    unread: int = 0

    @property
    def is_taken(self) -> bool:
        """Return True if the daemon accepted all that was sent."""
        return self.status == "ok" and self.outcome != "rejected"


class Capture(Request[Captured], frozen=True, tag="capture"):
    """Request to capture a conversation window or a part of it; its new messages are classified.

    `kind` is turn, compaction, explicit or session_end. `agent` is the name of the sender, as in `Retrieve`.

    `messages` is the whole window. The daemon knows the messages that it saw before, and classifies only the
    rest. For a compaction and an explicit request it classifies all.

    A window that does not fit into a frame is sent in `parts`. `part` numbers them from 0; any order is
    allowed. All share one `event_id` of the client (letters, digits, `_` and `-`, at most 64). A capture with
    such an id may be sent again, in whole or in part, for example after its reply was lost. Work that is done
    is acknowledged and not repeated.

    A message that is longer than a part is sent as several. The last message of a part that `goes_on` is
    continued by the first message of the next part, which is `begun` and has the same role. Its text repeats
    the last CONTINUED_OVERLAP characters. `last_summary_index` counts within the part.
    """

    effect = "write"
    needs = ("workspace",)
    limit_bytes = MAX_CAPTURE_BYTES
    bypassable = True

    workspace: str
    session_id: str
    kind: KindWord = "turn"
    messages: tuple[Message, ...] = ()
    last_summary_index: int = 0
    event_id: str = ""
    part: int = 0
    parts: int = 1
    begun: bool = False
    goes_on: bool = False
    agent: str = ""


class CapturedEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Statement that capture kept as the memory `memory_id`, or refused for a `reason`.

    `text` is the beginning of the statement, without secrets. It and `memory_id` are empty if the memory was
    forgotten since, and `text` is empty 7 days after a refusal. `why` is request (the person asked), rule,
    linear or model. `classifier` names the classifier that decided. `agent` and `kind` (turn, compaction,
    explicit, session_end) are those of the capture. `is_there` is true if the memory's file exists.
    """

    at: str
    text: str = ""
    memory_id: str = ""
    reason: str = ""
    session_id: str = ""
    agent: str = ""
    kind: str = ""
    why: str = ""
    classifier: str = ""
    scope: str = ""
    category: str = ""
    root: str = ""
    supersedes: str = ""
    is_there: bool = False


class CapturedPage(Reply, frozen=True, tag="captured_page"):
    """Reply to ListCaptured: entries of the capture log, newest first; `total` counts all that match."""

    captured: tuple[CapturedEntry, ...] = ()
    total: int = 0


class _ListCapturedOptions(Request[CapturedPage], frozen=True, kw_only=True):
    """Optional fields of ListCaptured: filters, and the page of the result."""

    since: str = ""
    session_id: str = ""
    all_repos: bool = False
    limit: int = 100
    offset: int = 0


class ListCaptured(_ListCapturedOptions, frozen=True, tag="list_captured"):
    """Request a list of statements that capture kept or refused, in the workspace or in all roots.

    `since` is an RFC 3339 time. `session_id` is the beginning of a session's id; "" matches any.
    """

    effect = "read"

    workspace: str = ""


class Undone(Reply, frozen=True, tag="undone"):
    """Reply to Undo: memories taken back, or `restored` as a prompt had forgotten them; `empty` if none."""

    memories: tuple[MemoryRecord, ...] = ()
    restored: bool = False
    trash: str = ""
    generation: str = ""


class _UndoOptions(Request[Undone], frozen=True, kw_only=True):
    """Optional fields of Undo: the session, a preview, the expected memories, a key to send it twice."""

    session_id: str = ""
    preview: bool = False
    ids: tuple[str, ...] = ()
    key: str = ""


class Undo(_UndoOptions, frozen=True, tag="undo"):
    """Request to take back the memories of the newest captured turn, or what a prompt forgot after it.

    Turns that were classified together are taken back one by one. An empty `session_id` matches any. With
    `preview` nothing changes. With `ids` it succeeds only for these memories. With a `key` it may come twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str

    @property
    def only_shows(self) -> bool:
        """Return True for a preview, which changes nothing."""
        return self.preview


class Paused(Reply, frozen=True, tag="paused"):
    """Reply to Pause: where forged is paused, `*` for everything, else the tops of repositories."""

    paused: tuple[str, ...] = ()


class _PauseOptions(Request[Paused], frozen=True, kw_only=True):
    """Optional fields of Pause: everywhere or one repository, pause or resume."""

    everywhere: bool = False
    paused: bool = True


class Pause(_PauseOptions, frozen=True, tag="pause"):
    """Request to pause (or, `paused` false, resume) capture and injection, here or everywhere."""

    effect = "write"

    workspace: str = ""


class DeadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Capture event that failed for good, or one that waits for its folder.

    `text` is its redacted window, filled only by the action show. An event that `waits` did not fail: its
    folder is not at the path of `root` now. Then `kind` may also be `proposal` (for review), or `remove`,
    `restore` or `move` (interrupted by a kill).
    """

    id: str
    kind: str = ""
    session_id: str = ""
    root: str = ""
    received_at: str = ""
    died_at: str = ""
    reason: str = ""
    bytes: int = 0
    text: str = ""
    waits: bool = False


class DeadEvents(Reply, frozen=True, tag="dead_events"):
    """Reply to Dead: the events that the action listed, showed, retried or dropped.

    `missing` lists ids that are not dead any more, or that cannot be retried because their folder is
    elsewhere. `reason` explains the latter.
    """

    events: tuple[DeadEvent, ...] = ()
    missing: tuple[str, ...] = ()


class Dead(Request[DeadEvents], frozen=True, tag="dead"):
    """Request to list, show, retry or drop failed capture events; without `ids`, all of them.

    `action` is list, show, retry or drop. Events that wait for a folder are listed as well, and dropped if an
    id names them.
    """

    effect = "write"
    repeatable = False

    action: str = "list"
    ids: tuple[str, ...] = ()

    @property
    def only_shows(self) -> bool:
        """Return True for the actions `list` and `show`, which change nothing."""
        return self.action in {"list", "show"}
