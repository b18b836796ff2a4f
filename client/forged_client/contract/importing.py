"""Messages about memories that come out of other programs' files, or out of another root of ours."""

from __future__ import annotations

import msgspec

from forged_client.contract.memories import CategoryWord, Edge, ScopeWord
from forged_client.envelope import Reply, Request


class ImportedDraft(msgspec.Struct, frozen=True, kw_only=True):
    """One memory to be, with the id that it gets.

    Either a `content` with what stands beside it, or a whole memory `file` with its `name`, which is written
    byte by byte; its own id then is `memory_id`. Links lead to memories that are there or in the same import.
    """

    memory_id: str
    content: str = ""
    category: CategoryWord = ""
    created_at: str = ""
    updated_at: str = ""
    source: str = ""
    cues: tuple[str, ...] = ()
    related: tuple[Edge, ...] = ()
    file: bytes = b""
    name: str = ""


class ImportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a draft, or what would.

    `result`: new; there (the same text, or the same file, under `memory_id`); conflict (that id is there with
    another content, nothing is overwritten); secret (`reason` names its shape; the text is not repeated);
    forgotten (this text or id was, in the last 7 days; `reason`); refused (`reason`; by the disk with the
    `code` storage_error). `replaces` is a memory that is there and would be an older version from then on.
    """

    result: str
    memory_id: str = ""
    reason: str = ""
    code: str = ""
    replaces: str = ""


class Imported(Reply, frozen=True, tag="imported"):
    """One fate for each draft, in their order; `root` is where they went."""

    outcomes: tuple[ImportOutcome, ...] = ()
    root: str = ""
    scope: str = ""
    generation: str = ""


class Import(Request[Imported], frozen=True, tag="import"):
    """Write drafts into the root of a scope, each durably; with `preview`, write nothing.

    Their origin is `import` whatever a file says of itself, unless `own`: the person says that the files are
    out of an own root and are to be believed. A draft with a secret is refused alone, unless `allow_secret`;
    what was forgotten lately is left out, unless `allow_forgotten`. Asked again it does nothing that is done
    already. With a `key` the answer is then the first one.
    """

    effect = "write"
    needs = ("workspace", "memory")
    bypassable = True

    workspace: str
    scope: ScopeWord = "repo"
    drafts: tuple[ImportedDraft, ...] = ()
    preview: bool = False
    own: bool = False
    allow_secret: bool = False
    allow_forgotten: bool = False
    key: str = ""

    @property
    def only_shows(self) -> bool:
        return self.preview
