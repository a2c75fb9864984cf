"""What user-defined aggregates do not do is refused with the remedy, and failing code changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewlet
from tests.aggregates.examples import ALL, BitXor, Moments


def shop(engine: str = "interpreter") -> viewlet.Connection:
    db = viewlet.connect(engine=engine, aggregates=ALL)
    db.execute("CREATE TABLE t (g BIGINT, x BIGINT, name VARCHAR, price DECIMAL(9,2))")
    return db


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT bit_mix(DISTINCT x) AS m FROM t", "SELECT DISTINCT"),
        ("SELECT bit_mix(x, x) AS m FROM t", "takes 1 argument, not 2"),
        ("SELECT weighted(x) AS m FROM t", "takes 2 arguments, not 1"),
        ("SELECT bit_mix(name) AS m FROM t", "takes a BIGINT, not a VARCHAR"),
        ("SELECT bit_mix(price) AS m FROM t", "takes a BIGINT, not a DECIMAL(9,2)"),
        ("SELECT bit_mix(x / 2) AS m FROM t", "takes a BIGINT, not a DOUBLE"),
        ("SELECT bit_mix(*) AS m FROM t", "takes values"),
        ("SELECT bit_mix(x ORDER BY g) AS m FROM t", "in any order"),
        ("SELECT g FROM t WHERE bit_mix(x) > 1", "not allowed in WHERE"),
        ("SELECT bit_mix(bit_mix(x)) AS m FROM t", "inside another aggregate"),
        ("SELECT g FROM t GROUP BY bit_mix(x)", "not allowed in GROUP BY"),
        ("SELECT bit_mix(x) OVER () AS m FROM t", "window function"),
        ("SELECT m FROM (SELECT bit_mix(x) AS m FROM t) AS q", "as a view of its own"),
        ("WITH q AS (SELECT bit_mix(x) AS m FROM t) SELECT m FROM q", "as a view of its own"),
        ("SELECT bit_mix(x) AS m FROM t UNION ALL SELECT 1", "as a view of its own"),
        ("SELECT g FROM t WHERE x > (SELECT bit_mix(x) FROM t)", "as a view of its own"),
        ("SELECT COFACTOR(x) AS c, bit_mix(x) AS m FROM t", "second view"),
        ("SELECT bitmix(x) AS m FROM t", "did you mean bit_mix()?"),
        ("SELECT elephant(x) AS m FROM t", "function elephant() is not supported"),
    ],
)
def test_a_query_is_refused(query: str, message: str) -> None:
    with pytest.raises(viewlet.SqlError) as raised:
        shop().execute(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert message in str(raised.value)


def test_queries_outside_views_are_refused() -> None:
    for statement in ("SELECT bit_mix(x) FROM t", "INSERT INTO t SELECT bit_mix(x), 1, '', 1 FROM t"):
        with pytest.raises(viewlet.UnsupportedError, match="outside a view"):
            shop().execute(statement)


@pytest.mark.parametrize("name", ["sum", "upper", "count", "cofactor", "coalesce", "select", "a b", "", "1x", "é", 7])
def test_a_name_is_refused(name: Any) -> None:
    with pytest.raises(viewlet.SchemaError):
        viewlet.connect().register_aggregate(name, BitXor)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"returns": None}, "returns is the SQL type"),
        ({"returns": "ELEPHANT"}, "ELEPHANT"),
        ({"arguments": ()}, "arguments are SQL types"),
        ({"arguments": ("BIGINT", "BIGINT")}, "add() has to take 3 arguments"),
        ({"state": None}, "layout of a state"),
        ({"state": "object"}, "layout of a state"),
        ({"state": ("int64", 2)}, "zero() does not return a state"),
        ({"zero": lambda self: 1 / 0}, "zero() raised ZeroDivisionError"),
        ({"result": lambda self, state: "no"}, "expected an integer"),
        ({"result": None}, "no method result()"),
        ({"add": None}, "no method add(state, value)"),
        ({"__init__": lambda self, size: None}, "register an object"),
    ],
)
def test_a_class_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(viewlet.SchemaError) as raised:
        viewlet.connect().register_aggregate("mine", type("Mine", (BitXor,), changes))
    assert message in str(raised.value)


def test_an_aggregate_in_use_stays() -> None:
    db = shop()
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT bit_mix(x) AS m FROM t")
    db.register_aggregate("bit_mix", BitXor)
    with pytest.raises(viewlet.SchemaError, match="is used by view 'v'"):
        db.register_aggregate("bit_mix", Moments)
    db.execute("DROP VIEW v")
    db.register_aggregate("bit_mix", Moments)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
def test_deletes_without_remove_are_refused(engine: str) -> None:
    db = shop(engine)
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, largest(x) AS m FROM t GROUP BY g")
    db.insert("t", [(1, 5, "", 1), (1, 7, "", 1)])
    with pytest.raises(viewlet.DataError, match=r"view 'v': aggregate largest\(\) has no remove\(\)"):
        db.delete("t", [(1, 7, "", 1)])
    assert db.view("v").rows() == [(1, 7)]
    assert len(db.table("t").rows()) == 2
    db.insert("t", [(1, 9, "", 1)])
    assert db.view("v").rows() == [(1, 9)]


class Fragile(BitXor):
    def add(self, state: int, value: int) -> int:
        if value == 13:
            raise ValueError("not thirteen")
        if value == 14:
            return 1 << 70
        return state + value

    def remove(self, state: int, value: int) -> int:
        return state - value

    def result(self, state: int) -> Any:
        return "many" if state == 100 else np.int64(state)


@pytest.mark.parametrize("engine", ["interpreter", "compiled"])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_failing_code_rolls_the_batch_back(engine: str, kind: str) -> None:
    db = viewlet.connect(engine=engine)
    db.register_aggregate("fragile", Fragile)
    db.execute(f"CREATE {kind} t (g BIGINT, x BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, fragile(x) AS m, COUNT(*) AS n FROM t GROUP BY g")
    db.insert("t", [(1, 5), (2, 6)])
    for value, message in (
        (13, r"add\(\) raised ValueError: not thirteen"),
        (14, "out of the range of int64"),
        (95, "returned 'many', which is no BIGINT"),
    ):
        with pytest.raises(viewlet.DataError, match=rf"view 'v': aggregate fragile\(\): .*{message}"):
            db.insert("t", [(2, 1), (1, value)])
        assert db.view("v").rows() == [(1, 5, 1), (2, 6, 1)]
    db.insert("t", [(1, 1)])
    assert db.view("v").rows() == [(1, 6, 2), (2, 6, 1)]


def test_a_directory_needs_its_aggregates(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with viewlet.connect(path, aggregates=ALL) as db:
        db.execute("CREATE TABLE t (g BIGINT, x BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT g, squares(x) AS m FROM t GROUP BY g")
        db.insert("t", [(1, 5)])
    with pytest.raises(viewlet.StateError, match=r"uses the aggregate 'squares'.*aggregates=\{'squares': TheClass\}"):
        viewlet.connect(path)
    with pytest.raises(viewlet.StateError, match="with another state"):
        viewlet.connect(path, aggregates={"squares": BitXor})
    with viewlet.connect(path, aggregates=ALL) as db:
        assert db.view("v").rows() == [(1, 25)]
