"""Messages about what is said and what is kept of it."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from forged_client.contract.memories import MemoryRecord
from forged_client.contract.retrieval import Message
from forged_client.envelope import Reply, Request, one_of

MAX_CAPTURE_BYTES = 2 << 20

# When a conversation is handed over.
CaptureKind = Literal["turn", "compaction", "explicit", "session_end"]
KindWord = Annotated[str, one_of("kind", get_args(CaptureKind))]

# Characters. The end of a message that goes on in the next part of a capture stands there once more: what a
# cut goes through, a secret or a sentence, stands whole in one of the two.
CONTINUED_OVERLAP = 48_000


class Captured(Reply, frozen=True, tag="captured"):
    """`outcome`: accepted, coalesced, durable, rejected (then `reason` says why).

    `durable` means all parts and all of them on disk; a part that is kept while others are missing is
    `accepted`. `slices` is in how many pieces the text is judged, `unread` how many messages held something
    that is no text, such as an image.
    """

    outcome: str = "rejected"
    slices: int = 0
    unread: int = 0

    @property
    def is_taken(self) -> bool:
        """Whether the daemon has what was sent."""
        return self.status == "ok" and self.outcome != "rejected"


class Capture(Request[Captured], frozen=True, tag="capture"):
    """A finished turn, for the capture worker. `kind`: turn, compaction, explicit, session_end.

    `agent` is who hands it over, as in `Retrieve`.

    `messages` is the whole window: what of it the session has said before is known, and only the rest is
    judged (of a compaction and an explicit request all is).

    A window that one frame cannot hold comes in `parts`, numbered from 0 by `part`, in any order, all under
    one `event_id` that the client makes (letters, digits, `_` and `-`, at most 64). With such an id a capture
    may be sent again, in whole or in part, also after its reply got lost: what is done is answered and not
    done twice. A message that is longer than a part is sent as several: the last message of a part that
    `goes_on` is continued by the first message of the next one, which is `begun` and has the same role. Its
    text begins there with the last CONTINUED_OVERLAP characters that were sent of it. `last_summary_index`
    counts within the part.
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
    """One thing that was said and kept, as the memory `memory_id`, or refused for a `reason`.

    `text` is how it begins, as a person may read it: never a secret; empty, as is `memory_id`, where it was
    forgotten since, and of what was refused after 7 days. `why` it was taken up: request (somebody asked for
    it), rule, head, model; `classifier` is who judged it. `agent` and `kind` (turn, compaction, explicit,
    session_end) are of the capture that it came with. `is_there` says whether the memory's file still is.
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
    """Newest first; `total` is how many there are of them in all."""

    captured: tuple[CapturedEntry, ...] = ()
    total: int = 0


class _ListCapturedOptions(Request[CapturedPage], frozen=True, kw_only=True):
    """Filters, and a page of what they leave."""

    since: str = ""
    session_id: str = ""
    all_repos: bool = False
    limit: int = 100
    offset: int = 0


class ListCaptured(_ListCapturedOptions, frozen=True, tag="list_captured"):
    """List what capture has kept and refused: of the workspace's roots, or of all roots there are.

    `since` is a time (RFC 3339), `session_id` how a session's id begins; "" is any.
    """

    effect = "read"

    workspace: str = ""


class Undone(Reply, frozen=True, tag="undone"):
    """Memories taken back, or with `preview` those that would be; `empty` if there are none."""

    memories: tuple[MemoryRecord, ...] = ()
    trash: str = ""
    generation: str = ""


class _UndoOptions(Request[Undone], frozen=True, kw_only=True):
    """Choice of a turn, and whether to take it back."""

    session_id: str = ""
    preview: bool = False
    ids: tuple[str, ...] = ()
    key: str = ""


class Undo(_UndoOptions, frozen=True, tag="undo"):
    """Take back the captured memories of one turn, the newest that the workspace sees.

    Turns that were judged together are taken back one by one. `session_id` "" is any.

    With `preview` nothing is taken: the reply says what would be. With `ids` it is taken only if it is still
    just these memories. With a `key` it may be sent twice.
    """

    effect = "write"
    needs = ("workspace", "memory")
    repeatable = False

    workspace: str

    @property
    def only_shows(self) -> bool:
        return self.preview


class Paused(Reply, frozen=True, tag="paused"):
    """What is paused now: `*` for everything, else the tops of repos."""

    paused: tuple[str, ...] = ()


class _PauseOptions(Request[Paused], frozen=True, kw_only=True):
    """Place, and whether to stop or to resume."""

    everywhere: bool = False
    paused: bool = True


class Pause(_PauseOptions, frozen=True, tag="pause"):
    """Stop (or with `paused` false resume) capture and injection: of the workspace's repo, or everywhere."""

    effect = "write"

    workspace: str = ""


class DeadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A capture event that was given up; `text` (its window, redacted) only when it is shown.

    One that `waits` was not: its folder is not at the path of `root` now. It may be a `proposal` for review,
    or a `remove`, `restore` or `move` that a kill interrupted, as `kind` says.
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
    """What the action was about; `missing` are ids that are not (or no longer) dead.

    So are those that may not be tried again, as their folder is not at its path: `reason` says why.
    """

    events: tuple[DeadEvent, ...] = ()
    missing: tuple[str, ...] = ()


class Dead(Request[DeadEvents], frozen=True, tag="dead"):
    """Capture events that were given up. `action`: list, show, retry, drop; no `ids` means all of them.

    What waits for a folder that is not at its path is listed as well, and dropped when an id names it.
    """

    effect = "write"
    repeatable = False

    action: str = "list"
    ids: tuple[str, ...] = ()

    @property
    def only_shows(self) -> bool:
        return self.action in {"list", "show"}
