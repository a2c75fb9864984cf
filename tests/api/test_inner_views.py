"""Views with different queries keep the stored views that they have in common once, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import viewlet
from viewlet.connection.facade import Connection
from viewlet.engine.inner_views import in_reading_order, reaches
from viewlet.engine.maintainer import Maintainer, maintainers
from viewlet.hosts.local import LocalHost
from viewlet.sqlgen.bulk_load import ProgramLoad
from viewlet.triggers.shared_views import Borrowed

TABLES = """
    CREATE {0} orders (id BIGINT NOT NULL, customer BIGINT NOT NULL, day BIGINT NOT NULL);
    CREATE {0} items (id BIGINT NOT NULL, price BIGINT NOT NULL, number BIGINT NOT NULL)
"""
BY = "SELECT {0}, SUM(price) AS total FROM orders JOIN items USING (id) GROUP BY {0}"
FIRST = {"orders": [(1, 7, 20), (2, 8, 20)], "items": [(1, 30, 1), (1, 12, 2), (2, 5, 3)]}
ROWS = {"customer": [(7, 42), (8, 5)], "day": [(20, 47)], "id": [(1, 42), (2, 5)]}
MORE = {"orders": [(3, 7, 21)], "items": [(3, 1, 1), (2, 2, 1)]}
ROWS_OF_MORE = {"customer": [(7, 43), (8, 7)], "day": [(20, 49), (21, 1)], "id": [(1, 42), (2, 7), (3, 1)]}


ENGINES = ("interpreter", "compiled")
SHARING = [(engine, kind) for engine in ENGINES for kind in ("TABLE", "STREAM")]


def opened(path: Path | None = None, kind: str = "TABLE", engine: str = "interpreter") -> Connection:
    db = viewlet.connect(path, engine=engine)
    db.execute(TABLES.format(kind))
    return db


def declare(db: Connection, *keys: str) -> None:
    for key in keys:
        db.execute(f"CREATE MATERIALIZED VIEW by_{key} AS {BY.format(key)}")


def borrowed(db: Connection, view: str) -> Any:
    return db.view(view).stats()["borrowed"]


def engines(db: Connection) -> list[Any]:
    return list(in_reading_order(maintainers(db._session.database().views.values())))


def check(db: Connection, expected: dict[str, list[tuple[int, int]]]) -> None:
    for name in db.views:
        assert db.view(name).rows() == expected[name.removeprefix("by_")]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stored_view_of_two_queries_is_kept_once(engine: str) -> None:
    with opened(engine=engine) as db:
        declare(db, "customer", "day")
        assert borrowed(db, "by_customer") == {}
        assert borrowed(db, "by_day") == {"by_day_items": "by_customer_items"}
        assert "it reads by_customer_items as by_day_items" in db.explain("by_day", stage="engine")
        db.apply(FIRST)
        check(db, ROWS)
        assert "by_day_items" not in db.view("by_day").stats()["stored"]
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_query_over_rows_that_are_there_borrows_them(engine: str) -> None:
    with opened(engine=engine) as db:
        declare(db, "customer")
        db.apply(FIRST)
        declare(db, "day")
        assert borrowed(db, "by_day")
        check(db, ROWS)
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


def test_a_view_with_fewer_fields_reads_one_with_more() -> None:
    both = "SELECT customer, SUM(price) AS p, SUM(number) AS n FROM orders JOIN items USING (id) GROUP BY customer"
    with opened() as db:
        db.execute(f"CREATE MATERIALIZED VIEW both_sums AS {both}")
        declare(db, "day")
        assert borrowed(db, "by_day") == {"by_day_items": "both_sums_items"}
        db.apply(FIRST)
        assert db.view("by_day").rows() == ROWS["day"]
        assert db.view("both_sums").rows() == [(7, 42, 3), (8, 5, 3)]


def test_results_over_the_same_stored_view_differ() -> None:
    """The groups are kept once; each view has its own rows of them, and tells its own changes."""
    grouped = "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer HAVING COUNT(*) > {}"
    told: list[Any] = []
    with opened() as db:
        for least in (0, 1):
            db.execute(f"CREATE MATERIALIZED VIEW above_{least} AS {grouped.format(least)}")
        db.view("above_1").subscribe(lambda epoch, changes: told.append(changes.to_pylist()))
        assert borrowed(db, "above_1")
        db.insert("orders", [(1, 7, 20), (2, 7, 20), (3, 8, 20)])
        assert db.view("above_0").rows() == [(7, 2), (8, 1)]
        assert db.view("above_1").rows() == [(7, 2)]
        db.execute("DROP VIEW above_0")
        db.insert("orders", [(4, 8, 20)])
        assert db.view("above_1").rows() == [(7, 2), (8, 2)]
    assert told == [
        [{"customer": 7, "n": 2, "_multiplicity": 1}],
        [{"customer": 8, "n": 2, "_multiplicity": 1}],
    ]


@pytest.mark.parametrize(("engine", "kind"), SHARING)
def test_the_owner_is_dropped(engine: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others borrow is maintained further, and nothing else of it."""
    with opened(kind=kind, engine=engine) as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        db.execute("DROP VIEW by_customer")
        with monkeypatch.context() as broken:
            broken.setattr(db._session.database().journal, "batch", _fail)
            with pytest.raises(RuntimeError):
                db.apply(MORE)
        check(db, ROWS)
        db.apply(MORE)
        check(db, ROWS_OF_MORE)
        _, owner = engines(db)
        assert owner.kept == {"by_customer_items"}
        db.execute("DROP VIEW by_day")
        assert engines(db) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_a_view_is_replaced(engine: str) -> None:
    with opened(engine=engine) as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW by_customer AS {BY.format('customer')} HAVING SUM(price) > 5")
        db.apply(MORE)
        assert db.view("by_day").rows() == ROWS_OF_MORE["day"]
        assert db.view("by_customer").rows() == ROWS_OF_MORE["customer"]


