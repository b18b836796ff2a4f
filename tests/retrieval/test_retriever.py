"""The pipeline over small fakes: the order of fallbacks, what is kept, chains, hops, and what never shows."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from forged.conversation import Utterance, last_user_text
from forged.counters import Metrics
from forged.errors import ProviderError
from forged.map import Baseline
from forged.models import Completion
from forged.retrieval.retriever import Retriever, Tuning
from forged.retrieval.turns import turn_key
from forged.retrieval.values import Answer, Ask, Sources
from forged.scopes import Question, Ranked, Rows, View

X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
REFUSED = ProviderError("no", reason="auth")


class Chat:
    """Writes `lines`, raises `error`, or waits for ever if there is neither."""

    def __init__(self, *lines: str, error: ProviderError | None = None) -> None:
        self.lines, self.error = lines, error
        self.calls = self.cancelled = 0
        self.go = asyncio.Event()
        if lines or error:
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

    key = "key"
    chunk = 64

    def __init__(
        self, vectors: Mapping[str, Sequence[float]] | None = None, refused: set[str] | None = frozenset()
    ) -> None:
        self.vectors, self.refused = dict(vectors or {}), refused
        self.calls: list[list[str]] = []

    async def embed(self, texts, kind="passage", *, deadline=None):
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
        "session_id": "s",
        "turn_id": "t",
        "window": (Utterance("user", "the walrus"),),
        "hypotheses": (),
        "top_k": 10,
        "hop_depth": 1,
        "budget_tokens": 0,
        "deadline": time.monotonic() + options.pop("within", 5.0),
    }
    told = {**defaults, **options}
    return Ask(message=last_user_text(told["window"]), **told)


def retriever(
    chat: Chat | None = None,
    embedder: Embedder | None = None,
    strategy: str = "auto",
    weight: float = 0.3,
    min_score: float = 0.0,
) -> Retriever:
    tuning = Tuning(strategy=strategy, hypothesis_count=5, lexical_weight=weight, min_score=min_score)
    return Retriever(embedder=embedder, chat=chat, tuning=tuning, metrics=Metrics())


def retrieve(of: Retriever, view: View, **options) -> Answer:
    async def run() -> Answer:
        try:
            return (await of.retrieve(ask(**options), seeing(view)))[0]
        finally:
            of.close()

    return asyncio.run(run())


def seeing(view: View, *others, top: str = "/repo") -> Sources:
    async def see(deadline: float) -> View:
        return view

    return Sources((top,), see, others)


def told(answer: Answer) -> tuple[str, str, str, tuple[str, ...]]:
    return answer.status, answer.strategy, answer.reason, answer.legs


# --- ready at once, better soon -------------------------------------------------------------------------


def test_until_the_vectors_are_there_the_words_answer_and_nobody_embeds_the_query():
    embedder = Embedder()
    answer = retrieve(retriever(embedder=embedder), View((WORDS,)))

    assert told(answer) == ("ok", "direct", "vectors are on their way; answered by words", ("lexical",))
    assert answer.degraded
    assert embedder.calls == []


def test_a_store_known_to_be_empty_asks_no_model():
    chat, embedder = Chat("h"), Embedder()
    answer = retrieve(retriever(chat, embedder), View((EMPTY,), generation=1))

    assert told(answer)[:3] == ("empty", "", "no memories yet")
    assert (chat.calls, embedder.calls) == (0, [])


# --- the order of fallbacks ---------------------------------------------------------------------


def test_auto_uses_hyde_while_it_works():
    answer = retrieve(retriever(Chat("h"), Embedder()), View((BOTH,)))

    assert told(answer) == ("ok", "hyde", "", ("lexical", "dense"))
    assert (answer.hypotheses, answer.degraded) == (("h", "the walrus"), False)


def test_auto_without_hyde_takes_the_message_and_its_vector():
    embedder = Embedder()
    answer = retrieve(retriever(Chat(error=REFUSED), embedder), View((BOTH,)))

    assert told(answer) == ("ok", "direct", "hyde: auth", ("lexical", "dense"))
    assert (embedder.calls, answer.degraded) == ([["the walrus"]], True)


def test_auto_without_vectors_takes_words():
    answer = retrieve(retriever(Chat("h"), Embedder(refused=None)), View((BOTH,)))

    assert told(answer) == ("ok", "direct", "provider: auth", ("lexical",))
    assert [ranked.memory.id for ranked in answer.ranked] == ["a"]


def test_auto_without_vectors_and_without_words_is_an_error():
    answer = retrieve(retriever(Chat("h"), Embedder(refused=None), weight=0), View((DENSE,)))

    assert told(answer) == ("error", "", "provider: auth", ())


def test_auto_without_a_chat_model_asks_nobody_twice():
    embedder = Embedder(refused=None)
    answer = retrieve(retriever(None, embedder), View((BOTH,)))

    assert told(answer) == ("ok", "direct", "provider: auth", ("lexical",))
    assert len(embedder.calls) == 1


def test_auto_with_no_model_at_all_is_direct_and_no_fallback():
    answer = retrieve(retriever(), View((WORDS,)))

    assert told(answer) == ("ok", "direct", "", ("lexical",))
    assert not answer.degraded


def test_hypotheses_of_the_caller_fall_back_to_words():
    answer = retrieve(
        retriever(Chat("h"), Embedder(refused=None)), View((BOTH,)), hypotheses=("walrus",), window=()
    )

    assert told(answer) == ("ok", "direct", "provider: auth", ("lexical",))
    assert [ranked.memory.id for ranked in answer.ranked] == ["a"]


@pytest.mark.parametrize(
    ("strategy", "chat", "refused"),
    [("hyde", Chat(error=REFUSED), frozenset()), ("hyde", Chat("h"), None), ("direct", None, None)],
    ids=["hyde without chat", "hyde without vectors", "direct without vectors"],
)
def test_an_explicit_strategy_never_falls_back(strategy, chat, refused):
    answer = retrieve(retriever(chat, Embedder(refused=refused), strategy), View((BOTH,)))

    assert told(answer) == ("error", "", "provider: auth", ())
    assert answer.text == ""


def test_at_the_deadline_auto_answers_with_what_needs_no_hyde():
    answer = retrieve(retriever(Chat(), Embedder()), View((BOTH,)), within=0.1)

    assert told(answer) == ("ok", "direct", "hyde: timeout", ("lexical", "dense"))


def test_at_the_deadline_explicit_hyde_answers_with_nothing():
    answer = retrieve(retriever(Chat(), Embedder(), "hyde"), View((BOTH,)), within=0.05)

    assert (answer.status, answer.text) == ("timeout", "")


def test_a_message_of_blanks_is_no_query_of_its_own():
    embedder = Embedder()
    window = (Utterance("assistant", "x"),)

    hyde = retrieve(retriever(Chat("h"), embedder), View((BOTH,)), window=window)
    direct = retrieve(retriever(None, Embedder()), View((BOTH,)), window=window)

    assert (hyde.status, embedder.calls) == ("ok", [["h"]])
    assert (direct.status, direct.reason) == ("empty", "no_hypotheses")


# --- first builds and broken roots ----------------------------------------------------------


@pytest.mark.parametrize("maps", [(), (EMPTY,)], ids=["no map", "an empty map of another root"])
def test_a_first_build_that_still_runs_is_not_ready_and_not_empty(maps):
    of = retriever(None, Embedder())
    answer = retrieve(of, View(maps, waiting=True))

    assert (answer.status, answer.reason, answer.text) == ("not_ready", "first build is running", "")
    assert of.turns.get(_key(), 0) is None


@pytest.mark.parametrize("maps", [(), (EMPTY,)], ids=["no map", "an empty map of another root"])
def test_a_root_that_cannot_be_built_is_an_error_and_not_empty(maps):
    answer = retrieve(retriever(None, Embedder()), View(maps, problem="auth: no key"))

    assert (answer.status, answer.reason) == ("error", "auth: no key")


@pytest.mark.parametrize("lack", [{"waiting": True}, {"problem": "auth: no key"}])
def test_what_the_other_root_holds_is_returned_but_not_kept_for_the_turn(lack):
    answer = retrieve(retriever(None, Embedder()), View((BOTH,), **lack))

    assert answer.status == "ok"
    assert answer.reason in {"first build is running", "auth: no key"}
    assert answer.degraded


def test_vectors_of_another_dimension_are_named():
    odd = vector_map([memory("a", "x")], {"a": (1.0, 0.0)}, lexical=False)
    answer = retrieve(retriever(None, Embedder(), weight=0), View((odd,)))

    assert answer.status == "error"
    assert "dimension" in answer.reason


def test_an_empty_answer_says_why():
    nothing = retrieve(retriever(), View((EMPTY,)))
    no_match = retrieve(retriever(), View((WORDS,)), window=(Utterance("user", "unheard"),))
    too_long = retrieve(retriever(), View((WORDS,)), budget_tokens=1)

    assert [(a.status, a.reason) for a in (nothing, no_match, too_long)] == [
        ("empty", "no memories yet"),
        ("empty", "no memory matches"),
        ("empty", "nothing fits the token budget"),
    ]


# --- the gate -----------------------------------------------------------------------------------------

RELATED = (Utterance("user", "the walrus"),)
BESIDE = (Utterance("user", "can you translate a poem"),)
TRADES = "plumbing heating roofing carpentry masonry tiling glazing painting wiring fencing paving gutters"
FAINT = (Utterance("user", f"{TRADES} and a walrus"),)


def gated(embedder: Embedder | None = None, chat: Chat | None = None, **options) -> Retriever:
    return retriever(chat, embedder, min_score=0.95, **options)


def learned() -> Baseline:
    rows = np.random.default_rng(0).standard_normal((40, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Baseline.of("key", rows, rows)


def test_a_message_beside_the_point_injects_nothing_and_says_why_and_by_which_setting():
    answer = retrieve(gated(), View((WORDS,)), window=BESIDE)

    assert (answer.status, answer.text, answer.ranked) == ("empty", "", ())
    assert re.fullmatch(
        r"nothing here is about this message "
        r"\(evidence -?\d+\.\d\d, needed 1\.64: memory\.retrieval_min_score\)",
        answer.reason,
    )
    assert not answer.degraded


def test_a_message_to_the_point_is_ranked_by_words_as_if_there_were_no_gate():
    one = vector_map([memory(name, f"the walrus {name} sings") for name in "abcdef"])
    window = (Utterance("user", "who sings with the walrus b"),)

    there, without = (retrieve(of, View((one,)), window=window) for of in (gated(), retriever()))

    assert there.ranked == without.ranked != ()
    assert (there.text, there.reason) == (without.text, "")


@pytest.mark.parametrize("off", [0.0, -1.0])
def test_a_gate_at_zero_or_below_is_none(off):
    answer = retrieve(retriever(min_score=off), View((WORDS,)), window=FAINT)

    assert answer.status == "ok"


def test_while_the_model_is_not_known_everything_passes():
    answer = retrieve(gated(Embedder()), View((BOTH,)), window=BESIDE)

    assert told(answer) == ("ok", "direct", "", ("lexical", "dense"))


def test_vectors_are_judged_by_the_background_of_the_view():
    rows = np.random.default_rng(1).standard_normal((30, 64))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    many = [memory(f"m{n:02}", f"text{n}") for n in range(30)]
    one = vector_map(many, {each.id: row for each, row in zip(many, rows, strict=True)})
    background = learned()
    stranger = np.random.default_rng(2).standard_normal(64)
    embedder = Embedder({"of m07": rows[7], "stranger": stranger / np.linalg.norm(stranger)})

    def asked(text):
        view = View((one,), baseline=background)
        return retrieve(gated(embedder), view, window=(Utterance("user", text),))

    assert (asked("of m07").status, asked("of m07").ranked[0].memory.id) == ("ok", "m07")
    assert (asked("stranger").status, asked("stranger").ranked) == ("empty", ())


def test_hypotheses_and_message_are_judged_together():
    beside = ("a poem by somebody", "translated verses", "rhymes of the sea")

    lone = retrieve(gated(), View((WORDS,)), window=RELATED, hypotheses=("walrus tusks",))
    many = retrieve(gated(), View((WORDS,)), window=RELATED, hypotheses=beside)

    assert (lone.status, many.status) == ("ok", "empty")


def test_what_a_fallback_finds_passes_the_gate_as_well():
    refused = Embedder(refused=None)
    beside = retrieve(gated(refused), View((BOTH,)), window=BESIDE)
    related = retrieve(gated(refused), View((BOTH,)), window=RELATED)

    assert (beside.status, beside.reason, beside.degraded) == ("empty", "provider: auth", True)
    assert (related.status, related.reason) == ("ok", "provider: auth")


def test_a_kept_answer_of_the_turn_is_the_one_that_was_held_back():
    async def run():
        of = gated()
        first, _ = await of.retrieve(ask(window=BESIDE), seeing(View((WORDS,))))
        again, cached = await of.retrieve(ask(window=BESIDE), seeing(View((WORDS,))))
        return first is again, cached

    assert asyncio.run(run()) == (True, True)


@pytest.mark.parametrize(
    ("lack", "status"), [({"waiting": True}, "not_ready"), ({"problem": "auth: no key"}, "error")]
)
def test_a_gate_that_is_closed_for_one_root_does_not_speak_for_another_that_is_not_there(lack, status):
    answer = retrieve(gated(), View((WORDS,), **lack), window=BESIDE)

    assert answer.status == status
    assert answer.reason in {"first build is running", "auth: no key"}


def test_words_that_find_nothing_until_the_vectors_are_there_are_no_error():
    answer = retrieve(retriever(None, Embedder()), View((WORDS,)), window=(Utterance("user", "unheard"),))

    assert (answer.status, answer.reason) == ("empty", "vectors are on their way; answered by words")
    assert answer.degraded


def test_words_that_hold_a_message_back_until_the_vectors_are_there_are_no_error():
    answer = retrieve(gated(Embedder()), View((WORDS,)), window=BESIDE)

    assert (answer.status, answer.reason) == ("empty", "vectors are on their way; answered by words")
    assert answer.degraded


def test_a_store_known_to_be_empty_is_not_beside_the_point():
    answer = retrieve(gated(), View((EMPTY,), generation=1), window=BESIDE)

    assert (answer.status, answer.reason) == ("empty", "no memories yet")


@pytest.mark.parametrize(
    ("view", "asked"),
    [
        (View((EMPTY,), generation=3), 3),
        (View((EMPTY,), generation=2), 3),
        (View((EMPTY,), waiting=True, generation=3), 3),
        (View((EMPTY,), problem="auth", generation=3), 3),
        (View((WORDS,), generation=3), 3),
    ],
    ids=["empty", "older than asked for", "waiting", "broken", "full"],
)
def test_only_a_store_that_is_known_to_be_empty_now_asks_no_chat_model(view, asked):
    chat = Chat("h")
    retrieve(retriever(chat, Embedder()), view, min_generation=asked)

    assert (chat.calls == 0) == (
        len(view) == 0 and not view.waiting and not view.problem and view.generation == 3
    )


def test_a_search_is_gated_only_where_that_is_asked_for():
    async def run(gate: bool) -> Answer:
        of, asked = gated(), ask(turn_id="", window=FAINT)
        return await of.search(asked, seeing(View((WORDS,))), inject=gate)

    listed, held = asyncio.run(run(gate=False)), asyncio.run(run(gate=True))

    assert (listed.status, [each.memory.id for each in listed.ranked]) == ("ok", ["a"])
    assert (held.status, held.ranked) == ("empty", ())
    assert "retrieval_min_score" in held.reason


def test_of_a_small_store_only_what_is_near_the_best_is_injected_but_all_is_listed():
    background = learned()
    rows = np.random.default_rng(1).standard_normal((6, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    memories = [memory(name, f"walrus {name}") for name in "abcdef"]
    view = View((vector_map(memories, dict(zip("abcdef", rows, strict=True))),), baseline=background)
    window = (Utterance("user", "what was said in the third of them"),)
    embedder = Embedder({window[0].text: rows[2]})

    injected = retrieve(gated(embedder), view, window=window)
    listed = asyncio.run(gated(embedder).search(ask(turn_id="", window=window), seeing(view)))
    ungated = retrieve(retriever(None, embedder), view, window=window)

    assert [each.memory.id for each in injected.ranked] == ["c"]
    assert set(injected.far) == set("abdef")
    assert (listed.far, ungated.far) == ((), ())
    assert {each.memory.id for each in listed.ranked} == set("abcdef")
    assert {each.memory.id for each in ungated.ranked} == set("abcdef")


# --- flights -----------------------------------------------------------------------------------------


def _key(**options):
    return turn_key(ask(**options), ("/repo",))


def test_a_turn_without_a_name_leaves_nobody_running():
    async def run() -> Chat:
        chat = Chat()
        of = retriever(chat, Embedder(), "hyde")
        await of.retrieve(ask(turn_id="", within=0.05), seeing(View((BOTH,))))
        await asyncio.sleep(0)
        return chat

    chat = asyncio.run(run())

    assert (chat.calls, chat.cancelled) == (1, 1)


def test_a_late_flight_is_joined_and_its_answer_kept():
    async def run():
        chat = Chat()
        of = retriever(chat, Embedder(), "hyde")
        see = seeing(View((BOTH,)))
        late, _ = await of.retrieve(ask(within=0.05), see)
        joined = asyncio.create_task(of.retrieve(ask(), see))
        await asyncio.sleep(0)
        chat.lines = ("h",)
        chat.go.set()
        return late, await joined, await of.retrieve(ask(), see), chat.calls

    late, (joined, from_cache), (kept, kept_from_cache), calls = asyncio.run(run())

    assert (late.status, joined.status, kept.status) == ("timeout", "ok", "ok")
    assert (from_cache, kept_from_cache, calls) == (False, True, 1)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_turn_of_the_same_name_in_another_repository_is_another_turn(at_once):
    """An agent may name its sessions and turns alike wherever it runs, and say the same there."""
    views = {
        place: View((vector_map([memory(place, "walrus")], root=place),)) for place in ("/one", "/other")
    }

    async def run() -> list[tuple[Answer, bool]]:
        of = retriever()
        asking = [of.retrieve(ask(), seeing(view, top=place)) for place, view in views.items()]
        try:
            return await asyncio.gather(*asking) if at_once else [await each for each in asking]
        finally:
            of.close()

    found = asyncio.run(run())

    assert [[ranked.memory.id for ranked in answer.ranked] for answer, _ in found] == [["/one"], ["/other"]]
    assert [was_kept for _, was_kept in found] == [False, False]


def test_a_flight_that_saw_what_was_purged_is_not_kept():
    async def run():
        chat = Chat()
        of = retriever(chat, Embedder(), "hyde")
        flying = asyncio.create_task(of.retrieve(ask(), seeing(View((BOTH,)))))
        await asyncio.sleep(0)
        of.turns.purge()
        chat.lines = ("h",)
        chat.go.set()
        answer, _ = await flying
        return answer, of.turns.get(_key(), 0)

    answer, kept = asyncio.run(run())

    assert (answer.status, kept) == ("ok", None)


def test_who_asks_after_a_purge_joins_no_flight_that_saw_what_is_gone():
    async def run():
        chat = Chat()
        of = retriever(chat, Embedder(), "hyde")
        before = asyncio.create_task(of.retrieve(ask(), seeing(View((BOTH,)))))
        await asyncio.sleep(0)
        of.turns.purge()
        after = asyncio.create_task(of.retrieve(ask(), seeing(View((WORDS,)))))
        await asyncio.sleep(0)
        chat.lines = ("h",)
        chat.go.set()
        return (await before)[0].legs, (await after)[0].legs, of.turns.get(_key(), 0).legs

    assert asyncio.run(run()) == (("lexical", "dense"), ("lexical",), ("lexical",))


def test_stopping_ends_what_runs_late():
    async def run() -> Chat:
        chat = Chat()
        of = retriever(chat, Embedder(), "hyde")
        await of.retrieve(ask(within=0.05), seeing(View((BOTH,))))
        of.close()
        await asyncio.sleep(0)
        return chat

    assert asyncio.run(run()).cancelled == 1


def test_a_waiting_first_build_is_waited_for_by_the_flight_and_not_by_the_caller():
    async def run():
        built = asyncio.Event()

        async def see(deadline: float) -> View:
            try:
                async with asyncio.timeout_at(deadline):
                    await built.wait()
            except TimeoutError:
                return View((), waiting=True)
            return View((BOTH,))

        of, sources = retriever(None, Embedder(), "direct"), Sources(("/repo",), see)
        early, _ = await of.retrieve(ask(within=0.05), sources)
        built.set()
        late, _ = await of.retrieve(ask(), sources)
        return early, late

    early, late = asyncio.run(run())

    assert (early.status, late.status) == ("not_ready", "ok")


# --- chains in an answer -----------------------------------------------------------------------------


def _chain(length: int) -> list:
    first = memory("v000", "walrus walrus")
    rest = [
        memory(f"v{n:03}", "walrus walrus", supersedes=f"v{n - 1:03}", version=n + 1)
        for n in range(1, length)
    ]
    return [first, *rest]


@pytest.mark.parametrize("length", [5, 60, 300])
def test_a_chain_whose_versions_all_match_leaves_room_for_others(length):
    others = [memory(f"z{n}", f"walrus and many other words {n}") for n in range(4)]

    answer = retrieve(retriever(), View((vector_map([*_chain(length), *others]),)), top_k=3)

    found = [ranked.memory.id for ranked in answer.ranked]
    assert found == [f"v{length - 1:03}", "z0", "z1"]


# --- search -------------------------------------------------------------------------------------------


def test_a_search_falls_back_to_words_in_auto_only():
    async def run(strategy: str) -> Answer:
        of = retriever(None, Embedder(refused=None), strategy)
        return await of.search(ask(turn_id=""), seeing(View((BOTH,))))

    auto, direct = asyncio.run(run("auto")), asyncio.run(run("direct"))

    assert told(auto) == ("ok", "direct", "provider: auth", ("lexical",))
    assert told(direct) == ("error", "", "provider: auth", ())


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
    """A source that finds `rows`, raises `error`, or never answers if there is neither."""

    def __init__(self, name: str, *rows: Ranked, error: Exception | None = None) -> None:
        self.name, self.rows, self.error = name, rows, error
        self.questions: list[Question] = []
        self.cancelled = 0

    async def search(self, question: Question) -> Rows:
        self.questions.append(question)
        if self.error is not None:
            raise self.error
        if not self.rows:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        return Rows(self.rows)


def shared(name: str) -> Ranked:
    return Ranked(memory(name, f"of {name}", scope="org"), 17.0)


def beside(*others: Scripted, view: View | None = None, **options) -> Answer:
    async def run() -> Answer:
        of = retriever(strategy=options.pop("strategy", "auto"))
        try:
            sources = seeing(View((WORDS,)) if view is None else view, *others)
            answer, _ = await of.retrieve(ask(**options), sources)
            await asyncio.sleep(0)  # what was given up hears of it
            return answer
        finally:
            of.close()

    return asyncio.run(run())


def test_rows_of_another_source_are_merged_by_rank_and_injected():
    org = Scripted("org", shared("o1"), shared("o2"))
    answer = beside(org)

    assert told(answer) == ("ok", "direct", "", ("lexical",))
    assert [each.memory.id for each in answer.ranked] == ["a", "o1", "o2"]
    assert "of o2" in answer.text
    assert not answer.degraded


def test_another_source_hears_the_question_its_filters_and_a_deadline_before_the_callers():
    org, deadline = Scripted("org", shared("o1")), time.monotonic() + 5
    beside(org, deadline=deadline, top_k=7)

    (question,) = org.questions
    assert (question.texts, question.message, question.top_k) == (("the walrus",), "the walrus", 7)
    assert (question.least_evidence, question.near_best) == (float("-inf"), False)
    assert question.deadline < deadline


def test_a_source_that_fails_is_named_and_left_out_and_the_others_answer(caplog):
    answer = beside(Scripted("org", error=ConnectionError("secret")), Scripted("team", shared("t1")))

    assert (answer.status, answer.reason, answer.degraded) == ("ok", "org failed", True)
    assert [each.memory.id for each in answer.ranked] == ["a", "t1"]
    assert "source=org reason=ConnectionError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize("strategy", ["auto", "direct"])
def test_a_source_that_is_late_is_named_left_out_and_cancelled_before_the_deadline(strategy):
    slow, began = Scripted("org"), time.monotonic()
    answer = beside(slow, strategy=strategy, within=0.4)
    took = time.monotonic() - began

    assert (answer.status, answer.strategy, answer.reason) == ("ok", "direct", "org was late")
    assert [each.memory.id for each in answer.ranked] == ["a"]
    assert (answer.degraded, slow.cancelled) == (True, 1)
    assert took < 0.4


def test_an_answer_without_a_source_is_kept_for_the_turn_for_a_short_while_only():
    async def run():
        of = retriever()
        flaky = Scripted("org", error=ConnectionError())
        first, _ = await of.retrieve(ask(), seeing(View((WORDS,)), flaky))
        again, cached = await of.retrieve(ask(), seeing(View((WORDS,)), flaky))
        (_, expires) = of.turns._answers[_key()]
        return first is again, cached, expires < float("inf")

    assert asyncio.run(run()) == (True, True, True)


def test_files_that_are_known_to_hold_nothing_do_not_speak_for_another_source():
    answer = beside(Scripted("org", shared("o1")), view=View((EMPTY,), generation=1))

    assert (answer.status, [each.memory.id for each in answer.ranked]) == ("ok", ["o1"])


def test_nothing_in_the_files_and_a_source_that_fails_is_empty_and_says_both():
    answer = beside(Scripted("org", error=OSError()), window=(Utterance("user", "unheard"),))

    assert (answer.status, answer.reason) == ("empty", "no memory matches; org failed")


def test_each_source_is_gated_by_its_own_evidence():
    async def run():
        of, org = gated(), Scripted("org", shared("o1"))
        return (await of.retrieve(ask(window=BESIDE), seeing(View((WORDS,)), org)))[0], org.questions

    answer, (question,) = asyncio.run(run())

    assert (answer.status, [each.memory.id for each in answer.ranked]) == ("ok", ["o1"])
    assert (round(question.least_evidence, 2), question.near_best) == (1.64, True)


def test_a_search_that_is_given_up_ends_the_other_sources_too():
    async def run():
        of, slow = retriever(), Scripted("org")
        searching = asyncio.create_task(of.search(ask(), seeing(View((WORDS,)), slow)))
        await until(lambda: slow.questions)
        searching.cancel()
        await asyncio.wait({searching})
        await asyncio.sleep(0)
        return slow.cancelled

    assert asyncio.run(run()) == 1
