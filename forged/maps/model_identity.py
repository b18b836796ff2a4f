"""Identity of the model behind an embedder: recognises when another model answers.

Three public sentences are embedded when the endpoint is used anyway, at most every ten minutes. Another
dimension means another model at once. Other vectors mean one when all three moved, and had moved a minute
before. Vectors of two models are never compared. The sentences also test an endpoint that fails texts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from forged.errors import ProviderError
from forged.fair_queue import ignore_failure
from forged.map import Baseline
from forged.maps.vector_pack import UnusablePack, VectorPack, VectorPacks
from forged.models import Embedder, Purpose, Vectors
from forged_client.typed import resolved

logger = logging.getLogger(__name__)

# Whole sentences: some servers answer 500 to very short texts.
SENTENCES = (
    "The quick brown fox jumps over the lazy dog.",
    "Water boils at one hundred degrees Celsius at sea level.",
    "Paris is the capital of France.",
)
_PURPOSE = Purpose("identity")
_EVERY_S, _AGAIN_S, _A_DAY_S = 600.0, 60.0, 24 * 3600.0
_PATIENCE_S = 30.0  # a server may have to load its model first
_LEAST_COSINE = 0.99
_MOST_REMEMBERED = 8


class _PackedModel(msgspec.Struct, frozen=True):
    """Model, as encoded in a pack's label: vectors of test sentences and the baseline, as bytes."""

    embedder: str
    number: int
    dimension: int
    sentences: bytes
    baseline: bytes


class ModelCache:
    """In-memory cache of known models, baselines and vector packs, shared by successive indexers.

    By an embedder's key: each model's vectors of the sentences, and the time of the last full embedding.
    """

    def __init__(self) -> None:
        self.models: dict[str, dict[int, Vectors]] = {}
        self.renewed_at: dict[str, float] = {}
        self.baselines: dict[str, Baseline] = {}
        self.vector_packs = VectorPacks()

    def receive(self, descriptors: Iterable[int]) -> tuple[str, ...]:
        """Take over vector packs of another daemon; return the names of their roots.

        Unusable packs are logged. A pack that contradicts others about its model is unusable.
        """
        names = list[str]()
        for descriptor in descriptors:
            try:
                vector_pack = VectorPack(descriptor)
                self._take_model(vector_pack)
            except (UnusablePack, msgspec.MsgspecError, ValueError) as error:
                logger.warning("vectors not taken over, their texts are embedded anew error=%s", error)
                continue
            self.vector_packs.put(vector_pack)
            names.append(vector_pack.label.root)
        return tuple(names)

    def encode_model(self, embedder: str, key: str) -> bytes:
        """Encode the test vectors and baseline of the model `key` for a vector pack's label."""
        number = int(key.removeprefix(embedder).removeprefix("\n#") or 0)
        sentences, baseline = self.models.get(embedder, {}).get(number), self.baselines.get(key)
        found = sentences if sentences is not None else baseline.messages if baseline is not None else None
        dimension = found.shape[1] if found is not None else 0
        rows = None
        if baseline is not None:
            means = (baseline.query_mean, baseline.passage_mean)
            rows = np.vstack([*means, baseline.dropped_axes, baseline.messages])
        known = _PackedModel(embedder, number, dimension, _to_bytes(sentences), _to_bytes(rows))
        return msgspec.msgpack.encode(known)

    def _take_model(self, vector_pack: VectorPack) -> None:
        """Take over the model and baseline of a pack. Raises ValueError, MsgspecError, UnusablePack."""
        model = msgspec.msgpack.decode(vector_pack.label.known, type=resolved(_PackedModel))
        if model.sentences:
            rows = _from_bytes(model.sentences, model.dimension)
            known = self.models.setdefault(model.embedder, {}).setdefault(model.number, rows)
            if not np.array_equal(known, rows):
                raise UnusablePack("its model has the number of another model")
        if model.baseline:
            rows, key = _from_bytes(model.baseline, model.dimension), vector_pack.label.key
            self.baselines.setdefault(key, Baseline(key, rows[0], rows[1], rows[2:4], rows[4:]))


