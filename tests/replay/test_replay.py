"""Replay of recorded requests: replies and files are as before the code moved."""

from __future__ import annotations

import json

from tests.replay import renamed
from tests.replay.stage import RECORDING, played


def test_every_recorded_request_is_answered_in_the_same_way(tmp_path):
    recorded = [json.loads(line) for line in RECORDING.read_text().splitlines()]

    now = played(tmp_path)

    assert len(now) == len(recorded) >= 300
    differ = {
        number
        for number, (old, new) in enumerate(zip(recorded, now, strict=True))
        if renamed.fresh(json.loads(json.dumps(new["reply"]))) != renamed.reply(old["reply"])
    }
    wrong = {number: recorded[number]["asked"] for number in differ ^ renamed.CHANGED.keys()}
    assert not wrong, now[min(wrong)]["reply"]
