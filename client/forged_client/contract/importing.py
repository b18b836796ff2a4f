"""Messages about imports: memories from other programs' files or from another root."""

from __future__ import annotations

import msgspec

from forged_client.contract.memories import CategoryWord, Edge, ScopeWord
from forged_client.envelope import Reply, Request


class ImportedDraft(msgspec.Struct, frozen=True, kw_only=True):
    """Memory to be imported, with the id that it gets.

    It has either a `content` with the other fields, or a whole memory `file` with its `name`. A file is
    written byte by byte, and its own id is `memory_id`. Links lead to existing memories or to drafts of the
    same import.
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
    """Result of importing one draft; with `preview`, the result that it would have.

    `result` is one of: new; exists (the same text or file, under `memory_id`); conflict (the id exists with
    another content, and nothing is overwritten); secret (`reason` names its shape and never repeats it);
    forgotten (this text or id was forgotten in the last 7 days); refused (`reason`; if the disk refused,
    `code` is storage_error). `replaces` is an existing memory that would become an older version.
    """

    result: str
    memory_id: str = ""
    reason: str = ""
    code: str = ""
    replaces: str = ""


class Imported(Reply, frozen=True, tag="imported"):
    """Reply to Import: outcomes in the order of its drafts; `root` is their destination."""

    outcomes: tuple[ImportOutcome, ...] = ()
    root: str = ""
    scope: str = ""
    generation: str = ""


class Import(Request[Imported], frozen=True, tag="import"):
    """Request to write drafts into a scope's root, each durably; with `preview`, to write nothing.

    Their origin is `import`, whatever a file says of itself. With `own` a person at a terminal vouches that
    the files are of a root of theirs. A draft with a secret is refused unless `allow_secret`. Text that was
    forgotten lately is left out unless `allow_forgotten`. Repeating an import changes nothing. With a `key`
    the first answer is repeated.
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
        """Return True for a preview, which writes nothing."""
        return self.preview
