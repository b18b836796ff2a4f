"""Messages about withheld files, and about proposals that a person must decide on."""

from __future__ import annotations

from typing import Annotated

import msgspec

from forged_client.contract.memories import Scope
from forged_client.envelope import Reply, Request, one_of

KeptScope = Annotated[str, one_of("scope", (Scope.REPO, Scope.USER))]


class WithheldFile(msgspec.Struct, frozen=True, kw_only=True):
    """A memory file of a repository that forged does not use, because it is not trusted.

    `sha256` is that of its bytes, `why` is the reason, `effect` is the result of accepting it: replace, be
    linked, or a memory of its own. `text` (its memory) is included as far as the reply has room.
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
    """Trust state of a root: unknown (never asked about), own (never had foreign files), or trusted.

    It is unread while the daemon cannot read its records; `reason` says why. `accepted` and `withheld` count
    its memories. `shown` identifies exactly the withheld files: a `Trust` that names it does nothing if they
    have changed. `sample` are a few of them.

    `git` is a sentence about the git exclusion of captures there.
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
    """Reply to `Trust`: the roots of the action, in their new state."""

    roots: tuple[RootTrust, ...] = ()


class _TrustOptions(Request[Trusted], frozen=True, kw_only=True):
    """Action of a `Trust` request, and its parameters."""

    action: str = "show"
    mode: str = ""
    shown: str = ""
    git: str = ""


class Trust(_TrustOptions, frozen=True, tag="trust"):
    """Request to show or change the trust in repositories, or the git exclusion of captures there.

    `action`: show (the workspace's root), trust, revoke, under (every root with memories below the directory
    `workspace`), list (every root that was ever seen), git, unexclude. `mode` is follow or locked, "" for the
    configured one. With `shown`, of a `RootTrust`, a root is trusted only if exactly those files are still
    withheld. `git` belongs to that action: commit or exclude captures of the workspace's repository, "" for
    the configured choice. unexclude removes forged's line from every `info/exclude`.
    """

    effect = "write"

    workspace: str = ""

    @property
    def only_shows(self) -> bool:
        """Return True for the actions `show`, `list` and `under`, which change nothing."""
        return self.action in {"show", "list", "under"}


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """Proposed memory that waits for a person: not in a file, never injected.

    `content` is the proposed text, `why` the reason to ask a person, `pasted` the text that was pasted next
    to it, possibly shortened. `agent` and `session_id` name its session, `created_at` its time. `root` is the
    root that it would go to.
    """

    id: str
    content: str
    why: str = ""
    pasted: str = ""
    scope: str = ""
    category: str = ""
    root: str = ""
    session_id: str = ""
    agent: str = ""
    created_at: str = ""
    supersedes: str = ""


class Reviewed(Reply, frozen=True, tag="reviewed"):
    """Reply to `Review`: withheld files and proposals that remain, and ids that were decided.

    `waiting` are proposals of the repository and of the user; `elsewhere` names other roots with proposals.
    `kept` and `dropped` are ids of the request.
    """

    root: RootTrust | None = None
    files: tuple[WithheldFile, ...] = ()
    accepted: tuple[str, ...] = ()
    waiting: tuple[Proposed, ...] = ()
    elsewhere: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class _ReviewOptions(Request[Reviewed], frozen=True, kw_only=True):
    """Decisions of a `Review` request on files and proposals, by ids."""

    everything: bool = False
    shown: str = ""
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    text: str = ""
    scope: KeptScope = ""
    allow_secret: bool = False
    key: str = ""


class Review(_ReviewOptions, frozen=True, tag="review"):
    """Request to list a root's withheld files and proposals, accept files, keep or drop proposals.

    `accept` are ids, or prefixes (at least eight characters) of SHA-256 sums. `everything` accepts all
    current files, with `shown` only if they are exactly those. `keep` and `drop` are ids of proposals, or
    prefixes of them. One kept at a terminal is typed, in `scope` if that is given; `text` replaces the text
    of a single one. A text with a secret is refused with the code `secret`, unless `allow_secret`.

    With a `key` it may be sent twice.
    """

    effect = "write"

    workspace: str
    accept: tuple[str, ...] = ()

    @property
    def only_shows(self) -> bool:
        """Return True for a request without decisions, which only lists."""
        return not (self.accept or self.everything or self.keep or self.drop)
