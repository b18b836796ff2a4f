"""Tell Chinese, Japanese or Korean (CJK) text: more than a fifth of its characters are such letters.

They are dense in meaning, so it is one however much Latin stands among them.
"""

from __future__ import annotations

import re

_LETTERS = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_SHARE = 0.2


def is_cjk(text: str) -> bool:
    return not text.isascii() and len(_LETTERS.findall(text)) > _SHARE * len(text)
