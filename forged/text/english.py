"""English words and messages: stop words, irregular forms, and everyday messages."""

from __future__ import annotations

from forged.text.word_lists import lists

_LISTS = lists("english")

# "may" and "us" are missing: the month and the country matter more than the auxiliary and the pronoun.
STOP_WORDS = frozenset(_LISTS["stop_words"].split())

# Base form of irregular forms that no stemmer joins; a line begins with the base form. Ambiguous forms (left,
# lay, wound, leaves, lives) are missing on purpose.
IRREGULAR = {
    form: base for base, *forms in map(str.split, _LISTS["irregular"].splitlines()) for form in forms
}

# Words that negate, restrict or count; of other languages the negations.
TURNING = frozenset(_LISTS["turning"].split())

# Their scores are the level of unrelated messages in a store. None is in an evaluation set. Short ones are
# for small stores: without them "never mind" matches half of all stores of thirty memories, and recall loses
# up to three points instead of half a point.
EVERYDAY_MESSAGES = tuple(_LISTS["everyday_messages"].splitlines())
EVERYDAY_WORDS = tuple(_LISTS["everyday_words"].split())
