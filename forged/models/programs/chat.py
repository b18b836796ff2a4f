"""`ChatModel` over a program on this machine, such as your agent: one process for each prompt.

Texts leave through the egress guard and count as one request to the program's name. `rows.toml` has the
command, environment and input with which an agent is nothing but a model, and files for the call's folder.
Raises ProviderError: `unreachable` if the program does not exist, `auth` if it may not be used.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
import tomllib
from functools import cache
from pathlib import Path

import msgspec

from forged.errors import ProviderError
from forged.models import Completion, EgressGuard, EndpointHealth, Prompt
from forged.models.egress import EgressAttempt
from forged.models.programs.process import call_folder, run
from forged.models.programs.program_replies import Form, completion_of
from forged.models.texts import sendable
from forged.program import Program
from forged_client.typed import resolved

_SYSTEM, _MODEL, _FOLDER = "{system}", "{model}", "{folder}"
_INSTRUCTION = "system.md"
# Variables that every program may see: folders of the person, and network settings.
_SEEN = frozenset({
    *("HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    *("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"),
})  # fmt: skip
_ALSO = ("LC_", "XDG_")


class ProgramRow(msgspec.Struct, frozen=True):
    """Row of rows.toml: the way to run a program as a chat model; that file documents its keys."""

    tried: str
    model: str
    reply: Form
    key: str
    keeps: tuple[str, ...]
    args: tuple[str, ...]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    links: dict[str, str] = {}


class ProgramCall(msgspec.Struct, frozen=True):
    """One process to run for a prompt: its command, environment and standard input (`text`)."""

    command: tuple[str, ...]
    env: dict[str, str]
    text: str


@cache
def program_rows() -> dict[str, ProgramRow]:
    """Return the rows of rows.toml by the names of the programs."""
    return msgspec.convert(
        tomllib.loads(Path(__file__).with_name("rows.toml").read_text("utf-8")),
        resolved(dict[str, ProgramRow]),
    )


def build_call(program: Program, system: str, user: str, folder: str) -> ProgramCall:
    """Return command, environment and input for a prompt, and create its files in `folder`."""
    row = program_rows()[program.row]
    env = environment(program, row)
    files = {name: content.replace(_FOLDER, folder) for name, content in row.files.items()}
    for name, content in {**files, _INSTRUCTION: system}.items():
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8")
    for name, target in row.links.items():
        os.symlink(target.replace("~", env.get("HOME", "~"), 1), os.path.join(folder, name))
    values = {_SYSTEM: system, _MODEL: program.model or row.model}
    args = tuple(values.get(arg, arg.replace(_FOLDER, folder)) for arg in row.args)
    env |= {name: value.replace(_FOLDER, folder) for name, value in row.env.items()}
    text = user if row.args else f"{system}\n\n{user}"
    return ProgramCall((*program.command, *args), env, text)


def environment(program: Program, row: ProgramRow) -> dict[str, str]:
    """Return a program's environment: allowed variables, its key, FORGED_BYPASS (no memory)."""
    seen = {
        name: value
        for name, value in program.env.items()
        if name in _SEEN or name.startswith((*_ALSO, *row.keeps))
    }
    key = {row.key: program.key} if row.key and program.key else {}
    # A script's interpreter is in the same folder, as version managers install them.
    path = f"{os.path.dirname(program.command[0])}:{seen.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
    return {**seen, **key, "PATH": path, "FORGED_BYPASS": "1", "NO_COLOR": "1"}


class ProgramChat:
    """`ChatModel` over a program, one process a prompt; schema in the instruction only, no streaming."""

    def __init__(
        self, program: Program, scratch: str, *, egress: EgressGuard, health: EndpointHealth | None = None
    ) -> None:
        """Set up the model. `scratch` is forged's folder for call folders; it need not exist."""
        self._program = program
        self._scratch = scratch
        self._egress = egress
        self.health = health or EndpointHealth()

    async def complete(self, prompt: Prompt, *, deadline: float) -> Completion:
        """Run the program on a prompt, return its reply; at `deadline` end it and raise."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._timeout_error()
        attempt = self.health.begin()
        try:
            async with asyncio.timeout(left):
                done = await self._run_program(prompt)
        except TimeoutError as error:
            late = self._timeout_error()
            attempt.record_failure(late)
            raise late from error
        except ProviderError as error:
            attempt.record_failure(error)
            raise
        finally:
            attempt.abandon()
        attempt.record_success()
        return done

    async def aclose(self) -> None:
        """Do nothing: no state is kept between calls."""

    async def _run_program(self, prompt: Prompt) -> Completion:
        """Redact and check the prompt, run the program on it in a new folder, and return the completion."""
        name, purpose = self._program.name, prompt.purpose
        self._check_program(purpose.tops)
        system, user = map(sendable, await self._egress.cleared((prompt.system, prompt.user)))
        sent = (system, user)
        await self._egress.check(purpose, sent)
        with EgressAttempt(self._egress.record, name, purpose, sent) as leaving:
            try:
                with call_folder(self._scratch) as folder:
                    call = build_call(self._program, system, user, folder)
                    leaving.mark_sent()
                    ended = await run(call.command, call.env, folder, call.text)
            except OSError as error:
                message = f"{name} cannot be started: {error.strerror}"
                raise ProviderError(message, reason="internal") from error
            done = completion_of(name, program_rows()[self._program.row].reply, ended, sent)
            leaving.answered = True
        return done

    def _check_program(self, tops: tuple[str, ...]) -> None:
        """Raise ProviderError if the program is missing, below `tops`, or others may change it."""
        path, name = self._program.command[0], self._program.name
        try:
            found, real = os.stat(path), os.path.realpath(path)
        except OSError as error:
            raise ProviderError(f"{name}: there is no {path}", reason="unreachable") from error
        if not stat.S_ISREG(found.st_mode) or not os.access(path, os.X_OK):
            raise ProviderError(f"{name}: {path} is no program", reason="unreachable")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & stat.S_IWOTH:
            raise ProviderError(f"{name}: others can change {path}", reason="auth")
        home = os.path.realpath(self._program.env.get("HOME", "/"))
        for top in tops:
            if top != home and any(f"{each}/".startswith(f"{top}/") for each in (path, real)):
                raise ProviderError(f"{name}: {path} lies in the repository {top}", reason="auth")

    def _timeout_error(self) -> ProviderError:
        """Return the error for a program that is too late."""
        return ProviderError(f"{self._program.name} gave no answer in time", reason="timeout")
