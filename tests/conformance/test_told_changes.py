"""What the compiled engine says a batch changed, against the results before and after it."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance.test_ranges import changes, tables
from viewlet.changes import RowChange
from viewlet.codegen.engine import CompiledEngine
from viewlet.sql import bind_query
from viewlet.triggers.plan import plan_query
from viewlet.triggers.result_view import result_stores

QUERIES = {
    "groups": "SELECT broker_id, price, SUM(volume) AS s, COUNT(*) AS c FROM bids GROUP BY broker_id, price",
    "one row": "SELECT SUM(volume) AS s, AVG(price) AS a FROM bids",
    "having": "SELECT price, SUM(volume) AS s FROM bids GROUP BY price HAVING SUM(volume) > 40",
    "join": "SELECT a.price, COUNT(*) AS c FROM bids b JOIN asks a ON a.price = b.price GROUP BY a.price",
    "rows": "SELECT id, price FROM bids WHERE volume > 20",
    "union": "SELECT id, price FROM bids UNION ALL SELECT price, id FROM asks UNION ALL SELECT 1, 2",
    "outer join": "SELECT b.id AS b, a.id AS a, a.price FROM bids b FULL JOIN asks a ON a.price = b.price",
}


@pytest.mark.parametrize("name", QUERIES)
def test_changes_are_the_difference_of_results(name: str) -> None:
    known = tables()
    engine = CompiledEngine(plan_query("q", bind_query(QUERIES[name], known).query, known, "higher-order"), known)
    stream = changes(Random(name), 0, 60)
    for _ in range(20):
        table, change = next(stream)
        engine.apply(table, RowChange(change))
    assert engine.watch()
    before, seen = engine.result(), 0
    for table, change in stream:
        engine.apply(table, RowChange(change))
        told, after = engine.changes(), engine.result()
        rows = before.keys() | after.keys()
        assert told == {r: n for r in rows if (n := after.get(r, 0) - before.get(r, 0))}
        before, seen = after, seen + len(told)
    assert seen


COMPARED = {
    "several views": (
        "SELECT price, SUM(volume) AS s FROM bids GROUP BY price HAVING SUM(volume) > (SELECT AVG(volume) FROM bids)"
    ),
    "an extreme of all rows": "SELECT MIN(price) AS low FROM bids",
    "an extreme of each group": "SELECT broker_id, MAX(price) AS high FROM bids GROUP BY broker_id",
}
"""Results that no row of a view tells on its own."""


@pytest.mark.parametrize("strategy", ["higher-order", "first-order"])
@pytest.mark.parametrize("name", COMPARED)
def test_a_result_that_no_row_tells_alone_is_compared_instead(name: str, strategy: str) -> None:
    known = tables()
    program = plan_query("q", bind_query(COMPARED[name], known).query, known, strategy)
    assert not result_stores(program)
    assert not CompiledEngine(program, known).watch()
