"""Read other programs' memories: rules of agents, notes, exports, memory files of another root.

    read_path -> reading         format of a path
                 sources         files below a path, within limits
                 agent_rules     CLAUDE.md and similar files, cut into statements by markdown
                 basic_memory    notes of basic-memory
                 json_exports    mem0, claude-mem
                 memory_files    memory files and exports of forged
                 plan            destination of each item
    export -> exporting          the way out: memory files of several roots in one folder

Raises WorkspaceError for an unreadable path, StoreError for an export. Needs no daemon.
"""

from forged.importing.exporting import RootCopy, export, new_file, read_root
from forged.importing.memory_files import Manifest
from forged.importing.plan import Destination, PlannedItem, RepositoryPaths, plan_items, plan_links
from forged.importing.reading import FORMS, ReadOptions, merge_batches, read_path
from forged.importing.values import ImportBatch, SkippedPart

__all__ = [
    "FORMS",
    "Destination",
    "ImportBatch",
    "Manifest",
    "PlannedItem",
    "ReadOptions",
    "RepositoryPaths",
    "RootCopy",
    "SkippedPart",
    "export",
    "merge_batches",
    "new_file",
    "plan_items",
    "plan_links",
    "read_path",
    "read_root",
]
