"""Label the blocks of a message as typed, unsure or foreign, because pastes are not marked.

- Certain forms are foreign: code, logs, tables, quotations, headers of mails and tickets, chats, a text after
  a colon or between a salutation and a signature, and words of others (`forwarded`).
- A block near a line with a source is foreign. A block near a line that asks to process a text is mostly that
  text: surely if it reads like a document, is in another language, or is about agents and users.
- One of these signs alone makes it unsure: an order in it waits for review.

The words are `[segments]` of `authorship.toml`. Linear in the length of the text; raises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from forged.capture.forwarded import Certainty
from forged.capture.text_patterns import (
    is_chat,
    is_formed,
    is_item,
    is_list,
    is_table,
    language,
    segment_patterns,
)

# Longest block that asks for something, and shortest block that reads like a document, in characters.
_ASKS, _DOCUMENT = 160, 50
_SEEN = 1_200
# Longest block that asks only by a pronoun, in characters.
_BARE = 70
_QUESTION = re.compile(
    r"[?？]|^(?:what|why|how|where|was|wie|wo|warum|wieso|que|qué|por|pourquoi|où|o que)\b|吗|呢|啥|か$",
    re.IGNORECASE | re.MULTILINE,
)
_FOREIGN, _UNSURE = 3, 2
_OTHERS: dict[Certainty, int] = {"": 0, "unsure": _UNSURE, "foreign": _FOREIGN}
QUOTED = re.compile(r'\A\s*(?:"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|「[^」]+」|『[^』]+』)[.,;。]?\s*\Z')
_BOOKISH = re.compile(r"\W{0,3}(?:[A-ZÄÖÜÀ-ÖØ-Þ]|[\u3040-\u30ff\u4e00-\u9fff]).*[.。!！:…]\s*\Z", re.DOTALL)
_COLON = re.compile(r"[:：]\s*$")
_OWN = re.compile(
    r"\b(?:I|I'm|my|me|ich|mein\w*|mir|mich|yo|mis?|je|j'|mon|ma|mes|eu|meus?|minhas?)\b|我|私|俺|僕",
    re.IGNORECASE,
)
Author = Literal["typed", "unsure", "foreign", "brief"]


def _author_of(points: int) -> Author:
    """Return the author label (typed, unsure, foreign) for a block's points as foreign text."""
    if points >= _FOREIGN:
        return "foreign"
    return "unsure" if points >= _UNSURE else "typed"


def classify_blocks(blocks: Sequence[tuple[str, ...]], others: Sequence[Certainty]) -> list[Author]:
    """Label each block as typed, unsure or foreign by form, neighbours and what `forwarded` found."""
    return [_author_of(points) for points in _points(blocks, others)]


def _points(blocks: Sequence[tuple[str, ...]], others: Sequence[Certainty]) -> list[int]:
    """Return each block's points as foreign text, by its form, neighbours, requests and sources."""
    blocks = [tuple(line[:_SEEN] for line in block) for block in blocks]
    points = [max(_points_by_form(block), _OTHERS[said]) for block, said in zip(blocks, others, strict=True)]
    for place in _letter_blocks(blocks):
        points[place] = _FOREIGN
    for place, block in enumerate(blocks[:-1]):
        if _is_mail_header(block):  # text below the header of a mail or ticket
            points[place + 1] = _FOREIGN
        elif _COLON.search(block[-1]) and points[place] < _FOREIGN:
            points[place + 1] = _after_colon(block[-1], blocks[place + 1], points[place + 1])
    asks = _asking(blocks, points)
    tells = [points[at] < _FOREIGN and _tells_source(block) for at, block in enumerate(blocks)]
    mother = next((language("\n".join(each)) for at, each in enumerate(blocks) if asks[at] or tells[at]), "")
    if not (has_asks := any(asks)) and not any(tells):
        return points
    has_source = any(tells)
    for place, block in enumerate(blocks):
        if asks[place] or tells[place] or points[place] >= _FOREIGN or _is_own(block):
            continue
        points[place] += _near_source_or_request(block, mother, asks=has_asks, tells=has_source)
    return points


def _asking(blocks: Sequence[tuple[str, ...]], points: Sequence[int]) -> list[bool]:
    """Return a flag for each block: it asks to process a text, plainly or else by a pronoun."""
    own = [found < _FOREIGN for found in points]
    plainly = [
        mine and _asks_to_process(block, pointing=False) for mine, block in zip(own, blocks, strict=True)
    ]
    if any(plainly):
        return plainly
    return [mine and _asks_to_process(block, pointing=True) for mine, block in zip(own, blocks, strict=True)]


