"""Every request says which directory or file its paths are for the client."""

from __future__ import annotations

import typing

import msgspec
import pytest

from forged_client import protocol
from forged_client.envelope import identity_of
from forged_client.exchange import Exchange
from forged_client.framing import HEADER_BYTES, decode_request

# Fields with the name of a place that the daemon never opens: texts that it stores, shows or compares.
NOT_OPENED = {
    ("Dead", "root"),
}
_PLACES = ("workspace", "path", "directory", "folder", "root", "file", "evidence", "transcript", "under")


def _named_like_a_place(kind: type) -> set[str]:
    return {name for name in kind.__struct_fields__ if any(word in name for word in _PLACES)}


@pytest.mark.parametrize("kind", protocol.REQUESTS, ids=lambda kind: kind.__name__)
def test_every_field_that_names_a_place_is_said_with_what_the_client_sees(kind, tmp_path):
    named = {name for name in _named_like_a_place(kind) if (kind.__name__, name) not in NOT_OPENED}
    assert named <= set(kind.paths)
    if not named:
        return
    (tmp_path / "here").write_text("x")
    given = {"workspace": str(tmp_path)}
    given |= dict.fromkeys(named - {"workspace"}, ("here:1-2", "gone"))
    blank = {
        each.name: () if typing.get_origin(each.type) is tuple else ""
        for each in msgspec.structs.fields(kind)
        if each.required and each.name not in given
    }
    request = kind(**given, **blank)

    _, frames = Exchange("test").encode_request(request)
    body = frames[HEADER_BYTES:]
    size = int.from_bytes(frames[:HEADER_BYTES], "big")
    sent = decode_request(body[size + HEADER_BYTES :])  # behind hello

    wanted = {str(tmp_path): identity_of(str(tmp_path))}
    if named - {"workspace"}:
        wanted |= {str(tmp_path / "here"): identity_of(str(tmp_path / "here")), str(tmp_path / "gone"): ""}
    assert sent.seen == wanted
