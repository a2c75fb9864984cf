"""Times of users as microseconds since 1970, UTC."""

from __future__ import annotations

import time as clock
from datetime import datetime, timedelta

from viewlet.errors import DataError
from viewlet.visible import described


def now() -> int:
    """This machine's time, in microseconds."""
    return clock.time_ns() // 1000


def to_microseconds(time: datetime | str) -> int:
    """A time as microseconds; one without a zone is UTC.

    >>> to_microseconds("1970-01-01 00:01")
    60000000
    """
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise DataError(f"{time!r} is no time: write for example '2015-01-01 10:00:00'") from None
    if not isinstance(time, datetime):
        raise DataError(f"a time is a datetime or a string, not {described(time)}")
    plain = time if time.tzinfo is None else (time - (time.utcoffset() or timedelta())).replace(tzinfo=None)
    return (plain - datetime(1970, 1, 1)) // timedelta(microseconds=1)
