"""Results of hooks: memories once, turns with their prompts, and ends of sessions."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from forged.capture import Submission
from forged.capture.intake import Outcome
from forged.config import Config, MemoryConfig
from forged.memory import Trigger
from forged.sessions.messages import BEFORE
from forged.transcripts import read_tail
from forged_client import protocol as wire
from forged_client.envelope import identity_of
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.support.clock import until
from tests.transcripts.homes import FIXTURES, PLACES, folder_of, lay

WALRUS, TUSKS, ICE = "What does the walrus eat?", "How long do tusks grow?", "Where does it sleep on the ice?"
NAMES = {
    "claude": ("UserPromptSubmit", "Stop", "last_assistant_message"),
    "gemini": ("BeforeAgent", "AfterAgent", "prompt_response"),
}


class Session:
    """One session of one agent; its hooks are answered wholly and in time."""

    def __init__(
        self, parts: Parts, repo: Path, name: str = "claude", session: str = "s", *, headless: bool = False
    ) -> None:
        self.parts = parts
        self._headless = headless
        self._name = name
        self._base = {"session_id": session, "cwd": str(repo)}
        self._prompt, self._stop, self._reply = NAMES.get(name, NAMES["claude"])

    async def hears(self, event: str, *, whole: bool = True, version: str = "", **fields: object) -> dict:
        """What a hook answers, as the harness reads it."""
        await self.parts.trusts(self._base["cwd"])
        data = json.dumps({**self._base, "hook_event_name": event, **fields}).encode()
        where = str({**self._base, **fields}["cwd"])
        self.request = wire.Hook(
            id=3,
            harness=self._name,
            payload=data,
            within_ms=5_000,
            version=version,
            headless=self._headless,
            seen={
                path: identity_of(path) for path in (where, str(fields.get("transcript_path", ""))) if path
            },
        )
        self.reply = await self.parts.ask(self.request)
        self.parts.handlers.sent(self.request, whole=whole)
        return json.loads(self.reply.output) if self.reply.output else {}

    async def asks(self, text: str, turn: str | None = None, **fields: object) -> str:
        """What is injected for a prompt; a `turn` of None is one without a name."""
        named = {} if turn is None else {"prompt_id": turn}
        answer = await self.hears(self._prompt, prompt=text, **named, **fields)
        return text_of(answer)

    async def ends(self, reply: str, turn: str | None = None, **fields: object) -> None:
        named = {} if turn is None else {"prompt_id": turn}
        assert await self.hears(self._stop, **{self._reply: reply}, **named, **fields) == {}


def text_of(answer: dict) -> str:
    return answer.get("hookSpecificOutput", {}).get("additionalContext", "")


class Ear:
    """In the place of capture: keeps what is handed over, and says yes."""

    def __init__(self, parts: Parts) -> None:
        self.heard: list[Submission] = []
        self.word = Outcome("accepted")
        self.meanwhile = None
        parts.capture.submit = self._hear

    async def _hear(self, spoken: Submission) -> Outcome:
        self.heard.append(spoken)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return self.word

    @property
    def windows(self) -> list[list[str]]:
        return [[each.text for each in spoken.messages] for spoken in self.heard]

    @property
    def kinds(self) -> list[str]:
        return [spoken.kind for spoken in self.heard]


@pytest.fixture
def store(repo: Path) -> Path:
    put(repo, memory("m0", "The walrus eats clams."), memory("m1", "Tusks grow for life."))
    return repo


def quiet(**memory_keys: object) -> Config:
    """Nothing stands with a session, so that what is found shows."""
    return Config(
        memory=MemoryConfig(embedding_model="builtin:lexical", pinned_token_budget=0, **memory_keys)
    )


# --- prompts --------------------------------------------------------------------------------------------


async def test_an_incomplete_injection_does_not_count_as_injected(home, store):
    async with assembled(home) as parts:
        claude = Session(parts, store)

        lost = await claude.hears("UserPromptSubmit", prompt=WALRUS, prompt_id="1", whole=False)
        assert "clams" in text_of(lost)
        assert "clams" in await claude.asks(WALRUS, "2")


async def test_a_prompt_is_understood_by_what_was_said_before_it(home, store):
    async with assembled(home, config=quiet()) as parts:
        claude = Session(parts, store)
        asked = []
        find = parts.retriever.retrieve

        async def listening(ask, *rest):
            asked.append(ask)
            return await find(ask, *rest)

        parts.retriever.retrieve = listening
        await claude.asks("Shall we feed the walrus clams?", "1")
        await claude.ends("I would.", "1")
        await claude.asks("yes, do that", "2")

        assert [each.text for each in asked[-1].window] == [
            "Shall we feed the walrus clams?",
            "I would.",
            "yes, do that",
        ]


async def test_a_block_is_never_longer_than_the_harness_takes(home, repo):
    put(repo, *(memory(f"m{n}", f"The walrus number {n} " + "eats clams. " * 160) for n in range(40)))
    async with assembled(home, config=Config(memory=MemoryConfig(injection_token_budget=0))) as parts:
        text = await Session(parts, repo).asks(WALRUS, "1")

        assert 2_000 < len(text) <= 10_000
        assert text.rstrip().endswith(">")


async def test_another_version_of_the_daemon_is_reported_once(home, store):
    async with assembled(home) as parts:
        claude = Session(parts, store)
        first = await claude.hears("UserPromptSubmit", prompt=WALRUS, prompt_id="1", version="0.0.9")
        second = await claude.hears("UserPromptSubmit", prompt=TUSKS, prompt_id="2", version="0.0.9")

        assert "`forgectl restart`" in first["systemMessage"]
        assert second == {}


# --- turns ----------------------------------------------------------------------------------------------


async def test_an_end_that_goes_on_adds_what_is_new(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Always deploy on Fridays.", "1")
        await claude.ends("Understood.", "1")
        await claude.ends("And noted.", "1")

        assert ear.windows[-1] == ["Always deploy on Fridays.", "Understood.", "And noted."]


@pytest.mark.parametrize("turn", ["2", "of-yesterday"])
async def test_a_turn_with_an_unknown_prompt_is_counted_and_not_captured(home, repo, turn):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.ends("Understood.", turn)
        await claude.asks("Always deploy on Fridays.", "1")
        await claude.ends("Something else.", turn)

        assert ear.heard == []
        assert [day.unknown for _, _, day in parts.state.agents.newest_days()] == [2]


@pytest.mark.parametrize("agent", ["claude", "codex", "qwen"])
async def test_a_prompt_from_before_the_daemon_began_is_what_the_harness_wrote_down(home, repo, agent):
    (fixture,) = (path for path in FIXTURES if path.parent.name == agent)
    path = lay(agent, fixture, home)
    written = read_tail(str(path), agent, 1 << 20, home=str(folder_of(agent, home)))
    prompt = [each.text for each in written.messages if each.role == "user"][-1]
    async with assembled(home) as parts:
        ear = Ear(parts)
        session = Session(parts, repo, agent, written.session_id)
        for reply in ("Something new.", "Something new."):
            await session.ends(reply, "7", transcript_path=str(path))

        (window,) = ear.windows
        assert (window[0], window[-1]) == (prompt, "Something new.")
        assert len([each for each in ear.heard[0].messages if each.role == "user"]) == 1


@pytest.mark.parametrize("broken", ["another session", "outside", "gone"])
async def test_what_another_session_wrote_or_what_lies_elsewhere_is_not_read(home, repo, broken, tmp_path):
    (fixture,) = (path for path in FIXTURES if path.parent.name == "claude")
    path = lay("claude", fixture, home if broken != "outside" else tmp_path)
    session_id = "198d2d39-34d4-4f67-a97c-c27f22255fff" if broken != "another session" else "s"
    assert "198d2d39-34d4-4f67-a97c-c27f22255fff" in fixture.read_text()
    if broken == "gone":
        path.unlink()
    async with assembled(home) as parts:
        ear = Ear(parts)
        await Session(parts, repo, session=session_id).ends("Done.", "7", transcript_path=str(path))

        assert ear.heard == []
        assert [day.unknown for _, _, day in parts.state.agents.newest_days()] == [1]


async def test_a_harness_without_names_of_turns_is_known_by_what_is_said(home, repo):
    async with assembled(home) as parts:
        ear, qwen = Ear(parts), Session(parts, repo, "qwen")
        for _ in range(2):
            await qwen.asks("Always deploy on Fridays.")
            await qwen.ends("Understood.", stop_hook_active=True)
            await qwen.ends("Understood.", stop_hook_active=True)
        await qwen.ends("Of a prompt that was lost.")

        turn = ["Always deploy on Fridays.", "Understood."]
        assert ear.windows == [turn, turn * 2]


async def test_an_end_that_says_its_prompt_needs_no_other_hook(home, repo):
    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, repo, "gemini")
        await gemini.ends("Understood.", prompt="Always deploy on Fridays.")
        await gemini.asks("And on Mondays?")
        await gemini.ends("Never.", prompt="And on Mondays?")

        assert ear.windows[0] == ["Always deploy on Fridays.", "Understood."]
        assert ear.windows[1][2:] == ["And on Mondays?", "Never."]


async def test_what_is_said_while_a_turn_is_taken_is_not_thought_taken(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Always deploy on Fridays.", "1")
        ear.meanwhile = lambda: claude.asks("And test before.", "2")
        await claude.ends("Understood.", "1")
        await claude.hears("SessionEnd", reason="exit")

        assert "And test before." in ear.windows[-1]
        assert ear.kinds == ["turn", "session_end"]


async def test_of_a_long_session_a_turn_brings_what_is_new_and_little_before_it(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        for at in range(30):
            await claude.asks(f"Rule {at}.", str(at))
            await claude.ends(f"Noted {at}.", str(at))
        await claude.hears("PreCompact", trigger="auto")

        assert ear.windows[-2][-2:] == ["Rule 29.", "Noted 29."]
        assert len(ear.windows[-2]) == 2 + BEFORE
        assert len(ear.windows[-1]) == 60


async def test_what_capture_refuses_goes_with_the_next_turn(home, repo, caplog):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        ear.word = Outcome("rejected", "spool_full: many")
        await claude.asks("Always deploy on Fridays.", "1")
        await claude.ends("Understood.", "1")
        ear.word = Outcome("accepted")
        await claude.ends("Understood.", "1")
        await claude.ends("Understood.", "1")

        assert ear.windows == [["Always deploy on Fridays.", "Understood."]] * 2
        assert caplog.text.count("hook failed agent=claude event=Stop error=spool_full: many") == 1
        assert [day.last_failure for _, _, day in parts.state.agents.newest_days()] == [
            "Stop: spool_full: many"
        ]


async def test_a_turn_belongs_where_its_prompt_was_sent(home, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Always deploy on Fridays.", "1")
        await claude.ends("Understood.", "1", cwd=str(other))

        assert str(repo / ".forge/memory").startswith(ear.heard[0].roots[0].top) or ear.heard[0].roots
        tops = {root.top for root in ear.heard[0].roots}
        assert not any(top.startswith(str(other)) for top in tops)


# --- what must not be remembered ----------------------------------------------------------------------


async def test_what_is_private_is_in_no_request_and_in_nothing_that_is_held(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Deploy on Fridays. <private>The code is 7391.", "1")
        await claude.ends("The code 7391 is noted.", "1")
        await claude.asks("7391 it is. </private> Thanks for the train.", "2")
        await claude.ends("Gladly.", "2")

        assert "7391" not in str(ear.windows)
        assert "7391" not in str([each for held in parts.daemon.sessions.buffer for each in held.messages])
        assert [text.strip() for text in ear.windows[-1]] == [
            *("Deploy on Fridays.", "Thanks for the train.", "Gladly.")
        ]


@pytest.mark.parametrize("meanwhile", ["forget", "pause"])
async def test_a_private_span_outlives_what_is_dropped_of_its_session(home, store, meanwhile):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks("From here on <private> it is", "1")
        if meanwhile == "forget":
            await parts.ask(wire.Forget(workspace=str(store), memory_id="m0"))
        else:
            await parts.ask(wire.Pause(workspace=str(store)))
            await claude.asks("between you", "2")
            await parts.ask(wire.Pause(workspace=str(store), paused=False))
        await claude.asks("and me.", "3")
        await claude.ends("You and me.", "3")

        assert not any("me." in text for texts in ear.windows for text in texts)


async def test_a_prompt_that_is_private_as_a_whole_is_answered_with_nothing(home, store):
    async with assembled(home) as parts:
        claude = Session(parts, store)
        first = await claude.asks(WALRUS, "1")
        private = await claude.asks(f"<private>{TUSKS}</private>", "2")

        assert (bool(first), private) == (True, "")


async def test_what_is_private_stays_so_when_an_end_says_its_prompt_again(home, repo):
    first, second = "Deploy on Fridays. <private>The code is", "7391, really. </private> Thanks."
    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, repo, "gemini")
        for prompt in (first, second):
            await gemini.asks(prompt)
            await gemini.ends("Noted: 7391.", prompt=prompt)
        await gemini.asks("<private>And 7391 again.</private>")
        await gemini.ends("7391 it is.", prompt="<private>And 7391 again.</private>")

        assert "Thanks." in str(ear.windows)
        assert "really" not in str(ear.windows)
        assert "it is" not in str(ear.windows)


def written_by_claude(home: Path, *said: tuple[str, str], at: datetime | None = None) -> str:
    """A transcript of the session `s`, written now or at a time."""
    path = folder_of("claude", home) / PLACES["claude"]
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"sessionId": "s", "timestamp": (at or datetime.now(UTC)).isoformat()}
    lines = [
        {
            **about,
            "type": role,
            "uuid": f"{number}",
            "parentUuid": f"{number - 1}",
            "message": {"content": text},
        }
        for number, (role, text) in enumerate(said)
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


def written_by_gemini(home: Path, prompt: str) -> str:
    """A transcript of the session `s`, written now."""
    path = folder_of("gemini", home) / PLACES["gemini"]
    path.parent.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC).isoformat()
    lines = (
        {"sessionId": "s", "startTime": now},
        {"id": "1", "type": "user", "timestamp": now, "content": [{"text": prompt}]},
    )
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


async def test_a_prompt_that_was_sent_under_a_pause_is_not_looked_for_after_it(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await parts.ask(wire.Pause(workspace=str(repo)))
        await claude.asks("Between you and me.", "1")
        await parts.ask(wire.Pause(workspace=str(repo), paused=False))
        await claude.ends(
            "I see.", "1", transcript_path=written_by_claude(home, ("user", "Between you and me."))
        )

        assert ear.heard == []


async def test_what_was_to_be_forgotten_is_not_looked_for_again(home, store):
    prompt = "Forget that the walrus eats clams."
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks(prompt, "1")
        await parts.ask(wire.Forget(workspace=str(store), memory_id="m0"))
        await claude.ends("It is gone.", "1", transcript_path=written_by_claude(home, ("user", prompt)))

        assert ear.heard == []


async def silences(parts: Parts, repo: Path, how: str) -> None:
    """A person wants something not to be known: of this place or of another one."""
    if how == "forget":
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="m0"))
    elif how == "forget --now":
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="m0", erase_now=True))
    elif how == "undo":
        captured = (replace(memory("m9", "Ice melts."), trigger=Trigger.COMPACTION, origin="model"),)
        put(repo, *captured)
        await parts.loaded(repo)
        assert (await parts.ask(wire.Undo(workspace=str(repo)))).memories
    else:
        everywhere = how == "pause everywhere"
        for paused in (True, False):
            await parts.ask(wire.Pause(workspace=str(repo), paused=paused, everywhere=everywhere))


SILENCES = ["forget", "forget --now", "undo", "pause", "pause everywhere"]


@pytest.mark.parametrize("how", SILENCES)
async def test_a_prompt_from_before_it_was_to_be_forgotten_is_not_looked_for_after_a_restart(
    home, store, how
):
    prompt, said_at = "The walrus eats clams.", datetime.now(UTC)
    async with assembled(home) as parts:
        await silences(parts, store, how)
    path = written_by_claude(home, ("user", prompt), at=said_at)
    async with assembled(home) as parts:
        ear = Ear(parts)
        for _ in range(2):
            await Session(parts, store).ends("It is gone.", "1", transcript_path=path)

        assert ear.heard == []
        assert [day.unknown for _, _, day in parts.state.agents.newest_days()] == [2]


@pytest.mark.parametrize("how", SILENCES)
async def test_a_prompt_that_was_sent_after_that_is_looked_for_after_a_restart(home, store, how):
    async with assembled(home) as parts:
        await silences(parts, store, how)
    path = written_by_claude(home, ("user", "Deploy on Fridays."))
    async with assembled(home) as parts:
        ear = Ear(parts)
        await Session(parts, store).ends("Noted.", "1", transcript_path=path)

        assert ear.windows == [["Deploy on Fridays.", "Noted."]]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_turns_end_that_says_its_prompt_again_does_not_bring_it_back_over_a_pause(
    home, repo, when, restarts
):
    prompt = "Between you and me."

    async def sends(gemini: Session) -> None:
        await gemini.asks(prompt)

    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, repo, "gemini")
        path = written_by_gemini(home, prompt)
        if when == "before":
            await sends(gemini)
        await parts.ask(wire.Pause(workspace=str(repo)))
        if when == "meanwhile":
            await sends(gemini)
        await parts.ask(wire.Pause(workspace=str(repo), paused=False))
        if not restarts:
            await gemini.ends("I see.", prompt=prompt, transcript_path=path)
            await gemini.asks("After it.")
            await gemini.ends("Yes.", prompt="After it.")
            assert ear.windows == [["After it.", "Yes."]]
    if restarts:
        async with assembled(home) as parts:
            ear, gemini = Ear(parts), Session(parts, repo, "gemini")
            await gemini.ends("I see.", prompt=prompt, transcript_path=path)
            assert ear.heard == []


async def test_a_message_is_as_old_as_its_prompt_whenever_its_turn_ends(home, store):
    """By which capture tells what was said again after it was forgotten."""
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        before = time.time()
        await claude.asks("Deploy on Fridays.", "1")
        asked = time.time()
        await claude.ends("Noted.", "1")
        await claude.hears("Stop", last_assistant_message="And more.", prompt_id="1")
        gemini = Session(parts, store, "gemini", "g")
        await gemini.ends("Yes.", prompt="Heard at its end alone.")

        times = [each.said_at for each in ear.heard]
        assert [len(each) for each in times] == [len(window) for window in ear.windows]
        assert all(before <= at <= asked for each in times[:-1] for at in each)
        assert times[-1] == (0.0, 0.0)


async def test_of_a_prompt_that_is_private_as_a_whole_an_older_one_is_not_taken_instead(home, repo):
    said = (("user", "What is a walrus?"), ("assistant", "Large."), ("user", "<private>Its plan</private>"))
    path = written_by_claude(home, *said, at=datetime(2026, 1, 1, tzinfo=UTC))
    async with assembled(home) as parts:
        ear = Ear(parts)
        await Session(parts, repo).ends("Its plan is good.", "9", transcript_path=path)

        assert ear.heard == []


@pytest.mark.parametrize("everywhere", [True, False])
async def test_a_pause_drops_what_was_said_before_it_where_it_holds(home, repo, everywhere, tmp_path):
    (other := tmp_path / "other" / ".git").mkdir(parents=True)
    async with assembled(home) as parts:
        ear, here, there = Ear(parts), Session(parts, repo), Session(parts, other.parent, session="t")
        for claude in (here, there):
            await claude.asks("Before the pause.", "1")
        for paused in (True, False):
            await parts.ask(wire.Pause(workspace=str(repo), paused=paused, everywhere=everywhere))
        for claude in (here, there):
            await claude.ends("Fine.", "1")

        assert ear.windows == ([] if everywhere else [["Before the pause.", "Fine."]])


async def test_while_paused_nothing_is_answered_captured_or_held(home, store):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks("Before the pause.", "1")
        await parts.ask(wire.Pause(workspace=str(store)))
        assert await claude.asks(WALRUS, "2") == ""
        assert claude.reply.status == "disabled"
        await claude.ends("Clams.", "2")
        await parts.ask(wire.Pause(workspace=str(store), paused=False))
        await claude.ends("Clams.", "2")
        await claude.asks("After it.", "3")
        await claude.ends("Yes.", "3")

        assert ear.windows == [["After it.", "Yes."]]


async def test_where_memory_is_off_by_now_nothing_is_held(home, store):
    """Also where no person paused it, as after damage to what is known of pauses."""
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks("Before it was off.", "1")
        await parts.state.pauses.set(str(store), True)
        await claude.ends("Fine.", "1")
        assert claude.reply.status == "disabled"
        await parts.state.pauses.set(str(store), False)
        await claude.hears("PreCompact", trigger="manual")

        assert ear.heard == []


async def test_what_was_injected_is_not_captured_in_any_form(home, store):
    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, store, "gemini")
        block = await gemini.asks(WALRUS)
        escaped = block.replace("<", "&lt;").replace(">", "&gt;")
        await gemini.ends(
            f"It says:\n{block}\nand\n{escaped}\nDone.",
            prompt=f"<hook_context>{escaped}</hook_context>\n\nWhat is what?",
        )

        said = str(ear.windows)
        assert "What is what?" in said
        assert "Done." in said
        assert "clams" not in said


# --- compaction, clear, end ---------------------------------------------------------------------------


async def test_claude_gets_back_what_belongs_to_its_prompt_when_a_compaction_is_done(home, store):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks(WALRUS, "1")
        await claude.ends("Clams.", "1")

        assert await claude.hears("PreCompact", trigger="manual", prompt_id="c") == {}
        assert await claude.asks(TUSKS, "2") == ""  # it is still in context: "Not enough messages"
        done = await claude.hears("SessionStart", source="compact")
        after = await claude.asks(ICE, "3")

        assert "clams" in text_of(done)
        assert done["hookSpecificOutput"]["hookEventName"] == "SessionStart"
        assert after == ""
        assert ear.kinds == ["turn", "compaction", "compaction"]


async def test_a_compaction_is_captured_once(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        for at in range(3):
            await claude.asks(f"Rule {at}.", str(at))
            await claude.ends(f"Noted {at}.", str(at))
        for event in ({"event": "PreCompact"}, {"event": "PreCompact"}, {"event": "SessionStart"}):
            await claude.hears(event["event"], source="compact")

        assert ear.kinds == ["turn"] * 3 + ["compaction"]
        assert len(ear.windows[-1]) == 6


async def test_a_harness_that_takes_nothing_then_gets_it_with_the_next_prompt(home, store):
    async with assembled(home) as parts:
        codex = Session(parts, store, "codex")
        await codex.asks(WALRUS, "1")
        assert await codex.hears("PostCompact", trigger="auto") == {}
        assert await codex.hears("SessionStart", source="compact") == {}

        assert "clams" in await codex.asks(WALRUS, "2")
        assert await codex.asks(TUSKS, "3") == ""


async def test_a_compaction_that_gemini_only_speaks_of_changes_nothing(home, store):
    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, store, "gemini")
        texts = []
        for at in range(4):
            texts.append(await gemini.asks(f"{WALRUS} {at}"))
            assert await gemini.hears("PreCompress", trigger="auto") == {}
            await gemini.ends(f"Clams {at}.", prompt=f"{WALRUS} {at}")

        assert [bool(text) for text in texts] == [True, False, False, False]
        assert ear.kinds == ["turn"] * 4


@pytest.mark.parametrize("grown", ["bytes", "turns"])
async def test_a_session_of_gemini_that_was_taken_at_its_word_has_to_grow_anew(home, store, grown):
    """Else each of its answers would be a compaction: judged whole again, and all injected once more."""
    async with assembled(home) as parts:
        ear, gemini = Ear(parts), Session(parts, store, "gemini")

        async def turn(text: str, reply: str) -> str:
            injected = await gemini.asks(text)
            await gemini.ends(reply, prompt=text)
            await gemini.hears("PreCompress", trigger="auto")
            return injected

        for times, turns in ((1, 30), (2, 26)):
            if grown == "bytes":
                await turn(WALRUS, "clam " * 50_000)
            for at in range(turns if grown == "turns" else 0):
                await turn(f"{WALRUS} {at}", "Clams.")
            injected = [await turn(f"{WALRUS} {at} later", f"Clams {at}.") for at in range(4)]

            assert ear.kinds.count("compaction") == times
            assert [bool(text) for text in injected] == [True, False, False, False]


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "qwen"])
async def test_a_session_that_is_resumed_has_in_context_what_it_had(home, store, name):
    async with assembled(home) as parts:
        session = Session(parts, store, name)
        assert "clams" in await session.asks(WALRUS, "1")
        await session.hears("SessionEnd", reason="exit")
        await session.hears("SessionStart", source="resume")

        assert await session.asks(TUSKS, "2") == ""


@pytest.mark.parametrize("event", [("SessionEnd", "reason"), ("SessionStart", "source")])
async def test_after_clear_a_session_begins_anew(home, store, event):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, store)
        await claude.asks(WALRUS, "1")
        assert await claude.hears(event[0], **{event[1]: "clear"}) == {}

        assert "clams" in await claude.asks(WALRUS, "2")
        assert ear.kinds == ["session_end"]


# --- what else may come -------------------------------------------------------------------------------


async def test_an_unknown_event_is_only_counted(home, repo):
    async with assembled(home) as parts:
        claude = Session(parts, repo)
        assert await claude.hears("PreToolUse", tool_name="Bash") == {}
        assert await claude.hears("Stop", agent_id="sub") == {}

        assert [(day.skipped, day.failed) for _, _, day in parts.state.agents.newest_days()] == [(2, 0)]


async def test_a_hook_that_fails_is_one_line_of_the_log_without_its_text(home, tmp_path, caplog):
    async with assembled(home) as parts:
        claude = Session(parts, tmp_path / "gone")
        assert await claude.hears("UserPromptSubmit", prompt="the secret of the walrus") == {}

        assert claude.reply.status == "error"
        assert len([line for line in caplog.messages if "hook failed agent=claude" in line]) == 1
        assert "secret" not in caplog.text


async def test_status_reports_events_and_injections_of_each_agent(home, store):
    async with assembled(home) as parts:
        claude = Session(parts, store)
        await claude.asks(WALRUS, "1")
        await claude.ends("Clams.", "1")
        (report,) = (await parts.ask(wire.Status())).agents

        assert (report.agent, report.last_event, report.turns, report.injected_today) == (
            "claude",
            "Stop",
            1,
            2,
        )
        assert report.last_event_at.endswith("Z")
        assert (report.failed_today, report.last_failure) == (0, "")


async def test_an_agent_writes_nothing_that_its_person_does_not_want_remembered(home, repo):
    """In the turn that says so and in later ones, in any words; a person's own word is kept."""
    async with assembled(home) as parts:
        session = Session(parts, repo)
        await session.asks("Please don't remember this: my manager is called Zoltan. Fix the tests.", "t1")
        reported = wire.Remember(workspace=str(repo), content="The user's manager is Zoltan.")
        for _ in range(2):
            code, reason = await parts.refusal(reported)
            assert (code, "Zoltan" in reason) == ("forgotten", False)
            await session.ends("Done.", "t1")
            await session.asks("And now the lint.", "t2")
        (talk,) = parts.daemon.sessions.buffer.of_roots((str(repo),))
        assert not any("Zoltan" in each for each in talk.waiting_prompts)  # capture has looked through it

        fits = [
            wire.Remember(workspace=str(repo), content="The lint runs with ruff."),
            replace(reported, origin="explicit"),
        ]
        assert [(await parts.ask(each)).status for each in fits] == ["ok"] * 2


@pytest.mark.parametrize("by_agent", [True, False])
async def test_what_an_agent_forgot_in_the_turn_that_asked_for_it_is_not_said_to_be_nowhere(
    home, repo, by_agent
):
    put(repo, memory("mem_1", "The staging database is called orion."))
    async with assembled(home) as parts:
        await parts.loaded(repo)
        session = Session(parts, repo)
        told = await session.hears(
            "UserPromptSubmit", prompt="Forget that the staging database is called orion.", prompt_id="t1"
        )
        if by_agent:
            await parts.ask(wire.Forget(workspace=str(repo), memory_id="mem_1"))
        await session.ends("Done.", "t1")
        # What is started in the background comes to its end with the daemon's.
        await until(lambda: not parts.capture._dispatcher._background)
        reported = parts.capture.notifications.unreported("s")

    command = "`forgectl forget mem_1` forgets it"
    whole = f'not forgotten yet: "The staging database is called orion."; {command}'
    assert told["systemMessage"] == f"forged: {whole}"
    assert reported == ()
