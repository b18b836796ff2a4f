"""Local dates and times, as every person reads them, in the zone of the process.

What is no time is returned as far as it would reach.
"""

from __future__ import annotations

from datetime import datetime, timedelta

_DAY, _MINUTE = len("2026-01-31"), len("2026-01-31 12:00")


def local_time(time: str) -> str:
    """A time of the wire or of a file, to the minute."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return time[:_MINUTE]


def local_day(time: str) -> str:
    return local_time(time)[:_DAY]


def day_of(seconds: float, back: int = 0) -> str:
    """The day, as YYYY-MM-DD, so many days before that of a time since 1970."""
    return (datetime.fromtimestamp(seconds).date() - timedelta(days=back)).isoformat()  # noqa: DTZ006 - local
