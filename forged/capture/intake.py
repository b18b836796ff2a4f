"""Clean messages for capture: cut injected text, secrets, and sentences that are off the record.

`take_in` gets utterances without tool content and returns them as they may wait, be stored or leave for a
model; it raises nothing, and nothing waits, is stored or leaves that has not passed here. What forged itself
injected must not be learnt. What a person does not want remembered is cut out of the assistant's answers too.
Secrets are looked for a second time before a file is written.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from forged.capture.off_record import Refusal, cut, refused_in, without_repeats
from forged.conversation import Utterance
from forged.text.injected_text import InjectedText
from forged.text.redaction import redact

# Characters; no secret is longer, not even a private key.
LONGEST_SECRET = 16_000


class Intake(msgspec.Struct, frozen=True):
    """Messages after cleaning, None where nothing is left; counts of secrets and echoes that were cut.

    `refusing` are the places of messages with something that must not be kept, `refused` the words of each
    such text. `forgets` are sentences that ask to forget, with the places of their messages. `points_before`:
    the first that refuses means what was said before all of these.
    """

    window: tuple[Utterance | None, ...] = ()
    redacted: int = 0
    echoes: int = 0
    refusing: tuple[int, ...] = ()
    refused: tuple[Refusal, ...] = ()
    forgets: tuple[tuple[int, str], ...] = ()
    points_before: bool = False


def take_in(
    utterances: Sequence[Utterance],
    injected: Collection[str],
    *,
    begun: bool = False,
    goes_on: bool = False,
    refused: Sequence[Refusal] = (),
) -> Intake:
    """Return all messages without echoes, secrets, and what is not to be remembered.

    `injected` holds the contents of memories that were injected into this session, `refused` the words of
    what was refused in it before. The first message may be
    the rest of one that is `begun` and the last one only the beginning of one that `goes_on`: where they were
    cut, so much stands in both that each leaves away what may be the half of a secret.
    """
    ours = InjectedText(injected)
    window: list[Utterance | None] = []
    secrets = echoes = 0
    for place, utterance in enumerate(utterances):
        text, cut = ours.cut(utterance.text, inline=utterance.role == "assistant")
        clean = redact(text.rstrip())
        echoes += cut
        secrets += clean.count
        start = LONGEST_SECRET if begun and not place else 0
        end = LONGEST_SECRET if goes_on and place == len(utterances) - 1 else 0
        kept = clean.text[start : len(clean.text) - end]
        window.append(Utterance(utterance.role, kept) if kept.strip() else None)
    return _on_record(Intake(tuple(window), secrets, echoes), refused)


def _on_record(taken: Intake, before: Sequence[Refusal]) -> Intake:
    """Take out what is off the record, what was said of it before, and what the assistant says of it."""
    window = [*taken.window]
    refusing, texts, forgets = list[int](), list[str](), list[tuple[int, str]]()
    points_before = False
    for place, each in enumerate(taken.window):
        if each is None or each.role != "user" or (found := cut(each.text)).text == each.text:
            continue
        window[place] = Utterance("user", found.text) if found.text.strip() else None
        forgets += [(place, text) for text in found.forgets]
        texts += found.refused
        if found.refused:
            refusing.append(place)
        if found.points_before:
            first = _place_before(taken.window, place)
            points_before = points_before or first is None
            texts += [gone.text for gone in taken.window[first or 0 : place] if gone is not None]
            window[first or 0 : place] = [None] * (place - (first or 0))
    refused = tuple(map(refused_in, texts))
    for place, left in enumerate(window):
        # What the person says after a refusal is a new word about it.
        is_past = refusing and place < refusing[-1]
        if left is not None and (before or refused) and (left.role == "assistant" or is_past):
            is_own = left.role == "user"
            text = without_repeats(left.text, refused if is_own else (*before, *refused), by_name=not is_own)
            window[place] = Utterance(left.role, text) if text.strip() else None
    return msgspec.structs.replace(
        taken,
        window=tuple(window),
        refusing=tuple(refusing),
        refused=refused,
        forgets=tuple(forgets),
        points_before=points_before,
    )


def _place_before(window: Sequence[Utterance | None], place: int) -> int | None:
    """The place of the person's message before another one, None if there is none in the window."""
    before = (at for at in reversed(range(place)) if (each := window[at]) is not None and each.role == "user")
    return next(before, None)
