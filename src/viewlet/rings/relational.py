"""The relational ring: payloads that are relations, so that a view of payloads can list the rows of a join.

    lift("C")("c1") = {C: c1 -> 1}        {C: c1 -> 1} * {D: d1 -> 1} = {C: c1, D: d1 -> 1}

Definition 6.4 of "Incremental View Maintenance with Triple Lock Factorization Benefits" (M. Nikolic and D. Olteanu), in
the generalised form its footnote asks for: rows bring their own schemas, + is the union and * the natural join of rows,
multiplicities multiplied. That makes it a ring and not only something that behaves like one where schemas match; in
view trees they always do, and a listing has one block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any

from viewlet.errors import SchemaError
from viewlet.rings.ring import Lift

Schema = tuple[str, ...]
"""Names of variables, ascending."""
Row = tuple[Any, ...]


@dataclass(slots=True)
class Listing:
    """Rows with their multiplicities, by schema; empty blocks and rows of multiplicity zero are left out."""

    blocks: dict[Schema, dict[Row, int]]

    @property
    def count(self) -> int:
        """Rows with their multiplicities."""
        return sum(times for block in self.blocks.values() for times in block.values())

    def rows(self, order: Sequence[str]) -> Iterator[tuple[Row, int]]:
        """The rows with their values in the given order of the variables, and their multiplicities."""
        wanted = tuple(sorted(order))
        if other := [schema for schema in self.blocks if schema != wanted]:
            raise SchemaError(f"the rows are over {', '.join(other[0]) or 'no variable'}, not {', '.join(order)}")
        places = [wanted.index(name) for name in order]
        for row, times in self.blocks.get(wanted, {}).items():
            yield tuple(row[i] for i in places), times


@dataclass(frozen=True, slots=True)
class RelationalRing:
    """Lists the values of `free` variables; others contribute to the multiplicities only."""

    free: frozenset[str]
    name: str = "relational"
    width: int = 0

    @property
    def zero(self) -> Listing:
        return Listing({})

    @property
    def one(self) -> Listing:
        return Listing({(): {(): 1}})

    def add(self, left: Listing, right: Listing) -> Listing:
        return self.accumulate(self.own(left), right)

    def own(self, element: Listing) -> Listing:
        return Listing({schema: dict(block) for schema, block in element.blocks.items()})

    def accumulate(self, total: Listing, element: Listing) -> Listing:
        for schema, block in element.blocks.items():
            known = total.blocks.setdefault(schema, {})
            for row, times in block.items():
                if changed := known.get(row, 0) + times:
                    known[row] = changed
                else:
                    known.pop(row, None)
            if not known:
                del total.blocks[schema]
        return total

    def mul(self, left: Listing, right: Listing) -> Listing:
        if len(left.blocks) == len(right.blocks) == 1:
            ((a, a_rows),), ((b, b_rows),) = left.blocks.items(), right.blocks.items()
            rule = _join_of(a, b)
            joined = rule.apply(a_rows, b_rows)
            return Listing({rule.schema: joined} if joined else {})
        found = self.zero
        for a, a_rows in left.blocks.items():
            for b, b_rows in right.blocks.items():
                rule = _join_of(a, b)
                found = self.accumulate(found, Listing({rule.schema: rule.apply(a_rows, b_rows)}))
        return found

    def neg(self, element: Listing) -> Listing:
        negated = {schema: {row: -times for row, times in block.items()} for schema, block in element.blocks.items()}
        return Listing(negated)

    def is_zero(self, element: Listing) -> bool:
        return not element.blocks

    def lift(self, variables: Sequence[str]) -> Lift[Listing]:
        listed = sorted((name, i) for i, name in enumerate(variables) if name in self.free)
        schema, sources = tuple(name for name, _ in listed), [i for _, i in listed]
        return lambda values: Listing({schema: {tuple(values[i] for i in sources): 1}})


@dataclass(frozen=True, slots=True)
class _Join:
    """The natural join of rows of two schemas: what they share, and where the values of the result come from."""

    schema: Schema
    left_shared: tuple[int, ...]
    right_shared: tuple[int, ...]
    sources: tuple[int, ...]

    def apply(self, left: dict[Row, int], right: dict[Row, int]) -> dict[Row, int]:
        pick = itemgetter(*self.sources) if len(self.sources) > 1 else lambda row: tuple(row[i] for i in self.sources)
        if not self.left_shared:
            return {pick(a + b): n * m for a, n in left.items() for b, m in right.items()}
        matches: dict[Row, list[Row]] = {}
        for b in right:
            matches.setdefault(tuple(b[i] for i in self.right_shared), []).append(b)
        return {
            pick(a + b): n * right[b]
            for a, n in left.items()
            for b in matches.get(tuple(a[i] for i in self.left_shared), ())
        }


@cache
def _join_of(left: Schema, right: Schema) -> _Join:
    schema, whole = tuple(sorted({*left, *right})), left + right
    shared = [name for name in left if name in right]
    return _Join(
        schema,
        tuple(left.index(name) for name in shared),
        tuple(right.index(name) for name in shared),
        tuple(whole.index(name) for name in schema),
    )
