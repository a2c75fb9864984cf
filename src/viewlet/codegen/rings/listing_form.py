"""Rows of a join, listed: a view keeps the values of the listed variables beside its key, and how often they occur.

The reference has relations as payloads. Here the rows of all payloads of a view are rows of one store, in the variant
that keeps every listed variable bound at the view or below, so that a change touches the rows that it adds or removes
and no payload has to be copied.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from viewlet.codegen.lines import Lines
from viewlet.codegen.rings.forms import Tables, Term, Words, add_exact
from viewlet.codegen.rings.plan import Variant, bound_below
from viewlet.rings.relational import Listing, RelationalRing
from viewlet.types import SqlType
from viewlet.viewtree.ring_tree import Keys, View


@dataclass(frozen=True)
class ListingForm:
    ring: RelationalRing
    tables: Tables = field(default_factory=dict)

    @property
    def centred(self) -> Keys:
        return ()

    def groupings(self, view: View) -> Iterable[Keys]:
        return (tuple(name for name in bound_below(view) if name in self.ring.free),)

    def width(self, variant: Variant) -> int:
        return 1

    def integers(self, variant: Variant) -> int:
        return 1

    def lifts(self, variable: str) -> bool:
        """What is listed is kept, and the rest only counts."""
        return False

    def reach(self, variable: str) -> float:
        return sys.float_info.max

    def value(self, type: SqlType, word: str, is_word: bool) -> str:
        return word

    def add_term(self, lines: Lines, term: Term) -> None:
        factors = [*([term.times] if term.times else []), *(factor.word(0) for factor in term.factors)]
        add_exact(lines, term.target.word(0), factors, term.peak)

    def moves(self, source: Variant, target: Variant) -> Sequence[int] | None:
        return None

    def moved(self, variant: Variant, words: Words, before: Mapping[str, float], after: Mapping[str, float]) -> Words:
        return words

    def payloads(
        self, rows: Mapping[Variant, tuple[Words, Sequence[Any]]], keys: int, origins: Mapping[str, float]
    ) -> dict[Any, Any]:
        found: dict[Any, Listing] = {}
        for variant, (words, decoded) in rows.items():
            schema = tuple(sorted(variant.group_by))
            places = [keys + variant.group_by.index(name) for name in schema]
            for key, times in zip(decoded, words[:, len(variant.keys)].tolist(), strict=True):
                payload = found.setdefault(key[:keys], Listing({schema: {}}))
                payload.blocks[schema][tuple(key[i] for i in places)] = times
        return found
