"""Reads a set from a path: a directory of JSON lines, or a file of LoCoMo conversations."""

from __future__ import annotations

from pathlib import Path

from tests.evaluation import jsonl_set, locomo
from tests.evaluation.dataset import Dataset, DatasetError


def load(path: Path) -> Dataset:
    """Read a directory of the project's own kind, or a LoCoMo file. Raises DatasetError."""
    if path.is_dir():
        if not (path / jsonl_set.MEMORIES).exists():
            raise DatasetError(
                f"{path} holds no {jsonl_set.MEMORIES}: a set is a directory with that and queries"
            )
        return jsonl_set.load(path)
    if not path.exists():
        raise DatasetError(f"there is no {path}")
    return locomo.load(path)
