"""Learning from past sessions, end to end: forgectl, a real daemon, and a model that is scripted.

The history is that of five agents, as their harnesses write it. Whatever is killed on the way, the same is
proposed in the end; nothing is written before a person says so, and no output of a tool leaves for a model.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from pathlib import Path

import pytest

from forged.memory import utc
from tests.support.clock import PATIENCE_S
from tests.support.daemon import Shell, Stage, capturing, on_disk, stored
from tests.support.history import LEAK, rule, written
from tests.support.provider import CHAT, proposal, reply

pytestmark = pytest.mark.long

COUNT = 50
# A month ago, to the second: by itself it looks three back.
BEGAN = time.time() // 1 - 30 * 24 * 3600
_RULE = re.compile(r"We always [^.]+\.")


def _propose(_: object, request):
    """The classifier: every rule that stands in the conversation it is shown."""
    said = request.json["messages"][-1]["content"]
    return reply(*(proposal(text) for text in dict.fromkeys(_RULE.findall(said))))


@contextlib.contextmanager
def learning(home: Path, count: int = COUNT, **settings: object):
    """A stage whose HOME has a history in two repositories and a folder that is gone; a shell in one."""
    home.mkdir(mode=0o700, exist_ok=True)
    tops = [home / "a", home / "b"]
    for top in tops:
        (top / ".git").mkdir(parents=True)
    written(home, [*tops, home / "gone"], count, began=BEGAN)
    with capturing(home, **{"classifier_model": "m", **settings}) as stage:
        stage.provider.chat = _propose
        yield stage, Shell(home, stage.daemon.socket, tops[0])


def _proposed(stage: Stage, top: Path) -> list[tuple[str, str, str, str]]:
    """What waits there, but for its ids."""
    waiting = stage.client.review(str(top)).waiting
    return sorted((each.content, each.created_at, each.session_id, each.agent) for each in waiting)


def _files(home: Path) -> list[Path]:
    """Memory files of any root."""
    return [path for path in home.rglob("*.md") if ".forge" in path.parts]


@pytest.fixture
def small(home):
    """Six sessions; the fifth repository is gone in two of them."""
    with learning(home, 6) as found:
        yield found


@pytest.mark.long
def test_what_is_killed_in_the_middle_comes_to_the_same_as_what_is_not(tmp_path):
    with learning(tmp_path / "whole") as (stage, shell):
        assert shell.run("learn", "--yes").code == 0
        expected = [_proposed(stage, tmp_path / "whole" / name) for name in "ab"]
        assert len(stage.chats) == COUNT
    with learning(tmp_path / "killed") as (stage, shell):
        for at in (7, 21):
            ctl = shell.start("learn", "--yes")
            stage.provider.wait_for(at, path=CHAT)
            ctl.kill()
            ctl.communicate()
            stage.daemon.kill()
            stage.daemon.start()
        done = shell.run("learn", "--yes", "--json")
        assert done.code == 0, done.err
        found = [_proposed(stage, tmp_path / "killed" / name) for name in "ab"]
        prompts = [request.body.decode() for request in stage.provider.received]

        assert found == expected
        assert sum(map(len, expected)) == sum(number % 3 < 2 for number in range(COUNT))
        assert {text for each in found for text, *_ in each} == {
            rule(number) for number in range(COUNT) if number % 3 < 2
        }
        assert all(LEAK not in prompt for prompt in prompts)
        assert _files(tmp_path / "killed") == []
        # What was in hand when it was killed is asked about once more.
        assert COUNT <= len(stage.chats) <= COUNT + 4


OLDER, NEWER = "Always indent Go files with tabs.", "Always indent Go files with four spaces."


@pytest.mark.parametrize(
    ("agent", "first"), [("claude", OLDER), pytest.param("qwen", NEWER, marks=pytest.mark.long)]
)
def test_of_two_words_about_one_thing_the_newer_waits_alone_whichever_is_read_first(home, agent, first):
    """By the built-in rules: it takes the place of the older one, which is no news once the newer waits."""
    with learning(home, 4, classifier_model="builtin:rules") as (stage, shell):
        for number, folder, text in ((0, ".claude", OLDER), (3, ".qwen", NEWER)):
            (path,) = (home / folder).rglob(f"*-{number}.jsonl")
            path.write_text(path.read_text().replace(rule(number), text))
        assert shell.run("learn", "--yes", "--from", agent).code == 0
        assert [each.content for each in stage.client.review(str(shell.directory)).waiting] == [first]
        assert shell.run("learn", "--yes").code == 0
        assert [each.content for each in stage.client.review(str(shell.directory)).waiting] == [NEWER]
        assert stage.chats == []


@pytest.mark.parametrize("dated", [True, False])
def test_what_was_forgotten_is_not_learned_from_a_session_of_before(home, dated):
    """Nor from one of which nobody knows when it was."""
    with learning(home, 4, classifier_model="builtin:rules") as (stage, shell):
        (path,) = (home / ".claude").rglob("*-0.jsonl")
        text = path.read_text().replace(rule(0), OLDER)
        path.write_text(text if dated else re.sub(r'"timestamp": ?"[^"]*"', '"timestamp":""', text))
        top = str(shell.directory)
        kept = stage.client.remember(top, OLDER)
        stage.client.forget(top, kept.memory_id)

        assert shell.run("learn", "--yes", "--from", "claude").code == 0

        assert [each.content for each in stage.client.review(top).waiting] == []


def test_the_second_time_nothing_is_new_and_no_model_is_asked(small):
    stage, shell = small
    assert shell.run("learn", "--yes").code == 0
    asked = len(stage.chats)
    again = shell.run("learn", "--yes")

    assert again.code == 0
    assert "there is nothing new to learn from" in again.out
    assert "6 sessions already used" in again.out
    assert len(stage.chats) == asked == 6


def test_a_dry_run_shows_counts_and_cost_and_does_nothing(small):
    stage, shell = small
    done = shell.run("learn", "--dry-run", "--json")
    reported = shell.run("learn", "--dry-run").out

    assert done.json["sessions"] == {"claude": 2, "codex": 1, "gemini": 1, "qwen": 1, "opencode": 1}
    assert (done.json["messages"], done.json["calls"], done.json["without_workspace"]) == (18, 6, 2)
    assert f"about 6 calls and {done.json['prompt_tokens']:,} prompt tokens of m" in reported
    assert "2 sessions of deleted folders" in reported
    assert stage.chats == []
    stage.capture(shell.directory, "hello")
    stage.settle()
    assert stored(stage.daemon.home / ".local/state/forged", "learned", "to_review", "events") == []


def test_what_is_kept_is_as_old_as_what_was_said_and_names_its_session(small):
    stage, shell = small
    top = shell.directory
    assert shell.run("learn", "--yes").code == 0
    assert on_disk(top) == []
    first, *_ = stage.client.review(str(top)).waiting
    shell.run_as_person("review", "--keep", first.id)
    (kept,) = on_disk(top)

    assert (kept.content, kept.created_at, kept.session_id) == (rule(0), utc(BEGAN), "claude-0")
    assert kept.origin == "typed"
    assert stage.client.search(str(top), "lint tests").memories[0].content == rule(0)


def test_what_was_dropped_is_not_proposed_again_nor_by_the_live_session(small):
    stage, shell = small
    top = shell.directory
    assert shell.run("learn", "--yes").code == 0
    first, *_ = stage.client.review(str(top)).waiting
    assert shell.run("review", "--drop", first.id).code == 0
    asked = len(stage.chats)
    stage.capture(top, first.content, "I look into it.", session="claude-0")
    stage.settle()

    assert len(stage.chats) == asked  # it was judged when it was learned from
    assert on_disk(top) == []


def test_live_turns_go_before_past_sessions(small):
    """The session that the model has in hand is finished; then what was said just now is judged."""
    stage, shell = small
    with stage.hanging():
        ctl = shell.start("learn", "--yes")
        stage.provider.wait_for(1, path=CHAT)
        stage.capture(shell.directory, "We always answer letters.", session="live")
        stage.provider.chat = _propose
    assert ctl.wait(PATIENCE_S) == 0
    ctl.communicate()

    assert "We always answer letters." in stage.prompts[1]


def test_ctrl_c_ends_it_and_says_how_to_go_on(small):
    stage, shell = small
    with stage.hanging(proposal(rule(0))):
        ctl = shell.start("learn", "--yes")
        stage.provider.wait_for(1, path=CHAT)
        ctl.send_signal(signal.SIGINT)
        _, err = ctl.communicate(timeout=PATIENCE_S)
        stage.provider.chat = _propose
    stage.settle()

    assert ctl.returncode == 130
    assert "`forgectl learn` goes on with the rest" in err
    assert shell.run("learn", "--yes").code == 0
    assert len(stage.client.review(str(shell.directory)).waiting) == 2


def test_what_is_beyond_the_limit_of_a_day_is_said_before(home):
    with learning(home, 6, daily_token_limit=2_000) as (stage, shell):
        shown = shell.run("learn", "--dry-run").out

        assert "2,000 tokens are left today of 2,000 (`memory.daily_token_limit`): about 4 days more" in shown
        assert stage.chats == []


def test_it_asks_first_and_a_no_leaves_everything_as_it_is(small):
    stage, shell = small

    def decline(terminal) -> None:
        terminal.wait_for("[y/N]")
        terminal.type("n\n")

    refused = shell.run("learn")
    code, _ = shell.on_terminal("learn", act=decline)

    assert refused.code == 2
    assert "--yes" in refused.err
    assert code == 1
    assert stage.chats == []


def test_all_of_a_repository_is_kept_at_once_and_then_found(small):
    stage, shell = small
    assert shell.run("learn", "--yes").code == 0
    done = shell.run("review", "--keep-all", "--yes")
    elsewhere = shell.run("review", "../b", "--keep-all", "--yes")

    assert (done.code, elsewhere.code) == (0, 0)
    assert sorted(each.content for each in on_disk(shell.directory)) == sorted([rule(0), rule(3)])
    assert sorted(each.content for each in on_disk(shell.directory.parent / "b")) == sorted(
        [rule(1), rule(4)]
    )
    assert stage.client.review(str(shell.directory)).waiting == ()
    assert "nothing new" in shell.run("learn", "--yes").out
