"""A message of 900 KB is read without keeping the loop, or any other thread, from going on."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time

import pytest

from forged.capture.intake import clean
from forged.sessions.transcript import clean_transcript
from forged_client import protocol as wire

_BYTES = 900_000
_LONGEST_S = 0.15  # 40 ms when nothing else runs, 0.9 s before it was read in pieces
_FEWER = {"assignments": 200_000, "paragraphs": 400_000}  # some take a second, in many steps
TEXTS = {
    "openers": "<tool_use>",
    "openers in lines": "<tool_use>\n",
    "elements": "<tool_use>x</tool_use> ",
    "closers": "</tool_use>",
    "openers in code": "`<tool_use>` ",
    "private": "<private>",
    "less-than signs": "<",
    "thoughts": "<think>",
    "fences": "```\n",
    "paragraphs": "a b\n\n",
    "assignments": "password=abc; ",
}


@pytest.fixture
def quick_switches():
    """As the daemon has them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    gc.freeze()  # nor does the daemon look through all that was imported, again and again
    yield
    gc.unfreeze()
    sys.setswitchinterval(before)


@pytest.mark.speed
@pytest.mark.parametrize("kind", TEXTS)
def test_other_threads_go_on_while_it_is_read(kind, quick_switches):
    """In this process's own time; a busy machine may wake the other thread late, but not each time."""
    message = wire.Message(
        "assistant" if kind == "thoughts" else "user",
        TEXTS[kind] * (_FEWER.get(kind, _BYTES) // len(TEXTS[kind])),
    )

    def read():
        clean(asyncio.run(clean_transcript([message], 0)).said, ("a memory that was injected before",))

    assert any(_longest_wait(read) <= _LONGEST_S for _ in range(8))


def _longest_wait(read) -> float:
    reading = threading.Thread(target=read)
    longest, last = 0.0, time.process_time()
    reading.start()
    while reading.is_alive():
        time.sleep(0.0005)
        now = time.process_time()
        longest, last = max(longest, now - last), now
    return longest


async def test_a_long_message_is_read_in_a_thread(monkeypatch):
    readers = []
    from forged.sessions import transcript as module

    real = module._clean

    def noting(*given):
        readers.append(threading.current_thread())
        return real(*given)

    monkeypatch.setattr(module, "_clean", noting)
    await clean_transcript([wire.Message("user", "<tool_use>" * 90_000)], 0)
    await clean_transcript([wire.Message("user", "word " * 225) for _ in range(225)], 0)
    await clean_transcript([wire.Message("user", "short")], 0)
    main = threading.main_thread()
    assert [each is main for each in readers] == [False, False, True]
