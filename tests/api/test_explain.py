"""EXPLAIN in SQL and in Python: stages, costs, and queries that are not declared."""

from __future__ import annotations

import viewlet

SCHEMA = "CREATE TABLE facts (k BIGINT NOT NULL, v BIGINT); CREATE TABLE dims (k BIGINT PRIMARY KEY, name BIGINT)"
JOIN = "SELECT d.name, SUM(f.v) AS total FROM facts f JOIN dims d ON f.k = d.k GROUP BY d.name"


def connected() -> viewlet.Connection:
    db = viewlet.connect()
    db.execute(SCHEMA)
    return db


def explained(db: viewlet.Connection, sql: str) -> str:
    return "\n".join(db.execute(sql)["explain"].to_pylist())


def test_a_select_can_be_explained_without_declaring_it() -> None:
    db = connected()
    text = explained(db, f"EXPLAIN {JOIN}")
    assert "facts(" in text
    assert "on dims:" in text
    assert db.views == ()


def test_a_select_can_be_explained_over_several_lines_and_statements() -> None:
    db = connected()
    answer = explained(db, "SELECT 1;\nEXPLAIN (algebra)\n  SELECT v\n  FROM facts WHERE k = 2;\n")
    assert "facts(" in answer
    assert "v = v" in answer


def test_a_select_of_a_name_that_is_a_view_is_not_taken_for_the_view() -> None:
    db = connected()
    db.execute("CREATE MATERIALIZED VIEW all_facts AS SELECT k, v FROM facts")
    assert "SELECT COUNT(*) AS n FROM all_facts" in explained(db, "EXPLAIN (sql) SELECT COUNT(*) AS n FROM all_facts")
    assert "SELECT k, v FROM facts" in explained(db, "EXPLAIN (sql) all_facts")


def test_row_triggers_name_the_columns_of_the_row() -> None:
    db = connected()
    db.execute("CREATE MATERIALIZED VIEW spend AS SELECT k, COUNT(*) AS n FROM facts GROUP BY k")
    text = db.explain("spend", stage="rows")
    assert "on insert into facts values (:k, " in text
    assert "[:k].count += 1" in text
    assert "Δ" not in text


def test_the_costs_of_both_strategies_are_shown() -> None:
    db = connected()
    db.execute(f"CREATE MATERIALIZED VIEW v AS {JOIN}")
    lines = db.explain("v", stage="cost").splitlines()
    assert lines[0].startswith("higher-order: ")
    assert lines[0].endswith("<- chosen")
    assert lines[1].startswith("first-order: ")
    assert any(line.startswith("on facts costs ") for line in lines)


def test_sizes_of_tables_decide_the_strategy() -> None:
    """One fact for each dimension: looking it up is cheaper than keeping a view of it."""
    db = connected()
    db.insert("dims", [(i, i % 10) for i in range(1_000)])
    db.insert("facts", [(i, i) for i in range(1_000)])
    db.execute(f"CREATE MATERIALIZED VIEW sparse AS {JOIN}")
    db.insert("facts", [(i % 20, i) for i in range(20_000)])
    db.execute(f"CREATE MATERIALIZED VIEW dense AS {JOIN} HAVING COUNT(*) > 0")  # an equal view would share its engine
    strategies = {name: db.view(name).stats()["strategy"] for name in db.views}
    assert strategies == {"sparse": "first-order", "dense": "higher-order"}
    db.insert("facts", [(1, 5)])
    assert sorted(db.view("sparse").rows()) == sorted(db.view("dense").rows())


def test_a_given_strategy_has_one_cost() -> None:
    db = connected()
    db.execute(f"CREATE MATERIALIZED VIEW v WITH (strategy = 'first-order') AS {JOIN}")
    text = db.explain("v", stage="cost")
    assert text.startswith("first-order: ")
    assert "chosen" not in text
