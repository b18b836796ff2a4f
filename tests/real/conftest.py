"""The servers are started once, the daemons once for each way they are configured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real.scene import RealScene, real_scene
from tests.real.servers import CHAT_MODEL, chat_server, embeddings_server

_SETTINGS = {"retrieval_model": CHAT_MODEL}


@pytest.fixture(scope="session")
def chat_url(tmp_path_factory) -> Iterator[str]:
    with chat_server(tmp_path_factory.mktemp("chat") / "log") as url:
        yield url


@pytest.fixture(scope="session")
def embeddings_url(tmp_path_factory) -> Iterator[str]:
    with embeddings_server(tmp_path_factory.mktemp("embeddings") / "log") as url:
        yield url


@pytest.fixture(scope="session", params=["words", "vectors"])
def auto(request, tmp_path_factory, chat_url) -> Iterator[RealScene]:
    """As forged comes, with a chat model; by the lexical index alone, and with a server's embeddings."""
    with real_scene(tmp_path_factory.mktemp("home"), chat_url, _embedding(request), **_SETTINGS) as scene:
        yield scene


@pytest.fixture(scope="session", params=["words", "vectors"])
def hyde(request, tmp_path_factory, chat_url) -> Iterator[RealScene]:
    """ADR-0047 to the letter: explicit hyde."""
    settings = {**_SETTINGS, "retrieval_strategy": "hyde"}
    with real_scene(tmp_path_factory.mktemp("home"), chat_url, _embedding(request), **settings) as scene:
        yield scene


def _embedding(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("embeddings_url") if request.param == "vectors" else ""
