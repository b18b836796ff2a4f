"""Front matter of markdown that is no memory file: notes of other programs, read with the same bounds."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from forged.errors import MemoryFormatError

if TYPE_CHECKING:
    from forged.files.yaml_text import Value

_MOST_CHARS = 64 * 1024
_KEY = re.compile(r"^([^\s#:][^:\n]{0,80}):", re.MULTILINE)


class FrontMatter(msgspec.Struct, frozen=True):
    """The `values` of the keys that were asked for, the names of all `others`, and the text below.

    `lines` is how many lines stand above that text.
    """

    values: dict[str, Value]
    body: str
    lines: int = 0
    others: tuple[str, ...] = ()


def front_matter(text: str, keys: Collection[str]) -> FrontMatter:
    """Read it; without any there are no values. Raises MemoryFormatError for one that is no plain YAML."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter({}, text)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() in {"---", "..."}), 0)
    if not end:
        return FrontMatter({}, text)
    header = "\n".join(lines[1:end])
    if len(header) > _MOST_CHARS:
        raise MemoryFormatError(f"the front matter is larger than {_MOST_CHARS // 1024} KiB")
    from forged.files.yaml_text import load  # noqa: PLC0415 - 10 ms that a daemon can start without

    values, others = load(header + "\n", keys)
    return FrontMatter(values, "\n".join(lines[end + 1 :]), end + 1, tuple(_KEY.findall(others)))
