"""Bulk construction of indexes over existing rows, as after reading them from a file."""

from __future__ import annotations

from typing import Any

from viewlet.runtime.jit import entry
from viewlet.runtime.probe import link, part_of, place


@entry
def index_rows(pool: Any, index: Any, whole: Any, rows: Any) -> None:
    """Enters the first rows of a pool into an empty index; `whole` is how many words a key has, and which."""
    for slot in range(rows):
        place(index, part_of(pool, slot, whole, 0), slot)


@entry
def link_rows(pool: Any, heads: Any, links: Any, meta: Any, number: Any, at: Any, rows: Any) -> None:
    """Links the first rows of a pool into the empty chains of one slice."""
    for slot in range(rows):
        link(pool, heads, links, meta, number, at, slot)
