"""Where what was said may be read afterwards: secrets, private spans and tool content nowhere at all.

One daemon that logs at debug level, one scripted provider for all its models, and one day's work: every
secret of `tests.data.secrets` is said in conversations of every kind and echoed by the classifier. Then
everything that is left of it is read as bytes: all files under HOME, the log, what the provider received and
what the daemon answers.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import re
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from forged.text.redaction import redact
from forged_client.capture_parts import PART_BYTES, SplitCapture
from forged_client.message_snapshot import MessageSnapshot
from forged_client.protocol import Capture, Captured, Message, Reply
from tests.data.forms import FORMS, HIDDEN, SAID
from tests.data.memories import memory, put
from tests.data.named_secrets import named_secrets
from tests.data.secrets import ALNUM, TOKENS, Draw, Planted, planted
from tests.support.clock import PATIENCE_S
from tests.support.daemon import (
    ALTERED,
    UNLIMITED,
    DaemonProcess,
    Stage,
    children_of,
    configuration,
    contents,
    on_disk,
    said,
)
from tests.support.provider import CHAT, Answer, Request, ScriptedProvider, completion, proposal, reply

pytestmark = pytest.mark.long

KINDS = ("turn", "compaction", "explicit", "session_end")
# Of the daemon's own endpoint; in the environment of daemon and worker, and nowhere else.
KEY = "sk-" + Draw("the daemon's key").of(ALNUM, 40)
URL_KEY = "k" + Draw("the key in a url").of(ALNUM, 30)

# A shell that becomes `forged serve --log-level debug`, since the fixture adds "serve" itself.
_DEBUG = ("/bin/sh", "-c", 'exec "$0" "$@" --log-level debug', *ALTERED, UNLIMITED)


class Debugged(Stage):
    """A stage that can tell where bytes are."""

    @property
    def state_dir(self) -> Path:
        return self.daemon.home / ".local/state/forged"

    def files(self, *tops: Path) -> dict[str, bytes]:
        """Every file under HOME and `tops`, also the hidden and the temporary ones."""
        found: dict[str, bytes] = {}
        for top in (self.daemon.home, *tops):
            for path in top.rglob("*"):
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                    found[str(path)] = path.read_bytes()
        return found

    def traffic(self) -> dict[str, bytes]:
        return {f"request {at} {r.path}": r.body for at, r in enumerate(self.provider.requests())}

    def answers(self, *tops: Path) -> dict[str, bytes]:
        """What the verbs say that show anything of a memory or an event."""
        asked: list[Reply] = [self.client.status(), self.client.cost()]
        for top in map(str, tops):
            asked += [
                self.client.list(top, all_versions=True, limit=1000),
                self.client.get(top, [found.id for found in self.client.list(top, limit=1000).memories]),
                self.client.retrieve(top, said("What is known about staging and its keys?")),
                self.client.status(top),
                self.client.review(top),
                self.client.why(top),
                self.client.undo(top, preview=True),
            ]
        asked += [self.client.dead(), self.client.dead("show")]
        assert {each.status for each in asked} <= {"ok", "empty"}, asked
        return {f"answer {at} {type(r).__name__}": msgspec.json.encode(r) for at, r in enumerate(asked)}

    def everything(self, *tops: Path) -> dict[str, bytes]:
        log = {"log": self.daemon.log_path.read_bytes()}
        return self.files(*tops) | log | self.answers(*tops) | self.traffic()

    def tell(self, top: Path, *texts: object, **options: object) -> Captured:
        """Hand over any kind of event; it must be taken."""
        taken = self.capture(top, *texts, **options)
        assert taken.outcome in ("accepted", "coalesced", "durable"), taken
        return taken

    def send(self, top: Path, messages: object, **options: object) -> Captured:
        """Hand over messages as a client of another language does: nothing is cut on the way."""
        sent = Capture(
            workspace=str(top),
            session_id=str(options.pop("session", "foreign")),
            messages=msgspec.convert(messages, tuple[Message, ...]),
            **options,  # type: ignore[arg-type]
        )
        taken = self.client.ask(sent)
        assert taken.outcome in ("accepted", "coalesced", "durable"), taken
        return taken

    @property
    def classified(self) -> list[Request]:
        return [request for request in self.chats if _is_classifier(request)]


def _is_classifier(request: Request) -> bool:
    return "memory classifier" in request.json["messages"][0]["content"]


def _playing(
    script: Callable[[], Answer], made_up: Callable[[], Answer] = lambda: completion("A hypothesis.")
) -> Callable[[ScriptedProvider, Request], Answer]:
    """Both chat models: `made_up` hypotheses for a retrieval, and what `script` says for the classifier."""

    def answer(_: ScriptedProvider, request: Request) -> Answer:
        return script() if _is_classifier(request) else made_up()

    return answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debugged]:
    home = tmp_path_factory.mktemp("home")
    with ScriptedProvider(dimension=3) as provider:
        config = configuration(
            provider, classifier_model="m", retrieval_model="m", retrieval_timeout_s=PATIENCE_S
        )
        url = provider.base_url.replace("://", f"://forged:{URL_KEY}@")
        env = {
            "FORGED_CAPTURE__BATCH_TURNS": "1",
            "FORGED_LLM__API_KEY": KEY,
            "FORGED_MEMORY__EMBEDDING_BASE_URL": url,
        }
        daemon = DaemonProcess(home, config=config, env=env, command=_DEBUG)
        try:
            daemon.start()
            with daemon.client() as client:
                provider.chat_lines = ("[]",)
                yield Debugged(provider, daemon, client)
            daemon.stop()
            assert "Traceback" not in daemon.log(), daemon.log()
        finally:
            daemon.close()


@pytest.fixture
def stage(shared: Debugged) -> Debugged:
    """Shared; every test has a repo of its own."""
    shared.reset()
    return shared


def _traces(secret: str) -> list[bytes]:
    """What would give a secret away; of a long one over several lines each line would."""
    lines = [line for line in re.split(r"\s+|\\+[nrt]|(?<=\s)> ", secret) if len(line) >= 16]
    return [part.encode() for part in (lines if len(lines) > 1 else [secret])]


def _found(secrets: Iterable[Planted], places: dict[str, bytes]) -> list[tuple[str, str]]:
    """Shape and place of every secret that can be read somewhere."""
    whole = {name: content for name, content in places.items() if content}
    return [
        (each.shape, name)
        for each in secrets
        for trace in _traces(each.secret)
        for name, content in whole.items()
        if trace in content
    ]


def _echoing(secrets: Sequence[Planted]) -> Callable[[], Answer]:
    """The classifier repeats ten of the secrets in each answer: as content, as links, and all around it."""
    endless = itertools.cycle(secrets)
    number = itertools.count()

    def answer() -> Answer:
        chosen = list(itertools.islice(endless, 10))
        proposals = [
            proposal(
                f"Service number {next(number)} of the fleet is set up like this by hand:\n{each.text}",
                scope="user" if at == 9 else "repo",
                supersedes=each.secret,
                related=[{"id": each.secret, "relationship": "refines"}],
                note=each.text,
            )
            for at, each in enumerate(chosen)
        ]
        return completion(f"<think>{chosen[0].text}</think>I saw {chosen[1].text}\n{json.dumps(proposals)}")

    return answer


def _chunks(items: Sequence[Planted], size: int) -> list[Sequence[Planted]]:
    return [items[at : at + size] for at in range(0, len(items), size)]


def test_no_secret_that_is_said_or_answered_can_be_read_anywhere(stage, repo):
    """Gate 1 and gate 2: 400 secrets, through every kind of event, and out of the classifier's mouth."""
    secrets = planted()
    assert len(secrets) >= 200
    assert len({each.shape for each in secrets}) >= 20
    before = stage.state
    go, answer = threading.Event(), _echoing(secrets)
    stage.provider.chat = _playing(lambda: replace(answer(), hold=go))
    try:
        for at, chunk in enumerate(_chunks(secrets, 60)):
            for kind in KINDS:
                stage.tell(repo, *(each.text for each in chunk), session=f"{kind} {at}", kind=kind)
        stage.provider.wait_for(1, path=CHAT)
        waiting = stage.until(lambda now: now.spooled >= len(KINDS) * (at + 1))
        held = stage.everything(repo)
    finally:
        go.set()
    assert waiting.spooled == len(KINDS) * (at + 1)
    assert _held_in_state(held).count(b"[redacted]") >= waiting.spooled
    assert _found(secrets, held) == []

    after = stage.settle(30)
    assert _found(secrets, stage.everything(repo)) == []
    assert after.redacted - before.redacted >= 4 * len(secrets)
    held_back = stage.client.review(str(repo)).waiting  # what comes of text that looks pasted
    kept = [found.content for found in (*on_disk(repo), *held_back)]
    assert len(kept) > 100  # they were written, and say what is no secret
    assert all("[redacted]" in content for content in kept)


