"""English stop words, and irregular forms that no stemmer reaches: `went` and `go` stay strangers.

Ambiguous forms (left, lay, wound, leaves, lives) are missing on purpose.
"""

from __future__ import annotations

from forged.text.word_lists import lines, words

# "may" and "us" are missing: the month and the country are worth more than the auxiliary and the pronoun.
STOP_WORDS = frozenset(words("stop"))

# Base form by the forms that stand for it; a line begins with the base form.
IRREGULAR = {form: base for line in lines("irregular") for base, *forms in (line.split(),) for form in forms}
