"""Homes of views: by declared keys, by how they are read, by measured sizes, and as PARTITION BY says."""

from __future__ import annotations

import pytest

from tests.conformance.engines import disagreement
from tests.spark_plan.distributing import distributed, on_workers, program_of
from tests.triggers.trigger_program import tables_of
from viewlet.changes import Changes
from viewlet.errors import SchemaError
from viewlet.spark.plan import compile_distributed
from viewlet.spark.plan.compile import compile_at
from viewlet.spark.plan.hashing import partition_of
from viewlet.spark.plan.locations import LOCAL, REPLICATED, Dist, ViewLocation, locations_to_json
from viewlet.spark.plan.partitioning import few_of_a_load, gatherable, outgrown
from viewlet.spark.plan.result_location import ResultLocation, views_of
from viewlet.types import Table
from workloads.query import NamedQuery

SHOP = """
    CREATE TABLE customer (custkey BIGINT NOT NULL, segment VARCHAR NOT NULL, PRIMARY KEY (custkey));
    CREATE TABLE orders (orderkey BIGINT NOT NULL, custkey BIGINT NOT NULL, PRIMARY KEY (orderkey));
    CREATE TABLE item (orderkey BIGINT NOT NULL, line BIGINT NOT NULL, price BIGINT NOT NULL,
                       PRIMARY KEY (orderkey, line));
    CREATE STATIC TABLE country (code BIGINT NOT NULL, name VARCHAR NOT NULL, PRIMARY KEY (code));
"""
BY_SEGMENT = NamedQuery(
    "v",
    """SELECT c.segment, SUM(i.price) AS total FROM customer c, orders o, item i
       WHERE c.custkey = o.custkey AND o.orderkey = i.orderkey GROUP BY c.segment""",
)
BY_COUNTRY = NamedQuery(
    "v",
    "SELECT n.name, SUM(i.price) AS total FROM item i JOIN country n ON i.line = n.code GROUP BY n.name",
)


def shop() -> dict[str, Table]:
    return tables_of(SHOP)


def locations(query: NamedQuery, **options: object) -> dict[str, str]:
    plan = distributed(query, shop(), **options)  # type: ignore[arg-type]
    return {name: str(location) for name, location in plan.locations.items()}


def test_views_go_by_the_key_of_the_larger_table() -> None:
    plan = distributed(BY_SEGMENT, shop())
    found = {name: str(location) for name, location in plan.locations.items()}
    assert found["v_customer_orders_item"] == "[segment]"
    assert found["customer_rows"] == "[custkey]"
    with_orders = [view.name for view in plan.program.views if "orderkey" in {key.name for key in view.keys}]
    assert len(with_orders) > 1
    assert {found[name] for name in with_orders} == {"[orderkey]"}


def test_measured_sizes_decide_between_keys() -> None:
    many_customers = locations(BY_SEGMENT, rows={"customer": 1e7, "orders": 1e4, "item": 1e5})
    both = [name for name in many_customers if name == "v_orders_item"]
    assert both
    assert many_customers["v_orders_item"] == "[custkey]"


def test_small_views_beside_partitioned_ones_are_replicated() -> None:
    found = locations(BY_SEGMENT, rows={"customer": 50, "orders": 1e6, "item": 1e7})
    assert found["customer_rows"] == "replicated"


def test_static_tables_are_at_every_worker() -> None:
    assert "replicated" in locations(BY_COUNTRY).values()


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ({}, "[segment]"),
        ({"customer": 1e7, "orders": 1e7, "item": 1e7}, "[segment]"),
        ({"v_customer_orders_item": 1e4}, "local"),
        ({"v_customer_orders_item": 1e6}, "[segment]"),
        ({"customer": 5e4}, "local"),
        ({"customer": 1e7, "customer.segment": 5}, "local"),
        ({"customer.segment": 1e6}, "[segment]"),
        ({"customer.segment": 5}, "local"),
    ],
)
def test_groups_are_partitioned_unless_they_are_known_to_be_few(rows: dict[str, float], found: str) -> None:
    assert locations(BY_SEGMENT, rows=rows)["v_customer_orders_item"] == found


FEW = {
    "SELECT segment = 'a' AS x, COUNT(*) AS n FROM customer GROUP BY segment = 'a'": "local",
    "SELECT name, code, COUNT(*) AS n FROM country JOIN item ON line = code GROUP BY name, code": "local",
    "SELECT EXTRACT(YEAR FROM day) AS x, COUNT(*) AS n FROM visit GROUP BY EXTRACT(YEAR FROM day)": "local",
    "SELECT EXTRACT(SECOND FROM day) AS x, COUNT(*) AS n FROM visit GROUP BY EXTRACT(SECOND FROM day)": "[key]",
    "SELECT line, COUNT(*) AS n FROM item WHERE line IN (1, 2) OR line = 3 GROUP BY line": "local",
    "SELECT line, COUNT(*) AS n FROM item WHERE line IN (1, 2) OR price = 3 GROUP BY line": "[line]",
    "SELECT n, COUNT(*) AS m FROM (SELECT who, COUNT(*) AS n FROM visit GROUP BY who) AS v GROUP BY n": "local",
    "SELECT n, COUNT(*) AS m FROM (SELECT who, SUM(who) AS n FROM visit GROUP BY who) AS v GROUP BY n": "[sum]",
    "SELECT day, COUNT(*) AS n FROM visit GROUP BY day": "[day]",
    "SELECT COUNT(*) AS n FROM visit": "local",
    "SELECT day, MAX(who) AS last, COUNT(DISTINCT who) AS n FROM visit GROUP BY day": "[day]",
}


