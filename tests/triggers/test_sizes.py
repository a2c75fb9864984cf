"""What is guessed of tables that nobody has measured."""

from __future__ import annotations

import pytest

from tests.triggers.trigger_program import tables_of
from viewlet.sql import bind_query
from viewlet.triggers.sizes import LARGEST, complete
from viewlet.triggers.statistics import DEFAULT_FANOUT, UNKNOWN, Size, Statistics

TABLES = tables_of(
    """
    CREATE TABLE region (r BIGINT PRIMARY KEY, name BIGINT NOT NULL);
    CREATE TABLE customer (c BIGINT PRIMARY KEY, r BIGINT NOT NULL);
    CREATE TABLE sale (c BIGINT NOT NULL, price BIGINT NOT NULL);
    """
)
QUERY = bind_query(
    "SELECT g.name, SUM(s.price) AS total FROM region g, customer c, sale s "
    "WHERE g.r = c.r AND c.c = s.c GROUP BY g.name",
    TABLES,
).query


def test_tables_are_larger_than_those_they_refer_to() -> None:
    guess = complete(UNKNOWN, QUERY, TABLES)
    rows = {name: size.rows for name, size in guess.sizes.items()}
    assert rows == {"sale": LARGEST, "customer": LARGEST / DEFAULT_FANOUT, "region": LARGEST / DEFAULT_FANOUT**2}
    assert guess.sizes["sale"].distinct[0] == rows["customer"]
    assert guess.rate("sale") > guess.rate("customer") > guess.rate("region")
    assert sum(guess.rates.values()) == pytest.approx(1)
    assert not guess.known


def test_what_is_known_is_kept() -> None:
    known = Statistics({"sale": Size(50, (5, 50))}, {"sale": 3.0})
    completed = complete(known, QUERY, TABLES)
    assert completed.known
    assert completed.sizes["sale"] == Size(50, (5, 50))
    assert completed.rate("sale") == 3.0
    assert completed.sizes["customer"].rows > 0
