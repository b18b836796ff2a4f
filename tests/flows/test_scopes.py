"""Agents and sessions as programs see them: a real daemon, a restart, and two agents at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support.clock import PATIENCE_S
from tests.support.daemon import running

CONFIG = '[memory]\nembedding_model = "builtin:lexical"\n[scopes]\nretrieve = "session agent"\n'


def said(text):
    return [{"role": "user", "content": text}]


def test_what_an_agent_learned_outlives_the_daemon_and_what_a_session_looked_at_does_not(home, tmp_path):
    workspace = str(tmp_path)
    own = {"scope": "agent", "agent_id": "claude"}
    with running(home, config=CONFIG) as daemon:
        with daemon.client() as client:
            made = client.remember(
                workspace, "The zebra build needs make.", memory_type="learning", metadata={"n": 1}, **own
            )
            client.remember(
                workspace, "We look at the zebra.", scope="session", session_id="s", agent_id="claude"
            )
            client.list(workspace, min_generation=made.generation, **own)
            asked = {"session_id": "s", "turn_id": "t1", "agent": "claude", "mode": "append"}
            found = client.retrieve(workspace, said("Where is the zebra?"), **asked)
            assert {each.scope for each in found.memories} == {"agent", "session"}
            (session, *_) = client.status().scopes
            assert (session.memories, session.engine) == (1, "memory")
        assert daemon.stop() == 0
        daemon.start()
        with daemon.client() as client:
            (known,) = client.list(workspace, **own).memories
            assert (known.memory_type, known.metadata, known.access_count) == ("learning", {"n": 1}, 1)
            assert client.list(workspace, scope="session", session_id="s").memories == ()
            assert client.list(workspace).memories == ()


def test_two_programs_that_answer_as_two_agents_never_see_each_other(home, tmp_path):
    workspace = str(tmp_path)

    def at_work(daemon, agent, other):
        own = {"scope": "agent", "agent_id": agent}
        with daemon.client() as client:
            for number in range(20):
                made = client.remember(workspace, f"Zebra {number} of {agent}.", **own)
                assert made.status == "ok", made
                listed = client.list(workspace, min_generation=made.generation, **own)
                assert listed.total == number + 1
                found = client.retrieve(
                    workspace, said(f"zebra {number}"), session_id="same", turn_id=f"t{number}", agent=agent
                )
                recalled = client.recall("zebra", "same", "", agent, workspace=workspace)
                assert f"of {other}" not in found.text + str(found.memories)
                assert f"of {other}" not in recalled.text + str(recalled.memories)
                assert f"of {agent}" in recalled.text
        return True

    with running(home, config=CONFIG) as daemon, ThreadPoolExecutor(2) as threads:
        works = [
            threads.submit(at_work, daemon, *names) for names in (("claude", "codex"), ("codex", "claude"))
        ]
        assert all(work.result(PATIENCE_S) for work in works)
