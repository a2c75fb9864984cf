"""Rows in pages: the Arrow table of a relation at one epoch, or of the answer of a query, is kept while it is read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import Any

from viewlet.connection.session import Session
from viewlet.errors import DataError
from viewlet.shell.output import is_number, values_of
from viewlet.visible import one_line

MOST_LISTINGS = 16
MOST_BYTES = 1024**3
"""Of all listings but the newest."""
MOST_ROWS = 50_000_000
MOST_ROWS_OF_PAGE = 1_000
LONGEST_CELL = 2_000


class GoneError(Exception):
    """A listing that is kept no longer."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows that stay what they are, in one order."""

    rows: Any
    epoch: int
    source: tuple[object, object] | None = None
    """The session and version that it is of."""
    is_cut: bool = False
    """There are more rows."""


class Listings:
    """The listings that pages are read from, by number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[int, tuple[str, Listing]] = OrderedDict()
        self._numbers = count(1)

    def of(self, session: Session, name: str) -> dict[str, Any]:
        """The rows of a table or view as they are now; listed again only if they may have changed."""
        with session.open() as database:
            found = database.catalogue.find(name) or name
            version = database.version_of(found)
            for number, (known, listing) in self._snapshot():
                if known == found and listing.source == (session, version):
                    return _described(number, listing)
            if (rows := database.count(found)) > MOST_ROWS:
                raise DataError(f"{found!r} has {rows:,} rows, too many to list: query it, with LIMIT for instance")
            listing = Listing(database.arrow(found), database.epoch, (session, version))
        return self.add(listing, found)

    def add(self, listing: Listing, name: str = "") -> dict[str, Any]:
        """Keeps a listing, and gives up those that have not been read for longest."""
        with self._lock:
            number = next(self._numbers)
            self._known[number] = (name, listing)
            while len(self._known) > 1 and (len(self._known) > MOST_LISTINGS or self._bytes() > MOST_BYTES):
                self._known.popitem(last=False)
        return _described(number, listing)

    def page(self, number: int, first: int, most: int) -> dict[str, Any]:
        """Some rows of a listing, as texts."""
        with self._lock:
            if number not in self._known:
                raise GoneError
            self._known.move_to_end(number)
            listing = self._known[number][1]
        part = listing.rows.slice(max(0, first), max(0, min(most, MOST_ROWS_OF_PAGE)))
        columns = [[cell(value) for value in values_of(column)] for column in part.columns]
        return {"first": first, "rows": list(map(list, zip(*columns, strict=True)))}

    def _snapshot(self) -> list[tuple[int, tuple[str, Listing]]]:
        with self._lock:
            return list(self._known.items())

    def _bytes(self) -> int:
        return sum(listing.rows.nbytes for _, listing in self._known.values())


def cell(value: object) -> str | None:
    """A value as people may see it; None is NULL."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return (
        one_line(text) if len(text) <= LONGEST_CELL else one_line(text[:LONGEST_CELL]) + f"… ({len(text):,} characters)"
    )


def _described(number: int, listing: Listing) -> dict[str, Any]:
    schema = listing.rows.schema
    columns = [{"name": field.name, "type": str(field.type), "number": is_number(field.type)} for field in schema]
    return {
        "listing": number,
        "epoch": listing.epoch,
        "columns": columns,
        "total": listing.rows.num_rows,
        "cut": listing.is_cut,
    }
