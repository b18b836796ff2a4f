"""The retrieval pipeline over small fakes: order of fallbacks, cache, chains, links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from forged.config import Config, MemoryConfig
from forged.conversation import Utterance, last_user_text
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.map import Baseline, gate
from forged.models import Completion, EndpointHealth
from forged.retrieval import Answer, Ask, CachedAnswer, Retriever, pipeline
from forged.retrieval.reasons import CHAT
from forged.stores import Question, Ranked, SearchResult, View, Workplace
from tests.data.maps import vector_map
from tests.data.memories import memory
from tests.support.clock import PATIENCE_S, until

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
REFUSED = ProviderError("no", reason="auth")


class Chat:
    """Writes `lines`, raises `error`, or waits for ever if there is neither."""

    health: EndpointHealth | None = None

    def __init__(self, *lines: str, error: ProviderError | None = None) -> None:
        self.lines, self.error = lines, error
        self.calls = self.cancelled = 0
        self.go = asyncio.Event()
        if lines or error:
            self.go.set()

    def answer(self, *lines: str) -> None:
        self.lines = lines
        self.go.set()

    async def complete(self, prompt, *, deadline):
        self.calls += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return Completion("\n".join(self.lines))

    async def aclose(self):
        pass


class Embedder:
    """Vectors by text; X for any other. Texts in `refused` fail, all of them if it is None."""

    key, engine = "key", ""
    chunk = 64
    replaceable, gives_layers, health = True, False, None

    def __init__(
        self, vectors: Mapping[str, Sequence[float]] | None = None, refused: set[str] | None = frozenset()
    ) -> None:
        self.vectors, self.refused = dict(vectors or {}), refused
        self.calls: list[list[str]] = []

    async def embed(self, texts, kind="passage", *, purpose, deadline=None):
        self.calls.append(texts)
        if self.refused is None or self.refused & set(texts):
            raise REFUSED
        return np.array([self.vectors.get(text, X) for text in texts], np.float32)

    def reset_dimension(self):
        pass

    async def aclose(self):
        pass


BOTH = vector_map([memory("a", "walrus"), memory("b", "other")], {"a": X, "b": Y})
DENSE = vector_map(BOTH.memories, {"a": X, "b": Y}, lexical=False)
WORDS = vector_map(BOTH.memories)
EMPTY = vector_map([], root="/home", scope="user")


def ask(**options) -> Ask:
    defaults = {
        "window": (Utterance("user", "the walrus"),),
        "hypotheses": (),
        "top_k": 10,
        "hop_depth": 1,
        "deadline": time.monotonic() + options.pop("within", PATIENCE_S),
    }
    reported = {**defaults, **options}
    return Ask(message=last_user_text(reported["window"]), **reported)


def retriever(
    chat: Chat | None = None,
    embedder: Embedder | None = None,
    strategy: str = "auto",
    weight: float = 0.3,
    min_score: float = 0.0,
) -> Retriever:
    settings = MemoryConfig(
        retrieval_strategy=strategy,
        retrieval_hypothesis_count=5,
        retrieval_lexical_weight=weight,
        retrieval_min_score=min_score,
    )
    return Retriever(Config(memory=settings), embedder=embedder, chat=chat, metrics=Metrics())


def retrieve(of: Retriever, view: View, **options) -> Answer:
    async def run() -> Answer:
        try:
            return (await of.retrieve(ask(**options), seeing(view), CachedAnswer()))[0]
        finally:
            of.close()

    return asyncio.run(run())


class Files:
    """A store of files with one view."""

    def __init__(self, shown: View) -> None:
        self.shown = shown

    async def view(self, generation: int, deadline: float) -> View:
        return self.shown


def seeing(view: View, *others, top: str = "/repo") -> Workplace:
    return Workplace((), Files(view), (top,), MemoryConfig(), others=others)


_TURNS: dict[str, CachedAnswer] = {}


@pytest.fixture(autouse=True)
def no_turns() -> None:
    _TURNS.clear()


def turn(name: str = "t") -> CachedAnswer:
    """A turn, the same for the same name in one test."""
    return _TURNS.setdefault(name, CachedAnswer())


def ids(answer: Answer) -> list[str]:
    return [ranked.memory.id for ranked in answer.ranked]


def reported(answer: Answer) -> tuple[str, str, str, tuple[str, ...]]:
    return answer.status, answer.strategy, answer.reason, answer.indexes


# --- what is answered, by what and why ----------------------------------------------------------------


def said(text: str, role: str = "user") -> tuple[Utterance]:
    return (Utterance(role, text),)


RELATED, NEXT_TO, UNHEARD = said("the walrus"), said("can you translate a poem"), said("unheard")
BLANK = said("x", "assistant")
TRADES = "plumbing heating roofing carpentry masonry tiling glazing painting wiring fencing paving gutters"
FAINT = said(f"{TRADES} and a walrus")
BOTH_INDEXES, BY_WORDS = ("lexical", "dense"), ("lexical",)
AUTH, ON_THEIR_WAY = "provider: auth", "keyword results only; embeddings are still being computed"
NO_KEY, FIRST = "auth: no key", "the first index is still being built"
ANOTHER = "keyword results only; the embedding model was changed"
ODD = vector_map([memory("a", "x")], {"a": (1.0, 0.0)}, lexical=False)
FULL, READ, NOTHING = View((BOTH,)), View((WORDS,)), View((EMPTY,), generation=1)
GATED = {"min_score": 0.95}
ASIDE = {**GATED, "window": NEXT_TO}


def deaf() -> Embedder:
    return Embedder(refused=None)


# Status, strategy, reason, indexes, and whether the answer is less than it could be.


def ok(reason="", strategy="direct"):
    return "ok", strategy, reason, BOTH_INDEXES, bool(reason)


def words(reason="", status="ok"):
    return status, "direct", reason, BY_WORDS, bool(reason)


def none(reason, indexes=BY_WORDS):
    return "empty", "direct", reason, indexes, False


def failed(reason, status="error"):
    return status, "", reason, (), False


LATE = failed("the time limit (memory.retrieval_timeout_s) was reached", "timeout")
NO_MESSAGE = "there is no message to search for"
ANSWERS = {
    "hyde works": (Chat("h"), Embedder(), FULL, ok(strategy="hyde"), {}),
    "no hyde": (Chat(error=REFUSED), Embedder(), FULL, ok("hyde: auth"), {}),
    "hyde is late": (Chat(), Embedder(), FULL, ok("hyde: timeout"), {"within": 0.1}),
    "no vectors": (Chat("h"), deaf(), FULL, words(AUTH), {}),
    "no chat model, no vectors": (None, deaf(), FULL, words(AUTH), {}),
    "own hypotheses": (Chat("h"), deaf(), FULL, words(AUTH), {"hypotheses": ("walrus",), "window": ()}),
    "no vectors, no words": (Chat("h"), deaf(), View((DENSE,)), failed(AUTH), {"weight": 0}),
    "no model at all": (None, None, READ, words(), {}),
    "vectors to come": (None, Embedder(), READ, words(ON_THEIR_WAY), {}),
    "vectors to come, no word": (None, Embedder(), READ, words(ON_THEIR_WAY, "empty"), {"window": UNHEARD}),
    "hyde alone, refused": (Chat(error=REFUSED), Embedder(), FULL, failed(AUTH), {"strategy": "hyde"}),
    "hyde alone, no vectors": (Chat("h"), deaf(), FULL, failed(AUTH), {"strategy": "hyde"}),
    "hyde alone, late": (Chat(), Embedder(), FULL, LATE, {"strategy": "hyde", "within": 0.05}),
    "direct alone, no vectors": (None, deaf(), FULL, failed(AUTH), {"strategy": "direct"}),
    "no message, hyde": (Chat("h"), Embedder(), FULL, ok(strategy="hyde"), {"window": BLANK}),
    "no message, direct": (
        None,
        Embedder(),
        FULL,
        none(NO_MESSAGE, ()),
        {"window": BLANK},
    ),
    "another dimension": (None, Embedder(), View((ODD,)), failed(ANOTHER), {"weight": 0}),
    "first build": (None, Embedder(), View((), waiting=True), failed(FIRST, "not_ready"), {}),
    "first, other empty": (None, Embedder(), View((EMPTY,), waiting=True), failed(FIRST, "not_ready"), {}),
    "first, other full": (None, Embedder(), View((BOTH,), waiting=True), ok(FIRST), {}),
    "broken": (None, Embedder(), View((), problem=NO_KEY), failed(NO_KEY), {}),
    "broken, other empty": (None, Embedder(), View((EMPTY,), problem=NO_KEY), failed(NO_KEY), {}),
    "broken, other full": (None, Embedder(), View((BOTH,), problem=NO_KEY), ok(NO_KEY), {}),
    "known to be empty": (Chat("h"), Embedder(), NOTHING, failed("no memories yet", "empty"), {}),
    "empty": (None, None, View((EMPTY,)), failed("no memories yet", "empty"), {}),
    "no match": (None, None, READ, none("no memory matches"), {"window": UNHEARD}),
    "gate at zero": (None, None, READ, words(), {"min_score": 0.0, "window": FAINT}),
    "gate below zero": (None, None, READ, words(), {"min_score": -1.0, "window": FAINT}),
    "gate, model not known": (None, Embedder(), FULL, ok(), ASIDE),
    "gate, no vectors, beside": (None, deaf(), FULL, words(AUTH, "empty"), ASIDE),
    "gate, no vectors, related": (None, deaf(), FULL, words(AUTH), GATED),
    "gate, vectors to come": (None, Embedder(), READ, words(ON_THEIR_WAY, "empty"), ASIDE),
    "gate, first build": (None, None, View((WORDS,), waiting=True), failed(FIRST, "not_ready"), ASIDE),
    "gate, broken": (None, None, View((WORDS,), problem=NO_KEY), failed(NO_KEY), ASIDE),
    "gate, known to be empty": (None, None, NOTHING, failed("no memories yet", "empty"), ASIDE),
}


@pytest.mark.parametrize(("chat", "embedder", "view", "answered", "options"), ANSWERS.values(), ids=ANSWERS)
def test_the_best_that_there_is_answers_and_says_what_was_wrong(chat, embedder, view, answered, options):
    tuning = {name: options[name] for name in ("strategy", "weight", "min_score") if name in options}
    of = retriever(chat, embedder, **tuning)
    answer = retrieve(of, view, **{name: value for name, value in options.items() if name not in tuning})

    assert (*reported(answer), answer.degraded) == answered
    assert bool(answer.ranked) == (answer.status == "ok")
    assert (answer.status, answer.indexes) != ("ok", BY_WORDS) or ids(answer) == ["a"]
    assert answer.status != "not_ready" or turn().get(0) is None


@pytest.mark.parametrize(
    ("chat", "embedder", "view", "window", "asked"),
    [
        (Chat("h"), Embedder(), FULL, RELATED, (1, [["h", "the walrus"]])),
        (Chat("h"), Embedder(), FULL, BLANK, (1, [["h"]])),
        (Chat(error=REFUSED), Embedder(), FULL, RELATED, (1, [["the walrus"]])),
        (None, deaf(), FULL, RELATED, (0, [["the walrus"]])),
        (None, Embedder(), READ, RELATED, (0, [])),
        (Chat("h"), Embedder(), NOTHING, RELATED, (0, [])),
    ],
    ids=["all", "no message", "no hyde", "no vectors", "vectors to come", "known to be empty"],
)
def test_no_model_is_asked_twice_or_in_vain(chat, embedder, view, window, asked):
    answer = retrieve(retriever(chat, embedder), view, window=window)

    assert (chat.calls if chat else 0, embedder.calls) == asked
    assert answer.strategy != "hyde" or [list(answer.hypotheses)] == embedder.calls


@pytest.mark.parametrize(
    ("strategy", "weight", "own", "asked"),
    [
        ("hyde", 0, (), ["h"]),
        ("hyde", 0, ("own",), ["own"]),
        ("hyde", 0.3, (), ["h", "the walrus"]),
        ("auto", 0, (), ["h", "the walrus"]),
        ("auto", 0, ("own",), ["own", "the walrus"]),
    ],
)
def test_explicit_hyde_without_words_asks_for_hypotheses_and_not_for_the_message(
    strategy, weight, own, asked
):
    embedder = Embedder()
    answer = retrieve(retriever(Chat("h"), embedder, strategy, weight), FULL, hypotheses=own)

    assert (answer.status, list(answer.hypotheses)) == ("ok", asked)
    assert embedder.calls == [asked]


# --- the gate -----------------------------------------------------------------------------------------


def gated(embedder: Embedder | None = None, chat: Chat | None = None, **options) -> Retriever:
    return retriever(chat, embedder, min_score=0.95, **options)


def learned() -> Baseline:
    rows = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Baseline.of("key", rows, rows)


WALRUSES = [memory(name, f"the walrus {name} sings") for name in "abcdefgh"]
UNKNOWN = View((vector_map(WALRUSES, dict.fromkeys("abcdefgh", (1.0, 0.0, 0.0))),), is_uncalibrated=True)


def test_until_the_model_is_known_two_memories_come_at_most_by_words_and_no_question_is_embedded():
    embedder = Embedder()
    about, next_to = (
        retrieve(gated(embedder), UNKNOWN, window=window)
        for window in (said("who sings? the walrus"), NEXT_TO)
    )

    assert (about.status, about.indexes, len(about.ranked), about.degraded) == ("ok", BY_WORDS, 2, True)
    assert "the embedding model is still being calibrated" in about.reason
    assert (next_to.status, next_to.ranked) == ("empty", ())
    assert embedder.calls == []


@pytest.mark.parametrize(
    "options",
    [{"strategy": "hyde", "min_score": 0.95}, {"weight": 0.0, "min_score": 0.95}, {"min_score": 0.0}],
    ids=["explicit hyde", "weight 0", "no gate"],
)
def test_who_wants_no_words_or_no_gate_is_answered_by_vectors_although_the_model_is_not_known(options):
    chat = Chat("h") if "strategy" in options else None
    answer = retrieve(retriever(chat, Embedder(), **options), UNKNOWN, window=RELATED)

    assert (answer.status, len(answer.ranked), "dense" in answer.indexes) == ("ok", 8, True)


@pytest.mark.parametrize(
    ("view", "calls"),
    [
        (View((EMPTY,), generation=3), 0),
        (View((EMPTY,), generation=2), 1),
        (View((EMPTY,), waiting=True, generation=3), 1),
        (View((EMPTY,), problem="auth", generation=3), 1),
        (View((WORDS,), generation=3), 1),
    ],
    ids=["empty", "older than asked for", "waiting", "broken", "full"],
)
def test_only_a_store_that_is_known_to_be_empty_now_asks_no_chat_model(view, calls):
    chat = Chat("h")
    retrieve(retriever(chat, Embedder()), view, min_generation=3)

    assert chat.calls == calls


async def test_a_search_embeds_the_callers_hypotheses_with_the_message_and_asks_no_model_for_any():
    """What each memory is ranked by is the query that it answers best; without vectors words decide alike."""
    chat, embedder = Chat("h"), Embedder({"like a": X, "like b": Y, "far": Z})
    asked = ask(window=said("far"), hypotheses=("like b", "like b"))
    found = await retriever(chat, embedder).search(asked, seeing(FULL))
    both = await retriever(chat, embedder).search(
        ask(window=(), hypotheses=("like b", "like a")), seeing(FULL)
    )
    by_words = await retriever(chat, deaf()).search(ask(window=(), hypotheses=("a walrus",)), seeing(FULL))

    assert embedder.calls == [["like b", "far"], ["like b", "like a"]]
    assert ids(found)[0] == "b"
    assert [round(each.cosine, 3) for each in both.ranked] == [1.0, 1.0]
    assert (ids(by_words), by_words.degraded) == (["a"], True)
    assert chat.calls == 0


async def test_what_is_chat_gets_nothing_but_what_is_searched_for(monkeypatch):
    monkeypatch.setattr(pipeline, "is_chat", lambda message, row=(): message == "my walrus naps")
    asked = ask(window=said("my walrus naps"))
    of = gated()
    (answer, _), listed = await of.retrieve(asked, seeing(READ)), await of.search(asked, seeing(READ))
    held = await of.search(asked, seeing(READ), inject=True)

    assert (answer.status, answer.reason, answer.ranked) == ("empty", CHAT, ())
    assert (held.status, held.reason, held.degraded) == ("empty", CHAT, False)
    assert ids(listed) == ["a"]
    (ungated, _), _ = await retriever().retrieve(asked, seeing(READ)), of.close()
    assert ungated.ranked, "who wants no gate is answered"


def test_of_a_small_store_only_what_is_near_the_best_is_injected_but_all_is_listed():
    background = learned()
    rows = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    memories = [memory(name, f"walrus {name}") for name in "abcdef"]
    view = View((vector_map(memories, dict(zip("abcdef", rows, strict=True))),), baseline=background)
    window = said("what was said in the third of them")
    embedder = Embedder({window[0].text: rows[2]})

    injected = retrieve(gated(embedder), view, window=window)
    listed = asyncio.run(gated(embedder).search(ask(window=window), seeing(view)))
    ungated = retrieve(retriever(None, embedder), view, window=window)

    assert ids(injected) == ["c"]
    assert {each.memory.id for each in injected.rejected} == set("abdef")
    assert {each.rejected for each in injected.rejected} <= {"faint", "far"}
    assert (listed.rejected, ungated.rejected) == ((), ())
    assert set(ids(listed)) == set("abcdef")
    assert set(ids(ungated)) == set("abcdef")


def test_a_link_by_vectors_needs_own_evidence_or_a_source_beyond_doubt(monkeypatch):
    rows = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    rows[1] = rows[2] + 0.3 * rows[1]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    memories = [
        memory("far", "one thing"),
        memory("near", "another"),
        memory("found", "third", related=["far", "near"]),
    ]
    vectors = dict(zip(["far", "near", "found"], rows, strict=True))
    view = View((vector_map(memories, vectors),), baseline=learned())
    window = said("what was said in it")
    embedder = Embedder({window[0].text: rows[2]})

    def linked(least, doubtless=gate._DOUBTLESS):
        monkeypatch.setattr(gate, "_DOUBTLESS", doubtless)
        return ids(retrieve(retriever(None, embedder, min_score=least), view, window=window, top_k=1))

    assert linked(1 - 1e-9, doubtless=100.0) == ["found", "near"]
    assert linked(0.95) == linked(0.0) == ["found", "far"]


@pytest.mark.parametrize(("doubtless", "reached"), [(0.5, "b"), (100.0, "c")])
def test_a_link_by_words_needs_own_words_or_a_source_with_many(monkeypatch, doubtless, reached):
    monkeypatch.setattr(gate, "_DOUBTLESS", doubtless)
    texts = {"a": "the walrus sings", "b": "something else", "c": "a walrus that sings in summer"}
    memories = [memory(name, text, related=["b", "c"] if name == "a" else []) for name, text in texts.items()]
    view, window = View((vector_map(memories),)), said("who sings with the walrus")

    linked = [ids(retrieve(of, view, window=window, top_k=1)) for of in (gated(), retriever())]

    assert linked == [["a", reached], ["a", "b"]]


# --- flights -----------------------------------------------------------------------------------------


@pytest.fixture
def chat() -> Chat:
    return Chat()


@pytest.fixture
def of(chat) -> Iterator[Retriever]:
    of = retriever(chat, Embedder(), "hyde")
    yield of
    of.close()


async def test_of_flights_that_are_late_the_newest_four_run_on(chat, of):
    for number in range(6):
        await of.retrieve(ask(within=0.02), seeing(FULL), turn(f"t{number}"))
    await asyncio.sleep(0)

    assert (chat.calls, chat.cancelled) == (6, 2)


async def test_a_probe_next_to_a_turn_fills_its_cache_and_delays_no_request():
    now = [1_000.0]
    health = EndpointHealth(clock=lambda: now[0])
    for _ in range(2):
        health.begin().record_failure(REFUSED)
    now[0] += 61
    chat = Chat()
    chat.health = health
    of = retriever(chat, Embedder())

    stopgap, _ = await of.retrieve(ask(), seeing(FULL), turn())
    assert (stopgap.reason, chat.calls) == ("hyde: auth", 1)
    await of.retrieve(ask(), seeing(FULL), turn("other"))
    assert chat.calls == 1  # one look at a time
    chat.answer("h")
    found = await until(lambda: (kept := turn().get(0)) is not None and not kept.degraded and kept)

    assert (found.strategy, found.reason) == ("hyde", "")
    of.close()


@pytest.mark.parametrize("asked_after", [True, False])
async def test_a_flight_that_saw_what_was_purged_is_not_kept_nor_joined(chat, of, asked_after):
    before = asyncio.create_task(of.retrieve(ask(), seeing(FULL), turn()))
    await asyncio.sleep(0)
    of.runs.purge()
    after = asyncio.create_task(of.retrieve(ask(), seeing(READ), turn())) if asked_after else None
    await asyncio.sleep(0)
    chat.answer("h")

    assert reported((await before)[0]) == ("ok", "hyde", "", BOTH_INDEXES)
    assert after is None or (await after)[0].indexes == BY_WORDS
    kept = turn().get(0)
    assert kept.indexes == BY_WORDS if asked_after else kept is None


# --- search -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "answered"),
    [("auto", ("ok", "direct", AUTH, BY_WORDS)), ("direct", ("error", "", AUTH, ()))],
)
async def test_a_search_falls_back_to_words_in_auto_only(strategy, answered):
    of = retriever(None, deaf(), strategy)

    assert reported(await of.search(ask(), seeing(FULL))) == answered


def test_a_large_search_leaves_the_loop_free():
    """Above the inline limit a search runs in its own thread; the answer is the same."""
    many = [memory(f"m{n:05}", f"text {n}") for n in range(200)]
    rows = {m.id: tuple(float(n == i % 50) for n in range(50)) for i, m in enumerate(many)}
    hypotheses = tuple(f"h{n}" for n in range(6000))
    vectors = dict.fromkeys((*hypotheses, "the walrus"), rows["m00007"])

    answer = retrieve(
        retriever(None, Embedder(vectors), weight=0),
        View((vector_map(many, rows, lexical=False),)),
        hypotheses=hypotheses,
        top_k=1,
    )

    assert answer.ranked[0].memory.id == "m00007"


# --- other sources beside the files --------------------------------------------------------------------


class Scripted:
    """A store that finds `rows`, raises `error`, or never answers if there is neither."""

    scope = owner = ""

    def maps(self):
        return ()

    def attributes(self, found):
        del found

    def has(self, found):
        return found in self.rows

    def use(self, found):
        del found

    async def view(self, generation, deadline):
        del generation, deadline
        return View(())

    async def reached(self, question):
        del question
        return ()

    def __init__(self, name: str, *rows: Ranked, error: Exception | None = None) -> None:
        self.name, self.rows, self.error = name, rows, error
        self.questions: list[Question] = []
        self.cancelled = 0

    has_second = False

    async def nearest_by_second(self, question: Question) -> Sequence[SearchResult]:
        raise AssertionError("it has no vectors of the second model")

    async def nearest(self, question: Question) -> Sequence[SearchResult]:
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        if not self.rows:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return (SearchResult(self.rows),)


def shared(name: str) -> Ranked:
    return Ranked(memory(name, f"of {name}", scope="org"), 17.0)


def next_to(*others: Scripted, view: View | None = None, **options) -> Answer:
    async def run() -> Answer:
        of = retriever(strategy=options.pop("strategy", "auto"))
        try:
            sources = seeing(READ if view is None else view, *others)
            answer, _ = await of.retrieve(ask(**options), sources, CachedAnswer())
            await asyncio.sleep(0)  # what was given up hears of it
            return answer
        finally:
            of.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("within", "kept"), [(1.0, 0.375), (PATIENCE_S, 0.75)])
def test_another_source_hears_the_question_its_filters_and_a_deadline_before_the_callers(within, kept):
    """Half again of the reserve for a fallback: that is a quarter of the time, and half a second at most."""
    org, deadline = Scripted("org", shared("o1")), time.monotonic() + within
    next_to(org, deadline=deadline, top_k=7)

    (question,) = org.questions
    assert (question.texts, question.message, question.top_k) == (("the walrus",), "the walrus", 7)
    assert question.least_evidence == float("-inf")
    assert 0 < deadline - question.deadline <= kept + 1e-6


def test_a_source_that_fails_is_named_and_left_out_and_the_others_answer(caplog):
    answer = next_to(Scripted("org", error=ConnectionError("secret")), Scripted("team", shared("t1")))

    assert (answer.status, answer.reason, answer.degraded) == ("ok", "org failed", True)
    assert ids(answer) == ["a", "t1"]
    assert "store=org reason=ConnectionError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("strategy", ["auto", "direct"])
def test_a_source_that_is_late_is_named_left_out_and_cancelled_before_the_deadline(strategy):
    slow = Scripted("org")
    answer = next_to(slow, strategy=strategy, within=0.4)

    assert (answer.status, answer.strategy, answer.reason) == ("ok", "direct", "org was late")
    assert ids(answer) == ["a"]
    assert (answer.degraded, slow.cancelled) == (True, 1)


async def test_each_source_is_gated_by_its_own_evidence():
    of, org = gated(), Scripted("org", shared("o1"))
    answer = (await of.retrieve(ask(window=NEXT_TO), seeing(READ, org), turn()))[0]
    (question,) = org.questions

    assert (answer.status, ids(answer)) == ("ok", ["o1"])
    assert round(question.least_evidence, 2) == 1.64


async def test_a_search_that_is_given_up_ends_the_other_sources_too():
    of, slow = retriever(), Scripted("org")
    searching = asyncio.create_task(of.search(ask(), seeing(READ, slow)))
    await until(lambda: slow.questions)
    searching.cancel()
    await asyncio.wait({searching})
    await asyncio.sleep(0)
    assert slow.cancelled == 1
