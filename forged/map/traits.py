"""What a search asks about a memory beside its words and its vector: when it was made, and in which script.

Kept as three small arrays beside the legs of a map, so that nothing is looked up memory by memory while
somebody waits for an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from forged.memory import Memory, time_ns
from forged.text import dates
from forged.text.dates import Seconds

Rows = NDArray[np.int32]

# Chinese, Japanese and Korean characters are dense in meaning: a fifth of a text makes it such a text.
_WIDE = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_WIDE_SHARE = 0.2


class Traits(msgspec.Struct, frozen=True, eq=False):
    """Three arrays (n,) over the memories of one map.

    `created` int64, seconds since the epoch, 0 if unknown; `occasion` int32, equal for what was learned
    together (`moments.occasions`); `wide` bool, written in wide characters.
    """

    created: Seconds
    occasion: NDArray[np.int32]
    wide: NDArray[np.bool_]

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> Traits:
        """Look at all of `memories`."""
        created = np.fromiter((_seconds(memory.created_at) for memory in memories), np.int64, len(memories))
        return cls(created, dates.occasions(created), are_wide(memory.content for memory in memories))

    def edited(self, memories: Sequence[Memory], kept_old: Rows, kept_new: Rows, fresh: Rows) -> Traits:
        """Traits of `memories`: rows `kept_new` were `kept_old` here, and rows `fresh` are looked at."""
        created, wide = np.zeros(len(memories), np.int64), np.zeros(len(memories), np.bool_)
        created[kept_new], wide[kept_new] = self.created[kept_old], self.wide[kept_old]
        looked = Traits.of([memories[row] for row in fresh.tolist()])
        created[fresh], wide[fresh] = looked.created, looked.wide
        return Traits(created, dates.occasions(created), wide)


def are_wide(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Which texts are Chinese, Japanese or Korean, as far as their characters tell."""
    return np.fromiter(map(_is_wide, texts), np.bool_)


def _is_wide(text: str) -> bool:
    return not text.isascii() and len(_WIDE.findall(text)) > _WIDE_SHARE * len(text)


def _seconds(created_at: str) -> int:
    return max(0, time_ns(created_at) // 1_000_000_000)
