"""Where what was said may be read afterwards: secrets, private spans and tool content nowhere at all.

One daemon that logs at debug level, one scripted provider for all its models, and one day's work: every
secret of `tests.support.secrets` is said in conversations of every kind and echoed by the classifier. Then
everything that is left of it is read as bytes: all files under HOME, the log, what the provider received and
what the daemon answers. The rules are those of design.md section 9.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import re
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from forged.capture.intake import WINDOW_LIMIT
from forged_client.protocol import Capture, Captured, Dead, DeadEvents, Message, Reply
from forged_client.verbs import Call
from forged_client.window import CAPTURE_BYTES
from tests.support.capturing import Stage, contents, on_disk, proposal, reply, said
from tests.support.daemon import DaemonProcess
from tests.support.forms import FORMS, HIDDEN, SAID
from tests.support.provider import CHAT, Answer, Request, ScriptedProvider, completion
from tests.support.scene import configuration, memory, put
from tests.support.secrets import ALNUM, Draw, Planted, planted

KINDS = ("turn", "compaction", "explicit", "session_end")
DURABLE = KINDS[1:]
# Of the daemon's own endpoint; in the environment of daemon and worker, and nowhere else.
KEY = "sk-" + Draw("the daemon's key").of(ALNUM, 40)
URL_KEY = "k" + Draw("the key in a url").of(ALNUM, 30)

# A shell that becomes `forged serve --log-level debug`, since the fixture adds "serve" itself.
_DEBUG = ("/bin/sh", "-c", 'exec "$0" -m forged "$1" --log-level debug', sys.executable)


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
        taken = self.client.ask(Call(sent, Captured))
        assert taken.outcome in ("accepted", "coalesced", "durable"), taken
        return taken

    @property
    def classified(self) -> list[Request]:
        return [request for request in self.chats if _is_classifier(request)]


def _is_classifier(request: Request) -> bool:
    return "memory classifier" in request.json["messages"][0]["content"]


def _playing(script: Callable[[], Answer]) -> Callable[[ScriptedProvider, Request], Answer]:
    """Both chat models: hypotheses for a retrieval, and what `script` says for the classifier."""

    def answer(_: ScriptedProvider, request: Request) -> Answer:
        return script() if _is_classifier(request) else completion("A hypothesis.")

    return answer


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debugged]:
    home = tmp_path_factory.mktemp("home")
    with ScriptedProvider(dimension=3) as provider:
        config = configuration(provider, classifier_model="m", retrieval_model="m", retrieval_timeout_s=5.0)
        url = provider.base_url.replace("://", f"://forged:{URL_KEY}@")
        env = {
            "FORGED_LLM__CALLS_PER_MINUTE": "0",
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
        waiting = stage.until(lambda now: now.spooled >= 3 * (at + 1))
        held = stage.everything(repo)
    finally:
        go.set()
    assert waiting.spooled == 3 * (at + 1)
    assert sum(b"[redacted]" in held[name] for name in held if name.endswith(".event")) == waiting.spooled
    assert _found(secrets, held) == []

    after = stage.settle(30)
    assert _found(secrets, stage.everything(repo)) == []
    assert after.redacted - before.redacted >= 4 * len(secrets)
    assert len(on_disk(repo)) > 100  # they were written, and say what is no secret
    assert all("[redacted]" in found.content for found in on_disk(repo))


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


def test_no_secret_whose_sentence_goes_over_two_parts_can_be_read_anywhere(stage, repo):
    """The value begins a part of its own: the client sends parts, the daemon reads them as one text."""
    split = []
    for each in planted():
        before, value, after = each.text.partition(each.secret)
        if before.strip():
            parts = [{"type": "text", "text": text} for text in (before, value + after)]
            split.append((each, {"role": "user", "content": parts}))
    for chunk in range(0, len(split), 60):
        stage.tell(repo, *(message for _, message in split[chunk : chunk + 60]), session=f"{chunk}")
    stage.settle()

    assert _found([each for each, _ in split], stage.everything(repo)) == []


# One of each kind of shape: a token, a key of many lines, a value that only its name betrays.
_CUT = [
    next(each for each in planted() if each.shape == shape)
    for shape in ("github classic", "anthropic", "json web token", "pem", "password in a url", "drawn password")
]


@pytest.mark.parametrize("limit", [WINDOW_LIMIT, WINDOW_LIMIT + 16_000])
def test_no_half_of_a_secret_is_left_where_a_window_is_cut(stage, repo, limit):
    """The daemon keeps the end of a message that is too long: a cut goes through the middle of a secret."""
    for at, each in enumerate(_CUT):
        where = each.text.index(each.secret) + len(each.secret) // 2
        text = "lorem ipsum " * 9_000 + each.text
        rest = limit - (len(each.text) - where)
        stage.tell(repo, text + " " + "dolor sit am " * (rest // 13) + "x" * (rest % 13 - 1), session=f"{at}")
    stage.settle()

    assert _found(_halves(_CUT), stage.everything(repo)) == []


def _halves(secrets: Sequence[Planted]) -> list[Planted]:
    return [
        Planted(each.shape, each.text, half)
        for each in secrets
        for line in _traces(each.secret)
        for half in (line[: len(line) // 2].decode(), line[len(line) // 2 :].decode())
    ]


def test_no_half_of_a_secret_is_left_where_the_client_cuts(stage, repo):
    """A frame has a limit too, and of a message that is longer the beginning is sent."""
    for at, each in enumerate(_CUT):
        end = each.text.index(each.secret) + len(each.secret) // 2
        rest = CAPTURE_BYTES - end
        text = "dolor sit am " * (rest // 13) + "x " * (rest % 13 // 2) + "\n" * (rest % 13 % 2) + each.text
        assert text.encode()[:CAPTURE_BYTES].decode().endswith(each.text[:end])
        stage.tell(repo, text + " and more", session=f"{at}")
    stage.settle()

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
    stage.client.retrieve(str(repo), said("warm up"))
    with _holding(stage) as go:
        for kind in KINDS:
            stage.send(repo, messages, kind=kind, session=kind)
        stage.until(lambda now: now.spooled == len(DURABLE))
        held = stage.files(repo)
        assert any(b"Before." in content for name, content in held.items() if name.endswith(".event"))
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
        stage.until(lambda now: now.spooled == 2 * len(DURABLE))
        assert _marked(SAID, stage.files(repo))
        assert _marked(HIDDEN, stage.files(repo)) == []
        go.set()
        stage.settle()
    dead = stage.buried(repo, *messages, kind="explicit")

    assert SAID in stage.client.dead("show", [dead]).events[0].text
    assert _marked(HIDDEN, stage.everything(repo)) == []
    stage.client.dead("drop", [dead])


def test_a_key_that_somebody_wrote_into_a_memory_does_not_reach_the_classifier(stage, repo):
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
    """0600 and 0700: memories, and all of the state directory, whatever has happened."""
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
    assert {"spool", "dead", "trash", "cost.json", "paused.json", "forgotten", f"{found.id}.md"} <= names
    assert {name: mode for name, mode in modes.items() if mode not in ("-rw-------", "drwx------")} == {}


def _mode(path: Path) -> str:
    return stat.filemode(path.lstat().st_mode)


FACT = "Deploys to the harbour leave at noon on Thursdays."


@pytest.mark.parametrize("now", [False, True], ids=["to the trash", "for good"])
def test_what_was_forgotten_is_nowhere_but_in_the_trash(stage, repo, now):
    """Not in the spool, not in the queue, not among the dead; with --now in no file at all."""
    stage.provider.chat = _playing(lambda: reply(proposal(FACT)))
    (known,) = stage.captured(repo, f"Remember: {FACT}", kind="compaction")
    stage.buried(repo, f"We talked about it. {FACT.upper()} {FACT}", kind="explicit", session="dead")
    with _holding(stage, proposal(FACT)) as go:
        stage.tell(repo, "Something else.", session="in hand")
        stage.provider.wait_until(lambda: bool(stage.classified))
        for kind in KINDS:
            stage.tell(repo, f"Well: {FACT}", kind=kind, session=kind)
        assert stage.client.forget(str(repo), known.id, erase_now=now).ids == (known.id,)
        left = _marked(FACT, stage.files(repo))
        go.set()
        stage.settle()

    trash = str(stage.state_dir / "trash")
    assert [name for name in left if not name.startswith(trash)] == []
    assert len(left) == (0 if now else 1)
    assert _marked(FACT, stage.files(repo)) == left
    assert (contents(on_disk(repo)), stage.state.dead) == ([], 0)
    if not now:
        Path(left[0]).unlink()  # both cases share the daemon