def _in_forms(secrets: Iterator[Planted]) -> Iterator[tuple[list[object], list[Planted]]]:
    """Every form of message, with a secret in what is said and another in what is hidden."""
    for form in FORMS.values():
        seen, hidden = next(secrets), next(secrets)
        yield _with(form, seen.text, hidden.secret), [seen, hidden]


def _with(value: object, seen: str, hidden: str) -> object:
    if isinstance(value, str):
        return value.replace(SAID, seen).replace(HIDDEN, hidden)
    if isinstance(value, dict):
        return {key: _with(item, seen, hidden) for key, item in value.items()}
    return [_with(item, seen, hidden) for item in value] if isinstance(value, list) else value


def test_no_secret_in_any_form_of_message_can_be_read_anywhere(stage, repo):
    """As text of a message, a part, or around tool markup; from our client and from others."""
    secrets = itertools.cycle(planted())
    used: list[Planted] = []
    with _holding(stage) as go:
        for kind, _ in zip(itertools.cycle(KINDS), range(8), strict=False):
            messages, planted_here = zip(*_in_forms(secrets), strict=True)
            used += itertools.chain.from_iterable(planted_here)
            flat = list(itertools.chain.from_iterable(messages))
            stage.tell(repo, *flat, session=f"forms {kind}", kind=kind)
            stage.send(repo, flat, session=f"raw forms {kind}", kind=kind)
        assert _found(used, stage.files(repo)) == []
        go.set()
        stage.settle()

    assert len(used) > 300
    assert _found(used, stage.everything(repo)) == []
    assert all(b"[redacted]" in request.body for request in stage.classified)