@pytest.mark.parametrize(("engine", "kind"), SHARING)
@pytest.mark.parametrize("with_snapshot", [True, False])
def test_views_share_again_when_they_are_opened(engine: str, kind: str, with_snapshot: bool, tmp_path: Path) -> None:
    with opened(tmp_path, kind, engine) as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        if with_snapshot:
            db.checkpoint()
    with viewlet.connect(tmp_path, engine=engine) as db:
        assert borrowed(db, "by_day") == {"by_day_items": "by_customer_items"}
        check(db, ROWS)
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_fails_leaves_borrowed_views_as_they_were(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(engine=engine) as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        with monkeypatch.context() as broken:
            broken.setattr(db._session.database().journal, "batch", _fail)
            with pytest.raises(RuntimeError):
                db.apply(MORE)
        check(db, ROWS)
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


def _fail(*_: object) -> None:
    raise RuntimeError("no")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_declaration_that_fails_borrows_nothing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(engine=engine) as db:
        declare(db, "customer")
        with monkeypatch.context() as broken:
            broken.setattr(db._session.database().journal, "declare", _fail)
            with pytest.raises(RuntimeError):
                declare(db, "day")
        db.apply(FIRST)
        assert db.view("by_customer").rows() == ROWS["customer"]
        assert len(engines(db)) == 1


def test_compiled_views_borrow_what_triggers_do_not_change_and_read() -> None:
    """Generated code runs row by row: a view that changes in a trigger that reads it is the engine's own."""
    above = "SELECT {0}, COUNT(*) AS n FROM orders WHERE (SELECT SUM(price) FROM items i WHERE i.id = orders.id) > 10"
    with opened(engine="compiled") as db:
        for key in ("customer", "day"):
            db.execute(f"CREATE MATERIALIZED VIEW above_{key} AS {above.format(key)} GROUP BY {key}")
        assert not any("items" in name for name in borrowed(db, "above_day"))
        db.apply(FIRST)
        assert db.view("above_customer").rows() == [(7, 1)]
        assert db.view("above_day").rows() == [(20, 1)]


@pytest.mark.parametrize("atomic", [True, False])
@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_compiled_views_go_back_together(kind: str, atomic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a batch that failed meet the views as they were; `atomic` as machine code, else with copies."""
    monkeypatch.setattr("viewlet.codegen.view.ENABLED", atomic)
    batch = {"items": MORE["items"], "orders": [*MORE["orders"], (1, 8, 21)]}
    with opened(kind=kind, engine="compiled") as db:
        declare(db, "customer", "day", "id")
        assert borrowed(db, "by_day")
        assert borrowed(db, "by_id")
        db.apply(FIRST)
        with monkeypatch.context() as broken:
            broken.setattr(db._session.database().journal, "batch", _fail)
            with pytest.raises(RuntimeError):
                db.apply(batch)
        check(db, ROWS)
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


@pytest.mark.parametrize("kind", ["TABLE", "STREAM"])
def test_each_moves_to_compiled_code_in_its_own_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter that has made way is run while others borrow from it."""
    monkeypatch.setattr("viewlet.engine.chooser.COMPILE_AFTER_ROWS", 6)
    with opened(kind=kind, engine="auto") as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        assert borrowed(db, "by_day")
        owner, borrower = maintainers(db._session.database().views.values())
        borrower.describe(replace(borrower.choice, may_change=False))
        db.apply(MORE)
        assert db.settle(timeout=60)
        assert owner.choice.is_compiled
        assert not borrower.choice.is_compiled
        check(db, ROWS_OF_MORE)
        db.apply({"items": [(3, 1, 1)]})
        assert db.view("by_day").rows() == [(20, 49), (21, 2)]
        assert db.view("by_customer").rows() == [(7, 44), (8, 7)]


finish = ProgramLoad.finish


def test_a_bulk_load_does_without_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views that are filled by DuckDB in a batch share again after it."""
    monkeypatch.setattr("viewlet.engine.chooser.LARGE_BATCH", 4)
    monkeypatch.setattr("viewlet.engine.chooser._must_stay", lambda view: "for a test")
    loads: list[str] = []
    monkeypatch.setattr(ProgramLoad, "finish", lambda load: loads.append(load.engine.plan.name) or finish(load))
    with opened(engine="auto") as db:
        declare(db, "customer", "day")
        assert borrowed(db, "by_day")
        db.apply(FIRST)
        check(db, ROWS)
        assert loads == ["by_customer", "by_day"]
        assert borrowed(db, "by_day") == {"by_day_items": "by_customer_items"}
        db.apply(MORE)
        check(db, ROWS_OF_MORE)


def test_work_and_state_do_not_grow_with_the_number_of_views() -> None:
    """Fifty queries that differ in a constant of one table keep one copy of what they read of the other."""
    with opened(kind="STREAM") as db:
        for number in range(50):
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS {_above(number)}")
        db.apply({"items": [(i, 1, 1) for i in range(100)]})
        stored = [db.view(f"v{number}").stats()["stored"] for number in range(50)]
        assert sum(sum(each.values()) for each in stored) == 100


def test_chains_of_loans_may_be_long() -> None:
    """Each engine borrows from the two before it: they run in the opposite order, and are found in linear time."""
    engines: list[Any] = []
    for number in range(3000):
        owners = engines[-2:]
        engines.append(SimpleNamespace(name=number, borrowed={str(i): Borrowed(o, "") for i, o in enumerate(owners)}))
    for order in (engines, [*reversed(engines)], engines[-1:]):
        found = in_reading_order(SimpleNamespace(sharing=engine) for engine in order)
        assert [engine.name for engine in found] == [*range(2999, -1, -1)]
    assert reaches(engines[-1], engines[0])
    assert not reaches(engines[0], engines[-1])


def _above(number: int) -> str:
    return f"SELECT customer, SUM(price) AS t FROM orders JOIN items USING (id) WHERE day > {number} GROUP BY customer"


def test_a_batch_does_not_look_at_all_views_unless_some_have_come_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as db:
        declare(db, "customer", "day")
        db.apply(FIRST)
        listing, listed = LocalHost._maintainers, list[LocalHost]()

        def counted(host: LocalHost) -> Sequence[Maintainer]:
            listed.append(host)
            return listing(host)

        monkeypatch.setattr(LocalHost, "_maintainers", counted)
        db.apply(MORE)
        assert not listed
        db.execute("DROP MATERIALIZED VIEW by_customer")
        db.apply({"items": [(3, 4, 1)]})
        db.apply({"items": [(3, 5, 1)]})
        assert len(listed) == 1
        check(db, {"day": [(20, 49), (21, 10)]})
