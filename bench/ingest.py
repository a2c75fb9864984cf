"""How long an Arrow batch takes to reach a compiled view over a stream, by the number of columns that the view reads.

    python -m bench.ingest                 # this checkout
    PYTHONPATH=other/src python -m bench.ingest

The stream has sixteen columns, as a fact table has: eleven numbers and dates, five strings. It prints how long the
conversion alone and the whole batch take, each the best of several.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

import viewlet

ROWS, REPEATS = (1_000, 10_000, 100_000), 15
MONEY = pa.decimal128(15, 2)
COLUMNS = {
    "k": ("BIGINT", pa.int64()),
    "part": ("BIGINT", pa.int64()),
    "supplier": ("BIGINT", pa.int64()),
    "line": ("INTEGER", pa.int32()),
    "quantity": ("DECIMAL(15,2)", MONEY),
    "price": ("DECIMAL(15,2)", MONEY),
    "discount": ("DECIMAL(15,2)", MONEY),
    "tax": ("DECIMAL(15,2)", MONEY),
    "flag": ("VARCHAR", pa.string()),
    "status": ("VARCHAR", pa.string()),
    "sent": ("DATE", pa.date32()),
    "promised": ("DATE", pa.date32()),
    "received": ("DATE", pa.date32()),
    "wish": ("VARCHAR", pa.string()),
    "mode": ("VARCHAR", pa.string()),
    "comment": ("VARCHAR", pa.string()),
}
QUERIES = {
    "four columns": "SELECT SUM(price * discount) AS x FROM fact WHERE sent >= DATE '1994-01-01' AND quantity < 24",
    "one column": "SELECT part, COUNT(*) AS n FROM fact GROUP BY part",
    "eleven columns": "SELECT line, SUM(k + part + supplier) AS a, SUM(quantity * price) AS b, "
    "SUM(discount * tax) AS c, MAX(sent) AS d, MAX(promised) AS e, MAX(received) AS f FROM fact GROUP BY line",
}


def table(rows: int) -> pa.Table:
    random = Random(1)
    made: dict[str, Any] = {}
    for name, (_, type) in COLUMNS.items():
        if type == MONEY:
            values: list[Any] = [Decimal(random.randrange(1, 5000)) / 100 for _ in range(rows)]
        elif type == pa.date32():
            values = [date(1992, 1, 1) + timedelta(days=random.randrange(2500)) for _ in range(rows)]
        elif type == pa.string():
            values = [f"{name} {random.randrange(50)}" for _ in range(rows)]
        else:
            values = [random.randrange(1, 8 if name == "line" else 2000) for _ in range(rows)]
        made[name] = pa.array(values, type)
    return pa.table(made)


def best(action: Callable[[], object]) -> float:
    found = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        found.append(time.perf_counter() - started)
    return min(found)


def main() -> None:
    for name, query in QUERIES.items():
        db = viewlet.connect(engine="compiled")
        db.execute(f"CREATE STREAM fact ({', '.join(f'{column} {sql}' for column, (sql, _) in COLUMNS.items())})")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {query}")
        for rows in ROWS:
            batch = table(rows)
            with db._session.open() as database:
                schema, host = database.catalogue.find_table("fact").schema, database.host
                conversion = best(lambda: host.change_of(schema, batch, 1, False))  # noqa: B023
            whole = best(lambda: db.insert("fact", batch))  # noqa: B023
            print(f"{name:>15}  {rows:>7,} rows  conversion {conversion * 1e6:8.0f} us  batch {whole * 1e6:8.0f} us")
        db.close()


if __name__ == "__main__":
    main()
