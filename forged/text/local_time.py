"""Format local dates and times in the time zone of the process.

Text that is no time is returned unchanged.
"""

from __future__ import annotations

from datetime import datetime, timedelta

_DAY, _MINUTE = len("2026-01-31"), len("2026-01-31 12:00")


def local_time(time: str) -> str:
    """Format a time in RFC 3339 as local time to the minute; cut an invalid one to that length."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return time[:_MINUTE]


def local_day(time: str) -> str:
    """Format a time in RFC 3339 as the local day, YYYY-MM-DD; cut an invalid one to that length."""
    return local_time(time)[:_DAY]


def day_of(seconds: float, back: int = 0) -> str:
    """Return the local day, as YYYY-MM-DD, so many days before a Unix time."""
    return (datetime.fromtimestamp(seconds).date() - timedelta(days=back)).isoformat()  # noqa: DTZ006 - local
