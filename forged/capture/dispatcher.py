"""Give events to the worker one by one, and end each: done, retried later, or failed for good.

Documents are stored with their ids before the first file is written. So an event that is repeated after a
kill is only written again. An event leaves the queue after it is deleted from disk or moved to the dead
events. If ranking fails, the model gets no known memories. An event that was cut meanwhile is classified
again. An event whose root is not at its path (another container, a new clone) waits; a check every 25 seconds
releases it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

import msgspec

from forged.capture.call_limiter import CallLimiter
from forged.capture.committer import CommitResult, Committer, Decision
from forged.capture.existing import MeantMemories
from forged.capture.intake import Cleaned, OffRecord, Submission, clean
from forged.capture.memory_requests import SaidToMemory, requests_to_memory, subject_words
from forged.capture.notifications import Notifications, unanswered
from forged.capture.off_record import OptOut
from forged.capture.queue import STORAGE_RETRY_S, CaptureQueue, QueuedEvent
from forged.capture.rules.requests import names_memory
from forged.capture.supervisor import LastReport, MakeSupervisor, WorkerCall
from forged.capture.text_patterns import is_item
from forged.capture.values import Classified, Classify, KnownMemory, Refused, TaskFailed, WorkerSettings
from forged.capture.vectors import VectorsOf
from forged.counters import Metrics
from forged.errors import ForgedError, StoreError
from forged.fair_queue import log_failure
from forged.files import Root
from forged.memory import Memory, Origin, utc_now
from forged.state import DecidedMemory, Event, State, digests
from forged.trust import elsewhere

logger = logging.getLogger(__name__)

_STEP_RETRY_S = 1.0
_GIVE_UP_RETRY_S = 60.0
_RANK_S = 5.0
_SETTLE_S = 1.0
_RECHECK_S = 25.0
# Least share of words in common with a memory that is pointed to, and of the best share for others near it.
_LEAST_ALIKE, _CLEARLY_BEHIND, _MOST_NAMED = 0.6, 0.7, 3

Rank = Callable[[Event], Awaitable[tuple[KnownMemory, ...]]]

# Forget a memory of a root if that is allowed; return False if a command must do it.
Forget = Callable[[Root, Memory], Awaitable[bool]]
Meant = tuple[tuple[Root, Memory], ...]


class EventDispatcher:
    """Gives events to the worker one by one, commits its proposals, and retries or gives up failures.

    `limiter` is None without a model. `rank` finds existing memories that the model should know.
    """

    def __init__(
        self,
        *,
        settings: WorkerSettings,
        queue: CaptureQueue,
        state: State,
        limiter: CallLimiter | None,
        metrics: Metrics,
        rank: Rank,
        vectors: VectorsOf | None,
        committer: Committer,
        off_record: OffRecord,
        make_supervisor: MakeSupervisor,
        clock: Callable[[], float],
    ) -> None:
        """`clock` returns monotonic seconds."""
        self._queue = queue
        self._events = state.events
        self._pauses = state.pauses
        self._limiter = limiter
        self._metrics = metrics
        self._rank = rank
        self._committer = committer
        self._off_record = off_record
        self._clock = clock
        self._capture_log = state.capture_log
        self._forgotten = state.forgotten
        self.notifications = Notifications(state.capture_log, classifier=settings.classifier)
        self._checked_at = float("-inf")
        self._changed = asyncio.Event()
        self.ended = asyncio.Event()  # set for all waiters, whenever an event has ended
        self._background: set[asyncio.Task[None]] = set()
        self._call = WorkerCall(
            settings=settings,
            heads=committer.heads,
            vectors=vectors,
            is_current=self._is_current,
            on_call_sent=state.egress.add,
            make_supervisor=make_supervisor,
            start=self._start_background,
            on_ready=self.wake,
        )
        self.supervisor = self._call.supervisor
        self.last_success = self.last_error = ""

    async def run(self) -> None:
        """Run the worker process and give it events until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.supervisor.run())
            group.create_task(self._run_steps())

    def wake(self) -> None:
        """Wake the loop that gives events to the worker, because something may have changed."""
        self._changed.set()

    @property
    def waits_for(self) -> str:
        """Return the reason why no waiting event can be given to the worker, or "" if one can."""
        if self._limiter is not None and (shut := self._limiter.why(self._clock())):
            return shut
        waiting = self._queue.waiting()
        held = [each.elsewhere or self._pauses.reason(each.tops) for each in waiting]
        return held[0] if held and all(held) else ""

    def _start_background(self, work: Coroutine[None, None, None]) -> None:
        """Start a background task, keep a reference to it until it ends, and log its failure."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(log_failure)
        task.add_done_callback(self._background.discard)

    def answer(self, submission: Submission, cleaned: Cleaned, keys: Sequence[str]) -> None:
        """Log notifications of opt-outs and requests to forget, once for each of the messages' `keys`."""
        top = submission.roots[0].top if submission.roots else ""
        for at, place in enumerate(cleaned.opting_out):
            points_back = cleaned.points_before and not at
            if not (points_back and self.notifications.log_forget_newest(submission.session_id, keys[place])):
                self.notifications.log_off_record(submission.session_id, submission.agent, top, keys[place])
        for number, (place, text) in enumerate(cleaned.forgets):
            self._start_background(self._name_memory_to_forget(submission, text, f"{keys[place]} {number}"))

    async def obey(self, submission: Submission, key: str, forget: Forget, within_s: float) -> Meant:
        """Do what a person's prompt asks of the memory: forget one, or return those that it asks for.

        The session's next reply reports a memory that was forgotten. After `within_s` seconds the work goes
        on in the background.
        """
        said = await asyncio.to_thread(_requests_of, submission)
        if any(each.verb == "forget" for each in said):
            done = asyncio.Event()
            self._start_background(self._forget_as_said(submission, key, said, forget, done))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await done.wait()
            return ()
        found = [await self._memories_meant(submission, each) for each in said]
        return tuple(dict.fromkeys(pair for each in found for pair in each.found))

    async def _forget_as_said(
        self,
        submission: Submission,
        key: str,
        said: Sequence[SaidToMemory],
        forget: Forget,
        done: asyncio.Event,
    ) -> None:
        """Forget the memory that a prompt surely means; log it, or the memories that it may mean."""
        try:
            cleaned, may_forget = clean(submission.messages, submission.injected), True
            asked, digest = {each.sentence.strip(): each for each in said}, digests(submission.messages, key)
            # The end of the turn reads these sentences again, under the same keys.
            texts = [text.strip() for _, text in cleaned.forgets]
            for number, text in enumerate([*texts, *(each for each in asked if each not in texts)]):
                log_key, meant = f"{digest.hex()} {number}", MeantMemories()
                if (each := asked.get(text)) is not None:
                    meant = await self._memories_meant(submission, each)
                if may_forget and meant.is_clear and not self.notifications.is_answered(log_key):
                    may_forget = False  # one memory for each message
                    (root, memory), *_ = meant.found
                    is_gone = await forget(root, memory)
                    self._log_forgotten(submission, log_key, meant.found, is_gone=is_gone)
                elif meant.found:
                    self._log_forgotten(submission, log_key, meant.found)
                elif text in texts:
                    await self._name_memory_to_forget(submission, text, log_key)
        finally:
            done.set()

    async def _memories_meant(self, submission: Submission, said: SaidToMemory) -> MeantMemories:
        """Return the memories that a request may mean: of the session if it points to one, else of all."""
        if said.points:
            shown = await self._committer.memories_shown(submission.roots, submission.context)
            found = memories_pointed_at(said, shown, _reply_before(submission))
            if found.found or said.place or said.only_points or not subject_words(said.topic):
                return found
        return await self._committer.memories_meant(submission.roots, said)

    def _log_forgotten(
        self, submission: Submission, key: str, found: Meant, *, is_gone: bool = False
    ) -> None:
        """Log a request to forget with the memory that is gone, or with those that it may mean."""
        of = (submission.session_id, submission.agent)
        (root, memory), *others = found
        self.notifications.log_forget_request(
            *of,
            root,
            key,
            memory_id=memory.id,
            content=memory.content,
            others=[each.id for _, each in others],
            is_gone=is_gone,
        )

    async def _name_memory_to_forget(self, submission: Submission, text: str, key: str) -> None:
        """Log the memory that a sentence asks to forget, or in clear cases that there is none."""
        if self.notifications.is_answered(key):
            return
        of = (submission.session_id, submission.agent)
        if (found := await self._committer.memory_to_forget(submission.roots, text)) is not None:
            root, memory = found
            self.notifications.log_forget_request(*of, root, key, memory_id=memory.id, content=memory.content)
            return
        was_done = 0 < max(submission.said_at, default=0) <= self._forgotten.newest_at
        if names_memory(text) and submission.roots and not was_done:
            self.notifications.log_forget_request(*of, submission.roots[0], key)

    async def settle(self) -> None:
        """Stop waiting for the worker, and wait up to a second for other background tasks to end."""
        self._call.cancel()
        if self._background:
            await asyncio.wait(self._background, timeout=_SETTLE_S)

    async def _run_steps(self) -> None:
        """Start the attempts of due events until cancelled; after an error, wait a second and go on."""
        while True:
            self._changed.clear()
            try:
                wait_s = await self._start_next()
            except Exception as error:
                logger.exception("no event given")
                wait_s = self._recover_step(error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _start_next(self) -> float | None:
        """Start the next due event's attempt; return seconds to the next look, None until woken."""
        if self._queue.in_hand is not None:
            return None
        now = self._clock()
        if self._queue.elsewhere() and now - self._checked_at >= _RECHECK_S:
            await self.recheck_folders()
        waiting = self._queue.take(now, self._is_held)
        if waiting is None:
            return self._wait_s(now)
        if not waiting.given_up and await self._hold_if_elsewhere(waiting):
            self._queue.put_back(now, 0.0)
            return 0.0
        known: tuple[KnownMemory, ...] = ()
        if not waiting.given_up and (limiter := self._limiter_for(waiting.event)) is not None:
            if not limiter.admit(waiting.event, now):
                self._queue.put_back(now, 0.0)
                return 0.0  # another event may need no call
            known = await self._similar_memories(waiting.event)  # slow, so the event may change meanwhile
        self._start_background(self._attempt(waiting, known))
        return None

    def _recover_step(self, error: Exception) -> float:
        """Count a failed step, put the event in hand back, and return the pause in seconds."""
        self._metrics.capture_failures += 1
        self.last_error = f"{type(error).__name__}; the log has the rest"
        if self._queue.in_hand is not None:
            self._queue.put_back(self._clock(), _STEP_RETRY_S)
        return _STEP_RETRY_S

    async def _attempt(self, waiting: QueuedEvent, known: tuple[KnownMemory, ...]) -> None:
        """Classify and commit an event; then end it, or put it back into the queue."""
        delay_s: float | None = 0.0
        if not waiting.given_up:
            try:
                delay_s = await self._try_event(waiting, known)
            except Exception as error:
                logger.exception("event not finished event=%s", waiting.event.id)
                reported = f"{type(error).__name__}; the log has the rest"
                delay_s = self._record_failure(waiting, TaskFailed(waiting.event.id, "internal", reported))
        if waiting.given_up and not waiting.is_cancelled:
            delay_s = await self._give_up(waiting)
        if delay_s is None or waiting.is_cancelled:
            await self._capture_log.save()  # the event goes only after its log entries are saved
            waiting.is_leaving = True
            await self._events.remove(waiting.event.id)
            self._queue.finish()
            self.ended.set()
            self.ended = asyncio.Event()
        else:
            self._queue.put_back(self._clock(), delay_s)
        self.wake()

    async def _try_event(self, waiting: QueuedEvent, known: tuple[KnownMemory, ...]) -> float | None:
        """Classify an event unless decided, and write its documents; return None if done, else a delay."""
        event = waiting.event
        if not self._is_decided(event):
            if self._pauses.reason(waiting.tops) or waiting.is_cancelled or not self.supervisor.ready:
                return 0.0
            attempts = 1 if self._limiter is None else self._limiter.attempts
            answer = await self._call.ask(Classify(event, known, attempts))
            if not isinstance(answer, Classified):
                return self._record_failure(waiting, answer)
            documents, refused = await self._decide(event, waiting.session, answer)
            if await self._hold_if_elsewhere(waiting):  # compared with the memories of another folder
                return 0.0
            if waiting.event is not event or waiting.is_cancelled:  # some of it was forgotten meanwhile
                return 0.0
            if refused:
                self.notifications.log_refused(event, refused)
            waiting.cut = answer.cut
            if not documents:
                return self._record_done(waiting, CommitResult())
            self._events.set_decision(event.id, documents)
        # An incomplete decision is not stored, so that a later daemon decides again.
        if not (waiting.cut or self._events.is_journalled(event.id)):
            try:
                await self._events.journal(event.id, self._capture_log.pending())
            except StoreError as error:
                self._metrics.capture_failures += 1
                self.last_error = str(error)
                return STORAGE_RETRY_S
        if await self._hold_if_elsewhere(waiting) or waiting.is_cancelled:
            return 0.0
        put = await self._committer.put(self._events.documents(event.id) or (), waiting.tops)
        if put.reason:
            return self._record_failure(waiting, TaskFailed(event.id, put.reason, put.trouble))
        return self._record_done(waiting, put)

    async def _hold_if_elsewhere(self, waiting: QueuedEvent) -> bool:
        """Let an event wait, and return True, if a root of it or its documents is not at its path."""
        found = await _misplaced_roots(self._events.stored_roots(waiting.event))
        # A cancelled event ends wherever its folder is.
        if not found or waiting.is_cancelled:
            return False
        if not self._queue.elsewhere():
            self._checked_at = self._clock()
        waiting.elsewhere = next(iter(found.values()))
        logger.info("event waits for its folder event=%s reason=%s", waiting.event.id, waiting.elsewhere)
        return True

    async def recheck_folders(self) -> None:
        """Check the folders of events that wait for theirs; release those with folders at their paths."""
        self._checked_at = self._clock()
        waiting = self._queue.elsewhere()
        stored = {id(each): self._events.stored_roots(each.event) for each in waiting}
        found = await _misplaced_roots([pair for pairs in stored.values() for pair in pairs])
        for each in waiting:
            each.elsewhere = next((found[pair] for pair in stored[id(each)] if pair in found), "")
        self.wake()

    def _is_current(self, event: Event) -> bool:
        """Return True if an event is still in hand and unchanged since the worker got it."""
        waiting = self._queue.in_hand
        return waiting is not None and waiting.event is event and not waiting.is_cancelled

    async def _similar_memories(self, event: Event) -> tuple[KnownMemory, ...]:
        """Return existing memories like an event, for the model to know; none if ranking fails."""
        try:
            async with asyncio.timeout(_RANK_S):
                return await self._rank(event)
        except (ForgedError, TimeoutError) as error:
            logger.debug("no known memories event=%s error=%s", event.id, error)
        except Exception:
            logger.exception("no known memories event=%s", event.id)
        return ()

    def _wait_s(self, now: float) -> float | None:
        """Return the seconds until the next check for an event, None until woken."""
        queued_s = self._queue.wait_s(now, self._is_held)
        shut_s = (self._limiter.wait_s(now) or None) if self._limiter is not None else None
        look_s = max(0.0, self._checked_at + _RECHECK_S - now) if self._queue.elsewhere() else None
        return min((wait for wait in (queued_s, shut_s, look_s) if wait is not None), default=None)

    def _is_held(self, waiting: QueuedEvent) -> bool:
        """Return True if an event cannot be given now: no ready worker, no call allowed, or a pause."""
        limiter = self._limiter_for(waiting.event)
        if not (self.supervisor.ready or self._is_decided(waiting.event)):
            return True
        is_shut = limiter is not None and limiter.wait_s(self._clock()) > 0
        return is_shut or bool(self._pauses.reason(waiting.tops))

    def _limiter_for(self, event: Event) -> CallLimiter | None:
        """Return the limiter for an event that needs a call, else None."""
        return None if self._limiter is None or self._is_decided(event) else self._limiter

    def _is_decided(self, event: Event) -> bool:
        """Return True if documents of an event are stored."""
        return self._events.documents(event.id) is not None

    async def _decide(
        self, event: Event, session: str, classified: Classified
    ) -> tuple[Decision, tuple[Refused, ...]]:
        """Record an answer's cost, drop opted-out proposals, decide; return documents and refusals."""
        if self._limiter is not None:
            self._limiter.record_answer(event, classified.usage)
        if refused := self._off_record.of(session):
            classified = _without_opted_out_proposals(classified, refused)
        documents, tally = await self._committer.decide(event, classified)
        self._metrics.capture_invalid += tally.invalid
        self._metrics.capture_duplicates += tally.duplicates
        self._metrics.secrets_redacted += tally.secrets
        self._metrics.captures_said_again += tally.said_again
        refusals = (*classified.refused, *tally.refused)
        return documents, refusals if documents or refusals else unanswered(event, documents, refusals)

    def _record_done(self, waiting: QueuedEvent, put: CommitResult) -> float | None:
        """Count and report written documents; return None, or 0 to give up an incomplete event."""
        self._metrics.captured += put.written
        documents = self._events.documents(waiting.event.id) or ()
        reported = [each for each in documents if _is_reported(each, put)]
        if put.written or put.waiting:
            self.notifications.log_kept(waiting.event, reported)
        if waiting.cut:
            self._metrics.capture_failures += 1
            self.last_error = waiting.cut
            waiting.given_up = f"{waiting.cut}; memories saved from it: {put.written}"
            return 0.0
        self._metrics.captures_finished += 1
        self.last_success = utc_now()
        self.last_error = f"not written: {', '.join(put.failed)}" if put.failed else ""
        return None

    def _record_failure(self, waiting: QueuedEvent, answer: LastReport) -> float:
        """Record a failed task or the worker's death; return the seconds until the next attempt."""
        event, limiter = waiting.event, self._limiter_for(waiting.event)
        if not isinstance(answer, TaskFailed):
            if limiter is not None:
                limiter.record_death(event)
            waiting.record_death(str(answer))
            logger.info("worker died event=%s kills=%d reason=%s", event.id, waiting.kills, answer)
            return 0.0
        self._metrics.capture_failures += 1
        if limiter is not None:
            limiter.record_failure(event, answer)
        if self.last_error != answer.message:
            logger.warning(
                "capture failed event=%s reason=%s error=%s", event.id, answer.reason, answer.message
            )
        self.last_error = answer.message
        return waiting.record_failure(answer)

    async def _give_up(self, waiting: QueuedEvent) -> float | None:
        """Move an event to the dead events on disk; return None if done, else the seconds to wait."""
        waiting.is_leaving = True
        try:
            await self._events.give_up(waiting.event, waiting.given_up, is_decided=not waiting.cut)
        except StoreError as error:
            logger.warning("cannot give up event=%s error=%s", waiting.event.id, error)
            return _GIVE_UP_RETRY_S
        logger.warning("event given up event=%s reason=%s", waiting.event.id, waiting.given_up)
        return None


def _requests_of(submission: Submission) -> tuple[SaidToMemory, ...]:
    """Return what a prompt asks of the memory; it may point to the answer if the one before asked, too."""
    prompts = [each.text for each in submission.before if each.role == "user"]
    asked = requests_to_memory(prompts[-1]) if prompts and _reply_before(submission) else ()
    may_point = any(each.verb == "ask" for each in asked)
    return requests_to_memory(submission.messages[-1].text, may_point=may_point)


def _reply_before(submission: Submission) -> str:
    """Return the agent's reply before a prompt, or ""."""
    return next((each.text for each in submission.before[-1:] if each.role == "assistant"), "")


def memories_pointed_at(said: SaidToMemory, shown: Meant, reply: str) -> MeantMemories:
    """Return the memories of a session that a request may point to: by subject, by its place, or alone.

    A place is one in a list of the reply before. Without a place and subject it is the memory that the reply
    has, or the only one.
    """
    wanted, place, near = subject_words(said.topic), said.place, shown
    if place:
        items = [line for line in reply.splitlines() if is_item(line)]
        place = len(items) if place < 0 else place
        near = _most_alike(shown, subject_words(items[place - 1])) if 0 < place <= len(items) else ()
    elif not wanted and len(shown) > 1:
        near = _most_alike(shown, subject_words(reply))
    if wanted:
        near = _most_alike(near, wanted, of_text=True)
    return MeantMemories(near[:_MOST_NAMED], len(near) == 1)


def _most_alike(shown: Meant, words: frozenset[str], *, of_text: bool = False) -> Meant:
    """Return the memories with most of their words in a text, or most of its words, and those near them."""
    pairs = [(subject_words(each.content), (root, each)) for root, each in shown]
    shares = [len(has & words) / max(len(words if of_text else has), 1) for has, _ in pairs]
    least = max(_LEAST_ALIKE, _CLEARLY_BEHIND * max(shares, default=0.0))
    return tuple(pair for share, (_, pair) in zip(shares, pairs, strict=True) if share >= least)


async def _misplaced_roots(stored: Iterable[tuple[Root, str]]) -> dict[tuple[Root, str], str]:
    """Return the roots that are not at their paths, each with the reason."""
    known = [(root, identity) for root, identity in stored if identity]
    return await asyncio.to_thread(elsewhere, known) if known else {}


def _without_opted_out_proposals(classified: Classified, refused: Sequence[OptOut]) -> Classified:
    """Drop a model's proposals that repeat a text which the person opted out."""
    if classified.author != Origin.MODEL:
        return classified
    stays = (
        each for each in classified.proposals if not any(one.is_said_in(each.content) for one in refused)
    )
    return msgspec.structs.replace(classified, proposals=tuple(stays))


def _is_reported(document: DecidedMemory, put: CommitResult) -> bool:
    """Return True if a document did not fail to be written, or if it was newly stored for review."""
    memory_id = document.memory.id
    return memory_id in put.waiting if document.waits else memory_id not in put.failed
