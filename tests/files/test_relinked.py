"""A file that names another predecessor: nothing else of it changes, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from forged.errors import MemoryFormatError
from forged.files.frontmatter import parse, relinked, render
from tests.data.memories import memory

SAMPLES = sorted((Path(__file__).parents[1] / "data/samples").glob("*.md"))
IDS = st.one_of(
    st.none(), st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=12)
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_files_of_the_go_program_keep_every_other_byte(sample):
    data, name = sample.read_bytes(), sample.stem

    linked = relinked(data, "repo", name, "mem_other")

    assert parse(linked, "repo", name) == replace(parse(data, "repo", name), supersedes="mem_other")
    before = parse(data, "repo", name).supersedes
    assert relinked(linked, "repo", name, before) == data


@given(IDS, IDS)
def test_whatever_is_named_is_what_is_read_then(before, after):
    old = memory("mem_1", "text", supersedes=before)

    data = relinked(render(old), "repo", "mem_1", after)

    assert data == render(replace(old, supersedes=after))


@pytest.mark.parametrize(
    "header",
    [
        "id: m\n'supersedes': mem_1\n",
        "{id: m, supersedes: mem_1}\n",
        "id: m\nsupersedes:\n  mem_1\n",
        "id: m\nmine: |\n  supersedes: x\nsupersedes: mem_1\n",
    ],
)
def test_a_link_that_is_no_line_of_its_own_is_written_anew_and_the_body_stays(header):
    body = b"caf\xc3\xa9\n---\nsupersedes: not this\n"
    data = b"---\n" + header.encode() + b"---\n" + body

    linked = relinked(data, "repo", "m", "mem_0")

    assert linked.endswith(body)
    assert parse(linked, "repo", "m") == replace(parse(data, "repo", "m"), supersedes="mem_0")


def test_a_file_without_front_matter_names_nothing_and_cannot_be_changed():
    with pytest.raises(MemoryFormatError):
        relinked(b"just text\n", "repo", "m", "mem_0")
