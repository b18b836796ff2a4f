"""Sessions at a real daemon: each memory comes once, in the order of the turns, or again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from forged_client import Client
from tests.data.memories import memory, put
from tests.support.clock import PATIENCE_S, eventually
from tests.support.daemon import Shell, ids, running

_TAIL = re.compile(r"(?:\d+ left out\n)?</forged-memories [0-9a-f]{8}>\n\Z")
_NOTHING_PINNED = '[memory]\nembedding_model = "builtin:lexical"\npinned_token_budget = 0\n'
WALRUS, TUSKS, ICE = "What does the walrus eat?", "How long do tusks grow?", "Where does it sleep on the ice?"


@pytest.fixture
def client(daemon, repo) -> Iterator[Client]:
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    with daemon.client() as client:
        assert client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S).status == "ok"
        yield client


def ask(client: Client, repo, text: str, turn: str = "", **fields):
    said = [{"role": "user", "content": text}]
    reported = {"session_id": "s", "turn_id": turn or text, **fields}
    return client.retrieve(str(repo), said, **reported)


def before_tail(text: str) -> str:
    return text[: _TAIL.search(text).start()]


def test_a_small_store_comes_whole_with_the_first_turn_that_says_something_and_never_again(client, repo):
    quiet = ask(client, repo, "ok", mode="append")
    first = ask(client, repo, WALRUS, mode="append")
    again = ask(client, repo, WALRUS, mode="append")
    second = ask(client, repo, TUSKS, mode="append")

    assert (quiet.status, quiet.text, quiet.memories) == ("empty", "", ())
    assert (sorted(ids(first)), {hit.found.found_by for hit in first.memories}) == (["m0", "m1"], {"pinned"})
    assert (again.text, again.memories, again.cached) == (first.text, first.memories, True)
    assert (second.status, second.text, second.memories) == ("empty", "", ())


def test_a_block_goes_on_from_the_one_before_with_a_correction_at_its_end(client, repo):
    first = ask(client, repo, WALRUS)
    newer = client.remember(str(repo), "The walrus eats squid.", supersedes="m0")
    second = ask(client, repo, TUSKS, min_generation=newer.generation)
    put(repo, memory("m2", "It sleeps on the ice."))
    client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
    third = ask(client, repo, ICE)
    for earlier, later in ((first, second), (second, third)):
        assert later.text.startswith(before_tail(earlier.text))
    assert "replaces m0] The walrus eats squid.\n" in second.text
    assert (first.already_injected, second.already_injected, third.already_injected) == (0, 2, 3)
    assert "It sleeps on the ice." in third.text.removeprefix(before_tail(second.text))
    assert ask(client, repo, ICE).text == third.text


@pytest.mark.parametrize("mode", ["block", "append"])
def test_the_same_turn_has_the_same_bytes_whatever_is_corrected_meanwhile(client, repo, mode):
    first = ask(client, repo, WALRUS, mode=mode)
    client.remember(str(repo), "The walrus eats squid.", supersedes="m0")
    client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
    again = [ask(client, repo, WALRUS, mode=mode, token_budget=budget).text for budget in (None, 0, None)]
    following = ask(client, repo, TUSKS, mode=mode)

    assert again[::2] == [first.text, first.text]
    assert "replaces m0] The walrus eats squid.\n" in following.text


@pytest.mark.parametrize("kind", ["compaction", "session_end"])
def test_what_was_compacted_away_comes_again(client, repo, kind):
    first = ask(client, repo, WALRUS, mode="append")
    assert ask(client, repo, TUSKS, mode="append").text == ""

    client.capture(str(repo), [{"role": "user", "content": WALRUS}], "s", kind=kind)

    assert ids(ask(client, repo, ICE, mode="append")) == ids(first)


def test_what_a_turn_left_out_as_injected_is_found_when_it_was_compacted_away_within_the_turn(home, repo):
    put(repo, memory("m0", "The walrus eats clams."))
    put(repo, *(memory(f"n{number}", f"Lamp number {number} is dimmed at night.") for number in range(9)))
    with running(home, config=_NOTHING_PINNED) as daemon, daemon.client() as client:
        client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
        first = ask(client, repo, WALRUS, "1", mode="append")
        left_out = ask(client, repo, "And the walrus, what else does it eat?", "2", mode="append")
        client.capture(str(repo), [{"role": "user", "content": WALRUS}], "s", kind="compaction")
        again = ask(client, repo, "And the walrus, what else does it eat?", "2", mode="append")

    assert (ids(first), ids(left_out), ids(again)) == (["m0"], [], ["m0"])


def test_a_summary_that_moved_ends_what_was_injected(client, repo):
    said = [{"role": "user", "content": text} for text in (WALRUS, TUSKS)]
    first = client.retrieve(str(repo), said, session_id="s", turn_id="1", mode="append")
    moved = client.retrieve(str(repo), said, session_id="s", turn_id="2", mode="append", last_summary_index=1)
    after = client.retrieve(str(repo), said, session_id="s", turn_id="3", mode="append", last_summary_index=1)

    assert (ids(moved), after.text) == (ids(first), "")


def test_each_agent_and_each_session_hears_for_itself_and_plain_marks_nothing(client, repo):
    plain = ask(client, repo, WALRUS, mode="plain")
    no_one = ask(client, repo, WALRUS, session_id="")
    first = ask(client, repo, WALRUS, mode="append", agent="one")

    assert plain.text == no_one.text
    assert "\n[m0 pattern] " in plain.text
    for fields in ({"agent": "two"}, {"session_id": "other"}):
        assert ids(ask(client, repo, TUSKS, mode="append", **fields)) == ids(first)
    assert ask(client, repo, TUSKS, mode="append", agent="one").text == ""


def test_a_person_who_looks_marks_nothing(daemon, client, repo):
    shell = Shell(daemon.home, daemon.socket, repo)
    looked = shell.run("retrieve", WALRUS, "--session", "s")
    client.why(str(repo), query=WALRUS)
    client.search(str(repo), WALRUS)

    assert "The walrus eats clams." in looked.out
    assert sorted(ids(ask(client, repo, WALRUS, mode="append"))) == ["m0", "m1"]


def test_a_forgotten_memory_leaves_the_block(client, repo):
    first = ask(client, repo, WALRUS)
    client.forget(str(repo), "m0")
    again, next_turn = ask(client, repo, WALRUS), ask(client, repo, TUSKS)

    assert "clams" in first.text
    assert ("clams" in again.text, "clams" in next_turn.text) == (False, False)


def test_why_shows_what_is_pinned_and_what_was_injected(client, repo):
    ask(client, repo, WALRUS)
    ask(client, repo, TUSKS)
    reported = client.why(str(repo), session_id="s")

    assert {hit.found.found_by for hit in reported.memories} == {"injected"}
    assert reported.included == 2


@pytest.mark.parametrize("mode", ["append", "block"])
def test_two_turns_of_a_session_at_once_have_each_memory_once_and_their_own(daemon, client, repo, mode):
    """Of several processes of one agent, each with a connection of its own, and two in the same turn."""
    put(repo, *(memory(f"n{number}", f"The zebra{number} eats grass. {'x' * 400}") for number in range(8)))
    client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
    texts = [f"What does the zebra{number // 2} eat?" for number in range(16)]

    def call(text: str):
        with daemon.client() as own:
            return ask(own, repo, text, mode=mode)

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(call, texts))
    new = [{hit.id for hit in reply.memories[reply.already_injected :]} for reply in replies]
    of_turn = [first | again for first, again in zip(new[::2], new[1::2], strict=True)]

    assert {f"n{number}" for number in range(8)} <= set().union(*of_turn)
    assert sum(map(len, of_turn)) == len(set().union(*of_turn))  # no memory comes with two turns
    if mode == "block":
        assert all(f"n{number // 2}" in ids(reply) for number, reply in enumerate(replies))


def test_a_daemon_that_is_killed_has_a_list_that_is_whole(home, repo):
    """As it was written last: what came since comes again, and no turn fails."""
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    with running(home) as daemon, daemon.client() as client:
        client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
        first = ask(client, repo, WALRUS, mode="append")
        daemon.kill()
        daemon.start()
        again = ask(client, repo, TUSKS, mode="append")
        third = ask(client, repo, ICE, mode="append")

        assert sorted(ids(first)) == ["m0", "m1"]
        assert sorted({*ids(again), *ids(third)}) in ([], ["m0", "m1"])
        assert ask(client, repo, WALRUS, mode="append", turn="later").text == ""


def test_what_was_injected_outlives_the_daemon(home, repo):
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    with running(home) as daemon, daemon.client() as client:
        client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
        appended = ask(client, repo, WALRUS, mode="append", agent="a")
        block = ask(client, repo, WALRUS, agent="b")
    with running(home) as daemon, daemon.client() as client:
        client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
        assert appended.text
        assert ask(client, repo, TUSKS, mode="append", agent="a").text == ""
        assert ask(client, repo, TUSKS, agent="b").text == block.text


def test_the_next_reply_says_once_what_was_kept_and_how_to_take_it_back(client, repo):
    client.capture(
        str(repo), [{"role": "user", "content": "Remember that the tests run with pytest -q."}], "s"
    )

    def reported() -> tuple[str, ...]:
        return ask(client, repo, WALRUS, mode="append").captured

    (sentence,) = eventually(reported)
    assert "he tests run with pytest -q" in sentence
    taken = re.search(r"undo: `forgectl forget (mem_[\w-]+)`", sentence)
    assert taken is not None
    assert reported() == ()
    assert ask(client, repo, WALRUS, mode="append", session_id="other").captured == ()
    assert client.forget(str(repo), taken[1]).status == "ok"
