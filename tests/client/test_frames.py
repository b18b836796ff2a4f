"""Golden frames: what released versions send stays readable. To add one, see tests/data/examples.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from forged_client.framing import FrameCutter, decode_reply, decode_request
from forged_client.protocol import MAX_REPLY_BYTES, Reply, Request
from forged_client.version import __version__
from tests.data.examples import EXAMPLES, FOLDER, examples, message_types, name_of
from tests.support.daemon import cut

FRAMES = sorted(FOLDER.glob("*/*.hex"))


def decoded(file: Path) -> Request | Reply:
    (body,) = cut(FrameCutter(MAX_REPLY_BYTES), bytes.fromhex(file.read_text()))
    return (decode_request if file.name.startswith("request-") else decode_reply)(body)


@pytest.mark.parametrize("file", FRAMES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_frame_of_every_released_version_is_readable(file):
    assert name_of(decoded(file)) == file.stem.partition("+")[0]


@pytest.mark.parametrize("name", examples())
def test_a_frame_of_this_version_means_what_it_meant(name):
    assert decoded(FOLDER / __version__ / f"{name}.hex") == examples()[name]


def test_every_message_type_has_a_frame():
    assert {type(example) for example in EXAMPLES} == message_types()
