"""What stands around a statement and is not part of it: greetings, politeness, `remember that`, `no, `.

Stripped, because a memory is read without its conversation; remembered as a flag, because it says how the
statement is meant.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from forged.capture.rules.words import any_of, forms

# What a lead-in says about the statement after it: `firm` makes any statement worth keeping, `correcting`
# makes one about the project a correction.
Flag = Literal["", "firm", "correcting"]


class Sentence(msgspec.Struct, frozen=True):
    """A sentence without its lead-in, and what the lead-in said about it."""

    text: str
    flags: frozenset[Flag] = frozenset()


class _Lead(msgspec.Struct, frozen=True):
    """What is stripped from the start of a sentence."""

    flag: Flag
    pattern: re.Pattern[str]


def _leads(flag: Flag, table: str) -> tuple[_Lead, ...]:
    return tuple(_Lead(flag, pattern) for pattern in forms(table))


# The first that matches, again and again; at most so often, which bounds the cost.
_MOST = 6
_LEADS: tuple[_Lead, ...] = (
    *_leads(
        "firm",
        r"""
        (?:(?:so|and|also)? ?(?:please|pls|plz)? ?)?(?:remember|keep in mind|bear in mind|(?:don'?t
            |do not) forget|memori[sz]e)(?: this)?(?: that\b(?! \w+ (?:with|from|about)\b)|:|,| [-–—]
            | (?=(?:we|our|i|i'm|my|in (?:this|our)|always|never)\b)| to (?=(?:always|never)\b))
        (?:(?:a|the|our|my|team|house|project|repo|general) ){0,2}(?:rule|convention|policy)(?: of thumb)?:
        (?:请|麻烦)?(?:你)?(?:记住|记得|请注意)(?:[：:，,]|(?=我们|这个|本|永远|不要|以后|所有))
        """,
    ),
    *_leads(
        "correcting",
        r"""
        (?:actually,? )?(?:no|nope|nah|wrong|no no)\b(?:[,.!:;]+|(?= [-–—] )|$)
        (?:(?:no,? )?(?:that'?s|that is|this is|you'?re|you are|it'?s) )(?:just |plain |still )?(?:wrong
            |incorrect|not (?:right|correct|true|how we do it(?: here)?))(?:[,.!:;]+|$)
        (?:as )?i(?:'ve| have)? (?:already )?(?:told you|said)(?: before| already| that| many times)*[:,]
        (?:不对|错了|不是的)[，,。！]?
        """,
    ),
    *_leads(
        "",
        r"""
        (?:hey|hi|hello|hallo|yo|good (?:morning|evening|afternoon))(?: (?:there|all|everyone
            |again))?[,!.]+
        (?:ok(?:ay)?|great|perfect|nice|cool|thanks|thank you|thx|sure|alright|yes|yep|yeah|hm+|ah|oh|well
            |looks good|lgtm|good|fine|awesome|right)\b(?:[,!:.;]+|$)
        (?:so|and|but|also|plus|anyway|ok|okay|hm+|oh|actually)\b,?(?= )
        (?:please|pls|plz|kindly)\b,?
        (?:by the way|btw|fyi|for (?:future|your) reference|for (?:the|your) (?:record|information)
            |note(?: to self)?(?: that)?|nb|important|reminder|heads[- ]up|psa|small thing
            |side note)\b[:,]*(?: that\b)?
        (?:[\w']+ ){0,4}(?:thing|note|one|style|tip|hint|lesson|reminder|preference|request|habit|background
            |context)s?(?: [\w']+){0,6}:
        (?:顺便说一下|顺便|另外|对了|你好|好的|谢谢|请)[，,：:！。]?
        """,
    ),
)
# Between a lead-in and the statement.
_GAP = " \t-–—"
# Stripped from the end.
TRAILS = any_of(r"(?:,? (?:please|pls|plz|thanks|thank you|thx|ok|okay|cheers|:-?\)))+$")


def without_leads(text: str, carried: frozenset[Flag] = frozenset()) -> Sentence:
    """Take the lead-ins off the start. `carried` are flags of a sentence before that was nothing else."""
    flags = set(carried)
    for _ in range(_MOST):
        found = next(((lead.flag, match) for lead in _LEADS if (match := lead.pattern.match(text))), None)
        if found is None:
            break
        flag, match = found
        flags.add(flag)
        text = text[match.end() :].lstrip(_GAP)
    return Sentence(text.strip(), frozenset(flags))