def _after_colon(line: str, block: tuple[str, ...], points: int) -> int:
    """Return a block's points below a colon: foreign unless the line announces what to keep."""
    if segment_patterns()["announces"].search(line) is None:
        return _FOREIGN
    return 0 if is_list(block) and segment_patterns()["agents"].search("\n".join(block)) is None else points


def _near_source_or_request(block: tuple[str, ...], mother: str, *, asks: bool, tells: bool) -> int:
    """Return extra points of a block near a source or a request to process a text."""
    text = "\n".join(block)
    if tells:
        return _FOREIGN
    found = _UNSURE if asks else 0
    theirs = language(text)
    is_other = bool(mother and theirs) and theirs != mother
    return found + (found > 0 and _is_document(text)) + _UNSURE * is_other


def _points_by_form(block: tuple[str, ...]) -> int:
    """Return the points of a block by its own form, without its neighbours."""
    text = "\n".join(block)
    if is_list(block) and not segment_patterns()["prefixes"].match(text):
        return _points_of_list(block, text)
    if any(is_formed(line) for line in block) or is_table(block) or is_chat(block) or QUOTED.match(text):
        return _FOREIGN
    if segment_patterns()["prefixes"].match(text.lstrip()) or _is_mail_header(block):
        return _FOREIGN
    if len(block) > 1 and any(QUOTED.match(line) for line in block):
        return _FOREIGN
    if _introduces(block):
        return _FOREIGN if segment_patterns()["sources"].search(block[0]) else _UNSURE
    return _UNSURE + _is_document(text) if segment_patterns()["agents"].search(text) else 0


def _is_mail_header(block: tuple[str, ...]) -> bool:
    """Return True for the header of a mail or ticket."""
    return sum(segment_patterns()["headers"].match(line) is not None for line in block) > 1


def _points_of_list(block: tuple[str, ...], text: str) -> int:
    """Return the points of a list; a list that no line announces is a paste."""
    if is_item(block[0]) or segment_patterns()["announces"].search(block[0]) is None:
        return _FOREIGN
    return _UNSURE * (segment_patterns()["agents"].search(text) is not None)


def _introduces(block: tuple[str, ...]) -> bool:
    """Return True if the first line introduces the others, without asking to keep them."""
    return (
        len(block) > 1
        and _COLON.search(block[0]) is not None
        and not segment_patterns()["announces"].search(block[0])
    )


def _is_document(text: str) -> bool:
    """Return True if a text reads like a document: 50 characters, begun by a capital, ended by a stop."""
    return len(text) >= _DOCUMENT and _BOOKISH.match(text) is not None


def _letter_blocks(blocks: Sequence[tuple[str, ...]]) -> Iterator[int]:
    """Yield the indexes of blocks that are a letter, from a salutation to a signature."""
    begins: int | None = None
    for place, block in enumerate(blocks):
        if (
            begins is None
            and any(segment_patterns()["salutes"].match(line.strip()) for line in block)
            and len(blocks) > 1
        ):
            begins = place
        is_signed = any(segment_patterns()["signs"].match(line.strip()) for line in block[-2:])
        if is_signed and (len(block) > 1 or begins is not None):
            yield from range(place if begins is None else begins, place + 1)
            begins = None
    if begins is not None:
        yield begins


def _asks_to_process(block: tuple[str, ...], *, pointing: bool) -> bool:
    """Return True if a block asks to process a text; with `pointing`, a pronoun is enough."""
    text = "\n".join(block)
    if len(text) > _ASKS or _is_own(block):
        return False
    if _QUESTION.search(text) and segment_patterns()["points"].search(text):
        return True
    # A statement ends with a stop; a casual request does not.
    points = (
        pointing
        and len(text) <= _BARE
        and text[-1] not in ".。"
        and segment_patterns()["points"].search(text) is not None
    )
    return points or segment_patterns()["handles"].search(text) is not None


def _tells_source(block: tuple[str, ...]) -> bool:
    """Return True if a short block names the source of a text, such as a ticket or a mail."""
    text = "\n".join(block)
    return (
        len(text) <= 2 * _ASKS
        and segment_patterns()["sources"].search(text) is not None
        and not _is_own(block)
    )


def _is_own(block: tuple[str, ...]) -> bool:
    """Return True if a block announces something to keep in the first person, so that it is typed."""
    text = "\n".join(block)
    return segment_patterns()["agents"].search(text) is None and bool(
        segment_patterns()["announces"].search(text) and _OWN.search(text)
    )
