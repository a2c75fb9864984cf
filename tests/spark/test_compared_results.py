"""Changes of groups in partitions that are compared with numbers at the driver: tasks tell them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from viewlet import DataError
from viewlet.codegen.reader import write_reader
from viewlet.connection.spark_facade import SparkConnection, connect_inline
from viewlet.spark.run.exchange import change_files
from viewlet.spark.run.result_reader import ResultReader
from viewlet.spark.run.units import generated_result

PARTITIONS = 3
TABLES = """
    CREATE TABLE sales (shop BIGINT NOT NULL, region VARCHAR, price BIGINT, weight DOUBLE NOT NULL) PARTITION BY (shop);
    CREATE TABLE bounds (region VARCHAR, low BIGINT NOT NULL)
"""
GROUPS = "FROM sales GROUP BY shop"
SENT = {
    "large": f"SELECT shop, SUM(price) AS total {GROUPS} HAVING SUM(price) > (SELECT SUM(price) FROM sales) * 0.2",
    "share": f"SELECT shop, SUM(price) AS total, (SELECT SUM(price) FROM sales) AS whole {GROUPS}",
    "heavy": f"SELECT shop, SUM(weight) AS weight {GROUPS} HAVING SUM(weight) > (SELECT AVG(weight) FROM sales) * 2",
    "above": f"SELECT shop, SUM(price) AS total {GROUPS} HAVING SUM(price) > (SELECT SUM(low) FROM bounds)",
    "spans": f"SELECT shop, MIN(price) AS low, (SELECT COUNT(*) FROM bounds) AS n {GROUPS}",
    "by_region": (
        "SELECT shop, region, SUM(price) AS total FROM sales GROUP BY shop, region "
        "HAVING SUM(price) > (SELECT SUM(low) FROM bounds WHERE bounds.region = sales.region)"
    ),
}
Open = Callable[[], SparkConnection]
Rows = Counter[tuple[Any, ...]]


@pytest.fixture(params=["interpreter", "compiled", "compiled by rows"])
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    if request.param != "compiled by rows":
        monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
    engine = request.param.partition(" ")[0]
    return lambda: connect_inline(tmp_path / "state", PARTITIONS, sync=False, engine=engine)


def created(db: SparkConnection) -> SparkConnection:
    db.execute(TABLES)
    db.expect_rows({"sales": 1e8, "sales.shop": 1e7, "bounds": 3, "bounds.region": 3})
    for name, query in SENT.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} PARTITION BY (shop) AS {query}")
    return db


def rows_of(db: SparkConnection, name: str) -> Rows:
    return Counter(db.view(name).rows())


def told(table: Any) -> dict[int, Rows]:
    """Changes by epoch, each row once."""
    found: dict[int, Rows] = {}
    for *row, times, epoch in zip(*(column.to_pylist() for column in table.columns), strict=True):
        rows = found.setdefault(epoch, Counter())
        assert tuple(row) not in rows
        rows[tuple(row)] = times
    return found


def difference(before: Rows, after: Rows) -> Rows:
    return Counter({row: n for row in before | after if (n := after[row] - before[row])})


class Played:
    """Random batches, of either table or both; some leave what groups are compared with as it is."""

    def __init__(self, db: SparkConnection, seed: int) -> None:
        self._random = random.Random(seed)
        self.there: dict[str, list[tuple[Any, ...]]] = {
            name: [row for row, n in Counter(db.table(name).rows()).items() for _ in range(n)]
            for name in ("sales", "bounds")
        }

    def batch(self) -> dict[str, list[dict[str, Any]]]:
        kind = self._random.choice(["sales", "bounds", "both", "even"])
        if kind == "even":
            price = self._random.randrange(9)
            rows = [self._sale(price), self._sale(-price)]
            self.there["sales"] += rows
            return {"sales": [_signed(row, 1) for row in rows]}
        names = ["sales", "bounds"] if kind == "both" else [kind]
        return {name: self._changes(name) for name in names}

    def _changes(self, name: str) -> list[dict[str, Any]]:
        there, choice = self.there[name], self._random
        gone = choice.sample(there, min(len(there), choice.randrange(4)))
        for row in gone:
            there.remove(row)
        price = choice.randrange(-20, 90)
        new = [self._sale(price) if name == "sales" else self._bound() for _ in range(choice.randrange(1, 5))]
        there += new
        return [_signed(row, -1) for row in gone] + [_signed(row, 1) for row in new]

    def _sale(self, price: int) -> tuple[Any, ...]:
        region = self._random.choice(["n", "s", None])
        return (self._random.randrange(9), region, self._random.choice([price, price, None]), self._random.random())

    def _bound(self) -> tuple[Any, ...]:
        return (self._random.choice(["n", "s", None]), self._random.randrange(-3, 30))


def _signed(row: tuple[Any, ...], sign: int) -> dict[str, Any]:
    names = ("shop", "region", "price", "weight") if len(row) == 4 else ("region", "low")
    return dict(zip((*names, "_multiplicity"), (*row, sign), strict=True))


@pytest.mark.parametrize("seed", [1, 2])
def test_changes_lead_from_one_state_to_the_next(make: Open, tmp_path: Path, seed: int) -> None:
    with make() as db:
        created(db)
        assert {name: db.view(name).stats()["reading"] for name in SENT} == dict.fromkeys(SENT, "sent")
        played = Played(db, seed)
        db.apply(played.batch())
        for name in SENT:
            db.changes(name)
        heard: dict[int, Rows] = {}
        db.view("share").subscribe(lambda epoch, rows: heard.update(told_once(epoch, rows)))
        states = {db.epoch: {name: rows_of(db, name) for name in SENT}}
        for number in range(8):
            if number == 5:
                db._host.cluster.inline_bytes = 0
            db.apply(played.batch())
            states[db.epoch] = {name: rows_of(db, name) for name in SENT}
        expected = check(db, states)
        assert heard == expected["share"]
        for name in SENT:
            indexes = list((tmp_path / "state" / change_files.folder_of_view(name)).glob("commit-*.json"))
            assert len(indexes) == sum(epoch > 6 for epoch in expected[name])
    with make() as db:
        for number in range(4):
            if number == 2:
                db.checkpoint()
            db.apply(played.batch())
            states[db.epoch] = {name: rows_of(db, name) for name in SENT}
        check(db, states)


def check(db: SparkConnection, states: dict[int, dict[str, Rows]]) -> dict[str, dict[int, Rows]]:
    """What is kept of each view is what leads from state to state."""
    epochs, found = sorted(states), {}
    for name in SENT:
        steps = {after: difference(states[after - 1][name], states[after][name]) for after in epochs[1:]}
        found[name] = {epoch: change for epoch, change in steps.items() if change}
        assert told(db.changes(name)) == found[name], name
    return found


def told_once(epoch: int, rows: Any) -> dict[int, Rows]:
    found = Counter({row[:-1]: row[-1] for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)})
    return {epoch: found} if found else {}


def test_no_rows_reach_the_driver(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that grows with the result is read, sent, or made a Python row of where code is generated."""
    with make() as db:
        created(db)
        monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)
        db._host.cluster.inline_bytes = 0
        db.insert("sales", [(shop, "n", shop, 1.0) for shop in range(40)])
        for name in SENT:
            db.changes(name)
        monkeypatch.setattr(ResultReader, "result", lambda *_: pytest.fail("the result was read"))
        monkeypatch.setattr(ResultReader, "arrow", lambda *_: pytest.fail("the result was read"))
        if db._host.cluster.code("large").module is not None:
            monkeypatch.setattr(generated_result, "rows_to_arrow", lambda *_, **__: pytest.fail("rows were made"))
        db.insert("sales", [(7, "n", 1, 1.0)])
        assert len(told(db.changes("share"))[db.epoch]) == 80


