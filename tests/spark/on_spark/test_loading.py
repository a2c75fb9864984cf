"""Views filled by Spark SQL are what the evaluator makes of their definitions, in the partitions they belong to."""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance.engines import schemas
from tests.conformance.workload import MEASURED, order_book, warehouse
from tests.spark_plan import sql_functions
from tests.spark_plan.sql_database import Database
from viewlet.algebra.evaluate import evaluate
from viewlet.changes import to_changes
from viewlet.errors import DataError, StateError
from viewlet.runtime.durable.rows import from_arrow
from viewlet.spark.plan.compile import compile_distributed
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation
from viewlet.spark.run.exchange.wire import bytes_table, decode
from viewlet.spark.run.load import segment_task as segments
from viewlet.spark.run.load.bulk_load import LoadedViews, LoadRequest, NotLoadable, load_units, rows_frame
from viewlet.spark.run.load.sources import spark_type
from viewlet.spark.run.load.table_frame import is_cheap_to_read_again
from viewlet.spark.run.state.segment_files import LoadedView, Segment
from viewlet.spark.run.units.table_unit import checks_of, keys_view, partitioned_by, rows_view, table_program
from viewlet.sqlgen.columns import columns_read
from viewlet.triggers.program import Program, ViewDefinition
from viewlet.triggers.step import payloads
from viewlet.types import Row, Table
from workloads import finance, tpch
from workloads.query import NamedQuery

Contents = dict[Row, tuple[Any, ...]]
FULL = os.environ.get("VIEWLET_SPARK_SQL") == "full"
FEW = ("q03", "q13", "q16", "q22", "vwap")
"""Joins, outer joins, distinct values, nested aggregates, inequalities; the SQL of all queries is tested on DuckDB."""
QUERIES = [query for query in (*tpch.QUERIES, *finance.QUERIES) if FULL or query.name in FEW]


@pytest.fixture(scope="module", autouse=True)
def settings(spark: Any) -> Iterator[None]:
    """The Python of this process for tasks, and no optimisation on the way, which takes longer than the queries."""
    spark.sparkContext.pythonExec = sys.executable
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.adaptive.enabled")


def load(
    spark: Any,
    request: LoadRequest,
    frames: Mapping[str, Any],
    partitions: int,
    checkpoint: Path,
    folder: str = "load",
) -> LoadedViews:
    """What is loaded of one unit."""
    (answer,) = load_units(spark, [request], frames, partitions, str(checkpoint), folder)
    if isinstance(answer, NotLoadable):
        raise answer
    return answer


