"""Housing and Retailer as NumPy columns, large enough to measure with; the schemas are those of `workloads`.

At scale s, Housing has s houses, shops and restaurants for each postcode and one row of each other relation: the
relations grow with s, their join with its cube. Retailer has 100,000 s rows of Inventory; locations, days and products
grow with the cube root of s. With a skew some postcodes, or products, places and days, are met far more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.streams import round_robin
from viewlet.viewtree.order import Branch, VariableOrder, chain
from workloads import housing, retailer

Numbers = npt.NDArray[Any]
REAL = frozenset({"price", "prize", "meanwind", "avghhi"}) | {
    name for name in retailer.ATTRIBUTES if name.endswith(("distance", "drivetime"))
}
"""Attributes that are doubles; the others are integers."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A join to maintain: its variable order, and the columns of every relation in the order of its schema."""

    name: str
    order: VariableOrder
    columns: Mapping[str, list[Numbers]]

    @property
    def relations(self) -> Mapping[str, Sequence[str]]:
        return self.order.relations

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for schema in self.relations.values() for name in schema))

    @property
    def sizes(self) -> dict[str, int]:
        return {name: len(columns[0]) for name, columns in self.columns.items()}

    @property
    def tuples(self) -> int:
        return sum(self.sizes.values())

    def batches(self, size: int) -> Iterator[tuple[str, int, int]]:
        """The stream: a batch of each relation in turn until all are exhausted."""
        for step in round_robin(self.sizes, size):
            yield from step


def skewed(random: np.random.Generator, count: int, size: int, skew: float) -> Numbers:
    """Draws from range(count), the k-th with a probability that falls as 1 / k ** skew."""
    if not skew:
        return random.integers(0, count, size)
    weights = np.cumsum(1.0 / np.arange(1, count + 1) ** skew)
    return np.minimum(np.searchsorted(weights, random.random(size) * weights[-1]), count - 1).astype(np.int64)


def housing_data(scale: int = 1, postcodes: int = housing.POSTCODES, skew: float = 0.0, seed: int = 1) -> Workload:
    """Rows by postcode, as a generator writes them; with a skew, those of the growing relations in no order."""
    random = np.random.default_rng(seed)
    columns = {}
    for name, schema in housing.RELATIONS.items():
        rows = postcodes * (scale if name in housing.GROWING else 1)
        homes = np.arange(rows) * postcodes // rows
        if skew and name in housing.GROWING:
            homes = skewed(random, postcodes, rows, skew)
        columns[name] = [homes, *(_values(random, attribute, rows) for attribute in schema[1:])]
    order = VariableOrder(
        (Branch("postcode", tuple(chain(*schema[1:]) for schema in housing.RELATIONS.values())),), housing.RELATIONS
    )
    return Workload("Housing", order, columns)


def retailer_data(scale: float = 1.0, skew: float = 0.0, seed: int = 1, dimensions: float | None = None) -> Workload:
    """With `dimensions`, places, days and products are those of another scale."""
    random = np.random.default_rng(seed)
    root = (scale if dimensions is None else dimensions) ** (1 / 3)
    places, days, products = (max(2, round(base * root)) for base in (20, 30, 500))
    zips = max(2, places * 3 // 4)
    stock = round(100_000 * scale)
    keys = {
        "Inventory": [skewed(random, count, stock, skew) for count in (places, days, products)],
        "Item": [random.permutation(products)],
        "Weather": [part.ravel() for part in np.meshgrid(np.arange(places), np.arange(days), indexing="ij")],
        "Location": [random.permutation(places), random.integers(0, zips, places)],
        "Census": [random.permutation(zips)],
    }
    columns = {
        name: [*known, *(_values(random, attribute, len(known[0])) for attribute in schema[len(known) :])]
        for (name, schema), known in ((item, keys[item[0]]) for item in retailer.RELATIONS.items())
    }
    return Workload("Retailer", retailer_order(), columns)


def retailer_order() -> VariableOrder:
    """The order of the paper: what Inventory joins on is one path from the root to a leaf."""
    keys = {"locn", "dateid", "ksn", "zip"}
    own = {name: chain(*(key for key in schema if key not in keys)) for name, schema in retailer.RELATIONS.items()}
    products = Branch("ksn", (own["Inventory"], own["Item"]))
    places = Branch("zip", (own["Location"], own["Census"]))
    return VariableOrder((Branch("locn", (Branch("dateid", (products, own["Weather"])), places)),), retailer.RELATIONS)


def _values(random: np.random.Generator, attribute: str, rows: int) -> Numbers:
    numbers = random.integers(0, 50, rows)
    return numbers + 0.5 if attribute in REAL else numbers