@contextlib.contextmanager
def _holding(stage: Debugged, *proposals: object) -> Iterator[threading.Event]:
    """The classifier gives this answer, but only when the event is set; at the end it is."""
    go = threading.Event()
    stage.provider.chat = _playing(lambda: replace(reply(*proposals), hold=go))
    try:
        yield go
    finally:
        go.set()


def test_no_secret_of_a_message_in_several_parts_can_be_read_anywhere(stage, repo):
    """A part may begin with the secret or with any line: parts are read as the lines of one text.

    What a part that ends in the middle of a word, or between a name and its value, still hides is another
    matter: behind a line end nothing says that the two belong together.
    """
    split = []
    for each in planted():
        before, value, after = each.text.partition(each.secret)
        pieces = [before, value + after] if each.shape in TOKENS else each.text.split("\n")
        if all(map(str.strip, pieces[:2])) and len(pieces) > 1:
            parts = [{"type": "text", "text": piece} for piece in pieces]
            split.append((each, {"role": "user", "content": parts}))
    assert len(split) > 200
    for chunk in range(0, len(split), 60):
        stage.tell(repo, *(message for _, message in split[chunk : chunk + 60]), session=f"{chunk}")
    stage.settle()

    assert _found([each for each, _ in split], stage.everything(repo)) == []


# One of each kind of shape: a token, a key of many lines, a value that only its name betrays.
_CUT_SHAPES = (
    *("github classic", "anthropic", "json web token"),
    *("pem", "password in a url", "drawn password"),
)
_CUT = [next(each for each in planted() if each.shape == shape) for shape in _CUT_SHAPES]


