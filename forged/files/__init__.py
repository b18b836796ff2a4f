"""Memory files of a root: locations, parsing, writing, scanning and watching.

`resolve` finds the roots of a workspace, `scan` returns a `Snapshot` of a root, `MemoryStore` writes and
removes files. Functions raise WorkspaceError, MemoryFormatError and StoreError. The watcher is imported on
use, because only the daemon needs its dependencies.
"""

from typing import TYPE_CHECKING

from forged import lazy_exports
from forged.files import atomic
from forged.files.atomic import NewFile
from forged.files.directory_events import DirectoryEvents, drop_lost_watches, unwatched_reason
from forged.files.evidence import MOST_EVIDENCE, EvidenceChecker, EvidenceError, with_hash
from forged.files.frontmatter import MAX_FILE_BYTES, parse, relinked, render
from forged.files.git_layout import is_git_directory, layout
from forged.files.hand_written import front_matter
from forged.files.non_memories import non_memory_files
from forged.files.roots import (
    AGENT_ID,
    FOLDERS,
    Root,
    agent_ids,
    agent_root,
    make_org_root,
    org_root,
    repo_root,
    resolve,
    root_at,
    root_of_agent,
    upwards,
)
from forged.files.scan import Pace, scan
from forged.files.snapshot import File, Snapshot, files_of, one_per_id, printable
from forged.files.store import NOTE, MemoryStore, root_owned_files

if TYPE_CHECKING:
    from forged.files.watcher import Watcher

__all__ = [
    "AGENT_ID",
    "FOLDERS",
    "MAX_FILE_BYTES",
    "MOST_EVIDENCE",
    "NOTE",
    "DirectoryEvents",
    "EvidenceChecker",
    "EvidenceError",
    "File",
    "MemoryStore",
    "NewFile",
    "Pace",
    "Root",
    "Snapshot",
    "Watcher",
    "agent_ids",
    "agent_root",
    "atomic",
    "drop_lost_watches",
    "files_of",
    "front_matter",
    "is_git_directory",
    "layout",
    "make_org_root",
    "non_memory_files",
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
    "root_owned_files",
    "scan",
    "unwatched_reason",
    "upwards",
    "with_hash",
]
__getattr__ = lazy_exports(__name__, watcher=("Watcher",))
