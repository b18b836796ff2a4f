"""Messages about what is withheld or waits until a person has decided."""

from __future__ import annotations

from typing import Annotated

import msgspec

from forged_client.contract.memories import Scope
from forged_client.envelope import Reply, Request, one_of

KeptScope = Annotated[str, one_of("scope", (Scope.REPO, Scope.USER))]


class WithheldFile(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file of a repository that is not used.

    `sha256` is of its bytes, `why` it is withheld, `effect` what it would do if it were accepted: replace, be
    linked, or stand by itself. `text` (its memory) comes as far as the reply has room.
    """

    id: str
    path: str
    sha256: str
    why: str = ""
    effect: str = ""
    category: str = ""
    created_at: str = ""
    bytes: int = 0
    text: str = ""


class RootTrust(msgspec.Struct, frozen=True, kw_only=True):
    """How a root stands. `state`: unknown (never asked about), own (nothing foreign ever was there), trusted.

    It is unread while the daemon cannot read what is on record; `reason` says why.
    `accepted` and `withheld` count its memories; `shown` stands for exactly those that are withheld, and a
    `Trust` that names it does nothing if they have changed. `sample` are a few of them.
    `git` is a sentence on whether git ignores what forged captures there.
    """

    root: str
    state: str = "unknown"
    mode: str = ""
    branch: str = ""
    trusted_at: str = ""
    accepted: int = 0
    withheld: int = 0
    shown: str = ""
    sample: tuple[WithheldFile, ...] = ()
    reason: str = ""
    git: str = ""


class Trusted(Reply, frozen=True, tag="trusted"):
    """The roots that an action was about, as they stand now."""

    roots: tuple[RootTrust, ...] = ()


class _TrustOptions(Request[Trusted], frozen=True, kw_only=True):
    """Action, and what it takes."""

    action: str = "show"
    mode: str = ""
    shown: str = ""
    git: str = ""


class Trust(_TrustOptions, frozen=True, tag="trust"):
    """Say whether the memories that lie in a repository may be used.

    `action`: show (the workspace's root), trust, revoke, under (every root with memories below the directory
    `workspace`), list (every root that was ever seen), git, leave. `mode` is follow or locked, "" what the
    configuration says. With `shown`, of a `RootTrust`, a root is trusted only if just that is still withheld.
    `git` goes with that action: commit or exclude, whether what forged captures in the workspace's repository
    may be committed, "" what the configuration says. leave takes forged's line out of every `info/exclude`.
    """

    effect = "write"

    workspace: str = ""

    @property
    def only_shows(self) -> bool:
        return self.action in {"show", "list", "under"}


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A memory that is none yet: in no file, never injected.

    `content` is what would be kept, `why` it waits, `beside` what was pasted next to it, as far as it is
    shown. `agent` and `session_id` say where it was said, `created_at` when. `root` is where it would go.
    """

    id: str
    content: str
    why: str = ""
    beside: str = ""
    scope: str = ""
    category: str = ""
    root: str = ""
    session_id: str = ""
    agent: str = ""
    created_at: str = ""
    supersedes: str = ""


class Reviewed(Reply, frozen=True, tag="reviewed"):
    """What is withheld of a root (still, after something was accepted), and the ids that were accepted.

    `waiting` is what capture proposes and a person has to decide about, of the repository and of the user;
    `elsewhere` names the roots in which more of it waits. `kept` and `dropped` are ids of what was asked for.
    """

    root: RootTrust | None = None
    files: tuple[WithheldFile, ...] = ()
    accepted: tuple[str, ...] = ()
    waiting: tuple[Proposed, ...] = ()
    elsewhere: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class _ReviewOptions(Request[Reviewed], frozen=True, kw_only=True):
    """Decisions that go with a list of ids."""

    everything: bool = False
    shown: str = ""
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: str = ""
    scope: KeptScope = ""
    allow_secret: bool = False
    key: str = ""


class Review(_ReviewOptions, frozen=True, tag="review"):
    """List what is withheld of the workspace's root, and accept some of it.

    `accept` are ids, or beginnings (from eight characters) of SHA-256 sums; `everything` accepts all that is
    there now, with `shown` only if it is just that. `keep` and `drop` are ids of what waits for a person, or
    beginnings of them; what is kept becomes a typed memory, one of them in the words of `text` if that is
    given, all of them in `scope` if that is given. A text with a secret is refused with the code `secret`,
    unless `allow_secret`. With a `key` it may be sent twice.
    """

    effect = "write"

    workspace: str
    accept: tuple[str, ...] = ()

    @property
    def only_shows(self) -> bool:
        return not (self.accept or self.everything or self.keep or self.drop)