def _halves(secrets: Sequence[Planted]) -> list[Planted]:
    return [
        Planted(each.shape, each.text, half)
        for each in secrets
        for line in _traces(each.secret)
        for half in (line[: len(line) // 2].decode(), line[len(line) // 2 :].decode())
    ]


def _cuts(text: str = "x" * 2 * PART_BYTES) -> Iterator[int]:
    """Where the client cuts a message that is too long for a part."""
    for part in SplitCapture(
        Capture(workspace="/w", session_id="s"), MessageSnapshot([{"role": "user", "content": text}], 0)
    ):
        yield len(str(part.messages[0].content))


def test_no_half_of_a_secret_is_left_where_the_client_cuts(stage, repo):
    """A frame has a limit too, and a message that is longer goes on in the next one."""
    for at, each in enumerate(_CUT[:1]):  # nearly two million characters, and all of them are judged
        end = each.text.index(each.secret) + len(each.secret) // 2
        rest = next(_cuts()) - end
        text = "dolor sit am " * (rest // 13) + "x " * (rest % 13 // 2) + "\n" * (rest % 13 % 2) + each.text
        assert next(_cuts(text)) == len(text) - len(each.text) + end
        stage.tell(repo, text + " and more", session=f"{at}")
    stage.settle(90)

    assert _found(_halves(_CUT), stage.everything(repo)) == []


def test_no_secret_of_a_question_reaches_a_model(stage, repo):
    """A retrieve asks two models about the conversation before the capture of the turn is even there."""
    put(repo, memory("m1", "Staging is deployed by hand."))
    stage.load(repo)
    secrets = planted()
    for at, each in enumerate(secrets[::3]):
        stage.client.retrieve(str(repo), said(each.text), session_id="s", turn_id=f"t{at}")
    for each in secrets[1::3]:
        stage.client.search(str(repo), each.text)
    for each in secrets[2::3]:
        stage.client.retrieve(str(repo), said("How is it?"), hypotheses=[each.text])

    assert len(stage.embeds) > len(secrets) // 2
    assert _found(secrets, stage.traffic() | stage.files(repo) | {"log": stage.daemon.log().encode()}) == []


PRIVATE = {
    "plain": "Before. <private>{}</private> After.",
    "never closed": "Before. <private>{}",
    "nested": "<private>a <private>{}</private> {} </private> After.",
    "upper case and attributes": 'Before. <PRIVATE reason="mine">{}</PRIVATE> After.',
    "escaped slash": "Before. <private>{}<\\/private> After.",
    "as JSON": 'Before. {{"a": "\\u003cprivate\\u003e{}\\u003c/private\\u003e"}} After.',
    "around a tool": "Before. <private><tool>{}</tool> {}</private> After.",
    "many lines": "Before.\n<private>\n{}\n\n{}\n</private>\nAfter.",
    "in code": "Before. `<private>{}</private>` After.",
}


def test_private_spans_of_a_client_that_does_not_cut_are_nowhere(stage, repo):
    """The daemon's first act: in every kind of event, while it waits, when it is given up, and at the end."""
    marks = [f"zanzibar{at}moonlight" for at in range(len(PRIVATE) + 2)]
    texts = [form.format(mark, mark) for form, mark in zip(PRIVATE.values(), marks, strict=False)]
    parts = [[f"<private>{marks[-2]}", f"{marks[-2]}</private> after"], ["<private>", marks[-1]]]
    messages = [{"role": "user", "content": text} for text in texts]
    messages += [{"role": "user", "content": [{"type": "text", "text": t} for t in each]} for each in parts]
    with _holding(stage) as go:
        for kind in KINDS:
            stage.send(repo, messages, kind=kind, session=kind)
        stage.until(lambda now: now.spooled == len(KINDS))
        held = stage.files(repo)
        assert b"Before." in _held_in_state(held)
        assert _marked("moonlight", held) == []
        go.set()
        stage.settle()

    assert _marked("moonlight", stage.everything(repo)) == []


def _marked(mark: str, places: dict[str, bytes]) -> list[str]:
    return [name for name, content in places.items() if mark.encode() in content]


def test_tool_content_is_neither_in_the_spool_nor_among_the_dead(stage, repo):
    """In every form of message, of our client and of others."""
    messages = list(itertools.chain.from_iterable(FORMS.values()))
    with _holding(stage) as go:
        for kind in KINDS:
            stage.tell(repo, *messages, kind=kind, session=kind)
            stage.send(repo, messages, kind=kind, session=f"raw {kind}")
        stage.until(lambda now: now.spooled == 2 * len(KINDS))
        assert _marked(SAID, stage.files(repo))
        assert _marked(HIDDEN, stage.files(repo)) == []
        go.set()
        stage.settle()
    dead = stage.buried(repo, *messages, kind="explicit")

    assert SAID in stage.client.dead("show", [dead]).events[0].text
    assert _marked(HIDDEN, stage.everything(repo)) == []
    stage.client.dead("drop", [dead])


def test_a_secret_that_no_one_insisted_on_gets_by_no_door_to_a_server_or_a_file(stage, repo):
    """Fifty shapes, by every way in: remembered, written by hand, said, answered, asked, made up, listed."""
    secrets = [each for each in named_secrets("doors", 1) if each.secret not in redact(each.text).text]
    assert len({each.shape for each in secrets}) == 50
    by_hand = [memory(f"mem_{at}", f"By hand {at}: {each.text}") for at, each in enumerate(secrets)]
    put(repo, *by_hand)
    put(stage.daemon.home, *(msgspec.structs.replace(one, scope="user") for one in by_hand[::9]))
    stage.load(repo)
    endless = itertools.cycle(secrets)
    stage.provider.chat = _playing(_echoing(secrets), lambda: completion(next(endless).text))

    for each in secrets:
        reported = stage.client.remember(str(repo), f"Please keep this: {each.text}")
        assert (reported.status, reported.reason.partition(":")[0]) == ("error", "secret"), (each, reported)
    for chunk in _chunks(secrets, 30):
        stage.tell(repo, *(each.text for each in chunk), session=chunk[0].shape)
    for each in secrets[::7]:
        stage.client.search(str(repo), each.text)
        stage.client.why(str(repo), query=each.text)
        stage.ask(repo, each.text)
    stage.settle(30)

    hand_written = {f"{one.id}.md" for one in by_hand}
    assert stage.embeds
    assert stage.classified
    seen = {
        name: data for name, data in stage.everything(repo).items() if Path(name).name not in hand_written
    }
    assert _found(secrets, seen) == []
    assert stage.report(repo).redacted >= len(by_hand) - 1


def test_what_someone_insisted_on_is_in_its_file_and_reported_to_agents_and_leaves_for_no_server(stage, repo):
    secret = TOKENS["github classic"](Draw("insisted"))
    stage.provider.chat = _playing(reply)
    reported = stage.client.remember(str(repo), f"The deploy token of goose is {secret}", allow_secret=True)
    stage.load(repo)
    stage.tell(repo, "Which token deploys goose?")
    answer = stage.ask(repo, "Which token deploys goose?")
    stage.settle()

    assert secret in Path(reported.path).read_text()
    assert secret in answer.text
    assert any("[redacted]" in text for text in stage.embedded)
    left = {name: data for name, data in stage.files(repo).items() if name != reported.path}
    log = {"log": stage.daemon.log_path.read_bytes()}
    assert _found([Planted("insisted", "", secret)], left | log | stage.traffic()) == []


def test_a_key_that_someone_wrote_into_a_memory_does_not_reach_the_classifier(stage, repo):
    """First lines of existing memories go into its prompt; what is embedded is the user's own affair."""
    secrets = [each for each in planted() if not each.shape.startswith("pem")]
    for at, each in enumerate(secrets):
        put(repo, memory(f"m{at}", each.text.lstrip()))
    plain = repo / ".forge/memory/plain.md"
    plain.write_text(f"{'A long first line. ' * 9}The token is {secrets[0].secret}, and more.\n")
    stage.load(repo)
    for each in secrets[::8]:
        shown = each.text.replace(each.secret, "").strip()
        stage.captured(repo, f"What about this: {shown or each.shape}", session=each.text[:8])

    prompts = {f"prompt {at}": request.body for at, request in enumerate(stage.classified)}
    assert all(b"EXISTING MEMORIES" in body for body in prompts.values())
    assert sum(body.count(b"[redacted]") for body in prompts.values()) > len(secrets)
    assert _found(secrets, prompts) == []


def test_what_is_kept_is_for_the_user_alone(stage, repo):
    """0600 and 0700: memories in the folders that captures made, and all of the state directory."""
    shutil.rmtree(stage.daemon.home / ".forge", ignore_errors=True)  # made by another test's hand
    stage.load(stage.daemon.home)
    stage.provider.chat = _playing(lambda: reply(proposal("Kept here."), proposal("Kept there.", "user")))
    stage.captured(repo, "hello", kind="compaction")
    (found,) = on_disk(repo)
    stage.client.forget(str(repo), found.id)
    stage.client.pause(str(repo))
    stage.client.pause(str(repo), paused=False)
    dead = stage.buried(repo, "somebody died of it", kind="explicit")
    with _holding(stage):
        stage.tell(repo, "waits", kind="session_end")
        stage.until(lambda now: now.spooled)
        places = [stage.state_dir, stage.daemon.home / ".forge/memory", repo / ".forge/memory"]
        modes = {str(each): _mode(each) for top in places for each in (top, *top.rglob("*"))}
    stage.client.dead("drop", [dead])

    names = {Path(name).name for name in modes}
    assert {"state.db", "state.db-wal", "trash", f"{found.id}.md"} <= names
    assert {name: mode for name, mode in modes.items() if mode not in ("-rw-------", "drwx------")} == {}


def _mode(path: Path) -> str:
    return stat.filemode(path.lstat().st_mode)


FACT = "Deploys to the harbour leave at noon on Thursdays."


@pytest.mark.parametrize("now", [False, True], ids=["to the trash", "for good"])
def test_what_was_forgotten_is_nowhere_but_in_the_trash(stage, repo, now):
    """Not in the spool, not in the queue, not among the dead; with --now in no file at all.

    What else was said in an event stays.
    """
    known = _known(stage, repo)
    stage.buried(repo, f"We talked about it. {FACT.upper()} {FACT}", kind="explicit", session="dead")
    with _holding(stage, proposal(FACT)) as go:
        stage.tell(repo, "Something else.", session="in hand")
        stage.provider.wait_until(lambda: bool(stage.classified))
        for kind in KINDS:
            stage.tell(repo, f"Well: {FACT}", kind=kind, session=kind)
        assert _marked(FACT, _but_trash(stage, repo))
        gone = stage.client.forget(str(repo), known, erase_now=now)
        assert (gone.ids, gone.cut_sentences, gone.cut_events) == ((known,), 2 + len(KINDS), 1 + len(KINDS))
        left = _marked(FACT, stage.files(repo))
        assert _marked(FACT, _but_trash(stage, repo)) == []
        go.set()
        stage.settle()

    assert len(left) == (0 if now else 1)
    assert _marked(FACT, stage.files(repo)) == left
    assert contents(on_disk(repo)) == []
    (dead,) = stage.client.dead("show").events
    assert dead.text.strip() == "user: We talked about it."
    stage.client.dead("drop")
    _empty_trash(stage)


def _known(stage: Debugged, repo: Path) -> str:
    """Id of a captured memory that says FACT; nothing else does."""
    stage.provider.chat = _playing(lambda: reply(proposal(FACT)))
    (known,) = stage.captured(repo, f"Remember: {FACT}", kind="compaction")
    assert known.content == FACT
    return known.id


def _but_trash(stage: Debugged, *tops: Path) -> dict[str, bytes]:
    trash = str(stage.state_dir / "trash")
    return {name: content for name, content in stage.files(*tops).items() if not name.startswith(trash)}


def _empty_trash(stage: Debugged) -> None:
    for path in (stage.state_dir / "trash").rglob("*.md"):
        path.unlink()


def _held_in_state(held: Mapping[str, bytes]) -> bytes:
    return b"".join(content for name, content in held.items() if "/state.db" in name)


LANTERNS = "Quicksilver lanterns over the northern canal, Ртутные фонари над северным каналом."
FONARI = json.dumps("фонари")[1:-1]
ECHOES: dict[str, Callable[[str], Answer]] = {
    "message": lambda reported: _error(f"Bad header 'Authorization: {reported}'"),
    "code": lambda reported: Answer({"error": {"message": "no", "code": reported[-40:]}}, status=400),
    "text": lambda reported: Answer({"error": f"you sent {reported}"}, status=422),
    "detail": lambda reported: Answer(
        {"detail": [{"msg": f"wrong: {reported}", "input": reported}]}, status=422
    ),
    "list": lambda reported: Answer([{"error": {"message": reported}}], status=500),
    "in a 200": lambda reported: Answer({"error": {"message": reported, "code": 502}}),
    "plain": lambda reported: Answer(body=f"Internal error: {reported}".encode(), status=500),
    "a part of it": lambda reported: _error(f"key {reported[-40:-20]}*** is not known, or {reported[-12:]}"),
    "folded": lambda reported: _error(f"{reported.upper()} and {reported.lower()}"),
    "escaped": lambda reported: _error(f"input: {json.dumps(re.sub('[ -~]+', ' ', reported))}"),
    "no JSON": lambda reported: Answer(body=f'{{"choices": [{{"message": "{reported}"}}]}}'.encode()),
    "no HTTP": lambda reported: Answer(wire=f"{reported}\r\n\r\n".encode()),
    "headers": lambda reported: Answer({}, status=503, headers={"X-Reason": reported, "Server": reported}),
}


def _error(message: str) -> Answer:
    return Answer({"error": {"message": message, "type": "invalid_request"}}, status=400)


def _echoed(form: str, reported: str) -> Answer:
    """The answer of a form, and the wish to be asked again soon."""
    answer = ECHOES[form](reported)
    return replace(answer, headers={"Retry-After-Ms": "200", **answer.headers})


@pytest.mark.parametrize("form", [form for form in ECHOES if form != "no HTTP"])
def test_what_a_provider_echoes_in_an_error_is_not_reported_on(stage, repo, form):
    """It may quote the Authorization header or the conversation: status, log and files have neither."""
    before = stage.state.failures

    def refuse(_: ScriptedProvider, request: Request) -> Answer:
        quoted = request.json["messages"][1]["content"].split("user: ")[1].split("\n")[0]
        return _echoed(form, f"{quoted} / {request.headers['authorization']}")

    stage.provider.chat = refuse
    stage.tell(repo, LANTERNS, kind="explicit")
    failed = stage.until(lambda now: now.failures > before)
    stage.provider.chat = None
    assert "127.0.0.1" in failed.last_error
    shown = {"status": msgspec.json.encode(failed), "log": stage.daemon.log_path.read_bytes()}
    stage.settle()

    places = shown | stage.files(repo) | stage.answers(repo)
    for piece in (KEY, KEY[:12], KEY[-12:], KEY[8:20], "Quicksilver", "canal", "фонари", FONARI):
        assert {name for name in _marked(piece, places) if "/state.db" not in name} == set(), piece
        assert _marked(piece.lower(), {k: v.lower() for k, v in shown.items()}) == []


@pytest.mark.parametrize("form", ECHOES)
def test_what_an_embedding_endpoint_echoes_in_an_error_is_not_reported_on(stage, repo, form):
    """The same for the key that stands in its URL, and for a memory's text."""
    put(repo, memory("m1", LANTERNS))
    basic = base64.b64encode(f"forged:{URL_KEY}".encode()).decode()

    def refuse(_: ScriptedProvider, request: Request) -> Answer:
        assert request.headers["authorization"] == f"Basic {basic}"
        return _echoed(form, f"{request.inputs[0]} forged:{URL_KEY} {request.headers['authorization']}")

    stage.provider.embeddings = refuse
    built = stage.client.rebuild(str(repo), wait=True, timeout_s=PATIENCE_S)
    shown = {
        "built": msgspec.json.encode(built),
        "status": msgspec.json.encode(stage.client.status(str(repo))),
        "search": msgspec.json.encode(stage.client.search(str(repo), "Which canal?")),
        "log": stage.daemon.log_path.read_bytes(),
    }
    shown["search"] = shown["search"].replace(LANTERNS.encode(), b"")
    reported = (URL_KEY, URL_KEY[:12], URL_KEY[-12:], basic[:16], basic[-16:], basic[12:28])
    for piece in (*reported, "Quicksilver", FONARI):
        assert _marked(piece.lower(), {k: v.lower() for k, v in shown.items()}) == [], piece
    assert b"127.0.0.1" in shown["status"]


def test_the_log_holds_nothing_that_was_said_or_kept(stage, repo):
    """At level debug, through every verb, good calls and bad ones: ids, sizes and reasons only."""
    mark, top, client = "periwinkle", str(repo), stage.client
    stage.provider.chat = _playing(lambda: reply(proposal(f"The {mark} service is written in Go.")))
    client.retrieve(top, said(f"What is {mark}?"), session_id="s", turn_id="1")
    for kind in KINDS:
        stage.tell(repo, f"The {mark} service is written in Go, from now on.", kind=kind, session=kind)
    stage.settle()
    (captured,) = on_disk(repo)
    stage.load(repo)
    assert mark in client.retrieve(top, said(f"What is {mark}?"), session_id="s", turn_id="2").text
    client.search(top, mark), client.why(top, session_id="s"), client.why(top, query=mark)
    client.history(top, captured.id), client.undo(top), client.rebuild(top, full=True, wait=True)
    kept = client.remember(top, f"A {mark} note.", session_id=f"{mark} session")
    client.remember(top, f"A {mark} note.", category=mark), client.remember(top, mark, supersedes=mark)
    client.forget(top, kept.memory_id), client.forget(top, mark), client.get(top, [mark])
    client.capture(top, said(mark), mark, kind=mark), client.dead(mark), client.dead("drop", [mark])
    client.list(top, scope=mark), client.retrieve(f"/{mark}", said(mark))
    (repo / ".forge/memory" / "odd.md").write_text(f"---\nversion: {mark} is no number\n---\n{mark}\n")
    (repo / ".forge/memory" / "broken.md").write_text(f"---\n{mark}: [\n{mark}\n---\n{mark}\n")
    (repo / ".forge/memory" / "torn.md").write_bytes(f"---\nid: {mark}\n".encode() + b"\xff\n---\n")
    stage.provider.embeddings = Answer(body=mark.encode(), status=400)
    client.rebuild(top, wait=True)
    for text in (f"{mark} \ud800 half", f"{mark}\0{mark}", mark * 5_000):
        # Beside one that can be kept, as a reply of nothing but faults is tried again for a while.
        answer = reply(proposal(text, supersedes=text, category=text), proposal("Ports are open."))
        stage.provider.chat = _playing(lambda answer=answer: answer)
        client.capture(top, said(f"{text} again"), "s")
        stage.settle()
    buried = stage.buried(repo, f"They died of {mark}.", kind="explicit")
    client.dead("show"), client.dead("retry"), stage.settle()
    assert buried not in [event.id for event in client.dead().events]

    log = stage.daemon.log()
    assert " DEBUG " in log
    assert [line for line in log.splitlines() if mark in line] == []


def test_the_key_is_in_no_command_line_and_in_no_file(stage, repo):
    """It comes by the environment, reaches the worker over a pipe, and leaves in one header."""
    stage.captured(repo, "hello")

    pids = [stage.daemon.pid, stage.state.worker_pid]
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (*pids, *children_of(stage.daemon.pid))]
    assert len(lines) >= 3
    assert stage.classified[0].headers["authorization"] == f"Bearer {KEY}"
    places = stage.everything(repo) | {f"line {at}": line for at, line in enumerate(lines)}
    assert _marked(KEY, places) == []
    assert _marked(URL_KEY, places) == []


def test_a_frame_that_cannot_be_read_is_not_quoted(stage):
    """Whoever sends a wrong type is told the place, and the log is told nothing."""
    mark = "heliotrope"
    wrong = [
        {"type": "capture", "workspace": "/", "session_id": "s", "messages": mark},
        {"type": "capture", "workspace": "/", "session_id": "s", "messages": [{"role": mark, "content": 7}]},
        {"type": "capture", "workspace": "/", "session_id": "s", "kind": [mark]},
        {"type": "capture", "workspace": "/", "session_id": "s", "last_summary_index": mark},
        {"type": "retrieve", "workspace": "/", "messages": [{mark: mark}]},
        {"type": mark},
    ]
    with _dialled(stage.daemon.socket) as ask:
        reported = [ask(request) for request in wrong]
    assert {reply["type"] for reply in reported} == {"failed"}
    assert [reply for reply in reported[:-1] if mark in str(reply)] == []
    assert mark not in stage.daemon.log()


@contextlib.contextmanager
def _dialled(path: str) -> Iterator[Callable[[dict[str, object]], dict[str, object]]]:
    """A greeted connection of a client without types: values go as they are, replies come as they are."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(PATIENCE_S)
        peer.connect(path)
        stream = peer.makefile("rb")

        def ask(request: dict[str, object]) -> dict[str, object]:
            body = msgspec.msgpack.encode(request)
            peer.sendall(len(body).to_bytes(4, "big") + body)
            return msgspec.msgpack.decode(stream.read(int.from_bytes(stream.read(4), "big")))

        ask({"type": "hello", "protocol_min": 1, "protocol_max": 1})
        yield ask
        stream.close()
