"""HyDE: sentences that a relevant memory might contain, written by a chat model from the window.

Memories are terse and declarative, conversation is neither: hypotheses in the memories' register make their
embeddings comparable (ADR-0047). Raises ProviderError when the model cannot be asked or will not answer. The
prompt and its measured worth are in forged/text/prompts/hyde*.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from forged import conversation
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.models import ChatModel, Prompt, Purpose
from forged.retrieval.hypotheses import begins_as_json, clear, sentences
from forged.text import prompts

_SYSTEM = prompts.text("hyde")
_ASK = prompts.template("hyde.ask")
# Characters. A model that refuses a window this short does not refuse it for its size.
_SHORT = 3_000
# Characters. A reply of this length is a model that does not stop.
_LONG = 16_000


class Hypotheses(msgspec.Struct, frozen=True):
    """What a model guessed. `partial` says, as a sentence, why there are fewer than it was about to write."""

    texts: tuple[str, ...] = ()
    partial: str = ""


async def hypotheses(
    model: ChatModel,
    window: Sequence[Utterance],
    purpose: Purpose,
    *,
    count: int,
    deadline: float,
    is_late: Callable[[], bool],
) -> Hypotheses:
    """Ask for `count` hypotheses; `deadline` is `time.monotonic()` seconds. Empty window: no call.

    The reply is read as it is written, up to `count` lines, or up to the finished ones once it `is_late` or
    breaks off. A model that refuses the window, as local ones often do, is asked once more with the newest
    messages alone: they hold the question. Raises ProviderError.
    """
    if not window:
        return Hypotheses()
    try:
        return await _ask(model, window, purpose, count, deadline=deadline, is_late=is_late)
    except ProviderError as error:
        newest = conversation.window(window, _SHORT)
        if error.reason != "bad_input" or newest == tuple(window):
            raise
    return await _ask(model, newest, purpose, count, deadline=deadline, is_late=is_late)


async def _ask(
    model: ChatModel,
    window: Sequence[Utterance],
    purpose: Purpose,
    count: int,
    *,
    deadline: float,
    is_late: Callable[[], bool],
) -> Hypotheses:
    user = _ASK.substitute(window=conversation.as_text(window), count=count)
    known = f"{_SYSTEM}\n{conversation.last_user_text(window)}"

    stood, found, left = "", tuple[str, ...](), False

    def enough(text: str) -> bool:
        nonlocal stood, found, left
        lines = _finished(text)
        if lines != stood:  # a model writes words, and thoughts for minutes; reading takes a millisecond
            stood, found = lines, sentences(lines, count, known=known)
        left = len(found) == count or (bool(found) and is_late()) or len(text) > _LONG
        return left

    prompt = Prompt(_SYSTEM, user, purpose, enough=enough, clear=clear)
    completion = await model.complete(prompt, deadline=deadline)
    written = completion.text
    texts = sentences(written if completion.whole else _finished(written) or written, count, known=known)
    if completion.flaw and not texts and completion.flaw != "empty":
        raise completion.error()
    if completion.whole or len(texts) == count:
        return Hypotheses(texts)
    because = "the time was nearly over" if left else "the reply broke off"
    return Hypotheses(texts, f"{len(texts)} of {count} hypotheses: {because}")


def _finished(text: str) -> str:
    """What of a text will not grow any more: whole lines, or JSON, of which only whole strings are read."""
    return text if begins_as_json(text) else text.rpartition("\n")[0]
