"""Programs at the edges: absent values, signed zeros, conditions that never hold, changes that nearly cancel."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.program import Program, View
from workloads.query import NamedQuery
from workloads.streams import Batch

STRATEGIES = ("recompute", "first-order", "higher-order", "view-tree")


def _views(sqls: Sequence[str], strategies: Sequence[str] = ("",)) -> tuple[View, ...]:
    """Every query under every strategy."""
    return tuple(
        View(NamedQuery(f"q{number}_{strategy.replace('-', '_')}".rstrip("_"), sql), strategy)
        for number, sql in enumerate(sqls)
        for strategy in strategies
    )


def absent_values() -> Program:
    """Triggers meet NULL where the type has none, in rows and groups before they see that these do not count."""
    tables = {"l": "CREATE TABLE l (n BOOLEAN NOT NULL, h INTEGER NOT NULL, g VARCHAR NOT NULL, v VARCHAR)"}
    sqls = (
        "SELECT q.n FROM (SELECT MIN(g) AS m, n FROM l GROUP BY n) AS q WHERE q.m IN ('a', 'b', 'c') AND q.m > 'a'",
        "SELECT q.n, UPPER(q.m) AS u FROM (SELECT MAX(g) AS m, n FROM l GROUP BY n) AS q",
        "SELECT q.n FROM (SELECT MIN('a_b') AS m, n FROM l GROUP BY n) AS q WHERE q.m LIKE 'a%' EXCEPT SELECT n FROM l",
        "SELECT q.n, q.m + 1 AS p FROM (SELECT MIN(h) AS m, n FROM l GROUP BY n) AS q WHERE q.m * 2 > 1",
        "SELECT q.k, COUNT(*) AS n FROM l JOIN (SELECT DISTINCT 'b' AS k FROM l) AS q ON l.v = q.k"
        " WHERE l.v IN ('a', 'b', q.k) OR l.v LIKE 'c%' GROUP BY q.k",
        "SELECT q.k, COUNT(*) AS n FROM l JOIN (SELECT DISTINCT 'b' AS k FROM l) AS q ON l.v = q.k"
        " WHERE q.k >= 'a' GROUP BY q.k",
    )
    batches: list[Batch] = [
        {"l": [((True, 1, "a", None), 1), ((False, 2, "b", "b"), 1)]},
        {"l": [((False, 2, "b", "b"), -1)]},
        {"l": [((False, 3, "c", "b"), 1), ((False, 3, "c", None), 1)]},
    ]
    return Program("absent values", tables, _views(sqls, STRATEGIES), batches)


def nested_extremes() -> Program:
    """An extreme over all rows is joined and summed, or compared with what its subquery is correlated with.

    Sums of doubles are kept with a count that does not depend on the extreme: one is assigned, the other is not.
    """
    tables = {
        "l": "CREATE TABLE l (h INTEGER, j REAL NOT NULL, k DOUBLE)",
        "s": "CREATE TABLE s (d INTEGER, y REAL)",
    }
    top = "(SELECT MAX(j) AS m, MIN(k) AS n FROM l) AS q"
    sqls = (
        f"SELECT s.d, SUM(q.m) AS t, COUNT(q.n) AS n, COUNT(*) AS rows FROM {top}, s GROUP BY s.d",
        f"SELECT SUM(q.m * s.y) AS t, STDDEV(q.m) AS e FROM {top} CROSS JOIN s",
        "SELECT l.h FROM l WHERE l.j = ANY (SELECT MIN(s.y) FROM s WHERE l.j > 1 GROUP BY s.d)",
        "SELECT DISTINCT l.h FROM l WHERE l.j IN (SELECT MAX(s.y) FROM s WHERE s.y <= l.j GROUP BY s.d)",
    )
    batches: list[Batch] = [
        {"l": [((1, 0.0, None), 1), ((1, 0.25, 0.5), 1)], "s": [((1, 2.0), 1)]},
        {"l": [((3, 2.0, 1.5), 1)]},
        {"s": [((1, 4.0), 1), ((2, 2.0), 1)], "l": [((3, 4.0, 0.25), 1)]},
        {"l": [((3, 4.0, 0.25), -1)], "s": [((1, 2.0), -1)]},
    ]
    return Program("nested extremes", tables, _views(sqls, STRATEGIES), batches)


def never_true() -> Program:
    """Conditions that are never true, which only the generator of code sees, leave loops without a body."""
    never = "(CAST(NULL AS BOOLEAN) OR (NULL AND c IS NULL))"
    tables = {"s": "CREATE TABLE s (a INTEGER, c BIGINT)", "r": "CREATE TABLE r (b INTEGER)"}
    sqls = (
        f"SELECT a, COUNT(*) AS n FROM s WHERE {never} GROUP BY a",
        f"SELECT s.a, SUM(c) AS n FROM s JOIN r ON s.a = r.b WHERE {never} GROUP BY s.a",
        f"SELECT COUNT(*) AS n FROM s WHERE {never}",
    )
    batches: list[Batch] = [{"s": [((1, 2), 1), ((1, None), 1)]}, {"r": [((1,), 1)]}]
    return Program("never true", tables, _views(sqls, STRATEGIES), batches)


def signed_zeros() -> Program:
    """A computed -0.0 equals 0.0: in groups, joins, set operations and lookups."""
    tables = {"r": "CREATE TABLE r (a INTEGER, z DOUBLE, y REAL)"}
    sqls = (
        "SELECT a * z AS p, COUNT(*) AS n FROM r GROUP BY a * z",
        "SELECT DISTINCT a * z AS p FROM r",
        "SELECT z AS p FROM r EXCEPT SELECT -0e0 AS p FROM r",
        "SELECT z AS p FROM r INTERSECT SELECT a * z AS p FROM r",
        "SELECT r.a, q.n FROM r JOIN (SELECT a * z AS p, COUNT(*) AS n FROM r GROUP BY a * z) AS q ON r.z = q.p",
        "SELECT a FROM r WHERE z IN (SELECT -1 * z FROM r)",
        "SELECT COUNT(DISTINCT y * a) AS n, SUM(DISTINCT y * a) AS s FROM r",
    )
    batches: list[Batch] = [
        {"r": [((-1, 0.0, 0.0), 1), ((2, 0.0, 0.0), 1)]},
        {"r": [((-3, -0.0, 0.0), 1), ((1, 0.5, -0.25), 1)]},
        {"r": [((2, 0.0, 0.0), -1)]},
    ]
    early, late = _views(sqls), _views(sqls)
    renamed = tuple(View(NamedQuery(f"late_{view.name}", view.query.body), is_late=True) for view in late)
    return Program("signed zeros", tables, early + renamed, batches)


def sums_beside_counts() -> Program:
    """Where rows are kept in views (`recompute`), sums over them share payloads with counts."""
    tables = {"r": "CREATE TABLE r (a INTEGER, b INTEGER)"}
    sqls = (
        "SELECT STDDEV(b) AS s, COUNT(*) AS n FROM r",
        "SELECT SUM(b) AS s, COUNT(*) AS n, COUNT(b) AS m FROM r",
        "SELECT a, SUM(b) AS s, COUNT(*) AS n, AVG(a * b) AS m FROM r GROUP BY a",
        "SELECT b, SUM(b) AS s, COUNT(*) AS n FROM r GROUP BY b",
    )
    batches: list[Batch] = [
        {"r": [((1, 2), 1), ((1, 3), 1), ((2, None), 1)]},
        {"r": [((2, 5), 1), ((None, 3), 1)]},
        {"r": [((1, 3), -1)]},
    ]
    return Program("sums beside counts", tables, _views(sqls, STRATEGIES), batches)


def cancelling(type: str) -> Program:
    """Changes that nearly cancel within one batch: their summaries are small, not nothing."""
    tables = {"r": f"CREATE TABLE r (id INTEGER, g INTEGER, y {type})", "s": f"CREATE TABLE s (g INTEGER, z {type})"}
    sqls = (
        "SELECT g, SUM(y) AS total FROM r GROUP BY g",
        "SELECT g, SUM(DISTINCT y) AS total FROM r GROUP BY g",
        "SELECT g, VAR_SAMP(y) AS spread FROM r GROUP BY g",
        "SELECT a.g, SUM(a.y + 2 * b.y) AS total FROM r a LEFT JOIN r b ON a.g = b.g GROUP BY a.g",
        "SELECT g, SUM(y) AS total FROM (SELECT g, y FROM r UNION ALL SELECT g, z FROM s) t GROUP BY g",
        "SELECT r.y, r.g, SUM(r.y * s.z) AS total FROM r RIGHT JOIN s ON r.g = s.g AND s.z > 1 GROUP BY r.y, r.g",
    )
    batches: list[Batch] = [
        {"r": [((1, 1, 2), 1), ((2, 1, 3), 1), ((3, 2, 5), 1)], "s": [((1, 2), 1), ((2, 4), 1)]},
        {"r": [((1, 1, 2), -1), ((4, 1, 9), 1)]},
        {"r": [((2, 1, 3), -1)], "s": [((1, 7), 1)]},
        {"r": [((4, 1, 9), -1), ((5, 1, 8), 1)], "s": [((1, 7), -1), ((1, 3), 1)]},
        {"r": [((5, 1, 8), -1), ((6, 1, 4), 1), ((3, 2, 5), -1)], "s": [((2, 4), -1), ((2, 6), 1)]},
    ]
    return Program(f"cancelling {type.partition(' ')[0].lower()}", tables, _views(sqls), batches)


def strings() -> Program:
    """Strings that one row makes are newer than every table: the rows after it in the batch meet them."""
    tables = {"a": "CREATE TABLE a (k BIGINT, s VARCHAR)", "b": "CREATE TABLE b (k BIGINT, t VARCHAR)"}
    sqls = (
        "SELECT st, MAX(s || t) AS most, COUNT(*) AS n"
        " FROM (SELECT s, t, s || '-' || t AS st FROM a JOIN b ON a.k = b.k)"
        " WHERE st > s AND upper(st) LIKE '%Y%' GROUP BY st",
    )
    batches: list[Batch] = [
        {
            "a": [((i % 4, f"x{i}{batch}"), 1) for i in range(12)],
            "b": [((i % 4, f"{'uy'[i % 2]}{i}"), 1) for i in range(8)],
        }
        for batch in range(3)
    ]
    batches.append({"a": [((1, "x10"), -1), ((1, "x52"), -1)]})
    return Program("strings", tables, _views(sqls), batches)


def ranges() -> Program:
    """Ranges over views that batches change: an ordered index must not be older than its rows."""
    tables = {
        "accounts": "CREATE STREAM accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL)",
        "orders": "CREATE STREAM orders (account BIGINT NOT NULL)",
    }
    sqls = (
        "SELECT COUNT(*) AS n, SUM(balance) AS total FROM accounts a"
        " WHERE balance > (SELECT AVG(balance) FROM accounts)"
        " AND NOT EXISTS (SELECT * FROM orders WHERE account = a.id)",
    )
    many = 400  # more rows than are quicker visited one by one than kept in order
    batches: list[Batch] = [{"accounts": [((i, 10 * i), 1) for i in range(many)]}]
    for step in range(3):
        come = [((many + 10 * step + i, 9_000 + 100 * step + i), 1) for i in range(10)]
        gone = [((i, 10 * i), -1) for i in range(many - 20 * step - 20, many - 20 * step)]
        batches.append({"accounts": [*come, *gone], "orders": [((300 - step,), 1)]})
    return Program("ranges", tables, _views(sqls), batches)


def programs() -> tuple[Program, ...]:
    return (
        absent_values(),
        nested_extremes(),
        never_true(),
        signed_zeros(),
        sums_beside_counts(),
        cancelling("DOUBLE"),
        cancelling("BIGINT NOT NULL"),
        strings(),
        ranges(),
    )