@dataclass
class Loader:
    """A database in the evaluator and as data frames."""

    spark: Any
    database: Database
    folder: Path

    def frame(self, name: str) -> Any:
        columns = self.database.tables[name].columns
        schema = ", ".join(f"`{column.name}` {spark_type(column.type)}" for column in columns)
        rows = [tuple(row.values()) for row in self.database.rows(name).to_pylist()]
        return self.spark.createDataFrame(rows, schema)

    def load(
        self,
        views: Sequence[ViewDefinition],
        locations: Mapping[str, ViewLocation],
        partitions: int = 2,
        frames: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> LoadedViews:
        tables = self.database.tables
        given = {name: self.frame(name) for name in columns_read(views, tables)} if frames is None else frames
        request = LoadRequest(views, locations, tables, **options)
        return load(self.spark, request, given, partitions, self.folder, f"load{partitions}")

    def expected(self, view: ViewDefinition) -> Contents:
        sums = [evaluate(field.definition, view.keys, self.database.state) for field in view.fields]
        return payloads(view, sums)

    def disagreement(
        self,
        loaded: LoadedViews,
        view: ViewDefinition,
        location: ViewLocation,
        partitions: int,
        expected: Contents | None = None,
    ) -> str | None:
        whole = self.expected(view) if expected is None else expected
        for partition in range(partitions):
            mine = whole
            if isinstance(location, Dist):
                positions = [view.keys.index(var) for var in location.by]
                mine = {
                    k: v for k, v in whole.items() if partition_of((k[i] for i in positions), partitions) == partition
                }
            rows = decode(view, loaded.read(view.name, partition))
            found = dict(rows)
            if len(found) != len(rows) or not same(found, mine):
                return f"{view.name}, partition {partition} of {partitions}: {found} instead of {mine}"
        return None


def same(found: Contents, expected: Contents) -> bool:
    """Equal, with keys of the same types; sums of doubles are rounded by Spark."""
    types = {key: tuple(map(type, key)) for key in expected}
    return found.keys() == expected.keys() and all(
        tuple(map(type, key)) == types[key]
        and all(
            a == b if isinstance(b, int) else isclose(float(a), float(b), rel_tol=1e-12)
            for a, b in zip(found[key], numbers, strict=True)
        )
        for key, numbers in expected.items()
    )


@pytest.fixture
def tpch_loader(spark: Any, tmp_path: Path) -> Loader:
    return Loader(spark, Database.of(tpch.TABLES, warehouse().rows), tmp_path)


@pytest.fixture
def finance_loader(spark: Any, tmp_path: Path) -> Loader:
    return Loader(spark, Database.of(finance.TABLES, order_book().rows), tmp_path)


@pytest.fixture
def typed(spark: Any, tmp_path: Path) -> Loader:
    return Loader(spark, Database.of(sql_functions.TABLES, [sql_functions.BATCH]), tmp_path)


def locations_of(
    program: Program, tables: Mapping[str, Table], sizes: Mapping[str, float]
) -> Mapping[str, ViewLocation]:
    return compile_distributed(program, tables, sizes).locations


def kept(table: Table) -> tuple[Program, Mapping[str, ViewLocation]]:
    program = table_program(table)
    places = partitioned_by(table)
    return program, compile_distributed(program, {table.name: table}, {}, places).locations


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_benchmark_queries(tpch_loader: Loader, finance_loader: Loader, query: NamedQuery) -> None:
    loader, sizes = (finance_loader, {}) if query in finance.QUERIES else (tpch_loader, MEASURED)
    program = loader.database.program(query, "higher-order")
    locations = locations_of(program, loader.database.tables, sizes)
    expected = {view.name: loader.expected(view) for view in program.views}
    assert any(expected.values())
    for partitions in (1, 2, 7) if query.name == FEW[0] else (7,):
        loaded = loader.load(program.views, locations, partitions)
        for view in program.views:
            found = loader.disagreement(loaded, view, locations[view.name], partitions, expected[view.name])
            assert found is None


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_rows_of_all_types_and_a_view_filled_from_them(typed: Loader, spark: Any, partitions: int) -> None:
    """Every type as a key, with NULLs, wide decimals and odd strings; then as the source of another load."""
    table = typed.database.tables["v"]
    program, locations = kept(table)
    (view,) = program.views
    loaded = typed.load(program.views, locations, partitions)
    assert typed.disagreement(loaded, view, locations[view.name], partitions) is None
    again = rows_frame(spark, table, partitions, partial(loaded.read, view.name))
    query = NamedQuery("result", "SELECT s, i, SUM(w), SUM(d), SUM(x), COUNT(*) FROM v GROUP BY s, i")
    views = typed.database.program(query, "higher-order").views
    everywhere = dict.fromkeys([each.name for each in views], REPLICATED)
    filled = load(spark, LoadRequest(views, everywhere, {"v": table}), {"v": again}, partitions, typed.folder, "again")
    for each in views:
        assert typed.disagreement(filled, each, REPLICATED, 1) is None


def test_sums_beyond_64_bits(spark: Any, tmp_path: Path) -> None:
    """One group needs more than 64 bits, another does not, and they may come in different segments."""
    declared = {"t": "CREATE TABLE t (g VARCHAR, n DECIMAL(38,0))"}
    rows = [(("a", Decimal(10**36)), 1), (("a", Decimal(7)), 2), (("b", Decimal(-5)), 1), ((None, None), 1)]
    loader = Loader(spark, Database.of(declared, [{"t": rows}]), tmp_path)
    (view,) = loader.database.program(NamedQuery("r", "SELECT g, SUM(n) FROM t GROUP BY g"), "higher-order").views
    for location in (LOCAL, Dist(view.keys)):
        loaded = loader.load([view], {view.name: location}, 3)
        assert loader.disagreement(loaded, view, location, 3) is None


def test_what_overflows_38_digits_is_left_to_triggers(spark: Any, tmp_path: Path) -> None:
    declared = {"t": "CREATE TABLE t (n DECIMAL(38,0))"}
    rows = [((Decimal(9 * 10**37),), 1), ((Decimal(9 * 10**37 + 1),), 1)]
    loader = Loader(spark, Database.of(declared, [{"t": rows}]), tmp_path)
    (view,) = loader.database.program(NamedQuery("r", "SELECT SUM(n) FROM t"), "higher-order").views
    with pytest.raises(NotLoadable, match=view.name):
        loader.load([view], {view.name: LOCAL})
    assert list(tmp_path.iterdir()) == []


def test_segments_of_several_batches_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that cannot gather all its rows writes more than one segment; only some need more than 64 bits."""
    monkeypatch.setattr(segments, "ENOUGH", 1)
    rows = [{"k": key, "n": Decimal(2) ** 70 if key == 5 else Decimal(key or 0)} for key in (*range(9), None)]
    schema = pa.schema([("k", pa.int64()), ("n", pa.decimal128(38, 0))])
    task = segments.WriteSegments(str(tmp_path), ".", 3, (segments.SegmentTarget(0, 1, (0,)),))
    (told,) = task(pa.RecordBatch.from_pylist(rows[i : i + 5], schema) for i in (0, 5))
    parts: dict[int, list[Segment]] = {}
    for each in told.to_pylist():
        part, _, _ = each.pop("part"), each.pop("error"), each.pop("view")
        parts.setdefault(part, []).append(Segment(**each))
    assert len({segment.file for part in parts.values() for segment in part}) == 1
    assert any(len(part) == 2 for part in parts.values())
    view = LoadedView(True, {part: tuple(found) for part, found in parts.items()})
    loaded = LoadedViews(str(tmp_path), ".", {"v": view})
    found = [(number, row) for number in range(3) for row in from_arrow(bytes_table(loaded.read("v", number)), 1)]
    expected = [(partition_of((row["k"],), 3), ((row["k"],), (int(row["n"]),))) for row in rows]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert view.rows == len(rows)


def test_empty_tables(tpch_loader: Loader, spark: Any) -> None:
    query = next(query for query in tpch.QUERIES if query.name == "q03")
    program = tpch_loader.database.program(query, "higher-order")
    locations = locations_of(program, tpch_loader.database.tables, MEASURED)
    customers = {"customer": tpch_loader.frame("customer")}
    loaded = tpch_loader.load(program.views, locations, 2, customers)
    alone = [
        view.name for view in program.views if columns_read([view], tpch_loader.database.tables).keys() == {"customer"}
    ]
    assert {name for name, view in loaded.views.items() if view.rows} == set(alone) != set()
    nothing = tpch_loader.load(program.views, locations, 1, {"customer": customers["customer"].where("false")})
    assert nothing.rows == nothing.bytes == 0
    assert nothing.read(program.views[0].name, 0) == b""


def test_a_table_of_which_nothing_but_the_number_of_rows_is_read(tpch_loader: Loader) -> None:
    (view,) = tpch_loader.database.program(NamedQuery("n", "SELECT COUNT(*) FROM nation"), "higher-order").views
    loaded = tpch_loader.load([view], {view.name: LOCAL})
    assert tpch_loader.disagreement(loaded, view, LOCAL, 1) is None


DECLARED = {
    "t": """CREATE TABLE t (k BIGINT PRIMARY KEY, i INTEGER, s SMALLINT, d DECIMAL(6,2), x DOUBLE, q REAL,
            v VARCHAR(3) NOT NULL, e DATE, m TIMESTAMP, n INTEGER CHECK (n >= 0))"""
}
NAMES = "k bigint, i bigint, s int, d decimal(12,4), x double, q double, v string, e date, m timestamp_ntz, n int"
GOOD = (1, 2, 3, Decimal("1.5000"), -0.0, 0.1, "", date(2020, 2, 29), datetime(2020, 1, 2, 3), 0)


def one_row(**changed: object) -> tuple[object, ...]:
    columns = [column.split()[0] for column in NAMES.split(", ")]
    return tuple(dict(zip(columns, GOOD, strict=True), **changed).values())


BAD: dict[str, dict[str, object]] = {
    "null in a key": {"k": None},
    "null where it is declared not to be": {"v": None},
    "integer out of range": {"i": 2**31},
    "small integer out of range": {"s": -32_769},
    "too many digits before the point": {"d": Decimal(12345)},
    "too many digits after the point": {"d": Decimal("0.001")},
    "infinity": {"x": float("-inf")},
    "not a number": {"x": float("nan")},
    "too large for single precision": {"q": 1e39},
    "negative": {"n": -1},
    "longer than declared": {"v": "äbcd"},
}


def test_conversions_are_those_of_changes(spark: Any, tmp_path: Path) -> None:
    """Wider types that hold values of the table's, names in another case, a column that is not there."""
    loader = Loader(spark, Database.of(DECLARED, []), tmp_path)
    table = schemas(DECLARED)["t"]
    rows = [GOOD, one_row(k=2, i=None, d=None, x=None, q=None, e=None, m=None, n=None)]
    frame = spark.createDataFrame(rows, NAMES).withColumnRenamed("d", "D").drop("i")
    program, locations = kept(table)
    loaded = loader.load(program.views, locations, 2, {"t": frame})
    expected = {row: (count,) for row, count in to_changes(table, frame.toArrow()).items()}
    assert loader.disagreement(loaded, program.views[0], locations[rows_view("t")], 2, expected) is None


@pytest.mark.parametrize("bad", BAD)
def test_rows_that_do_not_fit(spark: Any, tmp_path: Path, bad: str) -> None:
    """They are refused as they are everywhere, and nothing is left behind."""
    table = schemas(DECLARED)["t"]
    program, locations = kept(table)
    frame = spark.createDataFrame([GOOD, one_row(**BAD[bad])], NAMES)
    with pytest.raises(DataError) as expected:
        to_changes(table, spark.createDataFrame([one_row(**BAD[bad])], NAMES).toArrow())
    with pytest.raises(DataError) as found:
        load(spark, LoadRequest(program.views, locations, {"t": table}), {"t": frame}, 2, tmp_path)
    assert str(found.value) == str(expected.value)
    assert list(tmp_path.iterdir()) == []
    assert [name.name for name in spark.catalog.listTables("global_temp") if name.name.startswith("viewlet_")] == []


def test_what_was_loaded_is_found_again(tpch_loader: Loader) -> None:
    table = tpch_loader.database.tables["orders"]
    program, locations = kept(table)
    loaded = tpch_loader.load(program.views, locations, 2, checks=checks_of(table))
    written = json.loads(json.dumps(loaded.to_json()))
    assert LoadedViews.of_json(str(tpch_loader.folder), written) == pickle.loads(pickle.dumps(loaded)) == loaded
    on_disk = {f"load2/{path.name}" for path in (tpch_loader.folder / "load2").iterdir()}
    assert on_disk == loaded.files
    assert loaded.bytes == sum((tpch_loader.folder / file).stat().st_size for file in on_disk)


@pytest.mark.parametrize("partitions", [1, 3])
def test_units_that_are_loaded_together(tpch_loader: Loader, spark: Any, partitions: int) -> None:
    """The rows of a table are written once for all views that have a row for each, each where it belongs."""
    tables = tpch_loader.database.kept
    names = ("customer", "orders", "lineitem", "nation", "region", "supplier")
    frames = {name: tpch_loader.frame(name) for name in names}
    requests, expected = [], []
    for name in names:
        program, locations = kept(tables[name])
        requests.append(LoadRequest(program.views, locations, {name: tables[name]}, checks_of(tables[name])))
        counts = [(row, (weight,)) for row, weight in to_changes(tables[name], frames[name].toArrow()).items()]
        keys = [(tuple(row[i] for i in tpch.KEY_POSITIONS[name]), count) for row, count in counts]
        expected.append([dict(counts), dict(keys)])
    for query in (query for query in tpch.QUERIES if query.name in ("q03", "q05", "q12")):
        program = tpch_loader.database.program(query, "higher-order")
        requests.append(LoadRequest(program.views, locations_of(program, tables, MEASURED), tables))
        expected.append([tpch_loader.expected(view) for view in program.views])
    answers = load_units(spark, requests, frames, partitions, str(tpch_loader.folder), "load")
    files: set[str] = set()
    for request, answer, contents in zip(requests, answers, expected, strict=True):
        assert isinstance(answer, LoadedViews)
        for view, whole in zip(request.views, contents, strict=True):
            location = request.locations[view.name]
            assert tpch_loader.disagreement(answer, view, location, partitions, whole) is None
        files |= answer.files
    (folder,) = tpch_loader.folder.iterdir()
    assert {f"load/{path.name}" for path in folder.iterdir()} == files
    orders = answers[names.index("orders")]
    assert isinstance(orders, LoadedViews)
    assert len(orders.files & {file for answer in answers[6:] for file in answer.files}) > 0  # type: ignore[union-attr]


def test_rows_that_a_view_leaves_out_may_be_too_large_for_it(spark: Any, tmp_path: Path) -> None:
    """What one view does not compute of a row is not computed for another."""
    declared = {"t": "CREATE TABLE t (k BIGINT PRIMARY KEY, x BIGINT NOT NULL, y BIGINT NOT NULL)"}
    rows = [((1, 5, 1), 1), ((2, 2**62, 2**62), 1), ((3, 7, 0), 1)]
    loader = Loader(spark, Database.of(declared, [{"t": rows}]), tmp_path)
    queries = (
        "SELECT k, CAST(x * x AS INTEGER) AS s, COUNT(*) FROM t WHERE x < 100 GROUP BY 1, 2",
        "SELECT k, CAST(10 / y AS INTEGER) AS s, COUNT(*) FROM t WHERE y > 0 AND y < 100 GROUP BY 1, 2",
        "SELECT k, x, y, COUNT(*) FROM t GROUP BY 1, 2, 3",
    )
    views = [
        replace(loader.database.program(NamedQuery("result", sql), "higher-order").views[0], name=f"v{i}")
        for i, sql in enumerate(queries)
    ]
    request = LoadRequest(views, dict.fromkeys([view.name for view in views], LOCAL), loader.database.kept)
    loaded = load(spark, request, {"t": loader.frame("t")}, 1, tmp_path)
    for view in views:
        assert loader.disagreement(loaded, view, LOCAL, 1) is None
    assert [loaded.views[view.name].rows for view in views] == [2, 1, 3]


def test_a_unit_that_is_not_loadable_leaves_the_others(spark: Any, tmp_path: Path) -> None:
    declared = {"t": "CREATE TABLE t (k BIGINT PRIMARY KEY, n DECIMAL(38,0) NOT NULL)"}
    rows = [((i, Decimal(9 * 10**37)), 1) for i in range(2)]
    loader = Loader(spark, Database.of(declared, [{"t": rows}]), tmp_path)
    tables, frames = loader.database.kept, {"t": loader.frame("t")}
    program, locations = kept(tables["t"])
    too_large = loader.database.program(NamedQuery("r", "SELECT SUM(n) FROM t"), "higher-order").views
    requests = [
        LoadRequest(too_large, dict.fromkeys([view.name for view in too_large], LOCAL), tables),
        LoadRequest(program.views, locations, tables, checks_of(tables["t"])),
    ]
    refused, loaded = load_units(spark, requests, frames, 2, str(tmp_path), "load")
    assert isinstance(refused, NotLoadable)
    assert isinstance(loaded, LoadedViews)
    assert {f"load/{path.name}" for path in (tmp_path / "load").iterdir()} == loaded.files
    assert loaded.rows == 4


def test_damaged_files(tpch_loader: Loader) -> None:
    program, locations = kept(tpch_loader.database.tables["nation"])
    (rows, _) = (view.name for view in program.views)
    loaded = tpch_loader.load(program.views, locations, 1)
    (segment, *_) = loaded.views[rows].segments(0)
    path = tpch_loader.folder / segment.file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StateError, match="damaged"):
        loaded.read(rows, 0)
    path.write_bytes(data[:10])
    with pytest.raises(StateError, match="damaged"):
        loaded.read(rows, 0)
    path.unlink()
    with pytest.raises(StateError, match="missing"):
        loaded.read(rows, 0)


