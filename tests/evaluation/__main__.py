"""`make eval`: the quality of recall and capture, measured on labelled sets with daemons of its own.

Of questions a table with one row a measurement and below it one a kind of query; `--json` has all of it, each
query's scores too, so that two settings can be compared query by query.
"""

from __future__ import annotations

import functools
import itertools
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from forged.cli.call import Invocation, of_process, show
from forged.cli.commands import with_json_option
from forged.cli.exits import Stop
from forged.cli.tables import columns
from forged.cli.terminal import ProgressBar, escape_line, tell
from forged.errors import ConfigError, ForgedError
from forged_client.errors import ClientError
from tests.evaluation import jsonl_set, loading, replay, settings, stores, trial
from tests.evaluation.closing import allowed, begin, end
from tests.evaluation.dataset import Dataset, DatasetError
from tests.evaluation.lives import Lived, Lives, draw, load, measure
from tests.evaluation.scores import Summary
from tests.evaluation.session_trial import APPEND, BLOCK
from tests.evaluation.settings import SHIPPED_TOP_K, TOP_K, Prepared, Subject
from tests.evaluation.stores import SEED
from tests.evaluation.tables import SessionMeasurement, capture_table, injected_table, session_table
from tests.evaluation.trial import Failure, Outcome

_HEAD = ("", "asked", "R@5", "R@10", "R@20", "nDCG", "MRR", "+hops", "mem@10", "beside")
_NONE = "-"


class Measurement(msgspec.Struct, frozen=True):
    """One run: `store_size` None is the set as it is; `in_session`: each query began a session."""

    set: str
    model: str
    strategy: str
    store_size: int | None
    in_session: bool
    outcome: Outcome


@click.command("eval")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option(
    "--model",
    "models",
    multiple=True,
    default=("auto",),
    show_default=True,
    metavar="NAME",
    help="Embedding model; repeatable. `builtin:lexical`, `local:...`, `fastembed:...`, a name of your "
    "configured endpoint, or `configured` for the one of your configuration.",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(["direct", "caller", "hyde"]),
    default=("direct",),
    show_default=True,
    help="The message itself, the set's recorded hypotheses, or those of your memory.retrieval_model.",
)
@click.option("--split", type=click.Choice(["dev", "test", "all"]), default="all", show_default=True)
@click.option(
    "--store-size",
    "sizes",
    multiple=True,
    type=click.IntRange(1),
    metavar="N",
    help="Cut it into stores of N; repeatable.",
)
@click.option("--min-score", metavar="SCORE", help="Short for --set retrieval_min_score=SCORE.")
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="A key of [memory] for the run; repeatable."
)
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice([APPEND, BLOCK]),
    default=(APPEND,),
    show_default=True,
    help="Of sessions: replies stay with their turns, or the newest one takes the place of the last.",
)
@click.option("--closing", is_flag=True, help="A run over sealed sets, which is recorded beside them.")
@click.option("--off-topic", metavar="FILE", help="Messages nothing helps with, one a line (.jsonl or text).")
@click.option("--injected", is_flag=True, help="Of questions: as shipped, what came, its share and tokens.")
@click.option("--in-session", is_flag=True, help="The same, and each question begins a session.")
@click.option("--search", "by_search", is_flag=True, help="Of questions: what `search` ranks.")
@click.option(
    "--write", is_flag=True, help="Renew the tables in forged/docs/measured.md, or those of PATH alone."
)
@with_json_option
def eval_command(call: Invocation, *, write: bool, **asked: Any) -> None:
    """Measure recall and capture on labelled sets; without PATH, print the tables of measured.md again.

    PATH is a directory with memories.jsonl and queries.jsonl (and off_topic.jsonl), one with memories.jsonl
    and sessions.jsonl, one with said.jsonl, minds.jsonl, alike.jsonl or attacks.jsonl, one with chats.jsonl,
    answers.jsonl or act.jsonl, or a LoCoMo file; the splits are of the first only. A daemon of its own serves
    the memories as files in a scratch HOME; yours and your files are not touched. Of your configuration only
    endpoints, keys, prefixes and the retrieval_model are used, and only for a model of an endpoint or the
    strategy hyde, which sends the set's texts there. Everything else has its default, but for
    retrieval_timeout_s (30) and, of questions without --injected, retrieval_top_k (20).

    Recall and nDCG count what a search ranked; `+hops` is the recall of all that was injected, memories that
    came along an edge included; `mem@10` is how many memories stood in the first ten places. `beside` is
    the share of messages about something else that were answered with a memory. With --store-size the
    memories are cut into stores of N, each a repository of its own. tests/evaluation/README.md explains all.
    """
    if asked["paths"] and not write:
        done, lived = _measure(call, **asked)
        changed = _changes(asked["changes"], asked["min_score"])
        as_it_comes = asked["injected"] or asked["in_session"]
        _show(call, done, lived, asked["split"], changed, as_it_comes=as_it_comes)
        return
    commands = replay.chosen(asked["paths"])
    if not commands:
        raise Stop("usage", "no table of measured.md is of this set")
    for command in commands:
        text = replay.table(command, _replayed(call, command))
        click.echo(f"{text}\n")
        if write:
            page = replay.PAGE.read_text(encoding="utf-8")
            replay.PAGE.write_text(replay.written(page, {command: text}), encoding="utf-8")


