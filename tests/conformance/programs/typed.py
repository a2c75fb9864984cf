"""The same programs over every type, and changes that are awkward within one batch.

The column `x` has the type under test: in `c` it may be NULL, in `n` it may not, and `d` is what they are joined with.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.conformance.program import Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch


@dataclass(frozen=True, slots=True)
class TypeUnderTest:
    """A type, and values of it: of numbers the second is minus the first, and the third and fourth are equal."""

    name: str
    sql: str
    values: tuple[Any, ...]
    is_number: bool = True

    def value(self, number: int | None) -> Any:
        return None if number is None else self.values[number % len(self.values)]

    @property
    def tables(self) -> dict[str, str]:
        return {
            "c": f"CREATE TABLE c (id INTEGER NOT NULL, g INTEGER, x {self.sql})",
            "n": f"CREATE TABLE n (id INTEGER NOT NULL, g INTEGER NOT NULL, x {self.sql} NOT NULL)",
            "d": f"CREATE TABLE d (x {self.sql}, z INTEGER)",
        }

    @property
    def queries(self) -> tuple[NamedQuery, ...]:
        chosen = {**_ANY, **(_NUMBERS if self.is_number else {})}
        literals = ", ".join(f"(CAST({_literal(value)} AS {self.sql}))" for value in dict.fromkeys(self.values[::2]))
        return tuple(NamedQuery(name, sql.replace("@values", literals)) for name, sql in chosen.items())


_EVE = date(1969, 12, 31)
_LATE = datetime(1969, 12, 31, 23, 59, 59, 999_999)
TYPES = (
    TypeUnderTest("boolean", "BOOLEAN", (True, False), is_number=False),
    TypeUnderTest("smallint", "SMALLINT", (7, -7, 0, 0, 16_383, -16_384)),
    TypeUnderTest("integer", "INTEGER", (7, -7, 0, 0, 2**30 - 1, -(2**30))),
    TypeUnderTest("bigint", "BIGINT", (7, -7, 0, 0, 2**55 + 1, -(2**55))),
    TypeUnderTest("real", "REAL", (2.5, -2.5, 0.0, -0.0, 4096.0, 0.25)),
    TypeUnderTest("double", "DOUBLE", (2.5, -2.5, 0.0, -0.0, 65536.0, 0.25)),
    TypeUnderTest("decimal", "DECIMAL(9,2)", tuple(map(Decimal, ("1.25", "-1.25", "0", "0.00", "9999999.99", "0.01")))),
    TypeUnderTest("large_decimal", "DECIMAL(24,4)", tuple(map(Decimal, ("1.25", "-1.25", "0", "0.0", "9e12", "1e-4")))),
    TypeUnderTest("varchar", "VARCHAR", ("b", "a", "", "", "é€", "B"), is_number=False),
    TypeUnderTest("date", "DATE", (date(2020, 2, 29), date(1970, 1, 1), _EVE, _EVE, date(2400, 1, 1)), False),
    TypeUnderTest("timestamp", "TIMESTAMP", (datetime(2020, 2, 29, 12), datetime(1970, 1, 1), _LATE, _LATE), False),
)  # fmt: skip

_ANY = {
    "grouped": "SELECT x, COUNT(*) AS n, SUM(g) AS total FROM c GROUP BY x",
    "grouped_present": "SELECT x, g, COUNT(*) AS n FROM n GROUP BY x, g",
    "without_duplicates": "SELECT DISTINCT x FROM c",
    "extremes": "SELECT g, MIN(x) AS low, MAX(x) AS high, COUNT(x) AS n FROM c GROUP BY g",
    "extremes_of_all": "SELECT MIN(x) AS low, MAX(x) AS high, COUNT(x) AS n FROM n",
    "counted_once": "SELECT g, COUNT(DISTINCT x) AS n FROM c GROUP BY g",
    "joined": "SELECT c.x, SUM(d.z) AS total, COUNT(*) AS n FROM c JOIN d ON c.x = d.x GROUP BY c.x",
    "left_joined": "SELECT c.id, c.x, d.z FROM c LEFT JOIN d ON c.x = d.x",
    "full_joined": "SELECT c.x, d.x AS other, COUNT(*) AS n FROM c FULL JOIN d ON c.x = d.x GROUP BY c.x, d.x",
    "compared": "SELECT c.g, COUNT(*) AS n FROM c, n WHERE c.x < n.x GROUP BY c.g",
    "different": "SELECT COUNT(*) AS n FROM c, n WHERE c.x <> n.x AND c.g = n.g",
    "above_the_least": "SELECT id, x FROM c WHERE x > (SELECT MIN(x) FROM n)",
    "absent": "SELECT id FROM c WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.x = c.x)",
    "not_in": "SELECT id FROM n WHERE x NOT IN (SELECT x FROM d WHERE x IS NOT NULL)",
    "united": "SELECT x FROM c UNION SELECT x FROM n",
    "left_over": "SELECT x FROM c EXCEPT SELECT x FROM d",
    "constants": "SELECT t.x, COUNT(c.id) AS n FROM (VALUES @values) AS t(x) LEFT JOIN c ON c.x = t.x GROUP BY t.x",
}
_NUMBERS = {
    "sums": "SELECT g, SUM(x) AS total, AVG(x) AS mean, COUNT(x) AS n FROM c GROUP BY g",
    "sums_present": "SELECT g, SUM(x) AS total FROM n GROUP BY g",
    "sum_of_all": "SELECT SUM(x) AS total, AVG(x) AS mean FROM c",
    "summed_once": "SELECT g, SUM(DISTINCT x) AS total FROM c GROUP BY g",
    "variances": "SELECT g, VAR_SAMP(x) AS spread, STDDEV_POP(x) AS deviation FROM c GROUP BY g",
    "products": "SELECT c.g, SUM(c.x * n.g) AS total FROM c JOIN n ON c.g = n.g GROUP BY c.g",
    "squares": "SELECT c.g, SUM(CAST(c.x AS DOUBLE) * n.x) AS total FROM c JOIN n ON c.g = n.g GROUP BY c.g",
    "weighted": "SELECT c.g, SUM(d.x * c.g) AS total FROM c LEFT JOIN d ON c.x = d.x GROUP BY c.g",
    "filtered_groups": "SELECT g, COUNT(*) AS n FROM n GROUP BY g HAVING SUM(x) > 0",
    "above_the_mean": "SELECT id FROM c WHERE x > (SELECT AVG(x) FROM n)",
    "sums_compared": "SELECT id FROM n WHERE x >= (SELECT SUM(x) FROM c WHERE c.g = n.g)",
}

Change = tuple[str, int, int | None, int | None, int]
"""Table, id, group, number of the value, multiplicity; `d` has no group, and its id is z."""

_SCRIPT: tuple[tuple[Change, ...], ...] = (
    # rows of two groups, some more than once, some NULL
    (("c", 1, 1, 0, 1), ("c", 2, 1, 2, 1), ("c", 3, 2, 4, 2), ("c", 4, None, None, 1), ("n", 1, 1, 0, 1),
     ("n", 2, 2, 5, 1), ("d", 1, None, 0, 1), ("d", 2, None, None, 1), ("d", 3, None, 2, 1)),
    # each group loses a row and gets another
    (("c", 1, 1, 0, -1), ("c", 5, 1, 4, 1), ("n", 1, 1, 0, -1), ("n", 3, 1, 1, 1), ("d", 1, None, 0, -1),
     ("d", 1, None, 4, 1)),
    # a value becomes an equal one, and a row goes and comes back
    (("c", 2, 1, 2, -1), ("c", 2, 1, 3, 1), ("n", 2, 2, 5, -1), ("n", 2, 2, 5, 1), ("d", 3, None, 2, -1),
     ("d", 3, None, 3, 1)),
    # what comes adds up to nothing; a value becomes NULL and NULL a value
    (("c", 6, 2, 0, 1), ("c", 7, 2, 1, 1), ("n", 4, 2, 0, 2), ("n", 5, 2, 1, 2), ("c", 5, 1, 4, -1),
     ("c", 5, 1, None, 1),
     ("c", 4, None, None, -1), ("c", 4, None, 5, 1)),
    # the sign of a value changes; the last row of a group is replaced
    (("c", 6, 2, 0, -1), ("c", 6, 2, 1, 1), ("n", 3, 1, 1, -1), ("n", 6, 1, 0, 1), ("d", 2, None, None, -1),
     ("d", 2, None, 1, 1)),
    # a group goes
    (("n", 6, 1, 0, -1), ("c", 2, 1, 3, -1), ("c", 5, 1, None, -1)),
    # and comes back, while a row moves to another group
    (("n", 6, 1, 0, 1), ("c", 5, 1, 4, 1), ("c", 3, 2, 4, -2), ("c", 3, 1, 4, 2), ("d", 3, None, 3, -1)),
    # nothing is left
    (("c", 3, 1, 4, -2), ("c", 4, None, 5, -1), ("c", 5, 1, 4, -1), ("c", 6, 2, 1, -1), ("c", 7, 2, 1, -1),
     ("n", 2, 2, 5, -1),
     ("n", 4, 2, 0, -2), ("n", 5, 2, 1, -2), ("n", 6, 1, 0, -1), ("d", 1, None, 4, -1), ("d", 2, None, 1, -1)),
    # and something again
    (("c", 8, 1, 5, 1), ("n", 8, 1, 4, 1), ("d", 8, None, 5, 1)),
)  # fmt: skip


def batches(tested: TypeUnderTest) -> list[Batch]:
    """The script in values of a type; a batch keeps rows apart that Python finds equal, such as 0.0 and -0.0."""
    found: list[Batch] = []
    for changes in _SCRIPT:
        batch: Batch = {}
        for table, number, group, value, multiplicity in changes:
            x = tested.value(value)
            row = (x, number) if table == "d" else (number, group, x)
            batch.setdefault(table, []).append((row, multiplicity))
        found.append(batch)
    return found


def programs() -> tuple[Program, ...]:
    """One for each type, and one for all of them."""
    return (
        *(
            Program(f"type {tested.name}", tested.tables, tuple(map(View, tested.queries)), batches(tested))
            for tested in TYPES
        ),
        side_by_side(),
    )


def side_by_side() -> Program:
    """A table with a column of every type, changed as `c` is: as keys of groups and joins, in order, and in sums."""
    columns = ", ".join(f"{tested.name}_x {tested.sql}" for tested in TYPES)
    every = [f"{tested.name}_x" for tested in TYPES]
    numbers = [f"{tested.name}_x" for tested in TYPES if tested.is_number]
    extremes = ", ".join(f"MIN({x}) AS low_{x}, MAX({x}) AS high_{x}" for x in every)
    sums = ", ".join(f"SUM({x}) AS {x}, AVG({x}) AS mean_{x}" for x in numbers)
    equal = " AND ".join(f"a.{x} = b.{x}" for x in every)
    queries = {
        "grouped": f"SELECT {', '.join(every)}, COUNT(*) AS n FROM every GROUP BY {', '.join(every)}",
        "extremes": f"SELECT g, {extremes} FROM every GROUP BY g",
        "sums": f"SELECT g, {sums} FROM every GROUP BY g",
        "joined": f"SELECT a.id, b.id AS other FROM every a JOIN every b ON {equal}",
    }
    changed = [
        [
            ((number, group, *(tested.value(value) for tested in TYPES)), multiplicity)
            for table, number, group, value, multiplicity in changes
            if table == "c"
        ]
        for changes in _SCRIPT
    ]
    return Program(
        "types side by side",
        {"every": f"CREATE TABLE every (id INTEGER NOT NULL, g INTEGER, {columns})"},
        tuple(View(NamedQuery(name, sql)) for name, sql in queries.items()),
        [{"every": rows} for rows in changed],
    )


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, bool | int | float | Decimal) else f"'{value}'"
