"""HyDE: a chat model writes sentences that a relevant memory might contain.

Memories are terse and declarative, conversation is neither: hypotheses in the style of memories make their
embeddings comparable (ADR-0047). The prompt and its measured effect are in forged/text/prompts/hyde*.md.
Models number, bullet, quote, fence, explain, answer in JSON, repeat themselves, copy the prompt or the user's
message, refuse, or write one long paragraph: each was seen from a real model. Sentences that cannot find
anything new are dropped. Truth does not matter: a wrong guess about the right subject still finds the memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from forged import conversation
from forged.conversation import Utterance
from forged.errors import ProviderError
from forged.models import ChatModel, Prompt, Purpose
from forged.text import prompts

_SYSTEM, _ASK = prompts.text("hyde"), prompts.template("hyde.ask")
# Characters of a window that no model refuses, and of a reply of a model that does not stop.
_SHORT, _LONG = 3_000, 16_000


class Hypotheses(msgspec.Struct, frozen=True):
    """Hypotheses that a chat model wrote; `partial` is the reason if they are fewer than asked for."""

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
    """Ask a chat model for `count` hypothetical memories until `deadline`; none for an empty window.

    The reply is read while it is written, up to `count` lines, or up to the finished ones once it `is_late`
    or breaks off. A model that refuses the window, as local ones often do, is asked once more with the newest
    messages, which hold the question. Raises ProviderError.
    """
    if not window:
        return Hypotheses()
    ask = partial(_ask_once, model, purpose=purpose, count=count, deadline=deadline, is_late=is_late)
    try:
        return await ask(window)
    except ProviderError as error:
        newest = conversation.window(window, _SHORT)
        if error.reason != "bad_input" or newest == tuple(window):
            raise
    return await ask(newest)


async def _ask_once(
    model: ChatModel,
    window: Sequence[Utterance],
    *,
    purpose: Purpose,
    count: int,
    deadline: float,
    is_late: Callable[[], bool],
) -> Hypotheses:
    user = _ASK.substitute(window=conversation.as_text(window), count=count)
    known = f"{_SYSTEM}\n{conversation.last_user_text(window)}"
    read, found, has_enough = "", tuple[str, ...](), False

    def enough(text: str) -> bool:
        nonlocal read, found, has_enough
        lines = _finished(text)
        if lines != read:  # once per line: reading takes a millisecond
            read, found = lines, sentences(lines, count, known=known)
        has_enough = len(found) == count or (bool(found) and is_late()) or len(text) > _LONG
        return has_enough

    done = await model.complete(Prompt(_SYSTEM, user, purpose, enough=enough, clear=clear), deadline=deadline)
    texts = sentences(done.text if done.whole else _finished(done.text) or done.text, count, known=known)
    if not texts and done.failure not in {"", "empty"}:
        raise done.error()
    if done.whole or len(texts) == count:
        return Hypotheses(texts)
    because = "not enough time was left" if has_enough else "the reply was incomplete"
    return Hypotheses(texts, f"{len(texts)} of {count} hypotheses: {because}")


def _finished(text: str) -> str:
    """Return the finished part of a growing reply: whole lines, or JSON as it is."""
    return text if begins_as_json(text) else text.rpartition("\n")[0]


# Characters. A longer sentence is a paragraph; a longer note is leaked reasoning.
_LONGEST, _LONGEST_NOTE = 400, 200
# Bytes. Fewer letters occur in almost any text, so they prove no echo.
_TELLING = 12
_DEEPEST = 4

# A byte order mark and other characters of no width, which some models and servers put in front.
_INVISIBLE = re.compile(r"[\ufeff\u200b\u2060]")
# A fence on the line of a sentence, or of the JSON after it.
_LEANING_FENCE = re.compile(
    r"^([^\S\n]*```(?:json)?)[^\S\n]*(?=[\[{])|(?<=[^\s`])[^\S\n]*```[^\S\n]*$", re.MULTILINE
)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(r"<\|[a-z_]{1,20}\|>")
# A marker is one only if a space follows: "3.12 is the newest" must stay whole.
_MARKER = re.compile(r"(?:[-*•‣–]|(?:\*\*)?[(\[]?\d{1,2}[.):\]](?:\*\*)?)(?:\s+|$)|\d{1,2}、")
_LABEL = re.compile(
    r"\W{0,2}(?:memory|hypothesis|hypothetical|sentence|fact|note|user|assistant|记忆|假设|句子|事实|用户|助手)"
    r"(?: sentence)?(?: ?#?\d{1,2})?\W{0,2}(?::\W{0,2}\s|：\s*)",
    re.IGNORECASE,
)
_NOISE = re.compile(r"(?:```.*|</?[a-z_]+>|#{1,6} .*|-{3,}|={3,}|.*[:：])", re.IGNORECASE)
_REMARK = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely)\b[,.! ]*(?:here\b|$)"
    r"|here (?:are|is) (?:\d+|some|a few|the|your|my|two|three|four|five|six|seven|eight|nine|ten)\b"
    r"|(?:these|the above|this) (?:memory )?(?:sentences?|notes?|hypothes[ei]s)\b"
    r"|i hope |let me know|feel free|please (?:let me|provide|note)|note that these"
    r"|(?:i'?m|i am) (?:sorry|unable|not able)|sorry\b|i apologi[sz]e|as an ai\b"
    r"|i (?:cannot|can't|can not|won't) (?:help|assist|provide|access|answer|generate|fulfill|comply)"
    r"|i (?:don't|do not) have (?:access|any|enough|the)\b"
    r"|(?:there (?:is|are) )?no (?:relevant|specific|further|such) (?:memor|information|context)"
    r"|(?:好的|当然|没问题)[，,。！!]?(?:以下|这里|下面|$)|以下是|(?:很)?抱歉|对不起|作为(?:一个|一名)?(?:AI|人工智能)|我无法",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "'": "'", "“": "”", "‘": "’", "「": "」", "『": "』", "«": "»", "`": "`", "**": "**"}
# End of a sentence in a paragraph, or a number that would begin a line.
_END = re.compile(r"(?<=[.!?])\s+(?=[\"“`'(]?[A-Z0-9])|(?<=[。！？])\s*(?=\S)|,?\s+(?=\d{1,2}[.)]\s+\w)")
# Blanks of one line only: line breaks alone would take quadratic time.
_JSON = re.compile(r"^[^\S\n]*([\[{])\s*[\"'\[{]", re.MULTILINE)
_FROM_THE_BEGINNING = re.compile(r"[\s\ufeff]*(?:```(?:json)?\s*)?[\[{]\s*[\"\[{]")
# Words before JSON on its line: "Here you go: {" or "hypotheses = [".
_LED_UP_TO = re.compile(
    r"\A\s*(?:\w+ ?|(?:here|sure|certainly|ok(?:ay)?)\b[^\n\[{\"]{0,60})[:=][^\S\n]*(?=[\[{]\s*[\"'\[{])",
    re.IGNORECASE,
)
# A colon after it marks a key. Python's form of a list has quotes of either kind.
_STRING = re.compile(r'"(?P<text>(?>(?:[^"\\]++|\\.)*))"(?P<colon>\s*:)?')
_QUOTED = re.compile(
    r"""(?P<quote>["'])(?P<text>(?>(?:(?!(?P=quote))[^\\]|\\.)*))(?P=quote)(?P<colon>\s*:)?"""
)
_SINGLE_QUOTES = re.compile(r"[\[{]\s*(?:[\[{]\s*)*'")
_WORD = re.compile(r"\w")
_DECODER = json.JSONDecoder(strict=False)  # models break lines inside strings


def begins_as_json(text: str) -> bool:
    """Return True if a text, even a beginning of it, is JSON from its first character, fenced or not."""
    return _FROM_THE_BEGINNING.match(text) is not None


def sentences(reply: str, count: int, *, known: str = "") -> tuple[str, ...]:
    """Extract at most `count` sentences of a model's reply, none twice and none that `known` contains.

    `known` is the prompt with its example, and the message. Letters are compared without case.
    """
    text = _INVISIBLE.sub("", _TOKEN.sub("", _THINKING.sub("", reply[:_LONG])))
    text = _LED_UP_TO.sub("", _LEANING_FENCE.sub(r"\1\n", text))
    letters, found = _bare_letters(known), dict[str, str]()
    for sentence in _extract_sentences(text):
        bare = _bare_letters(sentence)
        if len(bare.encode("utf-8", "replace")) < _TELLING or bare not in letters:
            found.setdefault(bare, sentence)
    return tuple(found.values())[:count]


def _extract_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a reply's JSON, else of its lines, else of its only paragraph."""
    # Lines of unfinished JSON are no sentences.
    written = _json_strings(text) if _JSON.search(text) else map(_strip_marks, text.splitlines())
    found = list(filter(None, written))
    for line in found if len(found) > 1 else _END.split("".join(found)):
        sentence = _strip_marks(line)
        if _WORD.search(sentence) and not _REMARK.match(sentence):
            yield sentence


def _strip_marks(line: str) -> str:
    """Return a line without marks around its sentence, at most 400 characters; "" if it holds none."""
    line = "" if _NOISE.fullmatch(line.strip()) else line.strip()
    while (shorter := _strip_one_mark(line)) != line:
        line = shorter
    return line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(maxsplit=1)[0]


def _strip_one_mark(line: str) -> str:
    """Return a line without one pair of quotes, marker or label; unchanged if it has none."""
    quoted = line.removesuffix(",")
    for opening, closing in _QUOTES.items():
        inner = quoted[len(opening) : -len(closing)]
        if inner and quoted == f"{opening}{inner}{closing}" and opening not in inner:
            return inner.strip()
    start = _MARKER.match(line) or _LABEL.match(line)
    return line[start.end() :].strip() if start else line


def _json_strings(text: str) -> Iterator[str]:
    """Yield the strings of the JSON in a reply, fenced, one object a line or cut off."""
    end = 0
    while start := _JSON.search(text, end):
        try:
            value, end = _DECODER.raw_decode(text, start.start(1))
        except (ValueError, RecursionError):
            yield from _cut_off_strings(text[start.start(1) :])
            return
        yield from _text_leaves(value, _DEEPEST)


def _cut_off_strings(broken: str) -> Iterator[str]:
    """Yield whole strings of cut-off JSON, without keys, one-word values and one at the end."""
    named, end = False, len(broken.rstrip())
    strings = _QUOTED if _SINGLE_QUOTES.match(broken) else _STRING
    for match in strings.finditer(broken):
        if match.end() == end:
            return
        text, is_key = match["text"].replace('\\"', '"'), match["colon"] is not None
        if not is_key and not (named and _is_word(text)):
            yield text
        named = is_key


def _text_leaves(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield " ".join(value.split())
    elif depth and isinstance(value, list):
        yield from (leaf for inner in value for leaf in _text_leaves(inner, depth - 1))
    elif depth and isinstance(value, dict):
        for inner in value.values():
            is_list = isinstance(inner, list)
            yield from (leaf for leaf in _text_leaves(inner, depth - 1) if is_list or not _is_word(leaf))


def _is_word(text: str) -> bool:
    """Return True for a single ASCII word: in an object it is a category or scope, and no sentence."""
    return text.isascii() and " " not in text


def _bare_letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


# --- leaked reasoning -----------------------------------------------------------------------------------

# Some chat templates begin the reasoning in the prompt, so that only its end tells it from an answer. It
# is about the task, the user or itself, in English or Chinese; a note is one short plain statement about
# another subject. In doubt the whole reply is read.

_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_BEGINS_A_THOUGHT = re.compile(
    r"\W*(?:o?kay|ok|so|well|hmm*|ah|oh|wait|alright|all right|right|sure|yes|no|now|then|thus|hence|but|also"
    r"|first(?:ly)?|second(?:ly)?|next|finally|maybe|perhaps|actually|let|given|since|looking|thinking|thought"
    r"|think|consider|analy[sz]\w*|understand\w*|identify|determine|step|goal|task|input|output|constraints?"
    r"|drafts?|here|this|that|it|they|these|there|what|which|how|why|who|to|based|need|must|should)\b",
    re.IGNORECASE,
)
_SPEAKS_OF_THE_TASK = re.compile(
    r"\b(?:i|i'\w+|me|my|let's|user (?:is|was|wants?|asks?|asked|sa(?:id|ys)|mentions?|needs?|has|might|may)"
    r"|user's|assistant|prompt|system message|instructions?|hypothe\w+|messages?|conversation|questions?"
    r"|quer\w+|requests?|requested|asked|asking|asks|notes?|memor(?:y|ies)|sentences?|statements?|bullet|answers?|reply"
    r"|respon[ds]\w*|generat\w+|guess\w*|maybe|perhaps|probably|likely|might|json|above|below|summary|context"
    r"|we (?:need|have to|should|must|can|are|want|know|could|might|don't|do not|may|will))\b"
    r"|[?:…]\W*$|\.\.\.",
    re.IGNORECASE,
)
_SPEAKS_ENGLISH = re.compile(
    r"\b(?:is|are|was|were|the|uses?|runs?|with|of|and|by|has|have|must|from|to|for|on|over|because|prefers?|likes?|lives?|keeps?|works?|goes)\b",
    re.IGNORECASE,
)
_IS_CHINESE = re.compile(r"[\u4e00-\u9fff]{2}")
_THINKS_IN_CHINESE = re.compile(
    r"^\W*(?:嗯|好|首先|那么|现在|接下来|然后|其次|最后|所以|因此|不过|但是|但|让|我(?!们[^需要应可得想])|他|她|它|这|那|需要|根据|分析|考虑|可能|也许)"
    r"|用户(?:的|说|问|想|要|需|在|提|希|是|可|似|询|让|给|发|又)|问题|提示|对话|笔记|记忆|消息|假设|句子|回答|[？?：:…]\W*$"
)


def clear(text: str) -> bool:
    """Return True if a reply is JSON, or has finished lines that all are plain statements, no reasoning."""
    if begins_as_json(text):
        return True
    lines = [line for line in text.split("\n")[:-1] if line.strip()]
    return bool(lines) and all(map(_is_plain_statement, lines))


def _is_plain_statement(line: str) -> bool:
    said = _BULLET.sub("", line).strip()
    if len(said) > _LONGEST_NOTE:
        return False
    if said.isascii():
        muses = _BEGINS_A_THOUGHT.match(said) or _SPEAKS_OF_THE_TASK.search(said)
        return not muses and bool(_SPEAKS_ENGLISH.search(said))
    return bool(_IS_CHINESE.search(said)) and not _THINKS_IN_CHINESE.search(said)