def test_checks_refuse_keys_that_come_twice(tpch_loader: Loader, spark: Any) -> None:
    table = tpch_loader.database.tables["region"]
    program, locations = kept(table)
    frame = tpch_loader.frame("region")
    twice = frame.union(frame.where("r_regionkey = 3"))
    with pytest.raises(DataError, match=r"duplicate key \(r_regionkey\) in region: \(3\)"):
        tpch_loader.load(program.views, locations, 2, {"region": twice}, checks=checks_of(table))
    assert list(tpch_loader.folder.iterdir()) == []


def test_what_has_no_sql_is_not_loadable(typed: Loader) -> None:
    query = NamedQuery("r", "SELECT CAST(x AS VARCHAR), COUNT(*) FROM v GROUP BY CAST(x AS VARCHAR)")
    views = typed.database.program(query, "higher-order").views
    with pytest.raises(NotLoadable, match="text of a DOUBLE"):
        typed.load(views, dict.fromkeys([view.name for view in views], LOCAL))
    assert list(typed.folder.iterdir()) == []


def test_types_that_spark_would_convert_otherwise_are_not_loadable(spark: Any, tmp_path: Path) -> None:
    program, locations = kept(schemas(DECLARED)["t"])
    frame = spark.createDataFrame([one_row(e="2020-02-29")], NAMES.replace("e date", "e string"))
    with pytest.raises(NotLoadable, match=r"t\.e is string, not DATE"):
        load(spark, LoadRequest(program.views, locations, schemas(DECLARED)), {"t": frame}, 2, tmp_path)


