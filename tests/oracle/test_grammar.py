"""What the random queries are compared with is right, and they say nothing that SQL does not define."""

from __future__ import annotations

import pytest

from tests.oracle.grammar.choices import RandomChoices
from tests.oracle.grammar.families import TYPE_NAMES, Field, Scope
from tests.oracle.grammar.scalars import Scalars
from tests.oracle.grammar.values import COLUMN_TYPES, FAMILIES
from tests.oracle.scenario import shared_oracle

SCOPE = Scope(tuple(Field(name, family) for name, family in FAMILIES.items()))
EXPRESSIONS = 400
COLUMNS = ", ".join(f"CAST(NULL AS {type.removesuffix(' NOT NULL')}) AS {name}" for name, type in COLUMN_TYPES.items())


def no_subquery(*arguments: object) -> str:
    raise AssertionError("the scope has no room for a subquery")


@pytest.mark.parametrize("family", ["date", "ts", "str", "bool"])
def test_an_expression_has_the_type_of_its_family(family: str) -> None:
    """A string literal that stands alone is text, which SQL does not compare with a date."""
    oracle = shared_oracle()
    scalars = [Scalars(RandomChoices(seed), no_subquery, no_subquery) for seed in range(EXPRESSIONS)]
    written = {scalar.expression(SCOPE, family, 3) for scalar in scalars}
    types = {text: oracle.rows(f"SELECT typeof({text}) FROM (SELECT {COLUMNS})")[0][0] for text in written}
    right = {"date": {"DATE"}, "ts": {"TIMESTAMP", "DATE"}}.get(family, {TYPE_NAMES[family][0]})
    assert {text: type for text, type in types.items() if type not in right} == {}


@pytest.mark.parametrize(
    ("day", "moment"), [("2020-01-31", "2020-01-31 12:30:15"), ("2020-02-29", "2020-02-29 00:00:01")]
)
def test_the_oracle_compares_a_day_with_a_moment(day: str, moment: str) -> None:
    sql = f"SELECT e FROM s WHERE TIMESTAMP '{moment}' < DATE_TRUNC('hour', e)"
    oracle = shared_oracle()
    oracle.clear()
    oracle.connection.execute(f"INSERT INTO s (e) VALUES (DATE '{day}')")
    try:
        assert oracle.rows(sql) == []
    finally:
        oracle.clear()
