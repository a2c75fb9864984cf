"""What docs/semantics.md says of expressions that mean something else in Spark SQL is what both of them answer."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import viewlet

DOCUMENT = Path(__file__).parents[3] / "docs" / "semantics.md"
ROW = re.compile(r"^\| `(?P<sql>[^`]+)` \| `(?P<ours>[^`]+)` \| `(?P<theirs>[^`]+)` \|$", re.MULTILINE)
REFUSED = "refused"


def documented() -> list[tuple[str, str, str]]:
    _, _, section = DOCUMENT.read_text(encoding="utf-8").partition("## Differences from Spark SQL")
    return [(row["sql"], row["ours"], row["theirs"]) for row in ROW.finditer(section.partition("\n## ")[0])]


def query(sql: str) -> str:
    return sql if sql.startswith("SELECT") else f"SELECT {sql} AS x"


def shown(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return f"'{value}'"
        case timedelta():
            return f"{value.days} days"
        case _:
            return str(value)


def by_viewlet(sql: str) -> str:
    with viewlet.connect() as db:
        try:
            db.execute(f"CREATE MATERIALIZED VIEW v AS {query(sql)}")
        except viewlet.ViewletError:
            return REFUSED
        return ", ".join(shown(value) for (value,) in db.view("v").rows())


def by_spark(spark: Any, sql: str) -> str:
    try:
        return ", ".join(shown(value) for (value,) in spark.sql(query(sql)).collect())
    except PySparkException:
        return REFUSED


def test_the_table_has_rows_that_differ() -> None:
    rows = documented()
    assert len(rows) >= 30
    assert all(ours != theirs for _, ours, theirs in rows)


@pytest.mark.parametrize(("sql", "ours"), [(sql, ours) for sql, ours, _ in documented()])
def test_viewlet_answers_so(sql: str, ours: str) -> None:
    assert by_viewlet(sql) == ours


def test_spark_answers_so(spark: Any) -> None:
    assert [(sql, by_spark(spark, sql)) for sql, *_ in documented()] == [
        (sql, theirs) for sql, _, theirs in documented()
    ]
