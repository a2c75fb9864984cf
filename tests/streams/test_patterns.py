"""Pattern queries: the paper's example, random patterns against a brute-force matcher, and what is refused."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import viewlet
from tests.streams.matcher import found_in, random_pattern
from tests.streams.model import Model, at, random_batches, signed
from viewlet.errors import SqlError

M = "CREATE STREAM m (ts TIMESTAMP, g VARCHAR, x BIGINT) PARTITION LENGTH 60 BY ts"
STREAMS = int(os.environ.get("VIEWLET_STREAMS", "2"))
PATTERNS = 5
"""Patterns that are looked for in each stream."""


@pytest.fixture
def db() -> viewlet.Connection:
    connection = viewlet.connect()
    connection.execute(M)
    return connection


def test_view_4_reports_what_view_2_does(db: viewlet.Connection) -> None:
    db.execute("""CREATE VIEW view4 AS SELECT g, COUNT(*) AS ct, SUM(x) AS sum_loss FROM m PATTERN [a, b, c, d+]
        WHERE a.x > 10 AND b.x > 10 AND c.x > 10 AND d.x > 10 GROUP BY g""")
    for minute, loss in enumerate([6, 12, 15, 24, 20, 16, 7]):
        db.insert("m", [(at(60 * minute), "a", loss)])
    db.close_parts("m", at(420))
    assert db.view("view4").rows() == [("a", 4, 71, at(240)), ("a", 5, 87, at(300))]
    assert "where no group has several rows" in db.explain("view4", "maintenance")
    assert db.explain("view4", "class").startswith("incrementally maintainable")


@pytest.mark.parametrize("seed", range(STREAMS))
def test_random_patterns_equal_a_brute_force_matcher(db: viewlet.Connection, seed: int) -> None:
    chance = random.Random(seed)
    patterns = [random_pattern(chance) for _ in range(PATTERNS)]
    for number, (variables, where, _) in enumerate(patterns):
        condition = f"WHERE {where}" if where else ""
        db.execute(f"""CREATE VIEW v{number} AS SELECT g, COUNT(*) AS n, SUM(x) AS x FROM m PATTERN [{variables}]
            {condition} GROUP BY g ORDER BY g, x""")

    def values(chance: random.Random) -> tuple[object, ...]:
        return chance.choice(("a", "b", None)), chance.choice((0, 1, 2, 3, 3, 4, None))

    model = Model()
    batches = random_batches(seed, values, batches=9, minutes=4)
    for number, batch in enumerate(batches):
        db.apply({"m": signed(batch, ("ts", "g", "x"))})
        for row, times in batch:
            model.change(row, times)
        if number % 3 != 2 and number != len(batches) - 1:
            continue
        for at_view, (variables, where, machine) in enumerate(patterns):
            parts = db.view(f"v{at_view}").parts()
            if not parts:
                continue
            first = int((parts[0].start - at(0)).total_seconds() // 60)
            expected = Counter((*row, at(60 * part)) for part, row in found_in(model, machine, first, model.closed))
            assert Counter(db.view(f"v{at_view}").rows()) == expected, (variables, where)


def test_overlapping_runs_are_all_followed(db: viewlet.Connection) -> None:
    """One state per group would lose the run that goes from a to b at the third row."""
    db.execute("CREATE VIEW v AS SELECT g, COUNT(*) AS n FROM m PATTERN [a+, b] WHERE a.x > 1 AND b.x > 5 GROUP BY g")
    db.insert("m", [(at(60 * minute), "g", x) for minute, x in enumerate([2, 2, 9, 9, 3])])
    assert [(n, time) for _, n, time in db.view("v").rows()] == [(3, at(120))]


def test_a_group_that_misses_a_part_begins_again_and_ties_are_broken(db: viewlet.Connection) -> None:
    db.execute("CREATE VIEW v AS SELECT g, COUNT(*) AS n FROM m PATTERN [a, b] WHERE b.x > a.x GROUP BY g")
    db.execute(
        "CREATE VIEW down AS SELECT g, COUNT(*) AS n FROM m PATTERN [a, b] WHERE b.x > a.x GROUP BY g ORDER BY x DESC"
    )
    db.insert(
        "m", [(at(0), "gap", 1), (at(60), "tie", 1), (at(60), "tie", 2), (at(120), "gap", 2), (at(180), "end", 0)]
    )
    assert [(g, time) for g, _, time in db.view("v").rows()] == [("tie", at(60))]
    assert db.view("down").rows() == []


def test_patterns_over_stream_views(db: viewlet.Connection) -> None:
    db.stream_view("sums", initialize="SELECT g, SUM(x) AS x FROM m[i] GROUP BY g")
    db.execute(
        "CREATE VIEW v AS SELECT g, COUNT(*) AS n, MAX(x) AS x FROM sums PATTERN [a, b+] WHERE b.x > 3 GROUP BY g"
    )
    db.insert("m", [(at(60 * minute + second), "g", 2) for minute in range(4) for second in range(2)])
    assert [row[:3] for row in db.view("v").rows()] == [("g", 2, 4), ("g", 3, 4)]
    db.insert("m", [(at(61), "g", -4)])
    assert [row[:3] for row in db.view("v").rows()] == [("g", 2, 4)]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT g FROM m PATTERN [a, b, c] WHERE c.x > a.x GROUP BY g", "follow each other"),
        ("SELECT g FROM m PATTERN [a, b] WHERE x > 1 GROUP BY g", "names no variable"),
        ("SELECT x FROM m PATTERN [a, b] GROUP BY g", "neither in GROUP BY"),
        ("SELECT g, MEDIAN(x) FROM m PATTERN [a] GROUP BY g", "COUNT, SUM"),
        ("SELECT g FROM m PATTERN [a, a] GROUP BY g", "each once"),
        ("SELECT g FROM m PATTERN [a] GROUP BY g HAVING COUNT(*) > 1", "HAVING"),
        ("SELECT g FROM nowhere PATTERN [a] GROUP BY g", "partitioned stream"),
        ("SELECT g FROM m PATTERN [a] WHERE a.nothing > 1 GROUP BY g", "nothing"),
    ],
)
def test_what_a_pattern_cannot_say(db: viewlet.Connection, query: str, reason: str) -> None:
    with pytest.raises(SqlError, match=reason):
        db.execute(f"CREATE VIEW v AS {query}")


def test_a_key_that_is_declared_is_not_looked_for() -> None:
    db = viewlet.connect()
    db.execute(M.replace("BY ts", "BY ts UNIQUE (g) NOT ENFORCED"))
    query = (
        "SELECT g, COUNT(*) AS n, SUM(x) AS x, COUNT(x) AS c, MIN(x) AS least, AVG(x) AS mean FROM m PATTERN [a, b+]"
    )
    db.execute(f"CREATE VIEW v AS {query} WHERE a.x > 1 AND b.x > 1 GROUP BY g")
    db.execute(f"CREATE VIEW w AS {query} WHERE a.x > 1 AND b.x > 1 AND b.x <> 3 GROUP BY g")
    losses = [2, 9, 3, 0, 4, 5]
    db.insert("m", [(at(60 * minute), g, x) for minute, x in enumerate(losses) for g in ("a", None)])
    db.close_parts("m", at(360))
    found = sorted((row[1:] for row in db.view("v").rows() if row[0] == "a"), key=lambda row: row[-1])
    assert found == [
        (2, 11, 2, 2, 5.5, at(60)),
        (3, 14, 3, 2, 14 / 3, at(120)),
        (2, 9, 2, 4, 4.5, at(300)),
    ]
    assert sorted(row[1:3] for row in db.view("w").rows() if row[0] is None) == [(2, 9), (2, 11)]
    with pytest.raises(SqlError, match="NOT ENFORCED"):
        db.execute(M.replace(" m ", " other ").replace("BY ts", "BY ts UNIQUE (g)"))
    with pytest.raises(SqlError, match="a column of"):
        db.execute(M.replace(" m ", " other ").replace("BY ts", "BY ts UNIQUE (nobody) NOT ENFORCED"))


def test_errors_name_the_variable_of_the_user(db: viewlet.Connection) -> None:
    with pytest.raises(SqlError, match=r"INITIALIZE reads h\[i - 1\]"):
        db.execute("CREATE VIEW h AS INITIALIZE h[i] AS SELECT g FROM h[i-1] UPDATE h[j] AS SELECT g FROM m[j]")
    with pytest.raises(SqlError, match=r"m\[2 \* k\] moves .* m\[k\]|m\[k \* 2\] moves .* m\[k\]"):
        db.execute("CREATE VIEW h AS INITIALIZE h[k] AS SELECT g FROM m[k*2] UPDATE h[j] AS SELECT g FROM m[j]")
