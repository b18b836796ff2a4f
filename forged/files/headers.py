"""Front matter of markdown that is no memory file: notes of other programs, read by the same rule."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from forged.files.entries import Value
from forged.files.frontmatter import front


class FrontMatter(msgspec.Struct, frozen=True):
    """The `values` of the keys that were asked for, the names of all `others`, and the text below.

    `lines` is how many lines stand above that text.
    """

    values: dict[str, Value]
    body: str
    lines: int = 0
    others: tuple[str, ...] = ()


def front_matter(text: str, keys: Collection[str]) -> FrontMatter:
    """Read it as that of a memory file; without any there are no values.

    Raises MemoryFormatError for more than 64 KiB of it.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return FrontMatter({}, text)
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() in {"---", "..."}), 0)
    header = front("".join(f"{line}\n" for line in lines[1:end]), keys, 2).header if end else None
    if header is None:
        return FrontMatter({}, text)
    others = tuple(key for key in header.keys if key not in keys)
    return FrontMatter(header.values, "\n".join(lines[end + 1 :]), end + 1, others)
