"""Read other programs' memories: rules of agents, notes, exports, memory files of another root.

    taken -> reading     which form a path has
             sources     files below a path, within bounds
             rules       CLAUDE.md and its kin, cut into statements by markdown
             notes       basic-memory
             dumps       mem0, claude-mem
             forge       memory files and exports of ours
             plan        what of it goes where
    export -> copying    the way out: memory files of several roots in one folder

Raises WorkspaceError for a path that cannot be read, StoreError for an export. Asks no daemon.
"""

from forged.importing.exporting import Copy, export, new_file, read_root
from forged.importing.memory_files import Manifest
from forged.importing.plan import Destination, PlannedItem, RepositoryPaths, plan_items, plan_links
from forged.importing.reading import FORMS, ReadOptions, merge_batches, read_path
from forged.importing.values import ImportBatch, SkippedItem

__all__ = [
    "FORMS",
    "Copy",
    "Destination",
    "ImportBatch",
    "Manifest",
    "PlannedItem",
    "ReadOptions",
    "RepositoryPaths",
    "SkippedItem",
    "export",
    "merge_batches",
    "new_file",
    "plan_items",
    "plan_links",
    "read_path",
    "read_root",
]
