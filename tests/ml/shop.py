"""A join of three relations under a stream of inserts and deletes, kept as cofactors and, for the oracle, as rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from tests.viewtree.ring_oracle import apply, natural_join
from viewlet.rings.cofactor import CofactorRing
from viewlet.viewtree.order_search import find_order
from viewlet.viewtree.ring_engine import MaintainedTree
from viewlet.viewtree.ring_tree import build_tree
from workloads.streams import Batch, Database, mixed_batches

RELATIONS = {
    "sales": ("shop", "item", "units", "discount"),
    "shops": ("shop", "city", "staff", "size"),
    "items": ("item", "kind", "price"),
}
CONTINUOUS = ("units", "discount", "staff", "size", "price")
CATEGORICAL = ("city", "kind")


def database(seed: int, sales: int = 300) -> Database:
    random = Random(seed)

    def sale() -> tuple[Any, ...]:
        shop, item, discount = random.randrange(12), random.randrange(20), random.randint(0, 30) / 100
        return (shop, item, round(5 + shop / 3 - item / 5 + 20 * discount + random.gauss(0, 1), 2), discount)

    return {
        "sales": [sale() for _ in range(sales)],
        "shops": [
            (shop, random.choice(("Rome", "Oslo", "Bonn")), random.randint(2, 30), random.randint(50, 900) / 10)
            for shop in range(12)
        ],
        "items": [(item, random.choice("abcd"), random.randint(100, 9_900) / 100) for item in range(20)],
    }


@dataclass
class Shop:
    """The tree that is maintained, and the tables it stands for."""

    maintained: MaintainedTree[Any]
    tables: dict[str, Counter[Any]] = field(default_factory=lambda: {name: Counter() for name in RELATIONS})

    def apply(self, batch: Batch) -> None:
        apply(self.tables, batch)
        self.maintained.apply(batch)

    def frame(self) -> pd.DataFrame:
        """The materialised join."""
        columns, rows = natural_join(RELATIONS, self.tables)
        return pd.DataFrame(rows, columns=list(columns))


def shop_of(
    continuous: Sequence[str] = CONTINUOUS,
    categorical: Sequence[str] = CATEGORICAL,
    degree: int = 2,
    free: Sequence[str] = (),
) -> Shop:
    ring = CofactorRing(tuple(continuous), tuple(categorical), degree)
    return Shop(MaintainedTree(build_tree(find_order(RELATIONS, free=free), free), ring))


def stages(shop: Shop, seed: int = 1, batches: int = 4) -> Iterator[pd.DataFrame]:
    """Loads the database and applies mixed batches; the join after each."""
    first, following = mixed_batches(database(seed), dict.fromkeys(RELATIONS, (0,)), 60, batches, seed)
    for batch in [first, *following]:
        shop.apply(batch)
        yield shop.frame()


def one_hot(frame: pd.DataFrame, numbers: Sequence[str], kinds: Sequence[str] = ()) -> tuple[np.ndarray, list[str]]:
    """As scikit-learn's encoder would make it, with the names of the columns."""
    from sklearn.preprocessing import OneHotEncoder

    parts, names = [frame[list(numbers)].to_numpy(float)], list(numbers)
    if kinds:
        encoder = OneHotEncoder(sparse_output=False).fit(frame[list(kinds)])
        parts.append(encoder.transform(frame[list(kinds)]))
        names += list(encoder.get_feature_names_out())
    return np.hstack(parts), names
