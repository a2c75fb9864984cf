"""The cofactor ring against NumPy on the rows it sums, and its payloads at rest."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewlet.errors import SchemaError
from viewlet.rings.cofactor import Cofactor, CofactorRing
from viewlet.rings.cofactor_table import cofactor_table
from viewlet.rings.ring import total

CONTINUOUS, CATEGORICAL = ("x", "y", "z"), ("c", "d")
NAMES = CONTINUOUS + CATEGORICAL
ROWS = st.lists(
    st.tuples(*[st.floats(-100, 100)] * 3, st.sampled_from("abc"), st.sampled_from([1, 2])), min_size=1, max_size=12
)


def summed(ring: CofactorRing, rows: list[tuple[Any, ...]]) -> Cofactor:
    """Each row made of the lifts of its variables one by one, as a view tree would."""
    lifts = [ring.lift((name,)) for name in NAMES]

    def element(row: tuple[Any, ...]) -> Cofactor:
        found = ring.one
        for lift, value in zip(lifts, row, strict=True):
            found = ring.mul(found, lift((value,)))
        return found

    return total(ring, map(element, rows))


def one_hot(rows: list[tuple[Any, ...]], columns: tuple[Any, ...]) -> np.ndarray:
    def cell(row: tuple[Any, ...], column: Any) -> float:
        if isinstance(column, str):
            return float(row[NAMES.index(column)])
        return float(row[NAMES.index(column[0])] == column[1])

    return np.array([[cell(row, column) for column in columns] for row in rows])


@given(ROWS)
def test_the_matrix_is_that_of_the_one_hot_columns(rows: list[tuple[Any, ...]]) -> None:
    ring = CofactorRing(CONTINUOUS, CATEGORICAL)
    table = cofactor_table(ring, summed(ring, rows))
    assert set(table.variables) == {*CONTINUOUS, *(("c", row[3]) for row in rows), *(("d", row[4]) for row in rows)}
    expected = one_hot(rows, table.variables)
    assert table.count == len(rows)
    np.testing.assert_allclose(table.sums, expected.sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(table.matrix, expected.T @ expected, rtol=1e-9, atol=1e-9)


@given(ROWS)
def test_moments_up_to_degree_four(rows: list[tuple[Any, ...]]) -> None:
    ring = CofactorRing(CONTINUOUS, CATEGORICAL, degree=4)
    element, numbers = summed(ring, rows), np.array([row[:3] for row in rows])
    for degree in range(5):
        for chosen in combinations_with_replacement(range(3), degree):
            expected = np.prod(numbers[:, list(chosen)], axis=1).sum()
            found = ring.moment(element, [CONTINUOUS[i] for i in chosen])
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-3)
    c, d = rows[0][3:]
    inside = np.array([row[3:] == (c, d) for row in rows])
    found = ring.moment(element, ("x", "y"), {"c": c, "d": d})
    np.testing.assert_allclose(found, (numbers[:, 0] * numbers[:, 1] * inside).sum(), rtol=1e-9, atol=1e-6)


@given(ROWS)
def test_lifts_of_several_variables_are_the_product_of_their_lifts(rows: list[tuple[Any, ...]]) -> None:
    ring = CofactorRing(CONTINUOUS, CATEGORICAL, degree=3, exact=True)
    assert total(ring, map(ring.lift(NAMES), rows)) == summed(ring, rows)


@given(ROWS, st.randoms())
def test_nothing_remains_of_what_was_deleted(rows: list[tuple[Any, ...]], random: Any) -> None:
    """Exactly with exact numbers; with doubles once the total has settled."""
    for ring in (CofactorRing(CONTINUOUS, CATEGORICAL, exact=True), CofactorRing(CONTINUOUS, CATEGORICAL)):
        lift = ring.lift(NAMES)
        kept = rows[0]
        found = total(ring, map(lift, rows))
        for row in random.sample(rows[1:], len(rows) - 1):
            found = ring.accumulate(found, ring.neg(lift(row)))
        settled = ring.settle(ring.own(found))
        assert settled is not None
        assert settled.count == 1
        assert cofactor_table(ring, settled).variables == (*CONTINUOUS, ("c", kept[3]), ("d", kept[4]))
        assert ring.settle(ring.accumulate(settled, ring.neg(lift(kept)))) is None
        if ring.exact:
            assert found == lift(kept)


def test_an_element_has_places_only_for_the_variables_it_has_seen() -> None:
    ring = CofactorRing(tuple(f"x{i}" for i in range(43)))
    assert ring.width == 990
    one, other = ring.lift(("x7",))((2,)), ring.lift(("x40", "x3"))((5, 11))
    assert [len(element.blocks[()]) for element in (ring.one, one, other, ring.mul(one, other))] == [1, 3, 6, 10]
    assert ring.moment(ring.mul(one, other), ("x7", "x40")) == 10.0
    assert len(ring.layout) == 990


@pytest.mark.parametrize("arguments", [(("x", "x"),), (("x",), ("x",)), (("x",), (), 5), (("x",), (), 0)])
def test_wrong_rings_are_refused(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(SchemaError):
        CofactorRing(*arguments)


def test_products_beyond_the_degree_are_refused() -> None:
    ring = CofactorRing(("x",), ("c",))
    with pytest.raises(SchemaError, match="beyond degree 2"):
        ring.moment(ring.one, ("x", "x"), {"c": 1})
