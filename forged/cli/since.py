"""Parse the option `--since`: `today`, `2h`, `2026-11-20`, or a time to the second."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import click
from click.shell_completion import CompletionItem

_UNITS = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,4}) ?(min|h|d|w)", re.ASCII)
_OFFERED = {
    "today": "since midnight",
    "yesterday": "since midnight of the day before",
    "2h": "min, h, d and w count back from now",
    "7d": "a week",
}
_HOW = "use today, yesterday, 30min, 2h, 3d, 2w, a day such as 2026-11-20, or 2026-11-20T14:00"


def parse_time(text: str, now: datetime) -> datetime | None:
    """Parse `today`, `2h` or ISO 8601 into a time, None if invalid; without a zone it is in that of `now`."""
    said = text.strip()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if said in {"today", "yesterday"}:
        return midnight - timedelta(days=said == "yesterday")
    if ago := _AGO.fullmatch(said):
        return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    try:
        found = datetime.fromisoformat(said)
        return found if found.tzinfo is not None else found.replace(tzinfo=now.tzinfo)
    except ValueError:
        return None


class TimeParam(click.ParamType[str]):
    """Type of an option such as `--since`: converts `2h`, `today` or a date to RFC 3339 text in UTC."""

    name = "when"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Convert a typed time to RFC 3339 text in UTC, "" stays; a wrong one ends the call."""
        try:
            found = parse_time(value, datetime.now().astimezone()) if value else None
            if value and found is None:
                self.fail(f"{value!r} is not a time: {_HOW}", param, ctx)
            return found.astimezone(UTC).isoformat().replace("+00:00", "Z") if found is not None else ""
        except OverflowError:
            self.fail(f"{value!r} is too long ago: {_HOW}", param, ctx)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - as above
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return shell completions of a time option: `today`, `yesterday`, `2h`, `7d`, with help."""
        return [
            CompletionItem(word, help=said) for word, said in _OFFERED.items() if word.startswith(incomplete)
        ]


since_option = click.option(
    "--since",
    type=TimeParam(),
    default="",
    metavar="WHEN",
    help="Only since this time: today, 2h, 3d, 2026-11-20 ...",
)
