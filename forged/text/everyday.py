"""Everyday messages and words: what they score in a store shows what an unrelated message scores there.

Messages of code, chat, errands and agent noise, fifty in English and fourteen in Chinese, and words that say
little about any subject; all in our own words, and no message stands in an evaluation set. The words are for
small stores: without them "never mind" meets half of all stores of thirty memories, and five unrelated
messages in a hundred cost up to three points of recall instead of half a point.
"""

from __future__ import annotations

from forged.text.word_lists import lines, words

MESSAGES = lines("everyday_messages")
WORDS = words("everyday")
