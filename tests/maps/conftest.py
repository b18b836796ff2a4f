from __future__ import annotations

import pytest

from forged.files import Root
from forged.memory import Scope
from tests.data.memories import memory, put
from tests.support.provider import FakeEmbedder


@pytest.fixture
def embedder():
    return FakeEmbedder()


@pytest.fixture
def root(repo):
    put(repo, memory("m0", "text 0"), memory("m1", "text 1"))
    return Root(str(repo), Scope.REPO)
