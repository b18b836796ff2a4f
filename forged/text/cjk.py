"""Whether a text is Chinese, Japanese or Korean (CJK), as far as its characters tell.

Its characters are dense in meaning: where more than a fifth of a text's characters are such letters it is a
CJK text, however much Latin stands among them ("用 pytest 跑测试" is one). Nothing else is looked at, so the
answer for a text is always the same. A text is asked of the models that are meant for it by this rule, and
the rows of a map by it lose a mean of their own.
"""

from __future__ import annotations

import re

_LETTERS = re.compile(
    "[\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff]"
)
_SHARE = 0.2


def is_cjk(text: str) -> bool:
    """Whether more than a fifth of its characters are letters of these languages."""
    return not text.isascii() and len(_LETTERS.findall(text)) > _SHARE * len(text)