def test_frames_that_differ_every_time_are_read_once(spark: Any, tmp_path: Path) -> None:
    declared = {"t": "CREATE TABLE t (k BIGINT PRIMARY KEY, x DOUBLE)"}
    table = schemas(declared)["t"]
    program, _ = kept(table)
    frame = spark.range(50).selectExpr("CAST(rand() * 1e15 AS BIGINT) AS k", "rand() AS x")
    locations = dict.fromkeys((rows_view("t"), keys_view("t")), LOCAL)
    loaded = load(spark, LoadRequest(program.views, locations, {"t": table}), {"t": frame}, 1, tmp_path)
    rows, keys = (dict(decode(view, loaded.read(view.name))) for view in program.views)
    assert {key for key, _ in rows} == {key for (key,) in keys}
    assert len(keys) == 50


def test_which_frames_are_kept_while_views_are_loaded(spark: Any, tmp_path: Path) -> None:
    """What takes work to read, or may be different the next time; not files that have columns."""
    numbers = spark.range(3)
    numbers.write.parquet(str(tmp_path / "parquet"))
    numbers.write.csv(str(tmp_path / "csv"))
    stored, text = spark.read.parquet(str(tmp_path / "parquet")), spark.read.csv(str(tmp_path / "csv"))
    assert is_cheap_to_read_again(stored.where("id > 1").select("id"))
    assert not is_cheap_to_read_again(text)
    assert not is_cheap_to_read_again(stored.selectExpr("rand() AS x"))
    assert not is_cheap_to_read_again(stored.join(stored, "id"))
