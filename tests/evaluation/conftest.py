"""`make eval`, run in this process."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
import pytest

from forged.cli.call import Invocation
from tests.evaluation.__main__ import eval_command
from tests.support.daemon.shell import Outcome


@pytest.fixture
def evaluate(capsys: pytest.CaptureFixture[str], home: object) -> Callable[..., Outcome]:
    """Run it as from a shell in /w without a terminal; keywords change its surroundings."""

    def run(*arguments: str, **surroundings: object) -> Outcome:
        call = Invocation(workspace="/w", environ=dict(os.environ), timeout_s=5.0)
        call = msgspec.structs.replace(call, **surroundings)
        with pytest.raises(SystemExit) as ended:
            eval_command.main(arguments, prog_name="eval", obj=call)
        streams = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), streams.out, streams.err)

    return run
