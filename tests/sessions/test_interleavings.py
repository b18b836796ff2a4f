"""Explicit requests in sessions of hooks: each is captured once, in its own roots."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forged.capture.intake import Outcome
from forged.config import Config
from forged.config.values import CaptureConfig
from forged.sessions import message_buffer
from forged.text.forgetting import words_of
from forged_client import protocol as wire
from tests.daemon.handlers.test_hook import Ear, Session
from tests.daemon.parts import Parts, assembled
from tests.data.memories import memory, put
from tests.support.clock import Clock, run

SESSIONS, PLACES, OFF = ("a", "b", "c"), ("here", "there", "off"), "off"
STEP = st.one_of(
    *[st.tuples(st.just("prompt"), st.sampled_from(SESSIONS), st.sampled_from(PLACES))] * 2,
    st.tuples(st.sampled_from(["stop", "end", "clear", "lost stop", "new"]), st.sampled_from(SESSIONS)),
    st.tuples(st.sampled_from(["silence", "full", "room", "pause elsewhere", "forget"])),
)
_numbers = itertools.count()


class Day:
    """Several sessions of one agent in several places, and what was asked for in each of them."""

    def __init__(self, parts: Parts, folder: Path, agent: str) -> None:
        self.parts = parts
        self.agent = agent
        self.clock = Clock(1_000.0)
        self.asked: dict[str, str] = {}
        parts.daemon.sessions.buffer.clock = self.clock
        self._hear = parts.capture.submit
        self._places = {name: folder / name for name in PLACES}
        self._names = {name: name for name in SESSIONS}
        self._at = dict.fromkeys(SESSIONS, "here")
        self._turns: Counter[str] = Counter()
        for place in self._places.values():
            (place / ".git").mkdir(parents=True)
        (self._places[OFF] / ".forge").mkdir()
        (self._places[OFF] / ".forge/config.toml").write_text("[memory]\nenabled = false\n")

    async def does(self, what: str, name: str = "a", place: str = "") -> None:
        """One step; a day goes on whatever comes of it."""
        self._at[name] = place or self._at[name]
        session = Session(self.parts, self._places[self._at[name]], self.agent, self._names[name])
        turn = f"{self._names[name]}-{self._turns[name]}" if self.agent == "claude" else None
        if what == "prompt":
            self._turns[name] += 1
            text = f"Remember that rule {next(_numbers)} of {name} holds."
            self.asked[text] = place
            await session.asks(text, turn and f"{self._names[name]}-{self._turns[name]}")
        elif what == "stop":
            await session.ends(f"Noted for {name}.", turn)
        elif what == "end":
            await session.hears("SessionEnd", reason="exit")
        elif what == "clear":
            await session.hears("SessionEnd", reason="clear")
        elif what == "lost stop":
            await Session(self.parts, self._places["here"], self.agent, f"{next(_numbers)}").ends(
                "Done.", "x"
            )
        elif what == "new":
            self._names[name] = f"{name}-{next(_numbers)}"
        elif what == "silence":
            self.clock.now += message_buffer.SILENT_S
            await self._waits()
        elif what == "full":
            self.parts.capture.submit = self._refuses
        elif what == "room":
            self.parts.capture.submit = self._hear
        elif what == "pause elsewhere":
            await self.parts.ask(wire.Pause(workspace=str(self._places[OFF])))
        elif what == "forget":
            await self.parts.daemon.sessions.buffer.cut([words_of("An old rule that nobody says.")])

    async def ends(self) -> dict[str, list[tuple[str, ...]]]:
        """Stop the daemon that has room again; the roots of each event in which a request waits."""
        self.parts.capture.submit = self._hear
        await self.parts.daemon.sessions.hand_over(all_of_them=True)
        found: dict[str, list[tuple[str, ...]]] = {text: [] for text in self.asked}
        for event in self.parts.capture.waiting():
            for said in event.window:
                if said.text in found:
                    found[said.text].append(event.tops)
        return found

    def wanted(self) -> dict[str, int]:
        return {text: int(place != OFF) for text, place in self.asked.items()}

    def is_in_place(self, text: str, tops: tuple[str, ...]) -> bool:
        return any(top.startswith(str(self._places[self.asked[text]])) for top in tops)

    async def _waits(self) -> None:
        await self.parts.daemon.sessions.hand_over(again=True)

    async def _refuses(self, spoken: object) -> Outcome:
        return Outcome("rejected", "spool_full: many")


@example(steps=[("prompt", "a", "here"), ("prompt", "a", "there"), ("end", "a")], agent="claude")
@example(steps=[("prompt", "a", "here"), ("prompt", "a", "off"), ("prompt", "a", "here")], agent="qwen")
@example(steps=[("prompt", "a", "here"), ("prompt", "b", "here"), ("lost stop", "c")], agent="claude")
@given(steps=st.lists(STEP, max_size=14), agent=st.sampled_from(["claude", "qwen"]))
def test_each_request_is_captured_once_where_it_was_said(steps, agent, tmp_path_factory):
    folder = tmp_path_factory.mktemp("day")

    async def day() -> None:
        async with assembled(folder / "home", config=Config(capture=CaptureConfig(tell=False))) as parts:
            its = Day(parts, folder, agent)
            for step in steps:
                await its.does(*step)
            found = await its.ends()

            assert {text: len(events) for text, events in found.items()} == its.wanted()
            assert all(its.is_in_place(text, tops) for text, each in found.items() for tops in each)
            assert parts.daemon.sessions.buffer.lost == 0

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(message_buffer, "MOST_BYTES", 64)  # the bound is reached by a few steps
        run(day())


async def test_status_says_that_a_bound_was_reached(home, repo, monkeypatch):
    monkeypatch.setattr(message_buffer, "MOST_BYTES", 64)
    async with assembled(home) as parts:
        ear = Ear(parts)
        for name in ("1", "2", "3"):
            await Session(parts, repo, session=name).asks(f"Remember that rule {name} holds.", "t")
        (warning,) = (await parts.ask(wire.Status())).warnings[1:]

        assert ear.windows == [["Remember that rule 1 holds."]]
        assert warning.startswith("1 turns were captured before their end, because at most 32 MB")


@pytest.mark.parametrize("over", [False, True])
async def test_status_counts_what_is_lost_while_capture_has_no_room(home, repo, monkeypatch, over):
    """Of a session that goes on, and of sessions that are over."""
    monkeypatch.setattr(message_buffer, "MOST_BYTES", 64)
    monkeypatch.setattr(message_buffer, "MOST_REFUSED_BYTES", 128 if over else 64)
    async with assembled(home) as parts:
        ear = Ear(parts)
        ear.word = Outcome("rejected", "spool_full: many")
        for number in range(4):
            session = Session(parts, repo, session=str(number) if over else "s")
            await session.asks(f"Rule {number}. " + "x " * (24 if over else 16), str(number))
        reported = (await parts.ask(wire.Status())).warnings

        assert any("1 messages were lost, because capture did not take them" in each for each in reported)
        assert (
            any("2 sessions that are over wait for capture: spool_full" in each for each in reported) == over
        )


async def test_the_quietest_session_makes_room_and_one_with_a_private_span_last(home, repo, monkeypatch):
    monkeypatch.setattr(message_buffer, "MOST_BYTES", 96)
    async with assembled(home) as parts:
        ear = Ear(parts)
        for name in ("quiet", "also quiet"):
            span = "<private> 7391" if name == "quiet" else ""
            await Session(parts, repo, session=name).asks(f"Rule of {name}. {'x ' * 12} {span}", "1")
        for number in range(2):
            await Session(parts, repo, session="loud").asks(f"Rule {number}. {'x ' * 8}", str(number))
        await Session(parts, repo, session="quiet").asks("7391 </private> Thanks.", "2")

        assert [window[0][:18] for window in ear.windows] == ["Rule of also quiet"]
        assert "7391" not in str([each.messages for each in parts.daemon.sessions.buffer])


async def test_a_private_span_stays_open_although_its_session_made_room(home, repo, monkeypatch):
    monkeypatch.setattr(message_buffer, "MOST_BYTES", 32)
    async with assembled(home) as parts:
        ear = Ear(parts)
        await Session(parts, repo, session="one").asks("Deploy on Fridays. <private> 7391", "1")
        await Session(parts, repo, session="two").asks("Rule 2. <private> " + "x " * 8, "1")
        await Session(parts, repo, session="three").asks("Rule 3. " + "x " * 12, "1")
        await Session(parts, repo, session="one").asks("7391 </private> Thanks for the train.", "2")
        await parts.daemon.sessions.hand_over(all_of_them=True)

        assert "7391" not in str(ear.windows)
        assert "Thanks for the train." in str(ear.windows)


async def test_what_capture_refused_is_handed_over_when_it_has_room(home, repo, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Remember that rule 1 holds.", "1")
        ear.word = Outcome("rejected", "spool_full: many")
        await claude.asks("And another matter.", "2", cwd=str(other))
        ear.word = Outcome("accepted")
        await parts.daemon.sessions.hand_over(again=True)
        await parts.daemon.sessions.hand_over(again=True)

        assert ear.windows == [["Remember that rule 1 holds."]] * 2
        assert all(spoken.roots[0].top == str(repo) for spoken in ear.heard)


async def test_a_session_that_is_silent_for_an_hour_is_captured(home, repo):
    async with assembled(home) as parts:
        ear, clock = Ear(parts), Clock(1_000.0)
        parts.daemon.sessions.buffer.clock = clock
        await Session(parts, repo, session="silent").asks("Remember that rule 1 holds.", "1")
        clock.now += message_buffer.SILENT_S - 1
        await Session(parts, repo, session="awake").asks("Go on.", "1")
        await parts.daemon.sessions.hand_over(again=True)
        assert ear.windows == []
        clock.now += 1
        await parts.daemon.sessions.hand_over(again=True)

        assert ear.windows == [["Remember that rule 1 holds."]]


@pytest.mark.parametrize("headless", [True, False])
async def test_a_run_of_a_script_is_handed_over_as_one_and_not_mixed_with_a_persons_turn(
    home, repo, headless
):
    async with assembled(home) as parts:
        ear = Ear(parts)
        first, second = (Session(parts, repo, headless=each) for each in (headless, not headless))
        await first.asks("Remember that rule 1 holds.", "1")
        await second.asks("Remember that rule 2 holds.", "2")
        await second.ends("Noted.", "2")

        assert ear.windows == [["Remember that rule 1 holds."], ["Remember that rule 2 holds.", "Noted."]]
        assert [spoken.headless for spoken in ear.heard] == [headless, not headless]


async def test_a_turn_ends_although_its_folder_is_gone(home, repo):
    (folder := repo / "worktree").mkdir()
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, folder)
        await claude.asks("Remember that rule 1 holds.", "1")
        folder.rmdir()
        await claude.ends("Noted.", "1")

        assert ear.windows == [["Remember that rule 1 holds.", "Noted."]]


async def test_forgetting_cuts_what_is_forgotten_and_leaves_the_other_requests(home, repo, tmp_path):
    put(repo, memory("m0", "The walrus eats clams."))
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        await claude.asks("Forget that the walrus eats clams. Remember that tusks grow.", "1")
        await parts.ask(wire.Forget(workspace=str(repo), memory_id="m0"))
        await claude.ends("Done.", "1")

        assert ear.windows == [["Remember that tusks grow.", "Done."]]


async def test_a_compaction_keeps_what_capture_has_refused(home, repo):
    async with assembled(home) as parts:
        ear, claude = Ear(parts), Session(parts, repo)
        ear.word = Outcome("rejected", "spool_full: many")
        await claude.asks("Remember that rule 1 holds.", "1")
        await claude.ends("Noted.", "1")
        await claude.asks("Go on.", "2")
        await claude.hears("SessionStart", source="compact")
        ear.word = Outcome("accepted")
        await claude.ends("Done.", "2")

        assert ear.windows[-1] == ["Remember that rule 1 holds.", "Noted.", "Go on.", "Done."]