def _replayed(call: Invocation, arguments: replay.Command) -> replay.Report:
    """Measure the sets of a command of measured.md, with its options."""
    here = msgspec.structs.replace(call, workspace=str(replay.REPO))
    options = eval_command.make_context("eval", list(arguments), obj=here).params
    del options["write"], options["as_json"]
    done, lived = _measure(here, **options)
    return replay.Report(tuple((each.model, each.outcome) for each in done), lived)


def _measure(
    call: Invocation,
    *,
    paths: tuple[str, ...],
    models: tuple[str, ...],
    strategies: tuple[str, ...],
    split: str,
    sizes: tuple[int, ...],
    min_score: str | None,
    changes: tuple[str, ...],
    modes: tuple[str, ...],
    closing: bool,
    off_topic: str | None,
    injected: bool,
    in_session: bool,
    by_search: bool,
) -> tuple[tuple[Measurement, ...], Lived]:
    """Measure the sets of a command. Raises Stop."""
    changed = _changes(changes, min_score)
    as_it_comes = injected or in_session
    try:
        here = [Path(call.workspace) / path for path in paths]
        next_to = None if off_topic is None else Path(call.workspace) / off_topic
        sealed = allowed([*here, *([next_to] if next_to else ())], closing=closing)
        lives, others = load(here)
        sets = _sets(others, next_to, split)
        named = [
            Subject(model, strategy, changed, as_it_comes, by_search, in_session)
            for model, strategy in itertools.product(models, strategies)
        ]
        subjects = [settings.prepare(each, call.environ) for each in named]
        _require_hypotheses(sets, lives, strategies)
        reported = _command(paths, models=models, modes=modes, changes=changed)
        begin(sealed, reported)
        done = tuple(_measured(call, sets, subjects, sizes or (None,)))
        lived = measure(call, lives, named, modes)
    except DatasetError as error:
        raise Stop("usage", str(error)) from error
    except ConfigError as error:
        raise Stop("configuration", str(error)) from error
    except ForgedError as error:
        raise Stop("unavailable", str(error)) from error
    except ClientError as error:
        raise Stop("unavailable", f"the daemon of the measurement was lost: {error}") from error
    for folder in sealed:
        end(folder, lived.lines(folder.parent.name))
    return done, lived


def _command(
    paths: Iterable[str],
    *,
    models: Iterable[str],
    modes: Iterable[str],
    changes: Iterable[tuple[str, str]],
) -> str:
    """What is measured, for the record of closing runs; a key is not told."""
    reported = [f"--model={model}" for model in models] + [f"--mode={mode}" for mode in modes]
    reported += [f"--set={key}={value}" for key, value in changes if not key.endswith("api_key")]
    return shlex.join(("python", "-m", "tests.evaluation", "--closing", *paths, *reported))


def _changes(changes: Iterable[str], min_score: str | None) -> tuple[tuple[str, str], ...]:
    return (*map(_change, changes), *((("retrieval_min_score", min_score),) if min_score else ()))


