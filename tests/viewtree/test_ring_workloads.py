"""Housing and Retailer: the views the paper counts, and cofactors equal to NumPy's on the join after every batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest

from tests.viewtree.ring_oracle import apply, natural_join
from viewlet.rings import INTEGER_RING, IntegerRing
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.cofactor_table import cofactor_table
from viewlet.viewtree.factorised import FactorisedResult
from viewlet.viewtree.order import Branch, VariableOrder, chain
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import build_tree, materialised
from workloads import housing, retailer
from workloads.streams import Database, insertion, mixed_batches

LOCAL = {
    name: [key for key in schema if key not in ("locn", "dateid", "ksn", "zip")]
    for name, schema in retailer.RELATIONS.items()
}
RETAILER = VariableOrder(
    (
        Branch(
            "locn",
            (
                Branch(
                    "dateid",
                    (Branch("ksn", (chain(*LOCAL["Inventory"]), chain(*LOCAL["Item"]))), chain(*LOCAL["Weather"])),
                ),
                Branch("zip", (chain(*LOCAL["Location"]), chain(*LOCAL["Census"]))),
            ),
        ),
    ),
    retailer.RELATIONS,
)
HOUSING = VariableOrder(
    (Branch("postcode", tuple(chain(*schema[1:]) for schema in housing.RELATIONS.values())),), housing.RELATIONS
)


def test_the_schemas_have_as_many_attributes_as_the_paper_says() -> None:
    assert len(retailer.ATTRIBUTES) == 43
    assert len(housing.ATTRIBUTES) == 27


def test_retailer_stores_nine_views() -> None:
    tree = build_tree(RETAILER)
    names = {str(tree.nodes[name]).replace(tree.nodes[name].name, "") for name in materialised(tree)}
    assert len(materialised(tree)) == 9
    assert names == {
        "[]", "[locn]", "[locn, dateid]", "[locn, dateid, ksn]", "[ksn]", "[locn, zip]", "[zip]",
    }  # fmt: skip


def test_housing_stores_seven_views() -> None:
    tree = build_tree(HOUSING)
    assert len(materialised(tree)) == 7
    assert sorted(str(tree.nodes[name]).split("[")[1] for name in materialised(tree)) == ["]"] + ["postcode]"] * 6


def test_updates_to_the_largest_relation_only_store_only_what_it_meets() -> None:
    """The ONE scenario: the result, and the views that the path of Inventory joins with."""
    tree = build_tree(RETAILER)
    stored = [str(tree.nodes[name]).split("[")[1] for name in materialised(tree, {"Inventory"})]
    assert sorted(stored) == ["]", "ksn]", "locn, dateid]", "locn]"]


def test_the_search_finds_orders_as_good_as_the_papers() -> None:
    found = build_tree(find_order(retailer.RELATIONS, rates={"Inventory": 100.0}))
    assert len(materialised(found)) <= 9
    assert _cost(found.order, "Inventory") == _cost(RETAILER, "Inventory")
    star = find_order(housing.RELATIONS)
    assert star.roots[0].variable == "postcode"
    assert len(materialised(build_tree(star))) == 7


def _cost(order: VariableOrder, relation: str) -> int:
    """Rows visited by one insert into a small database."""
    tree = MaintainedTree(build_tree(order), INTEGER_RING, database=counted(retailer.retailer_database(1, 0.01)))
    tree.meter.rows = 0
    tree.update(relation, {(0, 0, 0, 9999): 1})
    return tree.meter.rows


@pytest.mark.parametrize("relation", ["House", "Shop", "Transport"])
def test_updates_to_housing_cost_the_same_at_ten_times_the_data(relation: str) -> None:
    costs = []
    for scale in (1, 10):
        data = counted(housing.housing_database(1, scale, postcodes=20))
        tree = MaintainedTree(build_tree(HOUSING), INTEGER_RING, database=data)
        tree.meter.rows = 0
        tree.update(relation, {tuple([3] * len(housing.RELATIONS[relation])): 1})
        costs.append(tree.meter.rows)
    assert costs[0] == costs[1] <= 8


def test_updates_to_inventory_cost_the_same_at_ten_times_the_data() -> None:
    costs = []
    for scale in (0.01, 0.1):
        tree = MaintainedTree(
            build_tree(RETAILER), INTEGER_RING, database=counted(retailer.retailer_database(1, scale))
        )
        tree.meter.rows = 0
        tree.update("Inventory", {(0, 0, 0, 9999): 1})
        costs.append(tree.meter.rows)
    assert costs[0] == costs[1] <= 8


def counted(database: Database) -> dict[str, Counter[tuple]]:
    return {name: Counter(rows) for name, rows in database.items()}


KEYS: Mapping[str, tuple[int, ...]] = dict.fromkeys((*housing.RELATIONS, *retailer.RELATIONS), (0,))


@pytest.mark.parametrize(
    ("order", "data", "categorical", "exact"),
    [
        (HOUSING, housing.housing_database(3, 2, postcodes=12, skew=0.8), ("typeeducation", "nbbedrooms"), False),
        (RETAILER, retailer.retailer_database(5, 0.002, skew=0.5), ("category", "rgn_cd"), False),
        (HOUSING, housing.housing_database(4, 2, postcodes=12), (), False),
        (RETAILER, retailer.retailer_database(6, 0.002), (), False),
        (HOUSING, housing.housing_database(9, 1, postcodes=12), ("typeeducation",), True),
    ],
    ids=["housing categorical", "retailer categorical", "housing", "retailer", "housing exact"],
)
def test_cofactors_equal_those_of_numpy_on_the_join(
    order: VariableOrder, data: Database, categorical: tuple[str, ...], exact: bool
) -> None:
    names = tuple(name for name in order.variables if name not in categorical)
    ring = CofactorRing(names, categorical, exact=exact)
    maintained = MaintainedTree(build_tree(order), ring)
    first, batches = mixed_batches(data, KEYS, batch_size=40, batches=8, seed=7)
    tables: dict[str, Counter] = {name: Counter() for name in data}
    sizes = []
    for batch in [first, *batches]:
        apply(tables, batch)
        maintained.apply(batch)
        columns, rows = natural_join(order.relations, tables)
        check(ring, maintained.payload, columns, rows)
        sizes.append(len(rows))
    assert max(sizes) > 5
    assert any(after < before for before, after in pairwise(sizes)), "some batch makes the join smaller"
    maintained.apply({name: [(row, -times) for row, times in table.items()] for name, table in tables.items()})
    assert not maintained.result.entries, "nothing is left when everything is deleted"
    assert all(not store.entries for store in maintained.stores.values())


def check(ring: CofactorRing, payload: Cofactor, columns: Sequence[str], rows: list[tuple]) -> None:
    table = cofactor_table(ring, payload)
    assert table.count == len(rows)

    def cell(row: tuple, column: str | tuple[str, object]) -> float:
        if isinstance(column, str):
            return float(row[columns.index(column)])
        return float(row[columns.index(column[0])] == column[1])

    one_hot = np.array([[cell(row, column) for column in table.variables] for row in rows])
    one_hot = one_hot.reshape(len(rows), len(table.variables))
    for name in ring.categorical:
        seen = {column[1] for column in table.variables if not isinstance(column, str) and column[0] == name}
        assert seen == {row[columns.index(name)] for row in rows}
    assert error(ring, table.sums, one_hot.sum(axis=0)) < 1e-9
    assert error(ring, table.matrix, one_hot.T @ one_hot) < 1e-9


def error(ring: CofactorRing, found: np.ndarray, expected: np.ndarray) -> float:
    """Relative, and with doubles against 1 at least: the values are of that size, and what has gone leaves rounding."""
    size = np.maximum(np.abs(expected), 1e-300 if ring.exact else 1.0)
    return float(np.max(np.abs(found - expected) / size, initial=0.0))


def test_a_sum_over_a_stream_is_exact() -> None:
    data = retailer.retailer_database(8, 0.003)
    maintained = MaintainedTree(build_tree(RETAILER), IntegerRing(frozenset({"inventoryunits"})))
    first, batches = mixed_batches(data, KEYS, batch_size=50, batches=6, seed=1)
    tables: dict[str, Counter] = {name: Counter() for name in data}
    for batch in [first, *batches]:
        apply(tables, batch)
        maintained.apply(batch)
        columns, rows = natural_join(retailer.RELATIONS, tables)
        assert maintained.payload == sum(row[columns.index("inventoryunits")] for row in rows)


def test_a_factorised_result_grows_with_the_relations_and_not_with_the_join() -> None:
    counts, sizes = [], []
    for scale in (1, 4):
        result = FactorisedResult(build_tree(HOUSING), housing.ATTRIBUTES)
        result.apply(insertion(housing.housing_database(2, scale, postcodes=10)))
        counts.append(result.count)
        sizes.append(result.size)
    assert counts[1] == 64 * counts[0]
    assert sizes[1] < 4 * sizes[0]


def test_rows_come_with_constant_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two rows, as many lookups as there are views at most, whether ten rows join or a million."""
    lookups = [0]
    original = FactorisedResult._payload

    def counting(self: FactorisedResult, *arguments: Any) -> Any:
        lookups[0] += 1
        return original(self, *arguments)

    monkeypatch.setattr(FactorisedResult, "_payload", counting)
    for scale in (1, 50):
        result = FactorisedResult(build_tree(HOUSING), housing.ATTRIBUTES)
        result.apply(insertion(housing.housing_database(2, scale, postcodes=8)))
        delays, last = [], lookups[0]
        for _ in islice(result.rows(), 1000):
            delays.append(lookups[0] - last)
            last = lookups[0]
        assert max(delays) <= len(result.maintained.tree.views)
    assert result.count == 8 * 50**3
