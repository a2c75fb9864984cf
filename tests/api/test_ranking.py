"""The first rows of a result, maintained from its changes, are those of sorting it again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from viewlet.algebra.nodes import ZERO, Var
from viewlet.algebra.query import OrderKey, OutputColumn, Query
from viewlet.engine.ranking import FirstRows, cut, ranking
from viewlet.triggers.store import UndoLog
from viewlet.types import BIGINT, VARCHAR, Row

A, B = Var("a", VARCHAR), Var("b", BIGINT)
ROWS = st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.integers(0, 3))
CHANGES = st.lists(st.dictionaries(ROWS, st.integers(-2, 2), max_size=4), max_size=8)


def query(descending: bool, nulls_first: bool, limit: int | None, offset: int) -> Query:
    columns = (OutputColumn("a", A), OutputColumn("b", B))
    return Query(ZERO, columns, (OrderKey(A, descending, nulls_first),), limit, offset)


QUERIES = st.builds(query, st.booleans(), st.booleans(), st.none() | st.integers(0, 3), st.integers(0, 2))


@given(QUERIES, CHANGES, st.booleans())
def test_first_rows_follow_the_result(query: Query, batches: list[dict[Row, int]], rolls_back: bool) -> None:
    result: dict[Row, int] = {}
    log, rank = UndoLog(), ranking(query)
    first = FirstRows(query, rank, lambda: result, log)
    for batch in batches:
        before, shown = dict(result), first.rows()
        change = {row: max(weight, -result.get(row, 0)) for row, weight in batch.items()}
        change = {row: weight for row, weight in change.items() if weight}
        for row, weight in change.items():
            result[row] = result.get(row, 0) + weight
            if not result[row]:
                del result[row]
        log.begin()
        first.apply(change)
        expected = sorted(result.items(), key=lambda item: rank(item[0]))
        bounds = (query.offset, query.limit)
        assert list(cut(first.rows(), *bounds)) == list(cut(expected, *bounds))
        if rolls_back:
            log.rollback()
            assert first.rows() == shown
            result.clear()
            result.update(before)
        else:
            log.commit()


def test_nulls_and_directions() -> None:
    rows: list[Row] = [("a", 1), (None, 1), ("b", None), ("b", 0)]
    up, down = ranking(query(False, False, None, 0)), ranking(query(True, True, None, 0))
    assert sorted(rows, key=up) == [("a", 1), ("b", 0), ("b", None), (None, 1)]
    assert sorted(rows, key=down) == [(None, 1), ("b", 0), ("b", None), ("a", 1)]
