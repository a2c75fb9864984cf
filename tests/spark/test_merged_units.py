"""Different views whose programs have inner views in common: these are kept and maintained once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest

import viewlet
from tests.oracle.comparison import difference
from tests.spark.test_shared_results import kept_changes, rows_for_other_jobs
from tests.spark.test_shared_units import create, state_rows, units
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.engine import unit_merging
from viewlet.spark.run.state.partition import forget

TABLES = """
    CREATE {kind} orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL, day BIGINT NOT NULL);
    CREATE {kind} items (id BIGINT NOT NULL, part BIGINT NOT NULL, price BIGINT NOT NULL)
"""
JOIN = "FROM orders JOIN items USING (id)"
VIEWS = {
    "customers": f"SELECT customer, SUM(price * (part + 3)) AS total {JOIN} GROUP BY customer",
    "parts": f"SELECT part, COUNT(*) AS n {JOIN} GROUP BY part",
    "days": f"SELECT day, customer, SUM(price) AS total, AVG(part) AS part {JOIN} GROUP BY day, customer",
    "dearest": f"SELECT customer, MAX(price) AS price {JOIN} GROUP BY customer",
    "whole": f"SELECT SUM(price) AS total {JOIN}",
}
FIRST = {
    "orders": [(i, f"customer {i % 3}", i % 4) for i in range(12)],
    "items": [(i % 12, i % 5, 10 * i) for i in range(40)],
}
MORE = {"orders": [(12, "customer 7", 9)], "items": [(12, 3, 7), (1, 4, 9000), (2, 2, 11)]}
Open = Callable[[], SparkConnection]
Given = Mapping[str, list[tuple[Any, ...]]]


@pytest.fixture(params=["interpreter", "compiled"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    return lambda: connect_inline(tmp_path / "state", 3, sync=False, engine=request.param)


def expected(sql: str, *batches: Given) -> list[tuple[Any, ...]]:
    """What DuckDB finds."""
    with duckdb.connect() as db:
        db.execute(TABLES.format(kind="TABLE"))
        for batch in batches:
            for table, rows in batch.items():
                db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return sorted(db.execute(sql).fetchall(), key=repr)


def check(db: SparkConnection, *batches: Given) -> None:
    for name in db.views:
        rows = sorted(db.view(name).rows(), key=repr)
        assert (found := difference(rows, expected(VIEWS[name], *batches))) is None, f"{name}: {found}"


def stored(db: SparkConnection, name: str) -> set[str]:
    return set(db._host._views[name].unit.locations)


def test_inner_views_in_common_are_kept_once(make: Open, tmp_path: Path) -> None:
    rows, apart = {}, 0
    for name, sql in VIEWS.items():
        with connect_inline(tmp_path / name, 3, sync=False) as db:
            db.execute(TABLES.format(kind="STREAM"))
            create(db, **{name: sql})
            db.apply(FIRST)
            rows[name] = state_rows(db)
            apart += len(stored(db, name))
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **VIEWS)
        assert units(db) == set(VIEWS)
        db.apply(FIRST)
        assert units(db) == {"customers"}
        assert len(stored(db, "customers")) < apart - 5
        assert state_rows(db) < 0.75 * sum(rows.values())
        check(db, FIRST)
        assert db.view("days").stats()["state_shared_with"] == ["customers", "parts", "dearest", "whole"]
        assert "parts_orders" not in db.explain("days", stage="views")
        assert "read from what is kept for view customers" in db.explain("days", stage="engine")


def test_a_batch_of_one_table_runs_what_it_changes(make: Open) -> None:
    """A batch takes as many stages as it takes where the views have units of their own."""
    taken: list[list[int]] = []
    for together in (False, True):
        with make() as db, pytest.MonkeyPatch.context() as patch:
            if not together:
                patch.setattr(unit_merging, "MOST_STATEMENTS", 0)
            db.execute(TABLES.format(kind="STREAM"))
            create(db, **VIEWS)
            db.apply(FIRST)
            assert len(units(db)) == (1 if together else len(VIEWS))
            stages = []
            for table in ("orders", "items"):
                before = db._host.cluster.cluster.stages
                db.insert(table, MORE[table])
                stages.append(db._host.cluster.cluster.stages - before)
            taken.append(stages)
            db.execute("".join(f"DROP VIEW {name};" for name in VIEWS))
            db.execute("DROP STREAM orders; DROP STREAM items")
    assert taken[1] <= taken[0]


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_database_is_opened_again_as_it_was(make: Open, tmp_path: Path, with_snapshot: bool) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **VIEWS)
        db.apply(FIRST)
        places = {name: db.view(name).stats()["homes"] for name in VIEWS}
        if with_snapshot:
            db.checkpoint()
        for name, sql in VIEWS.items():
            assert sorted(rows_for_other_jobs(tmp_path / "state", name), key=repr) == expected(sql, FIRST)
    forget()
    with make() as db:
        assert units(db) == {"customers"}
        assert {name: db.view(name).stats()["homes"] for name in VIEWS} == places
        check(db, FIRST)
        db.apply(MORE)
        check(db, FIRST, MORE)
        db.checkpoint()
        db.apply(MORE)
    forget()
    with make() as db:
        check(db, FIRST, MORE, MORE)


def test_changes_that_are_told_and_kept_go_on(make: Open) -> None:
    """Views were followed before they had one unit."""
    told: dict[str, Counter[Any]] = {name: Counter() for name in VIEWS}

    def follow(name: str) -> Callable[[int, Any], None]:
        def hear(_: int, changes: Any) -> None:
            for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
                told[name][tuple(row)] += weight

        return hear

    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **VIEWS)
        for name in VIEWS:
            told[name].update(db.view(name).rows())
            db.view(name).subscribe(follow(name))
            db.changes(name)
        start = {name: Counter(db.view(name).rows()) for name in VIEWS}
        for batch in (FIRST, MORE):
            db.apply(batch)
            for name in VIEWS:
                rows = Counter(db.view(name).rows())
                assert +told[name] == rows, name
                changes = kept_changes(db, name)
                changes.update(start[name])
                assert +changes == rows, name


def test_what_a_dropped_view_had_for_itself_goes_with_the_next_snapshot(make: Open) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **VIEWS)
        db.apply(FIRST)
        before = stored(db, "days")
        db.execute("DROP VIEW parts")
        assert stored(db, "days") == before
        check(db, FIRST)
        db.checkpoint()
        assert {name for name in before if name.startswith("parts")} - stored(db, "days")
        check(db, FIRST)
        db.apply(MORE)
        check(db, FIRST, MORE)
        db.execute("DROP VIEW customers")  # its name is that of the unit
        db.checkpoint()
        assert units(db) == {"customers"}
        assert "customers_orders_items" not in stored(db, "days") or "dearest" in db.views
        check(db, FIRST, MORE)
        kept = stored(db, "days")
    forget()
    with make() as db:
        assert stored(db, "days") == kept
        check(db, FIRST, MORE)
        db.apply(MORE)
        check(db, FIRST, MORE, MORE)
        db.execute("DROP VIEW days; DROP VIEW dearest; DROP VIEW whole")
        assert units(db) == set()


def test_a_view_of_a_merged_unit_is_spread_otherwise(make: Open) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="TABLE"))
        create(db, **VIEWS)
        db.apply(FIRST)
        before = db.view("days").stats()["homes"]
        db.execute("ALTER MATERIALIZED VIEW days PARTITION BY (day)")
        after = db.view("days").stats()["homes"]
        moved = {name for name, at in after.items() if at != before[name]}
        assert {after[name] for name in moved} == {"[day]"}
        assert all(name.startswith("days") for name in moved)
        check(db, FIRST)
    forget()
    with make() as db:
        assert db.view("days").stats()["homes"] == after
        db.apply(MORE)
        check(db, FIRST, MORE)
        create(db, again=VIEWS["days"])
        assert units(db) == {"customers"}
        assert db.view("again").stats()["shared_with"] == []  # it is not to be partitioned like that
        db.execute(f"CREATE MATERIALIZED VIEW same PARTITION BY (day) AS {VIEWS['days']}")
        assert db.view("same").stats()["shared_with"] == ["days"]


def test_views_that_ask_for_different_places_have_units_of_their_own(make: Open) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        db.execute(f"CREATE MATERIALIZED VIEW customers PARTITION BY (customer) AS {VIEWS['customers']}")
        db.partition_by("parts_orders", "id")
        create(db, parts=VIEWS["parts"])
        db.apply(FIRST)
        assert units(db) == {"customers", "parts"}
        check(db, FIRST)


def test_views_over_rows_that_are_there_have_units_of_their_own(make: Open) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="TABLE"))
        create(db, customers=VIEWS["customers"], whole=VIEWS["whole"])
        db.apply(FIRST)
        create(db, days=VIEWS["days"], dearest=VIEWS["dearest"])
        assert units(db) == {"customers", "days", "dearest"}
        check(db, FIRST)
        db.apply(MORE)
        assert units(db) == {"customers", "days", "dearest"}
        check(db, FIRST, MORE)


def test_a_merge_that_fails_leaves_the_units_as_they_were(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **VIEWS)
        journal = db._session.database().journal
        with monkeypatch.context() as broken:
            broken.setattr(journal, "declare", _fail)
            with pytest.raises(RuntimeError):
                db.apply(FIRST)
        assert units(db) == set(VIEWS)
        check(db)
        with monkeypatch.context() as broken:
            broken.setattr(journal, "batch", _fail)
            with pytest.raises(RuntimeError):
                db.apply(FIRST)
        assert units(db) == {"customers"}  # which is in force, with or without the batch
        check(db)
        db.execute("DROP VIEW parts")
    forget()
    with make() as db:
        assert units(db) == {"customers"}
        check(db)
        db.apply(FIRST)
        check(db, FIRST)


def _fail(*_: object) -> None:
    raise RuntimeError("no")


def test_a_merged_program_has_a_largest_size(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_merging, "MOST_STATEMENTS", 30)
    queries = {f"v{i}": f"SELECT customer, SUM(price * (part + {i})) AS x {JOIN} GROUP BY customer" for i in range(12)}
    with make() as db:
        db.execute(TABLES.format(kind="STREAM"))
        create(db, **queries)
        db.apply(FIRST)
        assert 1 < len(units(db)) < 12
        for name, sql in queries.items():
            assert sorted(db.view(name).rows()) == expected(sql, FIRST)


def test_inner_views_of_the_same_name_are_told_apart_when_the_other_view_is_gone(make: Open) -> None:
    """A view has the name of its unit before its own as long as it lives."""
    with make() as db:
        db.execute(TABLES.format(kind="TABLE"))
        create(db, a=VIEWS["customers"])
        db.insert("items", FIRST["items"])
        create(db, a_orders="SELECT part, COUNT(*) AS n FROM items GROUP BY part")
        assert any(name.startswith("a_orders/") for name in stored(db, "a_orders"))
        db.execute("DROP VIEW a")
        db.checkpoint()
        rows = db.view("a_orders").rows()
    forget()
    with make() as db:
        assert db.view("a_orders").rows() == rows
        with pytest.raises(viewlet.SchemaError):
            db.view("a")
