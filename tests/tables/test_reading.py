"""Reading a table after a small change: the same rows as ever, without making again what did not change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import viewlet
from tests.tables.model import Model
from viewlet.tables import sorted_arrow


def many(model: Model, rows: int = 120) -> None:
    """Fills a table, and reads it once."""
    model.apply(Counter({(k, *model.row()[1:]): 1 for k in range(rows)}))
    assert model.db.table("t").to_arrow().num_rows == rows


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("form", ["dictionary", "flat"])
def test_small_changes_are_put_into_their_places(
    form: str, key: tuple[str, ...], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "flat":
        request.getfixturevalue("flat")
    model = Model(viewlet.connect(engine="compiled"), key, seed=5)
    many(model)
    monkeypatch.setattr("viewlet.tables.store.TableStore._sort", lambda self: pytest.fail("sorted again"))
    for _ in range(30):
        model.apply(Counter({model.row(): 1, model.random.choice(list(model.rows)): -1}))
    assert model.db.table("t").to_arrow().column(0).num_chunks > 1


def test_many_pieces_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_arrow, "MOST_CHUNKS", 4)
    model = Model(viewlet.connect(), ("k",), seed=6)
    many(model)
    for k in range(10):
        model.apply(Counter({(k, *model.row()[1:]): 1, next(row for row in model.rows if row[0] == k): -1}))
        assert model.db.table("t").to_arrow().column(0).num_chunks <= 4


def test_what_was_read_before_stays_as_it_was() -> None:
    model = Model(viewlet.connect(), (), seed=1)
    many(model)
    before = model.db.table("t").to_arrow()
    rows = before.to_pylist()
    model.apply(Counter({next(iter(model.rows)): -1}))
    assert before.to_pylist() == rows


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes what is made into Arrow from the beginning."""
    from viewlet.engine.maintained_view import MaintainedView
    from viewlet.tables import TableStore

    found: list[str] = []
    sort, arrow = TableStore._sort, MaintainedView._list_arrow

    def noted_sort(self: TableStore) -> Any:
        found.append(self.schema.name)
        return sort(self)

    def noted_arrow(self: MaintainedView) -> Any:
        found.append(self.name)
        return arrow(self)

    monkeypatch.setattr(TableStore, "_sort", noted_sort)
    monkeypatch.setattr(MaintainedView, "_list_arrow", noted_arrow)
    return found


def test_a_query_reads_again_only_what_has_changed(made: list[str]) -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT, x BIGINT); CREATE TABLE u (k BIGINT)")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS x FROM t GROUP BY k")
    db.execute("CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS n FROM u")
    db.apply({"t": [(k, k) for k in range(50)], "u": [(1,)]})
    query = "SELECT COUNT(*) AS n, SUM(v.x) AS x, MAX(w.n) AS m FROM t, v, w WHERE t.k = v.k"
    assert db.execute(query).to_pylist() == [{"n": 50, "x": 1225, "m": 1}]
    assert sorted(made) == ["t", "v", "w"]
    made.clear()
    db.insert("u", [(2,)])
    assert db.execute(query).to_pylist() == [{"n": 50, "x": 1225, "m": 2}]
    assert made == ["w"]
    made.clear()
    db.insert("t", [(100, 5)])
    assert db.execute(query).to_pylist() == [{"n": 51, "x": 1230, "m": 2}]
    assert made == ["v"]


def test_a_view_that_takes_the_place_of_another() -> None:
    db = viewlet.connect()
    db.execute("CREATE TABLE t (k BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    db.insert("t", [(1,)])
    assert db.execute("SELECT * FROM v").to_pylist() == [{"k": 1}]
    db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k + 1 AS k FROM t")
    assert db.execute("SELECT * FROM v").to_pylist() == [{"k": 2}]
    db.execute("DROP VIEW v; DROP TABLE t; CREATE TABLE t (k BIGINT)")
    assert db.execute("SELECT * FROM t").num_rows == 0


def test_a_failed_batch_leaves_what_is_read(flat: None) -> None:
    db = viewlet.connect(engine="compiled")
    db.execute("CREATE TABLE t (k BIGINT); CREATE TABLE u (d DECIMAL(18,0))")
    db.execute("CREATE MATERIALIZED VIEW v AS SELECT SUM(d * d * d) AS d FROM u")
    db.insert("t", pa.table({"k": list(range(40))}))
    assert (len(db.table("t")), db.table("t").to_arrow().num_rows) == (40, 40)
    with pytest.raises(viewlet.DataError):
        db.apply({"t": [(100,)], "u": [(10**17,)]})
    assert (len(db.table("t")), db.table("t").to_arrow().num_rows) == (40, 40)
    db.insert("t", [(100,)])
    assert db.table("t").to_arrow()["k"].to_pylist() == [*range(40), 100]