def _change(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise Stop("usage", f"--set {text}: say KEY=VALUE")
    return key.strip().removeprefix("memory."), value.strip()


def _sets(paths: Iterable[Path], off_topic: Path | None, split: str) -> tuple[Dataset, ...]:
    sets = [loading.load(path) for path in paths]
    if off_topic is not None:
        messages = jsonl_set.load_off_topic(off_topic)
        sets = [msgspec.structs.replace(each, off_topic=messages) for each in sets]
    return tuple(each.part(split) for each in sets)


def _require_hypotheses(sets: Iterable[Dataset], lives: Lives, strategies: Iterable[str]) -> None:
    lacking = [each.name for each in sets if not each.has_hypotheses]
    lacking += [each.name for each in lives.sessions]
    if lacking and "caller" in strategies:
        raise Stop("usage", f"{lacking[0]} has no recorded hypotheses for the strategy caller")


def _measured(
    call: Invocation,
    sets: Iterable[Dataset],
    subjects: Sequence[Prepared],
    sizes: Iterable[int | None],
) -> Iterator[Measurement]:
    """Every set with every subject, as it is (None) or in every store size."""
    bar = ProgressBar(call.can_redraw(sys.stderr) and not call.as_json)
    for each, size in itertools.product(sets, sizes):
        title = each.name if size is None else f"{each.name}, stores of {size}"
        world = stores.whole(each) if size is None else stores.small(each, size)
        try:
            for subject, outcome in trial.run(world, subjects, functools.partial(draw, bar, title)):
                about = (each.name, subject.model, subject.strategy, size, subject.in_session)
                yield Measurement(*about, outcome)
        finally:
            bar.wipe()


def _show(
    call: Invocation,
    done: Sequence[Measurement],
    lived: Lived,
    split: str,
    changes: Sequence[tuple[str, str]],
    *,
    as_it_comes: bool,
) -> None:
    shown = {key: value for key, value in changes if not key.endswith("api_key")}
    top_k = SHIPPED_TOP_K if as_it_comes else TOP_K
    about = {"split": split, "top_k": top_k, "seed": SEED, "changes": shown}
    ranked = [each for each in done if not each.in_session]
    tables = [
        *([table(ranked)] if ranked else ()),
        *(_brought(each) for each in done if as_it_comes),
        *(session_table(each) for each in lived.sessions),
        *(capture_table(each) for each in lived.capture),
    ]
    lines = "\n\n".join("\n".join(each) for each in tables)
    measured = {"measurements": done, "sessions": lived.sessions, "capture": lived.capture}
    show(call, {**about, **measured}, [lines])
    if not call.as_json:
        _tell_failures([(each, each.outcome.failures) for each in done])
        _tell_failures([(each, each.failures) for each in lived.sessions])


def _brought(each: Measurement) -> list[str]:
    size = "all" if each.store_size is None else f"stores of {each.store_size}"
    begun = ", each begins a session" if each.in_session else ""
    return [f"{_title(each)}, {size}{begun}", *injected_table(each.outcome)]


def _tell_failures(
    done: Iterable[tuple[Measurement | SessionMeasurement, Sequence[Failure]]],
) -> None:
    for each, failures in done:
        for failure in failures:
            tell(f"{each.set} {each.model} {each.strategy}: {failure.count} times {failure.reason}")


def table(done: Sequence[Measurement]) -> list[str]:
    """A title and a row for each measurement, the bounds of its figures, and of whole sets the kinds."""
    lines: list[str] = []
    for title, alike in itertools.groupby(done, _title):
        rows = [_HEAD, *(row for each in alike for row in _rows(each))]
        lines += [*([""] if lines else []), title, *columns(rows, numbers_from=1)]
    return lines


def _title(each: Measurement) -> str:
    indexes = "+".join(each.outcome.indexes) or _NONE
    return f"{escape_line(each.set)}, {escape_line(each.model)}, {each.strategy}, {indexes}"


def _rows(each: Measurement) -> Iterator[tuple[str, ...]]:
    outcome = each.outcome
    yield _row("all" if each.store_size is None else f"stores of {each.store_size}", outcome.total, outcome)
    bounds = outcome.total.intervals
    for name, side in (("  95 % from", 0), ("  to", 1)):
        shares = (f"{bound[side]:.3f}" for bound in msgspec.structs.astuple(bounds))
        next_to = outcome.off_topic
        yield (name, "", *shares, "", f"{next_to.interval[side]:.3f}" if next_to else "")
    if each.store_size is None:
        yield from (_row(f"  {escape_line(kind.kind)}", kind, None) for kind in outcome.kinds)


def _row(name: str, scores: Summary, outcome: Outcome | None) -> tuple[str, ...]:
    off_topic = f"{outcome.off_topic.rate:.3f}" if outcome and outcome.off_topic else _NONE
    return (
        *(name, f"{scores.queries:,}"),
        *(f"{share:.3f}" for share in (scores.recall_at_5, scores.recall_at_10, scores.recall_at_20)),
        *(f"{share:.3f}" for share in (scores.ndcg_at_10, scores.mrr, scores.recall_with_hops)),
        *(f"{scores.memories_at_10:.1f}", off_topic),
    )


def main() -> None:
    """Run the process's arguments; ends the process with one of forgectl's codes."""
    # As Ctrl-C does, so that the daemon of a measurement and its directory go too.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    eval_command.main(prog_name="eval", obj=of_process(os.getcwd(), os.environ))


if __name__ == "__main__":
    main()
