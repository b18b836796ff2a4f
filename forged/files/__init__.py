"""The memory files of a root: where they lie, how they are read, written, scanned and watched.

`resolve` finds the roots of a workspace, `scan` makes a `Snapshot` of what a root holds, `MemoryStore` writes
and removes. Raises WorkspaceError, MemoryFormatError and StoreError. The watcher is imported by its own name,
as only the daemon needs what it brings along.
"""

from typing import TYPE_CHECKING

from forged import door
from forged.files import atomic
from forged.files.arrivals import Arrivals
from forged.files.arrivals import refusal_of as arrivals_refusal
from forged.files.arrivals import tidy as tidy_arrivals
from forged.files.atomic import NewFile
from forged.files.evidence import MOST_EVIDENCE, EvidenceError, Grounds, hashed
from forged.files.frontmatter import MAX_FILE_BYTES, parse, relinked, render
from forged.files.git_layout import is_git_directory, layout
from forged.files.hand_written import front_matter
from forged.files.roots import (
    AGENT_ID,
    FOLDERS,
    Root,
    agent_ids,
    agent_root,
    made_org_root,
    org_root,
    repo_root,
    resolve,
    root_at,
    root_of_agent,
    upwards,
)
from forged.files.scan import Pace, scan
from forged.files.snapshot import File, Snapshot, files_of, one_per_id, printable
from forged.files.store import NOTE, MemoryStore, kept_by_root
from forged.files.strays import no_memories

if TYPE_CHECKING:
    from forged.files.watcher import Watcher

__all__ = [
    "AGENT_ID",
    "FOLDERS",
    "MAX_FILE_BYTES",
    "MOST_EVIDENCE",
    "NOTE",
    "Arrivals",
    "EvidenceError",
    "File",
    "Grounds",
    "MemoryStore",
    "NewFile",
    "Pace",
    "Root",
    "Snapshot",
    "Watcher",
    "agent_ids",
    "agent_root",
    "arrivals_refusal",
    "atomic",
    "files_of",
    "front_matter",
    "hashed",
    "is_git_directory",
    "kept_by_root",
    "layout",
    "made_org_root",
    "no_memories",
    "one_per_id",
    "org_root",
    "parse",
    "printable",
    "relinked",
    "render",
    "repo_root",
    "resolve",
    "root_at",
    "root_of_agent",
    "scan",
    "tidy_arrivals",
    "upwards",
]
__getattr__ = door(__name__, watcher=("Watcher",))
