"""Egress of a real daemon: a provider logs every byte, and checks which texts never arrive."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.memories import memory, put
from tests.data.secrets import planted
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Scene, Shell, capturing, staged
from tests.support.provider import Answer, proposal, reply
from tests.support.provider.server import well_behaved

pytestmark = pytest.mark.long

PAUSED = "paused; `forgectl resume` ends it"
EVERYWHERE = "paused everywhere; `forgectl resume --all` ends it"
HIDDEN = "the board meets in Lisbon"
# One of each shape.
SECRETS = tuple({case.shape: case for case in planted()}.values())


@pytest.fixture
def scene(home):
    with staged(home) as scene:
        yield scene


def said_to(scene: Scene) -> str:
    """All that the provider was told, as text and as the bytes that came."""
    bodies = [request.body.decode() for request in scene.provider.requests()]
    return "\n".join([*bodies, *(text for body in bodies for text in texts_of(json.loads(body)))])


def texts_of(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    else:
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from texts_of(inner)


def paused(scene: Scene, repo: Path) -> None:
    assert scene.client.pause(str(repo)).paused == (str(repo),)
    scene.provider.received.clear()


# --- pause ---------------------------------------------------------------------------------------------


def test_search_and_why_while_paused_answer_by_words_with_the_reason_and_send_nothing(scene, repo):
    kept = scene.client.remember(str(repo), "The harbour opens at noon.").memory_id
    scene.load(repo)
    paused(scene, repo)

    found = scene.client.search(str(repo), "harbour noon")
    reported = scene.client.why(str(repo), query="harbour noon")

    for answer in (found, reported):
        assert (answer.status, answer.reason, answer.indexes) == ("ok", PAUSED, ("lexical",))
        assert [hit.id for hit in answer.memories] == [kept]
    assert scene.ask(repo, "harbour").status == "disabled"
    assert scene.provider.requests() == []


def test_what_is_remembered_while_paused_is_on_disk_and_found_and_leaves_only_after_resume(scene, repo):
    scene.load(repo)
    paused(scene, repo)

    written = scene.client.remember(str(repo), "The harbour opens at noon.")
    eventually(lambda: scene.report(repo).state == "held")
    found = scene.client.search(str(repo), "harbour noon", min_generation=written.generation)

    assert (written.status, Path(written.path).exists()) == ("ok", True)
    assert ([hit.id for hit in found.memories], found.reason) == ([written.memory_id], PAUSED)
    assert scene.client.rebuild(str(repo), wait=True).reason == PAUSED
    assert scene.provider.requests() == []

    scene.client.pause(str(repo), paused=False)
    eventually(lambda: scene.report(repo).indexes == ("lexical", "dense"))
    assert "The harbour opens at noon." in scene.embedded
    assert (scene.report(repo).state, scene.client.search(str(repo), "harbour").reason) == ("ready", "")


def test_a_repository_that_is_paused_keeps_no_other_from_its_vectors(scene, repo):
    other = repo.parent / "other"
    (other / ".git").mkdir(parents=True)
    scene.load(repo)
    paused(scene, repo)
    scene.client.remember(str(repo), "The harbour opens at noon.")

    scene.client.remember(str(other), "Boats are red.")
    scene.load(other)

    assert scene.report(other).indexes == ("lexical", "dense")
    assert scene.client.search(str(repo), "harbour").reason == PAUSED
    assert "Boats are red." in scene.embedded
    assert "harbour" not in said_to(scene)


def test_a_daemon_that_starts_paused_reads_its_state_before_the_first_text_leaves(home, repo):
    put(home, memory("m1", "The harbour opens at noon."))
    with staged(home) as scene:
        scene.load(repo)
        scene.client.pause(everywhere=True)
        scene.daemon.stop()
        scene.provider.received.clear()

        scene.daemon.start()
        eventually(lambda: scene.report(home).state == "held")
        scene.client.search(str(repo), "harbour")
        assert scene.provider.requests() == []

        assert Shell(home, scene.daemon.socket, repo).run("resume", "--all").code == 0
        eventually(lambda: scene.report(home).indexes == ("lexical", "dense"))
        assert scene.embedded.count("The harbour opens at noon.") == 1


def test_a_pause_in_the_middle_of_a_build_lets_no_further_request_go(scene, repo):
    home, gate = scene.daemon.home, threading.Event()
    scene.load(home)
    put(home, *(memory(f"m{n:04}", f"Memory number {n}. " + "word " * 1500) for n in range(60)))
    scene.provider.received.clear()

    def held(provider, request):
        gate.wait(PATIENCE_S)
        return well_behaved(provider, request)

    scene.provider.embeddings = held
    scene.client.rebuild(str(home))
    scene.provider.wait_for(1)
    scene.client.pause(everywhere=True)
    gate.set()
    eventually(lambda: scene.report(home).state == "held")

    assert scene.client.search(str(repo), "memory number").reason == EVERYWHERE
    assert len(scene.provider.requests()) == 1


# --- what is cut ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["direct", "hyde"])
def test_no_secret_and_no_private_span_reaches_a_server_from_a_file_a_query_or_a_hypothesis(
    home, repo, strategy
):
    put(home, *(memory(f"m{n:03}", f"On the {n}th: {case.text}") for n, case in enumerate(SECRETS)))
    put(home, memory("private", f"Known to all. <private>{HIDDEN}</private> And this too."))
    put(home, memory("open", f"Open to the end <private>{HIDDEN}"))
    model = {"retrieval_model": "m"} if strategy == "hyde" else {}
    with staged(home, retrieval_strategy=strategy, **model) as scene:
        scene.load(repo)
        for case in SECRETS:
            scene.ask(repo, f"What of {case.text}")
            scene.client.search(str(repo), case.text)
            scene.client.why(str(repo), query=case.text)
            scene.ask(repo, "and now", hypotheses=(f"It is {case.text}",))
        for text in (f"<private>{HIDDEN}</private>", f"where <private>{HIDDEN}"):
            scene.ask(repo, text)
            scene.client.search(str(repo), text)
            scene.ask(repo, "and now", hypotheses=(text,))
        sent = said_to(scene)

    assert "And this too." in sent
    assert "[redacted]" in sent
    assert HIDDEN not in sent
    assert [case.secret for case in SECRETS if case.secret in sent] == []


# --- the record ----------------------------------------------------------------------------------------


def reported(scene: Scene) -> dict[str, tuple[int, int, int, int]]:
    """Calls, failed ones, texts and characters by purpose, over all days and this one host."""
    found: dict[str, tuple[int, int, int, int]] = {}
    for day in scene.client.egress(days=90).days:
        assert day.host == scene.provider.base_url.split("/")[2]
        counts = (day.calls, day.failed, day.texts, day.characters)
        found[day.purpose] = tuple(map(sum, zip(found.get(day.purpose, (0,) * 4), counts, strict=True)))
    return found


def in_log(scene: Scene) -> tuple[int, int, int]:
    """The same by the provider's own log: requests, texts, characters."""
    texts: list[str] = []
    for request in scene.provider.requests():
        said = request.json
        texts += said["input"] if "input" in said else [each["content"] for each in said["messages"]]
    return len(scene.provider.requests()), len(texts), sum(map(len, texts))


