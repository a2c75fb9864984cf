"""A kept table beside a plain model of it: a counter of rows. Random changes go to both, good ones and bad ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import viewlet

Row = tuple[Any, ...]
COLUMNS: dict[str, tuple[str, Any, list[Any]]] = {
    "k": ("BIGINT", pa.int64(), [-(2**63) + 1, *range(-1, 30), 2**63 - 1]),
    "truth": ("BOOLEAN", pa.bool_(), [True, False, None]),
    "small": ("SMALLINT", pa.int16(), [-32768, 0, None]),
    "money": ("DECIMAL(9,2)", pa.decimal128(9, 2), [Decimal("-9999999.99"), Decimal("0.10"), None]),
    "ratio": ("DOUBLE", pa.float64(), [-0.0, 0.0, 0.1, 5e-324, -1.7976931348623157e308, None]),
    "real": ("REAL", pa.float32(), [0.25, -0.0, None]),
    "name": ("VARCHAR", pa.string(), ["", "a", "ä", "A", "\U0001f600", None]),
    "day": ("DATE", pa.date32(), [date(1, 1, 1), date(9999, 12, 31), None]),
    "moment": ("TIMESTAMP", pa.timestamp("us"), [datetime(1, 1, 1), datetime(2026, 1, 2, 3, 4, 5, 6), None]),
}
NAMES = list(COLUMNS)


def arrow(rows: Iterable[Row], weights: Iterable[int] | None = None) -> pa.Table:
    """Rows as Arrow, perhaps with multiplicities."""
    columns = list(zip(*rows, strict=True)) or [()] * len(COLUMNS)
    made = {name: pa.array(values, COLUMNS[name][1]) for name, values in zip(NAMES, columns, strict=True)}
    return pa.table(made if weights is None else made | {"_multiplicity": pa.array(list(weights), pa.int64())})


def in_order(rows: Counter[Row]) -> list[Row]:
    """The rows as a table shows them."""
    return sorted(rows.elements(), key=lambda row: [(value is None, 0 if value is None else value) for value in row])


@dataclass
class Model:
    """A table `t` of a database with one view over it, and the rows that it should hold."""

    db: viewlet.Connection
    key: tuple[str, ...] = ()
    seed: int = 0
    rows: Counter[Row] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        constraint = f", PRIMARY KEY ({', '.join(self.key)})" if self.key else ""
        columns = (f"{name} {sql}{' NOT NULL' if name == 'k' else ''}" for name, (sql, *_) in COLUMNS.items())
        self.db.execute(f"CREATE TABLE t ({', '.join(columns)}{constraint})")
        self.db.execute(
            "CREATE MATERIALIZED VIEW v AS SELECT truth, COUNT(*) AS n, SUM(money) AS m FROM t GROUP BY truth"
        )

    def row(self) -> Row:
        """A random row; values of the key are not NULL."""
        made = []
        for name, (_, _, values) in COLUMNS.items():
            value = self.random.choice(values)
            made.append(values[0] if value is None and name in self.key else value)
        return tuple(value + 0.0 if isinstance(value, float) else value for value in made)

    def step(self) -> None:
        """One random change, given as rows or as columns; what it should do, it does."""
        changes: Counter[Row] = Counter()
        for _ in range(self.random.choice([1, 1, 3, 12])):
            if self.rows and self.random.random() < 0.45:
                changes[self.random.choice(list(self.rows))] -= 1
            else:
                changes[self.row()] += self.random.choice([1, 1, 2]) if not self.key else 1
        self.apply(changes)

    def apply(self, changes: Counter[Row]) -> None:
        after = Counter(self.rows)
        after.update(changes)
        weights = [*changes.values()]
        given: Any = arrow(changes, weights)
        if self.random.random() < 0.5:
            given = [dict(zip(NAMES, row, strict=True)) | {"_multiplicity": n} for row, n in changes.items()]
        epoch, refusal = self.db.epoch, self.refusal(after)
        if refusal is None:
            self.db.apply({"t": given})
            self.rows = +after
        else:
            with pytest.raises(viewlet.DataError, match=refusal):
                self.db.apply({"t": given})
            assert self.db.epoch == epoch
        self.check()

    def refusal(self, after: Counter[Row]) -> str | None:
        """What an error has to say about a change that leads to these rows."""
        if any(count < 0 for count in after.values()):
            return "cannot delete"
        places = [NAMES.index(name) for name in self.key]
        keys = Counter(tuple(row[i] for i in places) for row in after.elements()) if places else Counter[Row]()
        return "duplicate key" if any(count > 1 for count in keys.values()) else None

    def check(self) -> None:
        """Everything that can be read of the table is as in the model."""
        expected = in_order(self.rows)
        table = self.db.table("t")
        assert len(table) == len(expected) == table.stats()["rows"]
        assert repr(table.rows()) == repr(expected)
        assert [tuple(row.values()) for row in table.to_arrow().to_pylist()] == expected
        totals: dict[Any, list[Any]] = {}
        for row in expected:
            known = totals.setdefault(row[1], [0, None])
            known[0] += 1
            known[1] = row[3] if known[1] is None else known[1] + (row[3] or 0)
        found = {truth: [n, m] for truth, n, m in self.db.view("v").rows()}
        assert found == totals
