"""English words and messages: stop words, irregular forms, and what people say every day."""

from __future__ import annotations

from forged.text.word_lists import lists

_LISTS = lists("english")

# "may" and "us" are missing: the month and the country are worth more than the auxiliary and the pronoun.
STOP_WORDS = frozenset(_LISTS["stop_words"].split())

# Base form by the forms that no stemmer joins with it; a line begins with the base form. Ambiguous forms
# (left, lay, wound, leaves, lives) are missing on purpose.
IRREGULAR = {
    form: base for base, *forms in map(str.split, _LISTS["irregular"].splitlines()) for form in forms
}

# Words that turn a sentence, narrow it or count, of other languages the negations.
TURNING = frozenset(_LISTS["turning"].split())

# Their scores show what an unrelated message scores in a store. None is in an evaluation set. The words are
# for small stores: without them "never mind" meets half of all stores of thirty memories, and recall loses up
# to three points instead of half a point.
EVERYDAY_MESSAGES = tuple(_LISTS["everyday_messages"].splitlines())
EVERYDAY_WORDS = tuple(_LISTS["everyday_words"].split())