@pytest.mark.parametrize("sql", FEW, ids=lambda sql: sql.partition(" FROM")[0])
def test_what_is_known_of_keys(sql: str) -> None:
    """Booleans, parts of dates, constants, counts and columns of small tables make few groups; others may make many."""
    tables = tables_of(SHOP + "CREATE STREAM visit (day TIMESTAMP NOT NULL, who BIGINT NOT NULL);")
    plan = distributed(NamedQuery("v", sql), tables, rows={"visit.day": 1e6})
    assert {str(plan.locations[name]) for name in views_of(plan.program)} == {FEW[sql]}


def test_a_result_is_not_gathered_for_the_sake_of_its_groups() -> None:
    """What every row is compared with lives at the driver, and so do the rows until they are measured to be many."""
    sql = (
        "SELECT segment, COUNT(*) AS n FROM customer GROUP BY segment HAVING COUNT(*) > (SELECT COUNT(*) FROM item) / 9"
    )
    plan = distributed(NamedQuery("v", sql), shop())
    assert plan.reading is ResultLocation.DRIVER
    large = {name: 1e6 for name in views_of(plan.program) if plan.view(name).keys}
    assert distributed(NamedQuery("v", sql), shop(), rows=large).reading is ResultLocation.SENT


def test_what_is_absent_is_not_looked_for_in_every_partition() -> None:
    """A partition has no row of what lies in another one: it would report a constant that is there as missing."""
    sql = "SELECT x FROM (VALUES ('a'), ('b')) AS known(x) WHERE NOT EXISTS (SELECT 1 FROM customer WHERE segment = x)"
    plan = distributed(NamedQuery("v", sql), shop(), rows={"customer.segment": 1e6})
    assert all(isinstance(plan.locations[name], Dist) for name in views_of(plan.program))
    assert plan.reading is ResultLocation.GATHERED


def test_what_was_measured_to_be_in_the_wrong_place() -> None:
    at: dict[str, ViewLocation] = {"a": LOCAL, "b": REPLICATED, "c": Dist(()), "d": Dist(())}
    rows = {"a": 10.0, "b": 200_000.0, "c": 10.0, "d": 30_000.0}
    assert outgrown(at, rows) == {"b": 200_000}
    assert gatherable(at, rows, 25_000) == {"c": 10}
    assert gatherable(at, {"a": 10.0}, 25_000) == {"c": 0, "d": 0}


@pytest.mark.parametrize(("largest", "few"), [(900, 1_000), (180_000, 18_000), (10_000_000, 25_000)])
def test_how_many_groups_are_few_after_a_load(largest: float, few: float) -> None:
    assert few_of_a_load({"orders": largest, "groups": 7}) == few


def test_earlier_versions_kept_groups_at_the_driver() -> None:
    program, sources = program_of(BY_SEGMENT, shop())
    found = compile_distributed(program, sources, earlier=True)
    assert found.locations["v_customer_orders_item"] == LOCAL
    known = locations_to_json(found.program.views, found.locations)
    again = compile_at(program, sources, {}, known)
    assert again is not None
    assert again.locations == found.locations
    assert compile_at(program, sources, {}, {}) is None


def test_partition_by_has_the_last_word() -> None:
    found = locations(BY_SEGMENT, partition_by={"orders": ["custkey"], "v_customer_orders_item": ["segment"]})
    assert found["v_customer_orders_item"] == "[segment]"
    assert found["v_orders_item"] == "[custkey]"
    with pytest.raises(SchemaError, match="its keys are segment"):
        locations(BY_SEGMENT, partition_by={"v_customer_orders_item": ["price"]})
    with pytest.raises(SchemaError, match="no such column"):
        locations(BY_SEGMENT, partition_by={"orders": ["colour"]})


@pytest.mark.parametrize(
    "partition_by",
    [{"orders": ["custkey"]}, {"v_orders_item": []}, {"v_customer_orders_item": ["segment"]}, {"item": ["price"]}],
    ids=str,
)
def test_any_partitioning_gives_the_same_rows(partition_by: dict[str, list[str]]) -> None:
    batches: list[dict[str, Changes]] = [
        {
            "customer": {(k, "ab"[k % 2]): 1 for k in range(4)},
            "orders": {(k, k % 4): 1 for k in range(9)},
            "item": {(k % 9, k, 10 + k): 1 for k in range(20)},
        },
        {"customer": {(1, "b"): -1, (1, "a"): 1}, "item": {(3, 3, 13): -1, (5, 77, 4): 1}},
        {"orders": {(2, 2): -1, (2, 3): 1}},
    ]
    program, sources = program_of(BY_SEGMENT, shop())
    plan = compile_distributed(program, sources, partition_by=partition_by)
    assert disagreement(on_workers(program, plan, sources), batches) is None


def test_the_hash_is_stable_and_spreads() -> None:
    assert [partition_of((k,), 7) for k in range(5)] == [2, 0, 4, 6, 0]
    assert partition_of((0.0,), 97) == partition_of((-0.0,), 97)
    found = {partition_of((f"name {k}", k), 7) for k in range(100)}
    assert found == set(range(7))
