"""Golden frames: what goes over the wire changes only where `tests/data/frames.txt` does."""

from __future__ import annotations

import pytest

from forged_client.framing import FrameCutter, decode_reply, decode_request
from forged_client.protocol import MAX_REPLY_BYTES, Reply, Request
from tests.data.examples import EXAMPLES, FRAMES, frames, message_types, name_of
from tests.support.daemon import cut

GOLDEN = dict(line.split() for line in FRAMES.read_text().splitlines())


def test_a_message_has_the_frame_that_it_had():
    assert frames() == FRAMES.read_text(), "python -m tests.data.examples"


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_a_frame_means_what_it_meant(example: Request | Reply):
    (body,) = cut(FrameCutter(MAX_REPLY_BYTES), bytes.fromhex(GOLDEN[name_of(example)]))

    assert (decode_request if isinstance(example, Request) else decode_reply)(body) == example


def test_every_message_type_has_a_frame():
    assert {type(example) for example in EXAMPLES} == message_types()
    assert len(GOLDEN) == len(EXAMPLES)