def test_rows_that_are_read_once_are_not_ordered_for_it(tmp_path: Path) -> None:
    """A bound that is the same for all rows is compared with each of them."""
    with connect_inline(tmp_path / "state", PARTITIONS, sync=False, engine="compiled") as db:
        created(db)
        code = db._host.cluster.code("large")
        written = write_reader(code.program)
        assert written is not None
        assert not any(layout.ordered for layout in written.layouts)


def test_few_rows_are_compared_where_the_numbers_stay(make: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that leaves the numbers at the driver as they are concerns the groups that it changes, and no others."""
    with make() as db:
        created(db)
        db.insert("bounds", [("n", 3)])
        db.insert("sales", [(shop, "n", shop, 1.0) for shop in range(100)])
        db.changes("above")
        if db._host.cluster.code("above").module is None:
            return
        monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 10_000)
        seen: list[int] = []
        evaluate = generated_result.evaluate_result

        def counted(program: Any, views: Any) -> Any:
            seen.append(sum(map(len, views.values())))
            return evaluate(program, views)

        monkeypatch.setattr(generated_result, "evaluate_result", counted)
        db.insert("sales", [(2, "n", 7, 1.0)])
        assert 0 < max(seen) <= 2
        assert told(db.changes("above"))[db.epoch] == {(2, 9): 1}


def test_a_load_and_a_batch_that_fails(make: Open) -> None:
    with make() as db:
        created(db)
        for name in SENT:
            db.changes(name)
        states = {db.epoch: {name: Rows() for name in SENT}}
        db.insert("sales", [(shop, "n", shop, 0.5) for shop in range(9)])
        states[db.epoch] = {name: rows_of(db, name) for name in SENT}
        with pytest.raises(DataError, match="it is not there so often"):
            db.apply({"bounds": [("n", 3)], "sales": [_signed((1, "n", 77, 0.5), -1)]})
        db.apply({"bounds": [("n", 5)]})
        states[db.epoch] = {name: rows_of(db, name) for name in SENT}
        check(db, states)
