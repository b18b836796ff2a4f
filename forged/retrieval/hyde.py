"""HyDE: sentences that a relevant memory might contain, written by a chat model from the window.

Memories are terse and declarative, conversation is neither; hypotheses in the memories' own register are
what makes embeddings of the two comparable (ADR-0047). In goes the window, out come at most so many
sentences; ProviderError is raised when the model cannot be asked. What it is told, and what that was measured
to be worth, stands in forged/text/prompts/hyde*.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forged import conversation
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.models import ChatModel, Prompt, Purpose
from forged.retrieval.hypotheses import sentences
from forged.text import prompts

_SYSTEM = prompts.text("hyde")
_ASK = prompts.template("hyde.ask")
# Characters. A model that refuses a window this short does not refuse it for its size.
_SHORT = 3_000
# Characters. A reply of this length is a model that does not stop.
_LONG = 16_000


async def hypotheses(
    model: ChatModel,
    window: Sequence[Utterance],
    purpose: Purpose,
    *,
    count: int,
    deadline: float,
    is_late: Callable[[], bool],
) -> tuple[str, ...]:
    """Ask for `count` hypotheses; `deadline` is `time.monotonic()` seconds. Empty window: no call.

    The reply is read as it is written: no further than `count` lines, and once it `is_late` no
    further than the lines that stand. A model on the user's own machine often takes less than the whole
    window; one that refuses is asked once more with the newest messages alone: they hold the question.
    Raises ProviderError.
    """
    if not window:
        return ()
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
) -> tuple[str, ...]:
    user = _ASK.substitute(window=conversation.as_text(window), count=count)
    known = f"{_SYSTEM}\n{conversation.last_user_text(window)}"

    stood, found = "", tuple[str, ...]()

    def enough(text: str) -> bool:
        nonlocal stood, found
        lines = _whole_lines(text)
        if lines != stood:  # a model writes words, and thoughts for minutes; reading takes a millisecond
            stood, found = lines, sentences(lines, count, known=known)
        return len(found) == count or (bool(found) and is_late()) or len(text) > _LONG

    completion = await model.complete(Prompt(_SYSTEM, user, purpose, enough=enough), deadline=deadline)
    written = completion.text
    return sentences(written if completion.whole else _whole_lines(written) or written, count, known=known)


def _whole_lines(text: str) -> str:
    return text.rpartition("\n")[0]
