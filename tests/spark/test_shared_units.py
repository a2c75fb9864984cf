"""Views that are read from the units of others: what they cost, who keeps what, and what happens when views go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import viewlet
from viewlet.codegen import reader
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.connection.stored_view import open_view
from viewlet.hosts import spark as host
from viewlet.spark.plan.locations import Dist
from viewlet.spark.run.execution import change_task, scan_task
from viewlet.spark.run.units import generated_result
from viewlet.spark.run.units.unit_result import ResultKey

TABLES = """
    CREATE TABLE items (id BIGINT NOT NULL, price BIGINT NOT NULL);
    CREATE TABLE orders (id BIGINT NOT NULL, customer VARCHAR NOT NULL)
"""
GROUPS = "FROM orders JOIN items USING (id) GROUP BY customer"
TOTALS = f"SELECT customer, SUM(price) AS total {GROUPS}"
LARGE = f"SELECT customer, SUM(price) AS total {GROUPS} HAVING SUM(price) > 40"
FIRST = {
    "items": [(1, 10), (1, 20), (2, 30), (3, 40), (4, 50)],
    "orders": [(1, "ada"), (2, "bob"), (3, "cyd"), (4, "bob")],
}
Open = Callable[[], SparkConnection]


@pytest.fixture(params=["interpreter", "compiled"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    return lambda: connect_inline(tmp_path / "state", 3, sync=False, engine=request.param)


def create(db: SparkConnection, **views: str) -> None:
    for name, sql in views.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {sql}")


def units(db: SparkConnection) -> set[str]:
    return {name for name in db._host.cluster.units if not name.startswith("table ")}


def state_rows(db: SparkConnection) -> int:
    return int(db.stats()["batches"][-1]["state_rows"])


def test_views_over_the_same_groups_cost_what_one_costs(make: Open) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS)
        db.apply(FIRST)
        rows, stages = state_rows(db), db._host.cluster.cluster.stages
        create(db, **{f"v{i}": f"{TOTALS} HAVING SUM(price) > {10 * i}" for i in range(20)})
        assert db._host.cluster.cluster.stages == stages  # nothing was loaded
        assert units(db) == {"totals"}
        for i in range(20):
            assert db.view(f"v{i}").rows() == [row for row in db.view("totals").rows() if row[1] > 10 * i]
        before = db._host.cluster.cluster.stages
        db.insert("items", [(1, 1)])
        taken = db._host.cluster.cluster.stages - before
        assert state_rows(db) == rows + 1  # the row of the table
        db.execute("".join(f"DROP VIEW v{i};" for i in range(20)))
        before = db._host.cluster.cluster.stages
        db.insert("items", [(1, 1)])
        assert db._host.cluster.cluster.stages - before == taken
        assert not db._host.cluster._results


@pytest.mark.parametrize(
    "query",
    [
        LARGE,
        f"SELECT customer {GROUPS}",
        f"SELECT SUM(price) * 2 AS twice, customer AS who {GROUPS} ORDER BY twice DESC, who LIMIT 2",
        f"SELECT customer, AVG(price) AS mean {GROUPS} HAVING COUNT(*) < 3",
        "SELECT customer, total FROM totals WHERE total > 40",
        "SELECT who FROM (SELECT customer AS who, COUNT(*) AS n, SUM(price) AS s "
        "FROM items i JOIN orders o ON i.id = o.id GROUP BY customer) AS q WHERE s > 35",
    ],
)
def test_what_is_contained_is_read_from_the_unit_that_has_it(make: Open, query: str) -> None:
    with make() as db, viewlet.connect(engine="interpreter") as reference:
        reference.execute(TABLES)
        db.execute(TABLES)
        for each in (reference, db):
            each.execute(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}; CREATE MATERIALIZED VIEW v AS {query}")
            each.apply(FIRST)
            each.delete("items", [(3, 40)])
        assert units(db) == {"totals"}
        assert db.view("v").rows() == reference.view("v").rows() != []


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT customer, SUM(price) AS total {GROUPS.replace('GROUP', 'WHERE price > 10 GROUP')}",
        f"SELECT customer, MAX(price) AS most {GROUPS}",
        "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer",
        "SELECT id, SUM(price) AS total FROM items GROUP BY id",
        f"SELECT customer, SUM(price) AS total {GROUPS} HAVING SUM(price) > 3 /* */",
    ],
)
def test_what_is_not_contained_has_a_unit(make: Open, query: str) -> None:
    """Other tables, fewer of them (a table may be dropped that only the other view reads), or other stored views."""
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS)
        strategy = "" if "/*" not in query else "WITH (strategy = 'first-order') "
        db.execute(f"CREATE MATERIALIZED VIEW v {strategy}AS {query}")
        assert units(db) == {"totals", "v"}


def test_the_view_that_a_unit_is_named_after_may_go(make: Open) -> None:
    """Its name may come back with another query; the checkpoint is opened from the log, and from a snapshot."""
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS)
        db.apply(FIRST)
        heard = list[int]()
        db.view("totals").subscribe(lambda epoch, _: heard.append(epoch))
        create(db, large=LARGE, larger=LARGE.replace("40", "60"))
        db.execute("DROP VIEW totals")
        db.insert("items", [(3, 5)])
        assert not heard
        assert not db._host.cluster._watched
        create(db, totals="SELECT price, COUNT(*) AS n FROM items GROUP BY price")
        assert units(db) == {"totals", "totals_2"}
        db.insert("items", [(3, 5)])
    for step in range(3):
        with make() as db:
            assert db.view("large").rows() == [("bob", 80), ("cyd", 50 + step)]
            assert db.view("larger").rows() == [("bob", 80)]
            assert (5, 2) in db.view("totals").rows()
            db.insert("items", [(3, 1)])
            if step == 0:
                db.checkpoint()
    with make() as db:
        db.execute("DROP VIEW large; DROP VIEW larger")
        assert units(db) == {"totals_2"}
        assert not db._host.cluster._results


def test_a_view_is_replaced_by_one_that_is_read_from_its_unit(make: Open) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS)
        db.apply(FIRST)
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW totals AS {LARGE}")
        assert len(db.stats()["batches"]) == 1  # nothing was loaded
        assert units(db) == {"totals"}
        assert db.view("totals").rows() == [("bob", 80)]
    with make() as db:
        assert db.view("totals").rows() == [("bob", 80)]
        create(db, totals_again=TOTALS)
        assert units(db) == {"totals"}
        assert db.view("totals_again").rows() == [("ada", 30), ("bob", 80), ("cyd", 40)]


def test_equal_views_share_a_result(make: Open) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS, a=LARGE, b=LARGE)
        assert db.view("b").stats()["shared_with"] == ["a"]
        db.apply(FIRST)
        db.checkpoint()
    for _ in range(2):
        with make() as db:
            assert db.view("b").stats()["shared_with"] == ["a"]
            assert len(db._host.cluster._results) == 1
    with make() as db:
        db.execute("DROP VIEW a")
        db.insert("items", [(3, 5)])
        assert db.view("b").rows() == [("bob", 80), ("cyd", 45)]


def test_explain_says_what_is_shared(make: Open) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS, large=LARGE)
        assert "read from what is kept for view totals" in db.explain("large", stage="engine")
        assert "read from" not in db.explain("totals", stage="engine")
        assert "totals_orders_items" in db.explain("large", stage="views")
        assert "totals_orders_items" in db.explain("large", stage="spark")
        assert db.view("large").stats()["state_shared_with"] == ["totals"]
        assert db.view("totals").stats()["state_shared_with"] == ["large"]
        db.repartition(2)
        assert "2 partitions; read from what is kept for view totals" in db.explain("large", stage="engine")


def test_changes_of_each_result_are_told_and_kept(make: Open, tmp_path: Path) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS, large=LARGE, mean=f"SELECT customer, AVG(price) AS mean {GROUPS}")
        told: dict[str, Counter[Any]] = {name: Counter() for name in db.views}

        def follow(name: str) -> None:
            def hear(_: int, changes: Any) -> None:
                for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
                    told[name][tuple(row)] += weight

            db.view(name).subscribe(hear)

        for name in db.views:
            follow(name)
            db.changes(name)
        assert all(db._host.cluster.keeps_changes_of(db._host._key(view), name) for name, view in by_name(db).items())
        for batch in (FIRST, {"items": [(3, 7)]}, {"orders": [(3, "ada")]}):
            db.apply(batch)
            db.delete("items", [(1, 10)])
            db.insert("items", [(1, 10)])
            for name in db.views:
                expected = Counter(db.view(name).rows())
                assert +told[name] == expected
                kept = Counter[Any]()
                for *row, weight, _ in zip(
                    *(column.to_pylist() for column in viewlet.changes_of(tmp_path / "state", name).columns),
                    strict=True,
                ):
                    kept[tuple(row)] += weight
                assert +kept == expected


def by_name(db: SparkConnection) -> dict[str, Any]:
    return dict(db._host.catalogue.views)


def test_generated_code_reads_other_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Python rows, and without indexes that the unit does not have."""
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    with connect_inline(tmp_path / "state", 3, sync=False, engine="compiled") as db:
        db.execute(TABLES)
        create(db, totals=TOTALS, large=LARGE)
        db.changes("large")
        (entry,) = db._host.cluster._results.values()
        written = reader.write_reader(entry.program)
        assert written is not None
        assert not any(layout.slices or layout.ordered for layout in written.layouts)
        monkeypatch.setattr(change_task, "rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
        monkeypatch.setattr(scan_task, "rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
        db.apply(FIRST)
        assert db.changes("large").num_rows == 1
        assert db.view("large").to_arrow().num_rows == 1
        monkeypatch.setattr(generated_result, "evaluate_result", lambda *_: pytest.fail("rows were made"))
        extreme = f"SELECT customer, MIN(price) AS least {GROUPS}"
        create(db, least=extreme, small=f"{extreme} HAVING MIN(price) < 20")
        assert units(db) == {"totals", "least"}
        assert db.view("small").to_arrow().to_pylist() == [{"customer": "ada", "least": 10}]
        db.changes("small")
        db.apply({"items": [(3, 7)]})
        assert db.changes("small").num_rows == 1


def test_the_reader_of_a_result_has_the_stores_of_the_unit(tmp_path: Path) -> None:
    with connect_inline(tmp_path / "state", 3, sync=False, engine="compiled") as db:
        db.execute(TABLES)
        create(db, totals=f"{TOTALS} HAVING SUM(price) > 1", large=LARGE)
        unit = db._host.cluster.code("totals")
        (entry,) = db._host.cluster._results.values()
        written = reader.write_reader(entry.program)
        assert written is not None
        layouts = {layout.name: layout for layout in unit.module.generated.layouts}
        for read in written.layouts:
            kept = layouts[read.name]
            assert (read.arity, read.fields, read.kinds) == (kept.arity, kept.fields, kept.kinds)


def test_a_result_goes_by_other_columns_with_its_unit(make: Open) -> None:
    pairs = "FROM orders JOIN items USING (id) GROUP BY customer, id"
    with make() as db:
        db.execute(TABLES)
        create(
            db,
            totals=f"SELECT customer AS who, id AS what, SUM(price) AS total {pairs}",
            large=f"SELECT id, customer, SUM(price) AS s {pairs} HAVING SUM(price) > 30",
        )
        db.apply(FIRST)
        db.execute("ALTER MATERIALIZED VIEW large PARTITION BY (id)")
        unit = db._host.cluster.units["totals"]
        at = unit.locations["totals_orders_items"]
        assert isinstance(at, Dist)
        assert [var.name for var in at.by] == ["id"]
        assert db.view("large").rows() == [(3, "cyd", 40), (4, "bob", 50)]
        create(db, other=f"SELECT customer, SUM(price) AS s {pairs}")
        assert units(db) == {"totals"}
    with make() as db:
        db.insert("items", [(2, 2)])
        assert db.view("large").rows() == [(2, "bob", 32), (3, "cyd", 40), (4, "bob", 50)]
        db.execute("DROP VIEW other")
        db.execute("ALTER MATERIALIZED VIEW totals PARTITION BY (who)")
        assert db.view("large").rows() == [(2, "bob", 32), (3, "cyd", 40), (4, "bob", 50)]


def test_columns_that_a_unit_does_not_show_cannot_be_asked_for_later(make: Open) -> None:
    pairs = "FROM orders JOIN items USING (id) GROUP BY customer, id"
    with make() as db:
        db.execute(TABLES)
        create(db, totals=f"SELECT customer, SUM(price) AS total {pairs}", large=f"SELECT id, SUM(price) AS s {pairs}")
        assert units(db) == {"totals"}
        with pytest.raises(viewlet.UnsupportedError, match="is kept for view 'totals'"):
            db.execute("ALTER MATERIALIZED VIEW large PARTITION BY (id)")


def test_a_view_that_is_to_be_partitioned_otherwise_has_a_unit(make: Open) -> None:
    pairs = "FROM orders JOIN items USING (id) GROUP BY customer, id"
    with make() as db:
        db.execute(TABLES)
        db.execute(f"CREATE MATERIALIZED VIEW v PARTITION BY (customer) AS SELECT customer, id, COUNT(*) AS n {pairs}")
        db.execute(
            f"CREATE MATERIALIZED VIEW w PARTITION BY (who) AS SELECT customer AS who, COUNT(*) + 1 AS n {pairs}"
        )
        assert units(db) == {"v"}
        db.execute(f"CREATE MATERIALIZED VIEW x PARTITION BY (id) AS SELECT id, customer, COUNT(*) + 1 AS n {pairs}")
        assert units(db) == {"v", "x"}
        db.apply(FIRST)
        assert db.view("x").rows() == [(1, "ada", 3), (2, "bob", 2), (3, "cyd", 2), (4, "bob", 2)]


def test_no_result_is_gathered_that_a_unit_would_not_have_to_gather(make: Open) -> None:
    """An extreme over all keys of a partitioned view would bring it to the driver with every reading."""
    keys = "SELECT price, COUNT(*) AS n FROM items GROUP BY price"
    with make() as db:
        db.execute(TABLES)
        create(db, prices=keys, least="SELECT MIN(price) AS least FROM items")
        assert units(db) == {"prices", "least"}
        db.apply(FIRST)
        assert db.view("least").rows() == [(10,)]


def test_state_stays_in_partitions_if_a_result_would_have_to_be_gathered(
    make: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored views of few rows go to the driver, which each result then is read at."""
    monkeypatch.setattr(host, "BUSY_BATCHES", 1)
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS, large=LARGE)
        told = Counter[Any]()

        def hear(_: int, changes: Any) -> None:
            for *row, weight in zip(*(column.to_pylist() for column in changes.columns), strict=True):
                told[tuple(row)] += weight

        db.view("large").subscribe(hear)
        for _ in range(3):
            db.apply(FIRST)
            db.checkpoint()
        key = db._host._key(by_name(db)["large"])
        reading = db._host.cluster.reading(key)
        assert reading is db._host.cluster.reading(ResultKey("totals"))
        db.insert("items", [(1, 5)])
        assert +told == Counter(db.view("large").rows())


def test_a_declaration_that_fails_leaves_no_result(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with make() as db:
        db.execute(TABLES)
        create(db, totals=TOTALS)
        with monkeypatch.context() as broken:
            broken.setattr(db._session.database().journal, "declare", _fail)
            with pytest.raises(RuntimeError):
                create(db, large=LARGE)
        assert not db._host.cluster._results
        assert units(db) == {"totals"}
        create(db, large=LARGE)
        db.apply(FIRST)
        assert db.view("large").rows() == [("bob", 80)]


def _fail(*_: object) -> None:
    raise RuntimeError("no")


def test_other_jobs_read_views_of_shared_units(make: Open, tmp_path: Path) -> None:
    """What only the log has of a unit that was declared for another view is replayed from its first view on."""

    def read(name: str) -> list[tuple[Any, ...]]:
        found = open_view(str(tmp_path / "state"), name)
        tables = [found.read(task, range(len(found.columns))) for task in range(found.tasks)]
        return sorted(row for table in tables for row in zip(*(c.to_pylist() for c in table.columns), strict=True))

    with make() as db:
        db.execute(TABLES)
        create(db, whole="SELECT SUM(price) AS s, COUNT(*) AS n FROM items", totals=TOTALS)
        for _ in range(2):
            db.apply(FIRST)
            number = db.epoch
            create(
                db,
                **{
                    f"equal{number}": "SELECT SUM(price) AS a, COUNT(*) AS b FROM items",
                    f"more{number}": f"SELECT SUM(price) + {number} AS m FROM items",
                    f"large{number}": LARGE,
                },
            )
            db.insert("items", [(1, 1)])
            for name in db.views:
                assert read(name) == sorted(db.view(name).rows()), name
            db.checkpoint()
            db.insert("items", [(2, 1)])
            for name in db.views:
                assert read(name) == sorted(db.view(name).rows()), name
        db.execute("DROP VIEW whole; DROP VIEW totals")
        db.insert("items", [(2, 1)])
        for name in db.views:
            assert read(name) == sorted(db.view(name).rows()), name
