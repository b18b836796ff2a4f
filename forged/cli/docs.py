"""`forgectl docs`: list and print the pages of the manual, without the daemon.

A page is `forged/docs/TOPIC.md`, with its title on the first line and a summary on the third.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import groupby
from operator import itemgetter

import click

from forged.cli.call import Invocation
from forged.cli.commands import with_json_option
from forged.cli.exits import Stop
from forged.cli.tables import columns, folded
from forged.cli.terminal import Painter, say, say_json

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_CELL = re.compile(r"\s*(?<!\\)\|\s*")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")
_PAGES = resources.files("forged") / "docs"
_SUFFIX = ".md"


def topics() -> dict[str, str]:
    """Return the topics of the manual in alphabetical order, each with its page's summary."""
    pages = sorted(page.name for page in _PAGES.iterdir() if page.name.endswith(_SUFFIX))
    return {name.removesuffix(_SUFFIX): _summary_of(_PAGES / name) for name in pages}


def _summary_of(page: Traversable) -> str:
    """Return the summary of a page of the manual, which is its third line."""
    return page.read_text(encoding="utf-8").split("\n", 3)[2]


def _complete_topic(_context: click.Context, _argument: click.Parameter, begun: str) -> list[str]:
    """Return the topics of the manual that begin with the typed text, for shell completion."""
    return [topic for topic in topics() if topic.startswith(begun)]


@click.command("docs")
@click.argument("topic", required=False, shell_complete=_complete_topic)
@click.option("--path", "only_path", is_flag=True, help="Print the folder of the pages.")
@with_json_option
def docs_command(call: Invocation, *, topic: str | None, only_path: bool) -> None:
    """Show a page of the manual; without TOPIC, list the pages."""
    if only_path:
        _say_value(call, "path", str(_PAGES))
    elif topic is None:
        _list_pages(call)
    else:
        _show_page(call, topic)


def _list_pages(call: Invocation) -> None:
    """Print the topics of the manual with their summaries, as a table or as JSON."""
    known = topics()
    if call.as_json:
        say_json({"topics": known})
    else:
        say("\n".join(columns(known.items(), width=call.width)))


def _show_page(call: Invocation, topic: str) -> None:
    """Print a page of the manual, in a pager on a terminal. Raises Stop for an unknown topic."""
    known = topics()
    if topic not in known:
        near = difflib.get_close_matches(topic, known, 1)
        meant = f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known)}"
        raise Stop("usage", f"there is no page {topic!r}{meant}")
    text = (_PAGES / f"{topic}{_SUFFIX}").read_text(encoding="utf-8").rstrip("\n")
    if sys.stdout and sys.stdout.isatty() and not call.as_json:
        click.echo_via_pager("\n".join(rendered(text, call.paint, call.width)))
    else:
        _say_value(call, "text", text)


def rendered(text: str, paint: Painter, width: int) -> Iterator[str]:
    """Yield a manual page's lines for a terminal: paragraphs folded, tables aligned, links as text."""
    for kind, lines in groupby(_lines_with_kind(text), key=itemgetter(0)):
        block = [line for _, line in lines]
        if kind == "table":
            head, _rule, *rows = [
                [_plain_text(cell) for cell in _CELL.split(line.strip()[1:-1])] for line in block
            ]
            yield from columns([head, *rows] if any(head[1:]) else rows, width=width)
        elif kind == "text":
            for each in _paragraphs(block):
                indent = " " * (len(each) - len(each.lstrip("-*0123456789. ")))
                yield from folded(_plain_text(each), width, indent)
        elif kind == "heading":
            yield from (paint("strong", part) for line in block for part in folded(line.strip("# "), width))
        else:
            yield from block


def _lines_with_kind(text: str) -> Iterator[tuple[str, str]]:
    """Yield each markdown line with its kind: code, heading, table, blank or text; no fences."""
    in_code = False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif in_code:
            yield "code", f"    {line}"
        elif line.startswith("#"):
            yield "heading", line
        elif line.startswith("|"):
            yield "table", line
        else:
            yield ("text" if line.strip() else "blank"), line


def _paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Join markdown lines: yield each paragraph and each list item as one line."""
    found = lines[0]
    for line in lines[1:]:
        if _ITEM.match(line):
            yield found
            found = line
        else:
            found = f"{found} {line.strip()}"
    yield found


def _plain_text(text: str) -> str:
    """Return markdown text with links replaced by their texts, and with unescaped bars."""
    return _LINK.sub(r"\1", text).replace("\\|", "|").strip()


def _say_value(call: Invocation, name: str, value: str) -> None:
    """Print a text or, with `--json`, an object with this text as its one field."""
    if call.as_json:
        say_json({name: value})
    else:
        say(value)
