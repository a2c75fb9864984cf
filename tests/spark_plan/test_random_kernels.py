"""Random SQL over random rows and changes: both kernels of Spark show what the interpreter shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.scenario import random_scenario
from tests.spark_plan.random_kernels import COUNT, ONLY_REFERENCE, REFUSED, SAME, STRATEGIES, compared, outcome

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
PARTS = 4
FOUND = {
    "a nested aggregate moved without what it is correlated with": (
        "SELECT COUNT(*) AS n FROM s WHERE EXISTS (SELECT 1 FROM t FULL JOIN u ON t.b = u.a "
        "WHERE s.d IN (1.5, 2) AND NOT EXISTS (SELECT 1 FROM r WHERE s.d <> 0 GROUP BY d))"
    ),
    "a union of which some terms were moved without a column that others kept": (
        "WITH w AS (SELECT CASE WHEN l.p IN (SELECT TIMESTAMP '2020-01-31 12:30:15' FROM u WHERE t.c > t.x) THEN t.c "
        "END AS c FROM t RIGHT JOIN l ON t.h = l.h) SELECT COUNT(*) AS n FROM w a LEFT JOIN w b ON b.c >= 3"
    ),
    "a union that every worker has, computed without the columns that are read of it": (
        "SELECT v.c + l.h AS c, w.n + l.h AS n FROM ((SELECT c FROM (VALUES (DATE '2020-02-29', 'a'), "
        "(DATE '2020-02-28', 'b'), (DATE '2020-01-31', 'c'), (NULL, 'd')) q(c, k) "
        "WHERE c = (SELECT MIN(s.e) FROM s NATURAL JOIN t) AND k IN (SELECT MIN(g) FROM u GROUP BY a)) v "
        "FULL JOIN (SELECT 1 AS n WHERE 1 IN (SELECT MIN(a) FROM u GROUP BY g)) w ON w.n > 0), l"
    ),
    "a double that is NULL before and after the batch, and was told as a change": (
        "SELECT STDDEV_SAMP(q.h) AS d, q.n AS n FROM l AS q GROUP BY n"
    ),
}
"""Queries that random ones have led to."""


@pytest.fixture(autouse=True)
def read_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("viewlet.codegen.compiled_result.READ_BY_CODE_FROM", 0)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_views_equal_the_interpreter_after_every_batch(part: int) -> None:
    found = [outcome(seed) for seed in range(part, COUNT, PARTS)]
    assert [each for each in found if each not in (SAME, ONLY_REFERENCE, REFUSED)] == []
    assert SAME in found


@pytest.mark.parametrize("sql", FOUND.values(), ids=list(FOUND))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_queries_that_once_failed(sql: str, strategy: str) -> None:
    for seed in (0, 1, 2, 242):
        scenario = replace(random_scenario(RandomChoices(seed)), sql=sql)
        assert compared(seed, scenario, strategy) in (SAME, ONLY_REFERENCE)
