"""Everyday messages and words: their scores show what an unrelated message scores in a store.

None stands in an evaluation set. The words are for small stores: without them "never mind" meets half of all
stores of thirty memories, and recall loses up to three points instead of half a point.
"""

from __future__ import annotations

from forged.text.word_lists import lines, words

MESSAGES = lines("everyday_messages")
WORDS = words("everyday")
