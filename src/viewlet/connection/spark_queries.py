"""Ad-hoc queries over large views on Spark: Spark SQL evaluates them over scans, and only answers come to the driver.

DuckDB says what a query means (`viewlet.adhoc`). It is asked first, over tables without rows: it refuses what is wrong,
and tells the names and types of the answer. A query all of whose parts mean the same to Spark SQL is then translated
(`viewlet.sql.to_spark`). Any other query is left to DuckDB, over rows that are read to the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from viewlet.changes import rows_to_arrow
from viewlet.connection.database import Database
from viewlet.hosts.spark import SparkHost
from viewlet.spark.run.execution.selection import selection
from viewlet.spark.run.views.scan import driver_frame
from viewlet.spark.run.views.stored_rows import arrow_schema
from viewlet.sql.to_spark import columns_named, translated
from viewlet.visible import logger

LARGE_ROWS = 100_000
"""Queries over views and tables that have no more rows than this are faster in DuckDB."""


@dataclass(frozen=True, slots=True)
class SparkQueries:
    """Answers queries in Spark SQL, where that is possible and worth its time."""

    spark: Any
    host: SparkHost

    def answer(self, sql: str, names: Sequence[str], database: Database, ask: Callable[[Any], Any]) -> Any:
        """The answer as Arrow; None where DuckDB should answer. `ask` is DuckDB's answer over given tables."""
        large = [name for name in names if self.host.rows_kept(name) > LARGE_ROWS]
        if all(self.host.scan(name) is None for name in large):
            return None
        if self.spark.conf.get("spark.sql.ansi.enabled", "true") != "true":
            return None  # numbers that do not fit would be NULL
        expected = ask({name: rows_to_arrow(database.columns(name), []) for name in names}).schema
        folder = f"viewlet_{uuid.uuid4().hex[:12]}"
        places = {name: f"{folder}_{i}" for i, name in enumerate(names)}
        columns = [column for name in names for column in database.columns(name)]
        text = translated(sql, places, columns)
        if text is None:
            return None
        try:
            for name, place in places.items():
                self._frame(name, database, sql).createOrReplaceTempView(place)
            found = self.spark.sql(text).toArrow()
            return found.rename_columns(expected.names).cast(expected)
        except Exception as error:  # whatever Spark SQL finds wrong with it, DuckDB has accepted it
            logger.info("a query is answered at the driver: %s", str(error).splitlines()[0][:200])
            return None
        finally:
            for place in places.values():
                self.spark.catalog.dropTempView(place)

    def _frame(self, name: str, database: Database, sql: str) -> Any:
        """The columns of a relation that a query may read."""
        scan = self.host.scan(name)
        if scan is not None:
            known = [column.name for column in scan.shown]
            wanted = None if len({*known}) < len(known) else columns_named(sql, known)
            return scan.frame(self.spark, selection(arrow_schema(scan.shown), wanted))
        return driver_frame(self.spark, database.columns(name), database.arrow(name))
