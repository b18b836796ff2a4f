"""Front matter of markdown that is no memory file: notes of other programs, read with the same bounds."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from forged.errors import MemoryFormatError

if TYPE_CHECKING:
    from forged.files.yaml_text import Value

_MOST_CHARS = 64 * 1024


def front_matter(text: str, keys: Collection[str]) -> tuple[dict[str, Value], str, int]:
    """The values of these keys, the text below the front matter, and how many lines stand above that.

    No values without front matter. Raises MemoryFormatError for one that is no plain YAML.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return {}, text, 0
    end = next((at for at in range(1, len(lines)) if lines[at].rstrip() in {"---", "..."}), 0)
    if not end:
        return {}, text, 0
    header = "\n".join(lines[1:end])
    if len(header) > _MOST_CHARS:
        raise MemoryFormatError(f"the front matter is larger than {_MOST_CHARS // 1024} KiB")
    from forged.files.yaml_text import load  # noqa: PLC0415 - 10 ms that a daemon can start without

    values, _ = load(header + "\n", keys)
    return values, "\n".join(lines[end + 1 :]), end + 1
