"""Embedder for `fastembed:<name>`: an ONNX model, such as BGE-small, from a folder of the user.

fastembed downloads missing files, and blocks 39 s where it cannot. So it always gets the folder, which
`config.missing` has checked before. It leaves the prefix of a query to its caller. Without onnxruntime's
arena a process needs 300 to 500 MB for a 23 MB model, with it 900.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np

from forged.config import bare_name
from forged.errors import ProviderError
from forged.fair_queue import Activity
from forged.models import Kind, Vectors
from forged.models.in_process import InProcessEmbedder, LoadedModel, threads


def fastembed_embedder(
    name: str,
    folder: Path,
    *,
    query_prefix: str = "",
    passage_prefix: str = "",
    activity: Activity | None = None,
) -> InProcessEmbedder:
    """Return the in-process embedder of the fastembed model `name`, with its files in `folder`.

    No module is imported and no file opened before the first text. The package must be installed.
    """
    version = importlib.metadata.version("fastembed")
    return InProcessEmbedder(
        "\n".join((name, f"fastembed {version}", str(folder), passage_prefix)),
        lambda: _load(name, folder),
        query_prefix=query_prefix,
        passage_prefix=passage_prefix,
        activity=activity,
    )


def _load(name: str, folder: Path) -> LoadedModel:
    """Load a fastembed model from its folder. Raises ProviderError, also if fastembed does not know it."""
    try:
        from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, and 0.3 s

        model = TextEmbedding(
            _known_as(name, [entry["model"] for entry in TextEmbedding.list_supported_models()]),
            cache_dir=str(folder),  # else it makes a directory among the temporary files
            specific_model_path=str(folder),
            threads=threads(),
            providers=["CPUExecutionProvider"],
            enable_cpu_mem_arena=False,
        )
    except ProviderError:
        raise
    except Exception as error:  # onnxruntime's errors have no other class in common
        raise ProviderError(
            f"{name} cannot be loaded from {folder}: {error}", reason="unreachable"
        ) from error

    def encode(texts: list[str], _: Kind) -> Vectors:
        """Return the vectors of texts from fastembed. Raises ProviderError."""
        try:
            return np.array(list(model.embed(texts)), dtype=np.float32)
        except Exception as error:
            raise ProviderError(f"{name}: {type(error).__name__}", reason="bad_input") from error

    return LoadedModel(encode, engine="fastembed")


def _known_as(name: str, supported: list[str]) -> str:
    """Return fastembed's own name of a model, with publisher. Raises ProviderError if unknown."""
    for known in supported:
        if bare_name(known) == bare_name(name):
            return known
    raise ProviderError(f"fastembed knows no model {name.removeprefix('fastembed:')}", reason="unreachable")