def test_the_record_agrees_with_the_providers_own_log_to_the_call(home, repo):
    """Builds, the gate, queries, hypotheses, captures; retries, refusals, hang-ups and silence; a restart."""
    with capturing(
        home,
        embedding_model="m",
        retrieval_model="h",
        classifier_model="c",
        retrieval_min_score=0.9,
    ) as stage:
        put(home, *(memory(f"m{n:03}", f"Memory number {n} of the harbour.") for n in range(150)))
        stage.load(home)
        stage.ask(repo, "When does the harbour open?")
        stage.client.search(str(repo), "harbour")
        assert len(stage.client.try_endpoints(timeout_s=PATIENCE_S).trials) == 3
        stage.provider.embeddings = [Answer(status=500)]
        stage.ask(repo, "and when does it close?")
        stage.provider.embeddings = [Answer(ending="reset")]
        stage.client.search(str(repo), "harbour")
        stage.provider.chat = [Answer(status=503), reply(proposal("We sail on Fridays."))]
        stage.captured(repo, "We sail on Fridays.")
        stage.provider.chat = [Answer(json={"odd": 1})]
        stage.ask(repo, "and on Sundays?")
        stage.provider.chat = [Answer(hold=threading.Event())]
        stage.ask(repo, "and who waits for nothing?", timeout_s=0.3)
        eventually(lambda: sum(each[0] for each in reported(stage).values()) == in_log(stage)[0])
        before = reported(stage)
        calls, texts, characters = in_log(stage)

        assert set(before) >= {"build", "gate", "identity", "query", "hyde", "capture", "doctor"}
        assert sum(each[0] for each in before.values()) == calls
        assert sum(each[2] for each in before.values()) == texts
        assert sum(each[3] for each in before.values()) == characters
        assert sum(each[1] for each in before.values()) >= 3

        stage.daemon.stop()
        stage.daemon.start()
        stage.client.search(str(repo), "harbour")
        eventually(lambda: stage.report(home).state == "ready")
        eventually(
            lambda: sum(each[0] for each in reported(stage).values()) == len(stage.provider.requests())
        )
        assert reported(stage)["capture"] == before["capture"]


def test_what_left_is_printed_without_any_text(scene, repo):
    scene.client.remember(str(repo), "The harbour opens at noon.")
    scene.load(repo)
    scene.client.search(str(repo), "walrus")
    shell = Shell(scene.daemon.home, scene.daemon.socket, repo)

    shown, parsed = shell.run("usage", "--days", "1"), shell.run("usage", "--json").json

    title, head, *lines = shown.out.partition("\n\n")[0].splitlines()
    assert title == "What left the machine"
    assert head.split() == ["day", "host", "purpose", "calls", "failed", "texts", "characters"]
    assert {line.split()[2] for line in lines} >= {"build", "query", "identity"}
    assert {day["purpose"] for day in parsed["egress"]} >= {"build", "query"}
    assert "harbour" not in shown.out
    assert "walrus" not in shown.out


def test_embeddings_stand_in_the_accounts_and_the_daily_limit_holds_for_them(home, repo):
    with staged(home, daily_token_limit=4000) as scene:
        scene.client.remember(str(repo), "The harbour opens at noon.")
        scene.load(repo)
        scene.client.search(str(repo), "harbour")
        costs = {day.purpose: day for day in scene.client.cost().days}
        assert costs["query"].prompt_tokens > 0
        assert costs["query"].calls == reported(scene)["query"][0]
        assert (costs["build"].calls, costs["build"].prompt_tokens > 0) == (reported(scene)["build"][0], True)

        put(home, *(memory(f"m{n:03}", f"Memory {n}. " + "word " * 400) for n in range(100)))
        scene.client.rebuild(str(home), wait=True)
        assert "daily_token_limit" in scene.report(home).last_error
        assert scene.client.cost().tokens_today <= 4000