class ModelIdentity:
    """Recognises by test sentences which model answers behind an embedder; accepts or defers a new one.

    `key` names the model that answers now, `kept` the one whose vectors maps hold. They differ while a new
    model may not embed everything: once a day, and within the limit of tokens. `renamed` is called, by any
    thread, when either changes. Belongs to one event loop.
    """

    _looked_at: float | None = None
    _doubted_at: float | None = None
    _odd_at: float | None = None  # time of the last query with another dimension
    _looking: asyncio.Task[None] | None = None

    def __init__(
        self,
        embedder: Embedder,
        model_cache: ModelCache | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        obstacle: Callable[[], str] = lambda: "",
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the identity; `obstacle` returns the reason why not all texts may be embedded anew."""
        self.embedder = embedder
        self.model_cache = model_cache or ModelCache()
        self.notice = ""
        self._clock = clock
        self._obstacle = obstacle
        self._on_change = on_change
        self._seen = self.model_cache.models.setdefault(embedder.key, {})
        self._number = self._kept = 0
        self._known = False  # the answering model was checked, and not only cached
        self.key = self.kept = embedder.key
        self.renamed: Callable[[], None] = lambda: None
        embedder.renamed = self._update_keys

    @property
    def dimension(self) -> int:
        """Dimension of the answering model's vectors; 0 while it is unknown."""
        return self._seen[self._number].shape[1] if self._known else 0

    @property
    def is_certain(self) -> bool:
        """True if the answering model is known: it was checked, or cannot be replaced."""
        return self._known or not self.embedder.replaceable

    @property
    def refusal(self) -> ProviderError | None:
        """Error for texts while a new model may not embed yet, else None."""
        return ProviderError(self.notice, reason="limit") if self._number != self._kept else None

    async def check_if_due(self) -> None:
        """Prepare the embedder for texts, and check its model if that is due. Raises ProviderError."""
        await self.embedder.prepare()
        seen = self.model_cache.models.setdefault(self.embedder.key, {})
        if seen is not self._seen:  # another engine runs a model in this process
            self._seen = seen
            self._update_keys()
            self._on_change()
        if self.embedder.replaceable and self._is_due:
            await asyncio.shield(self._start_check())

    async def check_now(self) -> None:
        """Embed the test sentences and judge by them which model answers. Raises ProviderError."""
        began, until = self._clock(), time.monotonic() + _PATIENCE_S
        try:
            rows = await self.embedder.embed(list(SENTENCES), purpose=_PURPOSE, deadline=until)
        except ProviderError:
            self._looked_at = None
            raise
        self._looked_at = began
        self._judge_model(rows)

    def note_query(self, dimension: int) -> None:
        """Start a check of the model if that is due, or if a query's vector has another dimension."""
        if not (self.embedder.replaceable and self._known):
            return
        now = self._clock()
        is_odd = dimension != self.dimension and (self._odd_at is None or now - self._odd_at >= _AGAIN_S)
        self._odd_at = now if is_odd else self._odd_at
        if is_odd or self._is_due:
            self._start_check()

    def tick(self) -> None:
        """Check a suspected model again after a minute; accept a new model once allowed."""
        if self._doubted_at is not None and self._is_due:
            self._start_check()
        if self._number != self._kept and not self._reason_to_wait():
            self._accept_model()

    def renew(self) -> None:
        """Accept the answering model, and any that the next check finds: for `rebuild --full`."""
        self._known, self._looked_at, self._doubted_at = False, None, None
        self._kept, self.notice = self._number, ""
        self._update_keys()

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    @property
    def _is_due(self) -> bool:
        every_s = _EVERY_S if self._doubted_at is None else _AGAIN_S
        return self._looked_at is None or self._clock() - self._looked_at >= every_s

    def _start_check(self) -> asyncio.Task[None]:
        """Start a check of the model unless one is under way; return its task."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self.check_now(), name="identity")
            self._looking.add_done_callback(ignore_failure)
        return self._looking

    def _judge_model(self, rows: Vectors) -> None:
        """Compare the sentences' new vectors with the known ones; keep, doubt or switch the model."""
        if not self._known:
            self._known, self._number = True, self._recognise(rows)
            self._accept_model(announces=False)
        elif _are_alike(self._seen[self._number], rows):
            self._doubted_at = None
        elif rows.shape[1] != self.dimension:
            self._switch_model(rows)
        elif self._doubted_at is None:
            self._doubted_at = self._clock()
        elif self._clock() - self._doubted_at >= _AGAIN_S:
            self._switch_model(rows)

    def _switch_model(self, rows: Vectors) -> None:
        """Note the model of these rows as answering; accept it, or say in `notice` why not yet."""
        self._doubted_at, self._number = None, self._recognise(rows)
        self._update_keys()
        logger.warning("another model answers model=%s numbers=%d", self._model_name, self.dimension)
        if self._number == self._kept:
            self.notice = ""
        elif reason := self._reason_to_wait():
            self.notice = (
                f"a different model answers as {self._model_name}, and {reason}; keyword search only until "
                "the old model is back or `forgectl rebuild --full` embeds all memories again"
            )
        else:
            self._accept_model()

    def _reason_to_wait(self) -> str:
        renewed = self.model_cache.renewed_at.get(self.embedder.key, float("-inf"))
        if self._clock() - renewed < _A_DAY_S:
            return "all memories were already embedded again for such a change within a day"
        return self._obstacle()

    def _accept_model(self, *, announces: bool = True) -> None:
        """Accept the model that answers now: all maps are to be embedded by it."""
        changed, self._kept = self._kept != self._number, self._number
        self._update_keys()
        if announces:
            self.model_cache.renewed_at[self.embedder.key] = self._clock()
            self.notice = f"a different model answers as {self._model_name}: all memories were embedded again"
        if changed:
            self._on_change()

    def _recognise(self, rows: Vectors) -> int:
        """Return the number of the model that makes such vectors; register it if it was never seen."""
        if (known := next((n for n, seen in self._seen.items() if _are_alike(seen, rows)), None)) is not None:
            return known
        number = max(self._seen, default=-1) + 1
        self._seen[number] = rows
        for old in [each for each in self._seen if each not in {number, self._number, self._kept}]:
            if len(self._seen) > _MOST_REMEMBERED:
                del self._seen[old]
        return number

    def _update_keys(self) -> None:
        own = self.embedder.key
        self.key, self.kept = (
            f"{own}\n#{number}" if number else own for number in (self._number, self._kept)
        )
        self.renamed()

    @property
    def _model_name(self) -> str:
        return " ".join(self.embedder.key.split("\n")[:2])


def _are_alike(before: Vectors, rows: Vectors) -> bool:
    """Return True if one model made both sets of vectors, as at least one sentence did not move."""
    same = before.shape == rows.shape
    return same and bool((np.einsum("ij,ij->i", before, rows) >= _LEAST_COSINE).any())


def _to_bytes(rows: Vectors | None) -> bytes:
    return b"" if rows is None else np.ascontiguousarray(rows, np.float32).tobytes()


def _from_bytes(packed: bytes, dimension: int) -> Vectors:
    """Unpack float32 rows of a dimension. Raises ValueError when they are not whole."""
    if dimension <= 0:
        raise ValueError("its model has vectors of no length")
    return np.frombuffer(packed, np.float32).reshape(-1, dimension).copy()
