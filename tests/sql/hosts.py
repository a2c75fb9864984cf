"""The hosts and engines that statements are tried on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import viewlet
from viewlet.connection.spark_facade import connect_inline

HOSTS = ("memory", "directory", "compiled", "spark")
Open = Callable[[], Any]
"""Opens a database, and what is in a directory again."""


def opener(host: str, place: Path) -> Open:
    if host == "spark":
        return lambda: connect_inline(place, 2, sync=False)
    path, engine = place if host == "directory" else None, "compiled" if host == "compiled" else "interpreter"
    return lambda: viewlet.connect(path, engine=engine)


def ordered(rows: Any) -> list[Any]:
    """Rows in an order that does not depend on how they were found."""
    return sorted((tuple(row) for row in rows), key=repr)
