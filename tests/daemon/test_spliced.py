from __future__ import annotations

import pytest
from msgspec.structs import asdict

from forged.daemon import spliced
from forged_client.framing import HEADER_BYTES, decode_reply
from forged_client.protocol import Reply
from tests.data.examples import EXAMPLES

REPLIES = [each for each in EXAMPLES if isinstance(each, Reply)]


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_a_reply_of_any_type_is_the_same_in_one_piece_and_in_several(reply):
    fields = list(asdict(reply).items())
    for cut in (0, 1, len(fields) // 2, len(fields)):
        parts = [spliced.pairs(dict(some)) for some in (fields[:cut], fields[cut:])]
        frame = spliced.frame(type(reply), *parts)

        assert int.from_bytes(frame[:HEADER_BYTES], "big") == len(frame) - HEADER_BYTES
        assert decode_reply(frame[HEADER_BYTES:]) == reply
